import type { Ref } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import { useShortcuts } from "../base/keys";
import { runHash, setQuery } from "../base/route";
import { ErrorPanel } from "../parts/notices";
import type { Checked, Problem } from "./check";
import { useCheck } from "./check";
import type { Draft } from "./draft";
import { isEmpty, kEmpty, useDraft } from "./draft";
import { Form } from "./form";
import { AnywayDialog, DiscardDialog, InTheWay, Notices } from "./notices";
import { PreviewPart } from "./preview";
import { ProblemPanel, faultsOf } from "./problem";
import type { Values } from "./run_file";
import { asText, lineRange, parsed } from "./run_file";
import type { Schema } from "./schema";
import { groupsOf } from "./schema";
import { useSchema, useSource, useSubmit, useValues } from "./state";
import { TextPane } from "./text_pane";

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

function Standing({ empty, checked }: { empty: boolean; checked: Checked | null }) {
  const bad = checked?.preview?.checks.filter((check) => check.good === false).length ?? 0;
  const text = empty
    ? "Name a dataset, or paste a run file."
    : checked == null
      ? "Checking…"
      : checked.problem
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

// What is always in sight: whether it can be sent, and the two ways to be done with it.
function Bar({
  draft,
  empty,
  checked,
  sending,
  onDiscard,
}: {
  draft: Draft;
  empty: boolean;
  checked: Checked | null;
  sending: ReturnType<typeof useSubmit>;
  onDiscard: () => void;
}) {
  const [asks, setAsks] = useState<"anyway" | "discard" | null>(null);
  const failing = checked?.preview?.checks.filter((check) => check.good === false) ?? [];
  const ready = checked?.preview != null && !sending.busy;
  const submit = () => {
    // The key works while a dialog is open, too, which asks something else.
    if (!ready || document.querySelector("dialog[open]")) return;
    if (failing.length > 0) setAsks("anyway");
    else void sending.submit();
  };
  useShortcuts([{ keys: "mod+enter", does: "Submit the run", act: submit }]);
  const close = () => setAsks(null);
  return (
    <div class="submit-bar">
      <Standing empty={empty} checked={checked} />
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
      {asks === "discard" && <DiscardDialog onYes={onDiscard} onClose={close} />}
      {asks === "anyway" && (
        <AnywayDialog checks={failing} onYes={() => void sending.submit()} onClose={close} />
      )}
    </div>
  );
}

function showLine(area: HTMLTextAreaElement | null, text: string, line: number) {
  if (!area) return;
  const [begin, end] = lineRange(text, line);
  area.focus();
  area.setSelectionRange(begin, end);
  const height = area.scrollHeight / text.split("\n").length;
  area.scrollTop = Math.max(0, (line - 4) * height);
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
  const problem = sending.refused ?? checked?.problem ?? null;
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
      <Notices
        {...{ from, source, failure, draft }}
        lost={sending.lost}
        notSent={sending.failure}
      />
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
      <Bar {...{ draft, empty, checked, sending }} onDiscard={discard} />
    </>
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
