import { useEffect, useRef, useState } from "preact/hooks";

const kPauseMilliseconds = 150; // of somebody who types

// A field of the address: what is typed is told a moment after the last letter, and what else
// changes the address stands in it.
export function TypedField({
  value,
  onType,
  ...rest
}: {
  value: string;
  onType: (text: string) => void;
  [more: string]: unknown;
}) {
  const [text, setText] = useState(value);
  const typed = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (value === typed.current) return; // it came back to us
    clearTimeout(timer.current); // what is typed by now was for the text before
    typed.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (event: Event) => {
    const next = (event.currentTarget as HTMLInputElement).value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      typed.current = next.trim();
      onType(next.trim());
    }, kPauseMilliseconds);
  };
  return (
    <input {...rest} type="text" value={text} onInput={type} autocomplete="off" spellcheck={false} />
  );
}
