import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { ControllerHealth, Version } from "../base/api";
import { api } from "../base/api";
import { kDash, withoutEscapes } from "../base/format";
import { shortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { usePreference } from "../base/preferences";
import { session } from "../base/session";
import { kThemes, setTheme, theme } from "../base/theme";
import { Choice } from "../parts/choice";
import { Dialog } from "../parts/dialog";
import { Connection, ErrorPanel } from "../parts/notices";
import { kKeysOf, shownKey } from "./key_list";
import type { Webhook } from "./settings_api";
import { settings } from "./settings_api";
import { WebhookTable } from "./webhooks";

const kEvery = 5000; // ms

const clean = withoutEscapes;

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <section class="settings-part" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

const kThemeTitles = { auto: "as the system has it", light: "light", dark: "dark" } as const;

function Looks() {
  usePreference("theme"); // another choice draws it again
  const [columns, setColumns] = usePreference("columns");
  return (
    <Part title="Looks">
      <Choice
        legend="Theme"
        group="theme"
        of={kThemes.map((name) => [name, kThemeTitles[name]] as const)}
        chosen={theme()}
        onChoose={setTheme}
      />
      <p>
        <button type="button" aria-disabled={columns == null} onClick={() => setColumns(null)}>
          Reset the columns of the list of runs
        </button>{" "}
        <span class="small" role="status">
          {columns == null
            ? "They are as they were at first."
            : "They were chosen in this browser."}
        </span>
      </p>
    </Part>
  );
}

function KeyTable({ where, keys }: { where: string; keys: [string, string][] }) {
  return (
    <div>
      <h3>{where}</h3>
      <dl class="keys">
        {keys.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{shownKey(key)}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Keys() {
  const [everywhere, setEverywhere] = useState<[string, string][]>([]);
  useEffect(() => {
    const keys = shortcuts().map(({ keys, does }): [string, string] => [keys, does]);
    setEverywhere([...keys, ["Enter", "Open what has the focus"]]);
  }, []);
  return (
    <Part title="Keys">
      <p class="small">
        Those with Ctrl work everywhere, the others while no field has the focus and no dialog is
        open; ? tells all of the view one is in.
      </p>
      <div class="key-tables">
        <KeyTable where="Everywhere" keys={everywhere} />
        {kKeysOf.map((one) => (
          <KeyTable key={one.where} {...one} />
        ))}
      </div>
    </Part>
  );
}

function SessionPart() {
  const [asks, setAsks] = useState(false);
  return (
    <Part title="This session">
      <p>
        It ends after 12 hours without use, 7 days after it began, or with the controller. A new
        link comes from <code>regatta open</code>.
      </p>
      <button type="button" onClick={() => setAsks(true)}>
        Forget the session in this browser
      </button>
      {asks && (
        <Dialog title="Forget this session?" onClose={() => setAsks(false)}>
          {(close) => (
            <>
              <p>
                All tabs of this browser that have it close, and need a new link. Runs go on. The
                controller itself keeps the session until it ends by itself.
              </p>
              <div class="buttons">
                <button type="button" onClick={close}>
                  Keep it
                </button>
                <button type="button" class="danger solid" onClick={() => session.leave()}>
                  Forget it
                </button>
              </div>
            </>
          )}
        </Dialog>
      )}
    </Part>
  );
}

function Controller({ version, health }: { version: Version; health: ControllerHealth | null }) {
  const { adoption } = version;
  const facts: [string, string][] = [
    ["Version", version.version],
    ["Commit", version.commit ?? kDash],
    ["Scheduler", version.scheduler ?? "not known yet"],
    ["Directory of runs", version.runs_directory],
    [
      "Taken in at the start",
      `${adoption.read} of ${adoption.found} runs${adoption.done ? "" : ", not done yet"}`,
    ],
  ];
  return (
    <Part title="Controller">
      <dl class="details">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{clean(value)}</dd>
          </div>
        ))}
        {health?.checks.map((check) => (
          <div key={check.name}>
            <dt>{clean(check.name.replaceAll("_", " "))}</dt>
            <dd class={check.good ? "" : "failure"}>
              <span aria-hidden="true">{check.good ? "✓ " : "✗ "}</span>
              {check.good ? "good" : "not good"}
              {check.detail && `: ${clean(check.detail)}`}
            </dd>
          </div>
        ))}
      </dl>
    </Part>
  );
}

interface Answers {
  version: Version;
  health: ControllerHealth;
  webhooks: Webhook[];
}

export function SettingsView(_: { query: URLSearchParams }) {
  const [found, setFound] = useState<Answers | null>(null);
  useEffect(() => {
    document.title = "Settings · Regatta";
  }, []);
  const health = usePoll("settings", kEvery, async (signal) => {
    const [version, standing, { webhooks }] = await Promise.all([
      api.version(signal),
      api.health(signal),
      settings.webhooks(signal),
    ]);
    setFound({ version, health: standing, webhooks });
  });
  const put = (next: Webhook) =>
    setFound(
      (old) =>
        old && {
          ...old,
          webhooks: old.webhooks.map((one) => (one.name === next.name ? next : one)),
        },
    );
  return (
    <div class="settings">
      <Connection health={health} />
      <div class="heading">
        <h1>Settings</h1>
      </div>
      <Looks />
      <Part title="Webhooks">
        {health.refusal && (
          <ErrorPanel title="The controller refused" text={clean(health.refusal.message)} />
        )}
        {!found && !health.refusal && !health.failure && <p class="loading">Loading…</p>}
        {found && <WebhookTable webhooks={found.webhooks} onDone={put} />}
      </Part>
      {found && <Controller version={found.version} health={found.health} />}
      <SessionPart />
      <Keys />
    </div>
  );
}
