// What was typed, kept for this tab until it is submitted or thrown away.
import { useRef, useState } from "preact/hooks";
import { freshKey } from "../base/fresh_key";
import type { Submission } from "./submit_api";

// A text that something else has taken the place of.
export interface Replaced {
  text: string;
  lost: string[];
  by: "form" | "file";
}

export interface Draft extends Submission {
  from: string | null; // the run that it was filled from
  filled: string | null; // what that was, as identity() has it
  lost: string[]; // keys whose values the page could not carry over into the text
  before: Replaced | null;
  // What was sent last, and with which Idempotency-Key: an equal request makes no second run.
  sent: { key: string; what: string } | null;
}

export const kEmpty: Draft = {
  text: "",
  after: "",
  tags: "",
  from: null,
  filled: null,
  lost: [],
  before: null,
  sent: null,
};

const kKey = "regatta.submit";

// Storage may be switched off, or hold what an older page has left.
function stored(): Draft {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(kKey) ?? "{}");
    return { ...kEmpty, ...(kept as Partial<Draft>) };
  } catch {
    return kEmpty;
  }
}

function store(draft: Draft) {
  try {
    if (isEmpty(draft) && draft.from == null) sessionStorage.removeItem(kKey);
    else sessionStorage.setItem(kKey, JSON.stringify(draft));
  } catch {
    // as above: it then lasts until the next reload
  }
}

export function isEmpty({ text, after, tags }: Submission): boolean {
  return `${text}${after}${tags}`.trim() === "";
}

export const identity = ({ text, after, tags }: Submission) => JSON.stringify([text, after, tags]);

// Whether somebody has typed what a fill from a run would throw away.
export const isTyped = (draft: Draft) => !isEmpty(draft) && identity(draft) !== draft.filled;

// The draft as it is sent. The same key again while nothing was changed, whether an answer came or
// not.
export function withKey(draft: Draft): Draft & { sent: { key: string; what: string } } {
  const what = identity(draft);
  const sent = draft.sent?.what === what ? draft.sent : { key: freshKey(), what };
  return { ...draft, sent };
}

// Whether a request without an answer was for something else.
export function sentOther(draft: Draft): boolean {
  return draft.sent != null && draft.sent.what !== identity(draft);
}

export function useDraft(): [Draft, (changes: Partial<Draft>) => void] {
  const [draft, setDraft] = useState(stored);
  const newest = useRef(draft);
  // Stored at once: an answer may come when the page is elsewhere.
  const change = (changes: Partial<Draft>) => {
    newest.current = { ...newest.current, ...changes };
    store(newest.current);
    setDraft(newest.current);
  };
  return [draft, change];
}
