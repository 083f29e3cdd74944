import * as show from "../base/format";
import type { Known } from "./compare_api";
import { CauseList } from "./evidence";
import type { Pair } from "./pair";
import { PairPart, usePair } from "./pair";
import type { Speed, SpeedPart as Part } from "./speed_api";
import { speedOf } from "./speed_api";

const kThousand = 1000;

// All of a comparison have as many decimals, so that the parts add up as they are shown.
export function millisecondsOf(speed: Speed): (seconds: number) => string {
  const least = Math.min(...speed.seconds_per_sample) * kThousand;
  const digits = Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(least))));
  const format = new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return (seconds) => format.format(seconds * kThousand).replace("-", "−");
}
const signed = (text: string) => (/^[−0.,]*$|^−/.test(text) ? text : `+${text}`);

// How fast they are, in a sentence.
export function speedVerdictOf(speed: Speed): string {
  const share = speed.difference / speed.seconds_per_sample[0];
  const percent = show.percent(Math.abs(share));
  if (speed.equally_fast) return `Equally fast: ${percent} is within what steps differ by.`;
  return `A sample takes B ${percent} ${share > 0 ? "longer" : "less"} than A.`;
}

function Parts({ speed, names }: { speed: Speed; names: [string, string] }) {
  const ms = millisecondsOf(speed);
  const nothing = ms(0);
  const whole: Part = {
    part: "all",
    seconds_per_sample: speed.seconds_per_sample,
    difference: speed.difference,
  };
  const isShown = ({ seconds_per_sample: each }: Part) => each.some((one) => ms(one) !== nothing);
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label="What a sample takes, table">
      <table>
        <thead>
          <tr>
            <th scope="col">Milliseconds of a sample</th>
            <th scope="col" class="num">
              A: {names[0]}
            </th>
            <th scope="col" class="num">
              B: {names[1]}
            </th>
            <th scope="col" class="num">
              B less A
            </th>
          </tr>
        </thead>
        <tbody>
          {[...speed.parts.filter(isShown), whole].map((part) => (
            <tr key={part.part}>
              <th scope="row">{part.part}</th>
              <td class="num">{ms(part.seconds_per_sample[0])}</td>
              <td class="num">{ms(part.seconds_per_sample[1])}</td>
              <td class="num">{signed(ms(part.difference))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Told({ a, b, names }: Pair) {
  const answer = usePair(a, b, speedOf, "Loading how fast they are…");
  if ("saying" in answer) return <p class="loading">{answer.saying}</p>;
  if ("why" in answer.told) return <p>Not compared: {show.clipped(answer.told.why)}</p>;
  const { speed } = answer.told;
  const ms = millisecondsOf(speed);
  return (
    <>
      <p>{speedVerdictOf(speed)}</p>
      <Parts speed={speed} names={names} />
      {speed.causes.length > 0 && (
        <>
          <p>What is likely to make the difference, the largest part first:</p>
          <CauseList
            causes={speed.causes.map((cause) => ({
              head: `${signed(ms(cause.seconds_per_sample))} ms ${cause.part}: ${cause.what}`,
              evidence: cause.evidence,
            }))}
          />
        </>
      )}
      <p class="small">
        Of attempts {speed.attempts[0].attempt} and {speed.attempts[1].attempt}, steps{" "}
        {speed.attempts.map((one) => `${one.first_step} to ${one.last_step}`).join(" and ")}.
      </p>
    </>
  );
}

// Of two runs, what a sample takes each, part by part, and what may have caused the difference.
export function SpeedPart(shown: {
  asked: boolean;
  known: Known[];
  names: Map<string, string>;
  base: Known | null;
}) {
  return (
    <PairPart
      {...shown}
      title="Speed"
      name="speed"
      lead="What a sample takes each of them, part by part, asked for when you want it."
      button="Compare their speed"
      told={(pair) => <Told {...pair} />}
    />
  );
}
