import type { Ref } from "preact";
import { useState } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import type { Replaced } from "./draft";

const kMostBytes = 1_000_000; // far above any run file; the controller takes no larger one either

const kTextId = "submit-run-file";

// Where the page is one column, the text is far below the form.
export function ToText() {
  const go = () => {
    const area = document.getElementById(kTextId);
    area?.closest("section")?.scrollIntoView();
    area?.focus({ preventScroll: true });
  };
  return (
    <button type="button" class="to-text" onClick={go}>
      Paste or open a run file
    </button>
  );
}

// The run file as text: typed, pasted, or from a file.
export function TextPane({
  text,
  place,
  replacedBy,
  onType,
  onFile,
  onBack,
}: {
  text: string;
  place: Ref<HTMLTextAreaElement>;
  replacedBy: Replaced["by"] | null; // null: the text is what was typed
  onType: (text: string) => void;
  onFile: (text: string) => void;
  onBack: () => void;
}) {
  const [over, setOver] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const read = async (file: File | undefined) => {
    if (!file) return;
    setFailure(null);
    const name = withoutEscapes(file.name);
    if (file.size > kMostBytes) return setFailure(`${name} is too large for a run file.`);
    try {
      onFile(await file.text());
    } catch {
      setFailure(`${name} cannot be read.`);
    }
  };
  const drop = (event: DragEvent) => {
    const file = event.dataTransfer?.files[0];
    setOver(false);
    if (!file) return; // text that is dropped goes where the pointer is
    event.preventDefault();
    void read(file);
  };
  return (
    <section aria-labelledby="submit-text" class={over ? "submit-text over" : "submit-text"}>
      <div class="submit-head">
        <h2 id="submit-text">Run file</h2>
        <label class="button upload">
          Open a file
          <input
            type="file"
            accept=".yaml,.yml,.json,text/plain"
            class="visually-hidden"
            onChange={(event) => {
              const input = event.currentTarget;
              void read(input.files?.[0]).then(() => (input.value = ""));
            }}
          />
        </label>
      </div>
      <textarea
        id={kTextId}
        ref={place}
        class="code"
        rows={16}
        aria-label="Run file, YAML or JSON"
        placeholder="Paste or drop a run file here (YAML or JSON), or fill in the form."
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => onType(event.currentTarget.value)}
        onDragOver={(event) => {
          if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      />
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {replacedBy != null && (
        <p class="small">
          {replacedBy === "form"
            ? "The form has written the text anew, as JSON and without its comments."
            : "A file has taken the place of the text."}{" "}
          <button type="button" class="quiet" onClick={onBack}>
            Back to the text as it was
          </button>
        </p>
      )}
    </section>
  );
}
