import type { Ref } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";
import { withoutEscapes } from "../base/format";
import { useShortcuts } from "../base/keys";
import { Refusal, messageOf } from "../base/request";
import { go, parseRoute, runHash, setQuery } from "../base/route";
import { Dialog, useAction } from "../parts/dialog";
import { ErrorPanel } from "../parts/notices";
import type { Checked, Problem } from "./check";
import { problemOf, sameSubmission, useCheck } from "./check";
import type { Draft } from "./draft";
import { isEmpty, kEmpty, sentOther, useDraft, withKey } from "./draft";
import { goToField } from "./field";
import type { Fault } from "./form";
import { Form } from "./form";
import { CheckList, PreviewPart } from "./preview";
import type { Values } from "./run_file";
import { asText, lineIn, lineRange, parsed, pruned, roundedIn } from "./run_file";
import type { Group, Schema } from "./schema";
import { fieldAt, groupsOf } from "./schema";
import type { Check } from "./submit_api";
import { submissions } from "./submit_api";
import { TextPane } from "./text_pane";

// Where the field is that a check is about.
const kFieldOfCheck: Record<string, string> = { dataset: "data.path", from: "from.path" };

function faultsOf(groups: Group[], checked: Checked | null, refused: Problem | null): Fault[] {
  const faults: Fault[] = [];
  const problem = refused ?? checked?.problem ?? null;
  const field = fieldAt(groups, problem?.key ?? null);
  if (problem && field) faults.push({ key: field.key, text: reason(problem) });
  for (const check of checked?.preview?.checks ?? []) {
    const key = kFieldOfCheck[check.name];
    if (check.good === false && key) faults.push({ key, text: withoutEscapes(check.detail) });
  }
  return faults;
}

// At the field, where it is and what it is called need not be said again.
function reason({ message, key }: Problem): string {
  const text = withoutEscapes(message).replace(/^run file(:\d+)?: /, "");
  return key != null && text.startsWith(`${key}: `) ? text.slice(key.length + 2) : text;
}

function ProblemPanel({
  problem,
  groups,
  onLine,
}: {
  problem: Problem;
  groups: Group[];
  onLine: (line: number) => void;
}) {
  const field = fieldAt(groups, problem.key);
  const line = lineIn(problem.message);
  return (
    <section class="notice error" role="alert">
      <strong>The controller would refuse this</strong>
      <p>{withoutEscapes(problem.message)}</p>
      <div class="buttons-left">
        {field && (
          <button type="button" onClick={() => goToField(field.key)}>
            Go to {field.key}
          </button>
        )}
        {line != null && (
          <button type="button" onClick={() => onLine(line)}>
            Show line {line}
          </button>
        )}
      </div>
    </section>
  );
}

// Fills the draft from a run, once, unless something was typed meanwhile.
function useSource(
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

// The form's values: those of a JSON text at once, those of a YAML text when the controller has read it.
function useValues(text: string, checked: Checked | null, schema: Schema | null) {
  const kept = useRef<{ of: string; values: Values }>({ of: "", values: {} });
  const config = checked?.of.text === text ? checked.preview?.config : null;
  const values = useMemo(() => {
    return parsed(text) ?? (config && schema ? pruned(config, schema) : null);
  }, [text, config, schema]);
  if (values) kept.current = { of: text, values };
  return { values: kept.current.values, locked: kept.current.of !== text };
}

function Beside({
  draft,
  problem,
  onChange,
}: {
  draft: Draft;
  problem: Problem | null;
  onChange: (changes: Partial<Draft>) => void;
}) {
  const row = (name: "after" | "tags", title: string, about: string) => {
    const bad = problem?.parameter === name ? problem.message : null;
    return (
      <div class={bad ? "field-row bad" : "field-row"}>
        <label for={`submit-${name}`}>{title}</label>
        <input
          id={`submit-${name}`}
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={draft[name]}
          aria-invalid={bad ? "true" : undefined}
          aria-describedby={`submit-${name}-about`}
          onInput={(event) => onChange({ [name]: event.currentTarget.value })}
        />
        <p class="small" id={`submit-${name}-about`}>
          {bad && <strong class="failure">{withoutEscapes(bad)}</strong>}
          {about}
        </p>
      </div>
    );
  };
  return (
    <fieldset>
      <legend>Beside the run file</legend>
      {row("after", "after", "runs that must have succeeded before, with commas between them")}
      {row("tags", "tags", "with commas between them; letters, digits and ._:=+-")}
    </fieldset>
  );
}

function Standing({ empty, checked, busy }: { empty: boolean; checked: Checked | null; busy: boolean }) {
  const bad = checked?.preview?.checks.filter((check) => check.good === false).length ?? 0;
  const text = empty
    ? "Name a dataset, or paste a run file."
    : busy
      ? "Checking…"
      : checked?.problem
        ? "The controller would refuse this."
        : bad > 0
          ? `Valid, but ${bad === 1 ? "a check fails" : `${bad} checks fail`}.`
          : "Ready to submit.";
  return (
    <span role="status" class="submit-standing">
      {text}
    </span>
  );
}

function AnywayDialog({
  checks,
  onYes,
  onClose,
}: {
  checks: Check[];
  onYes: () => void;
  onClose: () => void;
}) {
  return (
    <Dialog title="Submit although checks fail?" wide onClose={onClose}>
      {(close) => (
        <>
          <CheckList checks={checks} />
          <p>The run would most likely fail at its start.</p>
          <div class="buttons">
            <button type="button" onClick={close}>
              Back
            </button>
            <button
              type="button"
              class="primary"
              onClick={() => {
                close();
                onYes();
              }}
            >
              Submit anyway
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

function DiscardDialog({ onYes, onClose }: { onYes: () => void; onClose: () => void }) {
  return (
    <Dialog title="Throw away what was typed?" onClose={onClose}>
      {(close) => (
        <>
          <p>The form and the text are emptied. No run is touched.</p>
          <div class="buttons">
            <button type="button" onClick={close}>
              Keep it
            </button>
            <button
              type="button"
              class="danger solid"
              onClick={() => {
                onYes();
                close();
              }}
            >
              Throw away
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

function InTheWay({ id, onKeep, onFill }: { id: string; onKeep: () => void; onFill: () => void }) {
  return (
    <section class="notice warning" role="status">
      <strong>Something else was typed here and not submitted</strong>
      <div class="buttons-left">
        <button type="button" onClick={onKeep}>
          Keep it
        </button>
        <button type="button" onClick={onFill}>
          Throw it away and fill from {id}
        </button>
      </div>
    </section>
  );
}

// Sends the draft: once for a double click, and under one key until an answer has come.
function useSubmit(draft: Draft, change: (changes: Partial<Draft>) => void) {
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

function useSchema() {
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

function showLine(area: HTMLTextAreaElement | null, text: string, line: number) {
  if (!area) return;
  const [begin, end] = lineRange(text, line);
  area.focus();
  area.setSelectionRange(begin, end);
  const height = area.scrollHeight / text.split("\n").length;
  area.scrollTop = Math.max(0, (line - 4) * height);
}

function Notices({
  from,
  source,
  failure,
  draft,
  lost,
  notSent,
}: {
  from: string | null;
  source: ReturnType<typeof useSource>;
  failure: string | null;
  draft: Draft;
  lost: boolean;
  notSent: string | null;
}) {
  return (
    <>
      {failure && (
        <section class="notice away" role="status">
          <strong>The controller does not answer</strong>: {failure}. What was typed is kept.
        </section>
      )}
      {source.failure && (
        <ErrorPanel title={`Not filled from ${from ?? "the run"}`} text={source.failure} />
      )}
      {source.rounded.length > 0 && (
        <section class="notice warning">
          <strong>Set again</strong>: {source.rounded.join(", ")}. A browser cannot carry over whole
          numbers as large as the run’s.
        </section>
      )}
      {notSent && (
        <section class="notice error" role="alert">
          <strong>No answer to the submission</strong>: {notSent}.{" "}
          {lost && !sentOther(draft)
            ? "Submitting it again as it is makes no second run."
            : "It may have arrived: look at the list of runs before submitting what was changed."}
        </section>
      )}
    </>
  );
}

interface EditorProps {
  schema: Schema;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  from: string | null;
}

function Editor({ schema, draft, change, from }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const groups = useMemo(() => groupsOf(schema), [schema]);
  const source = useSource(from, draft, schema, change);
  const empty = isEmpty({ ...draft, after: "", tags: "" });
  const { newest, current, failure } = useCheck(draft, !empty && !source.waits);
  const checked = current && !empty ? newest : null;
  const { values, locked } = useValues(draft.text, newest, schema);
  const sending = useSubmit(draft, change);
  const [asks, setAsks] = useState<"anyway" | "discard" | null>(null);
  const problem = sending.refused ?? checked?.problem ?? null;
  const failing = checked?.preview?.checks.filter((check) => check.good === false) ?? [];
  const ready = checked?.preview != null && !sending.busy;
  const submit = () => {
    if (ready) failing.length > 0 ? setAsks("anyway") : void sending.submit();
  };
  useShortcuts([{ keys: "mod+enter", does: "Submit the run", act: submit }]);
  const edit = (next: Values) =>
    change({ text: asText(next), yaml: parsed(draft.text) ? draft.yaml : draft.text });
  const discard = () => {
    change(kEmpty);
    setQuery({ from: null }, "replace");
  };
  return (
    <>
      {source.inTheWay && from != null && (
        <InTheWay
          id={from}
          onKeep={() => setQuery({ from: null }, "replace")}
          onFill={() => change(kEmpty)}
        />
      )}
      <Notices {...{ from, source, failure, draft }} lost={sending.lost} notSent={sending.failure} />
      {problem && (
        <ProblemPanel
          problem={problem}
          groups={groups}
          onLine={(line) => showLine(area.current, draft.text, line)}
        />
      )}
      <div class="submit-parts">
        <div>
          <Form
            groups={groups}
            values={values}
            locked={locked}
            faults={faultsOf(groups, checked, sending.refused)}
            onChange={edit}
          />
          <Beside draft={draft} problem={problem} onChange={change} />
        </div>
        <Written {...{ area, draft, change, checked, newest, empty }} />
      </div>
      <div class="submit-bar">
        <Standing empty={empty} checked={checked} busy={checked == null} />
        <button type="button" disabled={isEmpty(draft)} onClick={() => setAsks("discard")}>
          Throw away
        </button>
        <button
          type="button"
          class="primary"
          aria-disabled={!ready}
          aria-keyshortcuts="Control+Enter"
          title="Ctrl Enter"
          onClick={submit}
        >
          {sending.busy ? "Submitting…" : "Submit"}
        </button>
      </div>
      {asks === "discard" && <DiscardDialog onYes={discard} onClose={() => setAsks(null)} />}
      {asks === "anyway" && (
        <AnywayDialog
          checks={failing}
          onYes={() => void sending.submit()}
          onClose={() => setAsks(null)}
        />
      )}
    </>
  );
}

function Written({
  area,
  draft,
  change,
  checked,
  newest,
  empty,
}: {
  area: Ref<HTMLTextAreaElement>;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  checked: Checked | null;
  newest: Checked | null;
  empty: boolean;
}) {
  const shown = empty ? null : (checked ?? newest)?.preview;
  return (
    <div>
      <TextPane
        text={draft.text}
        place={area}
        replaced={draft.yaml != null}
        onChange={(text) => change({ text, yaml: null })}
        onBack={() => change({ text: draft.yaml ?? "", yaml: null })}
      />
      <section aria-labelledby="submit-preview" class="preview">
        <h2 id="submit-preview">
          What it would become
          {shown && !checked && <span class="small"> before the last change</span>}
        </h2>
        {shown ? (
          <PreviewPart preview={shown} />
        ) : (
          <p class="nothing">
            {empty ? "Nothing yet." : "Nothing, while the controller would refuse it."}
          </p>
        )}
      </section>
    </div>
  );
}

export function SubmitView({ query }: { query: URLSearchParams }) {
  const [draft, change] = useDraft();
  const { schema, failure, again } = useSchema();
  const from = query.get("from");
  useEffect(() => {
    document.title = "Submit a run · Regatta";
  }, []);
  return (
    <div class="submit">
      <div class="heading">
        <h1>Submit a run</h1>
        {draft.from != null && (
          <span class="small">
            filled from <a href={runHash(draft.from)}>{draft.from}</a>
          </span>
        )}
      </div>
      {failure && (
        <>
          <ErrorPanel title="The form cannot be made" text={failure} />
          <button type="button" onClick={again}>
            Try again
          </button>
        </>
      )}
      {!schema && !failure && <p class="loading">Loading the form…</p>}
      {schema && <Editor schema={schema} draft={draft} change={change} from={from} />}
    </div>
  );
}
