// What the submission is filled from, and how it is sent.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";
import { Refusal, messageOf } from "../base/request";
import { go, parseRoute, runHash } from "../base/route";
import { useAction } from "../parts/dialog";
import type { Checked, Problem } from "./check";
import { problemOf, sameSubmission } from "./check";
import type { Draft } from "./draft";
import { isEmpty, kEmpty, withKey } from "./draft";
import type { Values } from "./run_file";
import { asText, parsed, pruned, roundedIn } from "./run_file";
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

// Fills the draft from a run, once, unless something was typed meanwhile.
export function useSource(
  id: string | null,
  draft: Draft,
  schema: Schema | null,
  change: (changes: Partial<Draft>) => void,
) {
  const [failure, setFailure] = useState<string | null>(null);
  const [rounded, setRounded] = useState<string[]>([]);
  const waits = id != null && draft.from !== id;
  const inTheWay = waits && !isEmpty(draft);
  useEffect(() => {
    if (!waits || inTheWay || !schema || id == null) return;
    const stop = new AbortController();
    api.run(id, stop.signal).then(
      (run: Run) => {
        setFailure(run.config ? null : "The controller does not know its configuration.");
        const values = run.config ? pruned(run.config, schema) : {};
        setRounded(run.config ? roundedIn(run.config) : []);
        change({ ...kEmpty, text: asText(values), tags: run.tags.join(", "), from: id });
      },
      (error: unknown) => !stop.signal.aborted && setFailure(messageOf(error)),
    );
    return () => stop.abort();
  }, [id, waits, inTheWay, schema]);
  return { failure, rounded, waits, inTheWay };
}

// The form's values: those of a JSON text at once, those of a YAML text when the controller has
// read it.
export function useValues(text: string, checked: Checked | null, schema: Schema | null) {
  const kept = useRef<{ of: string; values: Values }>({ of: "", values: {} });
  const config = checked?.of.text === text ? checked.preview?.config : null;
  const values = useMemo(() => {
    return parsed(text) ?? (config && schema ? pruned(config, schema) : null);
  }, [text, config, schema]);
  if (values) kept.current = { of: text, values };
  return { values: kept.current.values, locked: kept.current.of !== text };
}

// Sends the draft: once for a double click, and under one key until an answer has come.
export function useSubmit(draft: Draft, change: (changes: Partial<Draft>) => void) {
  const { busy, failure, act } = useAction();
  const [refused, setRefused] = useState<Problem & { of: Draft } | null>(null);
  const [lost, setLost] = useState(false);
  const submit = () =>
    act(async () => {
      setRefused(null);
      const keyed = withKey(draft);
      change({ sent: keyed.sent }); // before it is sent: a reload in between keeps the key
      try {
        const run = await submissions.submit(keyed, keyed.sent.key);
        change(kEmpty);
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
