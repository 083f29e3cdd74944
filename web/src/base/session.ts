import { useEffect, useState } from "preact/hooks";

// The page's right to ask. `regatta open` prints a link with a one-time ticket in its fragment, which
// no browser sends to a server; the page exchanges it for a session, kept for this tab alone. No
// cookie: cookies of 127.0.0.1 go to every port of it, so to other users' servers as well.
// Below a proxy several controllers have one origin; each has a session of its own.
const kPath = typeof location === "undefined" ? "/" : location.pathname;
const kKey = kPath === "/" ? "regatta.session" : `regatta.session:${kPath}`;
const kTries = 4; // of the exchange, while the controller cannot be reached
const kTryMilliseconds = 1000;
const kRequestMilliseconds = 10_000;
const kAskMilliseconds = 250;

export interface Standing {
  state: "opening" | "open" | "closed";
  problem: string | null; // why it is closed, when it was not just never opened
}

export interface Link {
  ticket: string;
  place: string | null; // "/runs/<id>", where the link leads
}

// A link, or a ticket alone, as people paste it.
export function parseLink(text: string): Link | null {
  const match = /(?:^|#ticket=)([0-9a-f]{32,128})(\/\S*)?$/.exec(text.trim());
  return match?.[1] ? { ticket: match[1], place: match[2] ?? null } : null;
}

const kLost =
  "The controller no longer knows this page's session: it ends after 7 days, after 12 hours without " +
  "use, and when the controller is restarted.";

// Storage may be switched off; the session then lasts until the next reload.
function stored(): string | null {
  try {
    return sessionStorage.getItem(kKey);
  } catch {
    return null;
  }
}
function store(value: string | null) {
  try {
    if (value == null) sessionStorage.removeItem(kKey);
    else sessionStorage.setItem(kKey, value);
  } catch {
    // as above
  }
}

let token: string | null = null;
let standing: Standing = { state: "closed", problem: null };
const dead = new Set<string>(); // tokens that were refused
const listeners = new Set<(now: Standing) => void>();
// Tabs of this origin tell each other, since browsers start a new one without its opener's storage.
const others = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(kKey);
const kAsk = "?";

function become(state: Standing["state"], problem: string | null = null) {
  standing = { state, problem };
  for (const listener of listeners) listener(standing);
}

function enter(next: string) {
  token = next;
  store(next);
  become("open");
}

// Another tab may have a session; it answers at once or not at all.
function askOthers(problem: string | null) {
  become("opening");
  const asked = standing;
  others?.postMessage(kAsk);
  setTimeout(() => standing === asked && become("closed", problem), kAskMilliseconds);
}

// What the page keeps for a session, such as the draft of a submission.
function forgetAll() {
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith("regatta.")) sessionStorage.removeItem(key);
    }
  } catch {
    // as above
  }
}

// This tab and all others that have this session forget it. The controller does not: the API has no
// request for that.
function forget(left: string) {
  dead.add(left);
  if (token !== left) return;
  token = null;
  forgetAll();
  become("closed");
}

function hearOthers({ data }: MessageEvent) {
  if (typeof data?.left === "string") {
    forget(data.left);
  } else if (data === kAsk) {
    if (token != null) others?.postMessage(token);
  } else if (token == null && typeof data === "string" && !dead.has(data)) {
    enter(data);
  }
}

export const session = {
  token: () => token,
  leave() {
    if (token == null) return;
    others?.postMessage({ left: token });
    forget(token);
  },
  // A request with this token was answered with 401.
  refused(used: string | null) {
    if (used == null || used !== token) return;
    dead.add(used);
    token = null;
    store(null);
    askOthers(kLost);
  },
};

class Refused extends Error {}

async function exchange(ticket: string): Promise<string> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), kRequestMilliseconds);
  try {
    const response = await fetch("api/v1/session", {
      method: "POST",
      signal: limit.signal,
      headers: { accept: "application/json", "content-type": "application/json" },
      body: JSON.stringify({ ticket }),
      cache: "no-store",
    });
    const body = await response.json().catch(() => null);
    if (response.ok && typeof body?.token === "string") return body.token;
    if (response.status >= 500) throw new Error(`HTTP status ${response.status}`);
    throw new Refused(String(body?.detail ?? `HTTP status ${response.status}`));
  } finally {
    clearTimeout(timer);
  }
}

export async function openSession(link: Link) {
  become("opening");
  for (let tries = 1; ; tries += 1) {
    try {
      const opened = await exchange(link.ticket);
      others?.postMessage(opened);
      return enter(opened);
    } catch (error) {
      const refused = error instanceof Refused;
      if (refused || tries === kTries) {
        // A link that was used already does no harm to a tab that has a session.
        if (token != null) return become("open");
        return become("closed", refused ? error.message : "The controller does not answer.");
      }
      await new Promise((done) => setTimeout(done, kTryMilliseconds));
    }
  }
}

// Takes a ticket out of the address before anything else sees it.
function takeTicket(): Link | null {
  if (!location.hash.startsWith("#ticket=")) return null;
  const link = parseLink(location.hash);
  history.replaceState(null, "", `#${link?.place ?? "/"}`);
  return link;
}

export function startSession() {
  const link = takeTicket();
  others?.addEventListener("message", hearOthers);
  token = stored();
  if (link) void openSession(link);
  else if (token != null) become("open");
  else askOthers(null);
  // A link that is opened in a tab where the page is changes only the hash.
  window.addEventListener("hashchange", () => {
    const next = takeTicket();
    if (!next) return;
    window.dispatchEvent(new HashChangeEvent("hashchange"));
    void openSession(next);
  });
}

export function useSession(): Standing {
  const [now, setNow] = useState(standing);
  useEffect(() => {
    setNow(standing);
    listeners.add(setNow);
    return () => void listeners.delete(setNow);
  }, []);
  return now;
}
