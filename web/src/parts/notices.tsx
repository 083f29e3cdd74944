import type { ComponentChildren } from "preact";
import type { Health } from "../base/poll";
import { useNow } from "../base/poll";
import type { Slurm } from "../base/api";
import { duration, withoutEscapes } from "../base/format";
import { LongText } from "./long_text";
import { When } from "./when";

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
          <strong>
            {health.isAnswered ? "The controller does not answer yet" : "Controller unreachable"}
          </strong>
          <span aria-live="off">
            {age == null
              ? ", no data yet."
              : `, last data ${age < 60 ? `${age} s` : duration(age)} ago.`}{" "}
            Trying again; runs go on without it.{" "}
            <span class="small">{withoutEscapes(health.failure ?? "")}</span>
          </span>
        </div>
      )}
      {!away && health.trouble != null && (
        <div class="notice away">
          <strong>Figures stand still</strong>
          <span>: {withoutEscapes(health.trouble)}. Runs go on.</span>
        </div>
      )}
    </div>
  );
}

export function ErrorPanel({
  title,
  text,
  children,
}: {
  title: string;
  text: string;
  children?: ComponentChildren; // what can be done
}) {
  return (
    <section class="notice error" role="alert">
      <strong>{title}</strong>
      <pre>
        <LongText text={withoutEscapes(text)} />
      </pre>
      {children}
    </section>
  );
}

// What the page shows of a run's job is as old as Slurm's newest answer; the journal goes on.
export function SilentSlurm({ slurm }: { slurm: Slurm | null | undefined }) {
  if (slurm?.trouble == null) return null;
  const waits = slurm.cancel_waits_since;
  return (
    <section class="notice warning" role="status">
      <strong>
        Slurm has not answered{" "}
        {slurm.answered_at == null ? "yet" : <>since <When at={slurm.answered_at} /></>}
        {slurm.age_seconds != null && ` (${duration(slurm.age_seconds)})`}
      </strong>
      {waits != null && <p>The cancellation waits since <When at={waits} />.</p>}
      <p>{withoutEscapes(slurm.trouble)}</p>
    </section>
  );
}

export function Warnings({ warnings }: { warnings: string[] }) {
  if (warnings.length === 0) return null;
  return (
    <section class="notice warning">
      <strong>{warnings.length === 1 ? "Warning" : `${warnings.length} warnings`}</strong>
      {warnings.map((text, index) => (
        <p key={index}>
          <LongText text={withoutEscapes(text)} />
        </p>
      ))}
    </section>
  );
}
