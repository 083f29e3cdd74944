// What the settings show of the controller: docs/api.md is the contract.
import { get, post } from "../base/request";

export interface Webhook {
  name: string;
  url: string; // scheme, host and port
  kinds: string[];
  state: "idle" | "delivering" | "retrying" | "dead";
  delivered: number | null; // the number of the newest event
  delivered_at: string | null;
  waiting: number;
  failures: number; // in a row
  failing_since: string | null;
  next_try_at: string | null;
  error: string | null;
}

const redeliver = (name: string) => `webhooks/${encodeURIComponent(name)}/redeliver`;

export const settings = {
  webhooks: (signal: AbortSignal) => get<{ webhooks: Webhook[] }>("webhooks", signal),
  redeliver: (name: string) => post<Webhook>(redeliver(name)),
  skip: (name: string) => post<Webhook>(`${redeliver(name)}?skip=true`),
};
