import { useRef, useState } from "preact/hooks";
import { count, withoutEscapes } from "../base/format";
import { Refusal, messageOf } from "../base/request";
import { Dialog, useAction } from "../parts/dialog";
import { useKeptFocus } from "../parts/kept_focus";
import { When } from "../parts/when";
import type { Webhook } from "./settings_api";
import { settings } from "./settings_api";

const clean = withoutEscapes;

const kStates = {
  idle: "✓ idle",
  delivering: "→ delivering",
  retrying: "! retrying",
  dead: "✗ given up",
} as const;

const kMostCounted = 10_000; // of what waits: the API counts no further

const waiting = (events: number) =>
  events >= kMostCounted ? `${count(kMostCounted)} or more` : count(events);

function behind(events: number): string {
  if (events >= kMostCounted) return "All that wait behind it are sent next.";
  const others = Math.max(0, events - 1);
  if (others === 0) return "Nothing waits behind it.";
  if (others === 1) return "The one behind it is sent next.";
  return `The ${count(others)} behind it are sent next.`;
}

// What is said where it fails. A request without an answer may have done what it asked for.
async function asked<T>(done: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const why = clean(messageOf(error));
    if (error instanceof Refusal) throw new Error(`Not ${done}: ${why}`);
    throw new Error(`No answer; it may have been ${done}: ${why}`);
  }
}

function SkipDialog({
  webhook,
  onDone,
  onClose,
}: {
  webhook: Webhook;
  onDone: (next: Webhook) => void;
  onClose: () => void;
}) {
  const { busy, failure, act } = useAction();
  return (
    <Dialog title={`Skip an event for ${clean(webhook.name)}?`} onClose={onClose}>
      {(close) => (
        <>
          <p>
            The event that fails is never sent to this receiver. {behind(webhook.waiting)}
          </p>
          {failure && (
            <p class="failure" role="alert">
              {failure}
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={close}>
              Keep it
            </button>
            <button
              type="button"
              class="danger solid"
              aria-disabled={busy}
              onClick={() =>
                act(async () => {
                  onDone(await asked("skipped", settings.skip(webhook.name)));
                  close();
                })
              }
            >
              {busy ? "Skipping…" : "Skip the event"}
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

function Actions({ webhook, onDone }: { webhook: Webhook; onDone: (next: Webhook) => void }) {
  const { busy, failure, act } = useAction();
  const [asks, setAsks] = useState(false);
  if (webhook.failures === 0 && webhook.state !== "dead") return null;
  return (
    <div class="buttons-row">
      <button
        type="button"
        aria-disabled={busy}
        onClick={() =>
          act(async () => onDone(await asked("tried", settings.redeliver(webhook.name))))
        }
      >
        {busy ? "Trying…" : "Try again now"}
      </button>
      <button type="button" class="danger" onClick={() => setAsks(true)}>
        Skip the event
      </button>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {asks && <SkipDialog webhook={webhook} onDone={onDone} onClose={() => setAsks(false)} />}
    </div>
  );
}

function Row({ webhook, onDone }: { webhook: Webhook; onDone: (next: Webhook) => void }) {
  const bad = webhook.state === "dead" || webhook.state === "retrying";
  const place = useRef<HTMLTableCellElement>(null);
  useKeptFocus(place); // the buttons go when nothing fails any more
  return (
    <tr>
      <th scope="row">
        {clean(webhook.name)}
        <span class="small">{clean(webhook.url)}</span>
      </th>
      <td data-name="Events">{webhook.kinds.map(clean).join(", ") || "all"}</td>
      <td data-name="State" ref={place} tabIndex={-1}>
        <span class={bad ? "failure" : ""}>{kStates[webhook.state] ?? clean(webhook.state)}</span>
        {webhook.failures > 0 && (
          <span class="small">
            {count(webhook.failures)} {webhook.failures === 1 ? "failure" : "failures"} since{" "}
            <When at={webhook.failing_since} />
          </span>
        )}
        {webhook.next_try_at && (
          <span class="small">
            next try <When at={webhook.next_try_at} />
          </span>
        )}
        {webhook.error && <span class="small failure">{clean(webhook.error)}</span>}
        <Actions webhook={webhook} onDone={onDone} />
      </td>
      <td data-name="Delivered">
        <When at={webhook.delivered_at} />
        {webhook.delivered != null && <span class="small">event {webhook.delivered}</span>}
      </td>
      <td class="num" data-name="Waiting">
        {waiting(webhook.waiting)}
      </td>
    </tr>
  );
}

export function WebhookTable({
  webhooks,
  onDone,
}: {
  webhooks: Webhook[];
  onDone: (next: Webhook) => void;
}) {
  if (webhooks.length === 0) {
    return (
      <p class="small">
        None. The controller’s configuration file names them under <code>webhooks</code>; each is
        sent events as they happen.
      </p>
    );
  }
  return (
    <div class="scroll">
      <table class="cards webhooks">
        <thead>
          <tr>
            <th scope="col">Webhook</th>
            <th scope="col">Events</th>
            <th scope="col">State</th>
            <th scope="col">Delivered</th>
            <th scope="col" class="num">
              Waiting
            </th>
          </tr>
        </thead>
        <tbody>
          {webhooks.map((one) => (
            <Row key={one.name} webhook={one} onDone={onDone} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
