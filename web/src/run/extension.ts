import type { Extension } from "./run_api";

const kFigure = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i; // not 0x10, nor a comma

// What the fields ask for, and what is wrong with which; null: nothing, or something is wrong.
export function extensionOf(
  steps: string,
  target: string,
  goesOn: boolean,
): { asked: Extension | null; wrong: { steps?: string; target?: string } } {
  const asked: Extension = {};
  const wrong: { steps?: string; target?: string } = {};
  const [wantedSteps, wantedTarget] = [steps.trim(), target.trim()];
  if (wantedSteps !== "") {
    asked.steps = Number(wantedSteps);
    const isWhole = /^\d+$/.test(wantedSteps) && Number.isSafeInteger(asked.steps);
    if (!isWhole || asked.steps === 0) wrong.steps = "Use a whole number above 0, without commas.";
  }
  if (wantedTarget !== "") {
    const value = Number(wantedTarget);
    asked.target = goesOn ? { value, stop: false } : value;
    if (!kFigure.test(wantedTarget)) wrong.target = "Use a number with a point, such as 0.75.";
  } else if (goesOn) asked.target = { stop: false };
  const isSome = asked.steps != null || asked.target != null;
  const isRight = wrong.steps == null && wrong.target == null;
  return { asked: isSome && isRight ? asked : null, wrong };
}
