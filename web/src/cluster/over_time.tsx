import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Unit } from "../base/device";
import * as show from "../base/format";
import type { Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import { Swatch } from "../parts/swatch";
import type { Moment } from "./sums";

const kHour = 3600;
const kInstant = 1e-3; // seconds

const kLines = {
  running: { title: "running", look: { colour: "accent", dash: [] } },
  waiting: { title: "waiting", look: { colour: "warn", dash: [6, 4] } },
  GPU: { title: "GPUs of running runs", look: { colour: "accent", dash: [] } },
  rank: { title: "ranks of running runs", look: { colour: "accent", dash: [] } },
} as const;
type Name = keyof typeof kLines;

const valueAt = (moment: Moment, name: Name) =>
  name === "GPU" || name === "rank" ? moment.ranks : moment[name];

// "−3 d", "−6 h", "now": how far from the newest moment.
function backText(value: number, unit: string): string {
  if (Math.abs(value) < 1e-9) return "now";
  const sign = value < 0 ? "−" : "+";
  return `${sign}${Number(Math.abs(value).toFixed(2))}\u202f${unit}`;
}

// A line that goes up and down at once: each moment holds until the next.
function stepped(moments: Moment[]): Moment[] {
  return moments.flatMap((moment, index) => {
    const before = moments[index - 1];
    return before ? [{ ...before, at: moment.at - kInstant }, moment] : [moment];
  });
}

const isoText = (at: number) => new Date(1000 * at).toISOString();
const momentText = ({ at }: Pick<Moment, "at">) => show.when(isoText(at));

interface Props {
  title: string;
  moments: Moment[];
  names: Name[];
  hours: number;
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
}

function OverTime({ title, moments, names, hours, zoom, onZoom }: Props) {
  const end = moments[moments.length - 1];
  const inDays = hours > 48;
  const unit = inDays ? 24 * kHour : kHour;
  const steps = useMemo(() => stepped(moments), [moments]);
  const data = useMemo(
    () => [
      steps.map(({ at }) => (at - (end?.at ?? 0)) / unit),
      ...names.map((name) => steps.map((moment) => valueAt(moment, name))),
    ],
    [steps, unit],
  );
  const full = useMemo(() => ({ min: (-hours * kHour) / unit, max: 0 }), [hours, unit]);
  const text = (moment: Moment) =>
    names.map((name) => `${show.count(valueAt(moment, name))} ${kLines[name].title}`).join(", ");
  const most = names.map((name) => {
    const peak = Math.max(0, ...moments.map((one) => valueAt(one, name)));
    return `at most ${peak} ${kLines[name].title}`;
  });
  return (
    <div>
      <Chart
        title={title}
        summary={`${title}: ${most.join(", ")}; now ${end ? text(end) : "nothing"}`}
        readout={(index) => {
          const moment = index == null ? end : steps[index];
          return (
            <>
              {names.map((name) => (
                <span key={name} class="line-key">
                  <Swatch look={{ ...kLines[name].look, dash: [...kLines[name].look.dash] }} />
                  <b>{show.count(moment && valueAt(moment, name))}</b> {kLines[name].title}
                </span>
              ))}
              {index == null || !moment ? "now" : momentText(moment)}
            </>
          );
        }}
        height={200}
        data={data as uPlot.AlignedData}
        lines={names.map((name) => ({
          name: kLines[name].title,
          colour: kLines[name].look.colour,
          width: 1.75,
          dash: [...kLines[name].look.dash],
        }))}
        full={full}
        values={(_low, high) => [0, Math.max(1, (high ?? 1) * 1.12)]}
        format={(value) => (Number.isInteger(value) ? show.count(value) : "")}
        x={{
          name: "Moment (UTC)",
          isClock: false,
          cell: (value) => isoText((end?.at ?? 0) + value * unit),
          text: (value) => backText(value, inDays ? "d" : "h"),
        }}
        zoom={zoom}
        onZoom={onZoom}
      />
    </div>
  );
}

// Both charts share cursor and zoom.
export function OverTimeCharts({
  moments,
  hours,
  unit,
}: {
  moments: Moment[];
  hours: number;
  unit: Unit;
}) {
  const [zoom, onZoom] = useState<Span | null>(null);
  const props = { moments, hours, zoom, onZoom };
  return (
    <div class="pair">
      <OverTime title="Runs over time" names={["running", "waiting"]} {...props} />
      <OverTime
        title={unit === "GPU" ? "GPUs over time" : "Ranks over time"}
        names={[unit]}
        {...props}
      />
    </div>
  );
}
