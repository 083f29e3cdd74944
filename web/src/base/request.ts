// A request to the controller. Paths are relative, so the page also works below a proxy's sub-path.
import { noteDate } from "./clock";
import { withoutEscapes } from "./format";
import { session } from "./session";

// The controller answered, and the answer is no.
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly key: string | null = null, // of the body, that is at fault
    readonly parameter: string | null = null, // of the query, likewise
  ) {
    super(message);
  }
}

// Something answered that is not the controller as it is when it works.
export class NotYet extends Error {}

const kRequestMilliseconds = 10_000;
const kRemembered = 32; // answers
const kOnce = /[?&]since=\d/; // what is new since a cursor is not asked for twice

// What an address answered last: the same object again, where it is still the same.
const answers = new Map<string, { tag: string; value: unknown }>();

function remember(path: string, tag: string | null, value: unknown) {
  answers.delete(path);
  if (tag == null || kOnce.test(path)) return;
  answers.set(path, { tag, value });
  const oldest = answers.keys().next();
  if (answers.size > kRemembered && !oldest.done) answers.delete(oldest.value);
}

interface Asked {
  method: "GET" | "POST" | "DELETE";
  body?: unknown;
  text?: { type: string; text: string }; // in place of `body`, as it is
  key?: string; // Idempotency-Key
  milliseconds?: number; // until an answer, for what takes long; else ten seconds
  isOnce?: boolean; // of a GET: its answer is not remembered, as nobody asks for the same again
}

async function request<T>(path: string, signal: AbortSignal, asked: Asked): Promise<T> {
  // AbortSignal.any is newer than the browsers that clusters' desktops have.
  const limit = new AbortController();
  const token = session.token();
  const abort = () => limit.abort();
  const most = asked.milliseconds ?? kRequestMilliseconds;
  const late = new Error(`no answer within ${most / 1000} s`);
  const timer = setTimeout(() => limit.abort(late), most);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort(); // which tells nobody any more
  const isKept = asked.method === "GET" && !asked.isOnce;
  const known = isKept ? answers.get(path) : undefined;
  const text =
    asked.body === undefined
      ? asked.text
      : { type: "application/json", text: JSON.stringify(asked.body) };
  const sent = Date.now();
  try {
    const response = await fetch(`api/v1/${path}`, {
      method: asked.method,
      signal: limit.signal,
      headers: {
        accept: "application/json",
        ...(token != null && { authorization: `Bearer ${token}` }),
        ...(known && { "if-none-match": known.tag }),
        ...(asked.key != null && { "idempotency-key": asked.key }),
        ...(text && { "content-type": text.type }),
      },
      ...(text && { body: text.text }),
      cache: "no-store",
    });
    noteDate(response.headers.get("date"), sent, Date.now());
    newestTrouble = response.headers.get("x-regatta-trouble");
    if (response.status === 304 && known) {
      remember(path, known.tag, known.value); // as the newest
      return known.value as T;
    }
    if (!response.ok) {
      const body = await response.json().catch(() => null);
      const message = withoutEscapes(String(body?.detail ?? `HTTP status ${response.status}`));
      // The controller while it starts, or a proxy for one that is away.
      if (response.status >= 502 && response.status <= 504) throw new NotYet(message);
      if (response.status === 401) session.refused(token);
      throw new Refusal(response.status, message, body?.key ?? null, body?.parameter ?? null);
    }
    const value = await response.json().then((one: T) => one, notJson);
    if (isKept) remember(path, response.headers.get("etag"), value);
    return value;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

function notJson(error: unknown): never {
  if (!(error instanceof SyntaxError)) throw error; // it broke off
  throw new NotYet("The answer is another server's. If a proxy asks for a login, reload the page");
}

// Why the controller cannot write its store, by its newest answer: all that it shows stands still.
let newestTrouble: string | null = null;
export const trouble = () => newestTrouble;

export function get<T>(path: string, signal: AbortSignal): Promise<T> {
  return request<T>(path, signal, { method: "GET" });
}

// What is large and asked for once: it may take long, and is not kept here.
export function getOnce<T>(path: string, signal: AbortSignal, milliseconds: number): Promise<T> {
  return request<T>(path, signal, { method: "GET", isOnce: true, milliseconds });
}

const kNever = new AbortController().signal;
export function post<T>(path: string, body?: unknown, key?: string): Promise<T> {
  return request<T>(path, kNever, { method: "POST", body, ...(key != null && { key }) });
}
// What reads or copies files before it answers.
export function postLong<T>(
  path: string,
  asked: { body?: unknown; key?: string; milliseconds: number },
): Promise<T> {
  return request<T>(path, kNever, { method: "POST", ...asked });
}
// A text of another form, as a person has written it.
export function postText<T>(
  path: string,
  text: { type: string; text: string },
  signal: AbortSignal = kNever,
  key?: string,
): Promise<T> {
  return request<T>(path, signal, { method: "POST", text, ...(key != null && { key }) });
}
export function remove<T>(
  path: string,
  asked: { key?: string; milliseconds?: number } = {},
): Promise<T> {
  return request<T>(path, kNever, { method: "DELETE", ...asked });
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
