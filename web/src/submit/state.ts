// What the submission is filled from, and how it is sent.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";
import { Refusal, messageOf } from "../base/request";
import { go, parseRoute, runHash, setQuery } from "../base/route";
import { useAction } from "../parts/dialog";
import type { Checked, Problem } from "./check";
import { problemOf, sameSubmission } from "./check";
import type { Draft } from "./draft";
import { identity, isTyped, kEmpty, withKey } from "./draft";
import type { Values } from "./run_file";
import { asText, notCarried, parsed, pruned, valuesWritten } from "./run_file";
import type { Schema } from "./schema";
import { submissions } from "./submit_api";

export function useSchema() {
  const [schema, setSchema] = useState<Schema | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    submissions.schema(stop.signal).then(
      (next) => {
        setSchema(next);
        setFailure(null);
      },
      (error: unknown) => !stop.signal.aborted && setFailure(messageOf(error)),
    );
    return () => stop.abort();
  }, [tries]);
  return { schema, failure, again: () => setTries(tries + 1) };
}

// Fills the draft from the run that the address names, unless something was typed; then the address
// names it no more, and a reload is of what was typed since.
export function useSource(
  id: string | null,
  draft: Draft,
  schema: Schema | null,
  change: (changes: Partial<Draft>) => void,
) {
  const [failed, setFailed] = useState<{ id: string; text: string } | null>(null);
  const failure = failed?.id === id ? (failed?.text ?? null) : null;
  const waits = id != null && failure == null;
  const inTheWay = waits && isTyped(draft);
  useEffect(() => {
    if (!waits || inTheWay || !schema || id == null) return;
    const stop = new AbortController();
    const fail = (text: string) => setFailed({ id, text });
    api.run(id, stop.signal).then(
      ({ config, tags }: Run) => {
        if (stop.signal.aborted) return;
        if (!config) return fail("The controller does not know its configuration.");
        const text = asText(pruned(config, schema));
        const next = { ...kEmpty, text, tags: tags.join(", "), from: id, lost: notCarried(config) };
        change({ ...next, filled: identity(next) });
        setQuery({ from: null }, "replace");
      },
      (error: unknown) => !stop.signal.aborted && fail(messageOf(error)),
    );
    return () => stop.abort();
  }, [id, waits, inTheWay, schema]);
  return { failure, waits, inTheWay };
}

// The form's values: those of a JSON text at once, those of a YAML text when the controller has
// read it; and what of these a change in the form would lose.
export function useValues(text: string, checked: Checked | null, schema: Schema | null) {
  const kept = useRef<{ of: string; values: Values; loses: string[] }>({
    of: "",
    values: {},
    loses: [],
  });
  const config = checked?.of.text === text ? checked.preview?.config : null;
  const read = useMemo(() => {
    const values = parsed(text);
    if (values) return { values, loses: [] };
    if (!config || !schema) return null;
    return valuesWritten(text, config, schema);
  }, [text, config, schema]);
  if (read) kept.current = { of: text, ...read };
  const { of, values, loses } = kept.current;
  return { values, locked: of !== text, loses };
}

// Sends the draft: once for a double click, and under one key until an answer has come.
export function useSubmit(draft: Draft, change: (changes: Partial<Draft>) => void) {
  const { busy, failure, act } = useAction();
  const [refused, setRefused] = useState<Problem & { of: Draft } | null>(null);
  const [lost, setLost] = useState(false);
  const newest = useRef(draft);
  newest.current = draft;
  const submit = () =>
    act(async () => {
      setRefused(null);
      const keyed = withKey(draft);
      change({ sent: keyed.sent }); // before it is sent: a reload in between keeps the key
      try {
        const run = await submissions.submit(keyed, keyed.sent.key);
        // What was typed since is of another submission.
        if (identity(newest.current) === keyed.sent.what) change(kEmpty);
        else change({ sent: null });
        if (parseRoute(location.hash).page === "submit") go(runHash(run.id));
      } catch (error) {
        setLost(!(error instanceof Refusal));
        if (!(error instanceof Refusal)) throw error;
        setRefused({ ...problemOf(error), of: draft });
      }
    });
  const isOld = refused != null && !sameSubmission(refused.of, draft);
  return { busy, failure, lost, refused: isOld ? null : refused, submit };
}
