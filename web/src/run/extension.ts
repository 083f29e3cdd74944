import type { Extension } from "./run_api";

// What the fields ask for; null: nothing, or no figure.
export function extensionOf(steps: string, target: string, goesOn: boolean): Extension | null {
  const asked: Extension = {};
  if (steps.trim() !== "") {
    const number = Number(steps);
    if (!Number.isInteger(number) || number <= 0) return null;
    asked.steps = number;
  }
  if (target.trim() !== "") {
    const value = Number(target);
    if (!Number.isFinite(value)) return null;
    asked.target = goesOn ? { value, stop: false } : value;
  } else if (goesOn) asked.target = { stop: false };
  return asked.steps == null && asked.target == null ? null : asked;
}
