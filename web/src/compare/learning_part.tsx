import * as show from "../base/format";
import type { Known } from "./compare_api";
import { CauseList } from "./evidence";
import type { ApartAt, LearnedRun, Learning, LearningCause } from "./learning_api";
import { learningOf } from "./learning_api";
import type { Pair } from "./pair";
import { PairPart, usePair } from "./pair";

const kThousandth = 1e-3;

const lossText = (loss: number | null) => (loss == null ? "not finite" : show.number(loss, 6));
function apartText(relative: number | null): string {
  if (relative == null) return "no number";
  return relative > 0 && relative < kThousandth ? relative.toExponential(1) : show.percent(relative);
}

// Where they part, in a sentence.
export function verdictOf(learning: Learning): string {
  const { common, equal, other_bits: bits, beyond_rounding: beyond, rounding } = learning;
  if (common === 0 || !bits) {
    return equal ? "Equal in every bit of loss and gradient norm." : "They have no step in common.";
  }
  const begin = `Other bits from step ${show.count(bits.step)} on`;
  if (!beyond) return `${begin}, never apart by more than rounding (${apartText(rounding)}).`;
  if (beyond.step === bits.step) {
    return `${begin}, at once by more than rounding (${apartText(rounding)}).`;
  }
  return `${begin}, by more than rounding from step ${show.count(beyond.step)} on.`;
}

function Steps({ learning, names }: { learning: Learning; names: [string, string] }) {
  const rows: [string, ApartAt | null][] = [
    ["First common step", learning.first],
    ["Other bits", learning.other_bits],
    ["Beyond rounding", learning.beyond_rounding],
    ["Last common step", learning.last],
  ];
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label="Where losses part, table">
      <table>
        <thead>
          <tr>
            <th scope="col">Losses</th>
            <th scope="col">Step</th>
            {names.map((name, index) => (
              <th scope="col" key={index}>
                {name}
              </th>
            ))}
            <th scope="col">Apart by</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([what, at]) => (
            <tr key={what}>
              <th scope="row">{what}</th>
              <td>{at ? show.count(at.step) : "none"}</td>
              <td>{at && lossText(at.loss[0])}</td>
              <td>{at && lossText(at.loss[1])}</td>
              <td>{at && apartText(at.relative)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// What of a run could not be read, so that the rest says less than it seems to.
function Damage({ run: { run, damaged, environment_fault: fault } }: { run: LearnedRun }) {
  const lines = damaged === 1 ? "1 damaged line" : `${show.count(damaged)} damaged lines`;
  return (
    <>
      {damaged > 0 && (
        <p class="failure">
          The journal of {show.drawnName(run)} has {lines}, which nothing is known of.
        </p>
      )}
      {fault && <p class="failure">{show.clipped(fault)}</p>}
    </>
  );
}

function Causes({ causes, known }: { causes: LearningCause[]; known: boolean }) {
  if (!known) return <p>The cause is not known: not both have a fingerprint of what they ran on.</p>;
  if (causes.length === 0) return <p>The cause is not known: nothing that their environments tell.</p>;
  return (
    <>
      <p>Likely causes, by their environments alone:</p>
      <CauseList
        causes={causes.map(({ kind, what, evidence }) => ({ head: `${kind}: ${what}`, evidence }))}
      />
    </>
  );
}

function Told({ a, b, names }: Pair) {
  const answer = usePair(a, b, learningOf, "Loading what they learned…");
  if ("saying" in answer) return <p class="loading">{answer.saying}</p>;
  if ("why" in answer.told) return <p>Not compared: {show.clipped(answer.told.why)}</p>;
  const { learning } = answer.told;
  return (
    <>
      <p>{verdictOf(learning)}</p>
      {learning.runs.map((run) => (
        <Damage key={run.run} run={run} />
      ))}
      <Steps learning={learning} names={names} />
      {learning.other_bits && (
        <>
          <Causes causes={learning.causes} known={learning.known} />
          <p class="small">
            To take that step of both again and show which it is:{" "}
            <code>{`regatta compare ${a} ${b} --replay`}</code>
          </p>
        </>
      )}
    </>
  );
}

// Of two runs, from which step on they learn differently.
export function LearningPart(shown: {
  asked: boolean;
  known: Known[];
  names: Map<string, string>;
  base: Known | null;
}) {
  return (
    <PairPart
      {...shown}
      title="Learning"
      name="learning"
      lead="From which step on their losses differ, asked for when you want it."
      button="Compare what they learned"
      told={(pair) => <Told {...pair} />}
    />
  );
}
