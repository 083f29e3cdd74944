import type { Health } from "./poll";
import { useNow } from "./poll";
import { duration } from "./format";

// Says that the controller is away and how old the figures are. aria-live: once, not every second.
export function Connection({ health }: { health: Health }) {
  const away = health.failure != null;
  const now = useNow(away);
  const age =
    health.lastData == null ? null : Math.max(0, Math.round((now - health.lastData) / 1000));
  return (
    <div role="status" aria-live="polite">
      {away && (
        <div class="notice away">
          <strong>Controller unreachable</strong>
          <span aria-live="off">
            {age == null
              ? ", no data yet."
              : `, last data ${age < 60 ? `${age} s` : duration(age)} ago.`}{" "}
            Trying again; runs go on without it.
          </span>
        </div>
      )}
    </div>
  );
}

export function ErrorPanel({ title, text }: { title: string; text: string }) {
  return (
    <section class="notice error" role="alert">
      <strong>{title}</strong>
      <pre>{text}</pre>
    </section>
  );
}

export function Warnings({ warnings }: { warnings: string[] }) {
  if (warnings.length === 0) return null;
  return (
    <section class="notice warning">
      <strong>{warnings.length === 1 ? "Warning" : `${warnings.length} warnings`}</strong>
      {warnings.map((text, index) => (
        <p key={index}>{text}</p>
      ))}
    </section>
  );
}
