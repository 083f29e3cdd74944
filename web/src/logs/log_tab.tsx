import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api, hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";

const kMostLog = 512 * 1024; // characters kept on the page; the file has them all

export function LogTab({ run }: { run: Run }) {
  const execution = run.attempt?.execution ?? "";
  const tail = useRef({ execution: "", offset: 0, text: "", cut: false });
  const [text, setText] = useState<string | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const follow = useRef(true);

  usePoll(`${run.id} ${execution}`, hasEnded(run) ? 5000 : 1000, async (signal) => {
    const state = tail.current;
    if (state.execution !== execution) {
      Object.assign(state, { execution, offset: 0, text: "", cut: false }); // a new attempt's log
    }
    for (;;) {
      const log = await api.log(run.id, state.offset, signal);
      if (log.next < state.offset) Object.assign(state, { offset: 0, text: "", cut: false });
      const done = log.text === "" || log.next <= state.offset;
      state.offset = log.next;
      state.text += log.text;
      if (state.text.length > kMostLog) {
        const start = state.text.indexOf("\n", state.text.length - kMostLog) + 1;
        Object.assign(state, { text: state.text.slice(start), cut: true });
      }
      if (done) break;
    }
    setText(state.text);
  });

  useLayoutEffect(() => {
    if (follow.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    follow.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  };
  if (text == null) return <p class="loading">Loading log…</p>;
  if (text === "") return <p class="nothing">The log is empty.</p>;
  return (
    <>
      {tail.current.cut && <p class="small">Older lines are left out here; the file has them.</p>}
      <pre
        class="log"
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        aria-label="Log of the newest attempt"
      >
        {show.withoutEscapes(text)}
      </pre>
    </>
  );
}
