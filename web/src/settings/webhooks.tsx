import { useState } from "preact/hooks";
import { count, withoutEscapes } from "../base/format";
import { Dialog, useAction } from "../parts/dialog";
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
            The event that fails is never sent to this receiver. The{" "}
            {count(Math.max(0, webhook.waiting - 1))} behind it are sent next.
          </p>
          {failure && (
            <p class="failure" role="alert">
              Not skipped: {failure}
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={close}>
              Keep it
            </button>
            <button
              type="button"
              class="danger solid"
              disabled={busy}
              onClick={() =>
                act(async () => {
                  onDone(await settings.skip(webhook.name));
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
        disabled={busy}
        onClick={() => act(async () => onDone(await settings.redeliver(webhook.name)))}
      >
        {busy ? "Trying…" : "Try again now"}
      </button>
      <button type="button" class="danger" onClick={() => setAsks(true)}>
        Skip the event
      </button>
      {failure && (
        <p class="failure" role="alert">
          Not tried: {failure}
        </p>
      )}
      {asks && <SkipDialog webhook={webhook} onDone={onDone} onClose={() => setAsks(false)} />}
    </div>
  );
}

function Row({ webhook, onDone }: { webhook: Webhook; onDone: (next: Webhook) => void }) {
  const bad = webhook.state === "dead" || webhook.state === "retrying";
  return (
    <tr>
      <th scope="row">
        {clean(webhook.name)}
        <span class="small">{clean(webhook.url)}</span>
      </th>
      <td data-name="Events">{webhook.kinds.length > 0 ? webhook.kinds.join(", ") : "all"}</td>
      <td data-name="State">
        <span class={bad ? "failure" : ""}>{kStates[webhook.state] ?? webhook.state}</span>
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
        {count(webhook.waiting)}
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
