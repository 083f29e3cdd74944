import { useEffect, useState } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import type { Standing } from "../base/session";
import { openSession, parseLink } from "../base/session";

// What is seen without a session: how to get a link, and where to paste it.
export function Login({ problem }: { problem: Standing["problem"] }) {
  const [wrong, setWrong] = useState(false);
  useEffect(() => {
    document.title = "Regatta";
  }, []);
  const open = (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("link");
    const link = parseLink((field as HTMLInputElement).value);
    setWrong(!link);
    if (!link) return;
    if (link.place) location.hash = `#${link.place}`;
    void openSession(link);
  };
  const failure = wrong ? "That is not a link of regatta open." : problem;
  return (
    <section class="empty login">
      <h1>This page needs a link from the controller’s user</h1>
      <p>On the machine where the controller runs:</p>
      <pre>regatta open</pre>
      <p>It prints a link that opens this page once, within a minute.</p>
      <form onSubmit={open}>
        <label for="link">Or paste the link here</label>
        <div class="field">
          <input id="link" name="link" type="text" autocomplete="off" spellcheck={false} />
          <button type="submit">Open</button>
        </div>
      </form>
      <p class="failure" role="alert">
        {failure && withoutEscapes(failure)}
      </p>
    </section>
  );
}
