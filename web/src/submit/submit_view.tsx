import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import { useShortcuts } from "../base/keys";
import { runHash, setQuery } from "../base/route";
import { useKeptFocus } from "../parts/kept_focus";
import { ErrorPanel } from "../parts/notices";
import type { Checked, Problem } from "./check";
import { useCheck } from "./check";
import type { Draft, Replaced } from "./draft";
import { isEmpty, kEmpty, useDraft } from "./draft";
import { Form } from "./form";
import { AnywayDialog, DiscardDialog, InTheWay, Notices, shownId } from "./notices";
import { PreviewPart } from "./preview";
import { ProblemPanel, faultsOf } from "./problem";
import type { Values } from "./run_file";
import { asText, lineRange, parsed, valueAt } from "./run_file";
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

interface Known {
  empty: boolean;
  checked: Checked | null;
  waits: boolean; // for a run that it is filled from
  away: boolean; // no answer came to the newest check
  refused: boolean; // what was submitted as it is
  setAgain: string[]; // keys that were lost, and neither set again nor left out on purpose
}

function standingOf({ empty, checked, waits, away, refused, setAgain }: Known): string {
  const bad = checked?.preview?.checks.filter((check) => check.good === false).length ?? 0;
  if (empty) return "Name a dataset, or paste a run file.";
  if (waits) return "Not checked yet.";
  if (refused) return "The controller refused this.";
  if (checked == null) return away ? "Not checked: no answer. Trying again…" : "Checking…";
  if (checked.problem) return "The controller would refuse this.";
  if (setAgain.length > 0) {
    const count = setAgain.length;
    const names = count <= 2 ? withoutEscapes(setAgain.join(" and ")) : `${count} lost settings`;
    return `Set ${names} again, or leave ${count === 1 ? "it" : "them"} out.`;
  }
  return bad > 0
    ? `Valid, but ${bad === 1 ? "a check fails" : `${bad} checks fail`}.`
    : "Ready to submit.";
}

// What is always in sight: whether it can be sent, and the two ways to be done with it.
function Bar({
  draft,
  known,
  sending,
  onDiscard,
}: {
  draft: Draft;
  known: Known;
  sending: ReturnType<typeof useSubmit>;
  onDiscard: () => void;
}) {
  const { checked } = known;
  const [asks, setAsks] = useState<"anyway" | "discard" | null>(null);
  const failing = checked?.preview?.checks.filter((check) => check.good === false) ?? [];
  const ready = checked?.preview != null && !sending.busy && known.setAgain.length === 0;
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
      <span role="status" class="submit-standing">
        {standingOf(known)}
      </span>
      <button
        type="button"
        aria-disabled={isEmpty(draft)}
        onClick={() => !isEmpty(draft) && setAsks("discard")}
      >
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

// A text that is not the reader's own typing: the form's, a file's, or what it was before.
function replacing(draft: Draft, by: Replaced["by"]): Pick<Draft, "before"> {
  return { before: draft.text === "" ? null : { text: draft.text, lost: draft.lost, by } };
}

function Written({
  area,
  draft,
  change,
  checked,
  newest,
  empty,
}: {
  area: RefObject<HTMLTextAreaElement | null>;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  checked: Checked | null;
  newest: Checked | null;
  empty: boolean;
}) {
  const shown = empty ? null : (checked ?? newest)?.preview;
  const { before } = draft;
  // What was lost stays told while the JSON that lost it is edited.
  const type = (text: string) =>
    change({ text, before: null, ...(!/^\s*\{/.test(text) && { lost: [] }) });
  const back = () => {
    if (before) change({ text: before.text, lost: before.lost, before: null });
    area.current?.focus();
  };
  return (
    <div>
      <TextPane
        text={draft.text}
        place={area}
        replacedBy={before?.by ?? null}
        onType={type}
        onFile={(text) => change({ text, lost: [], ...replacing(draft, "file") })}
        onBack={back}
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
  const { values, locked, loses } = useValues(draft.text, newest, schema);
  const sending = useSubmit(draft, change);
  const problem = sending.refused ?? checked?.problem ?? null;
  const { waits } = source;
  const setAgain = draft.lost.filter((key) => !empty && valueAt(values, key) === undefined);
  const known = {
    ...{ empty, checked, waits, setAgain },
    away: failure != null,
    refused: sending.refused != null,
  };
  const edit = (next: Values) => {
    const text = asText(next);
    if (parsed(draft.text)) return change({ text });
    change({ text, lost: loses, ...replacing(draft, "form") });
  };
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
        setAgain={setAgain}
        onLeaveOut={() =>
          change({ lost: draft.lost.filter((key) => !setAgain.includes(key)) })
        }
        lost={sending.lost}
        notSent={sending.failure}
      />
      {problem && (
        <ProblemPanel
          problem={problem}
          sent={sending.refused != null}
          groups={groups}
          locked={locked}
          onLine={(line) => showLine(area.current, draft.text, line)}
        />
      )}
      <div class="submit-parts">
        <div>
          <Form
            groups={groups}
            values={values}
            locked={locked}
            loses={loses}
            faults={faultsOf(groups, checked, sending.refused)}
            onChange={edit}
          />
          <Beside draft={draft} problem={problem} onChange={change} />
        </div>
        <Written {...{ area, draft, change, checked, newest, empty }} />
      </div>
      <Bar {...{ draft, known, sending }} onDiscard={discard} />
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
  const place = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useKeptFocus(place, heading);
  return (
    <div class="submit" ref={place}>
      <div class="heading">
        <h1 ref={heading} tabIndex={-1}>
          Submit a run
        </h1>
        {draft.from != null && (
          <span class="small">
            filled from <a href={runHash(draft.from)}>{shownId(draft.from)}</a>
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
