import { quoted } from "../base/download";
import * as show from "../base/format";
import { CopyButton } from "../parts/copy_button";
import { Figure } from "../parts/figure";
import type { Plan } from "../base/api";
import { costsOf } from "./cost";
import type { Check, Preview } from "./submit_api";

const clean = show.withoutEscapes;

const kMarks = { good: ["✓", "good"], bad: ["✗", "bad"], unknown: ["?", "not known now"] } as const;

export function CheckList({ checks }: { checks: Check[] }) {
  return (
    <ul class="checks">
      {checks.map(({ name, good, detail }, index) => {
        const kind = good == null ? "unknown" : good ? "good" : "bad";
        const [mark, word] = kMarks[kind];
        return (
          <li key={index} class={kind}>
            <span class="check-mark" aria-hidden="true">
              {mark}
            </span>
            <strong>{clean(name)}</strong> <span class="check-word">{word}</span>
            <span class="small">{clean(detail)}</span>
          </li>
        );
      })}
    </ul>
  );
}

function PlanPart({ plan }: { plan: Plan }) {
  const { alternatives = [], decisions = [], cut } = plan;
  return (
    <section aria-labelledby="submit-plan">
      <h3 id="submit-plan">Plan</h3>
      <p>{clean(plan.why)}</p>
      {alternatives.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Cut of the gradient</th>
                <th scope="col" class="num">
                  Buckets
                </th>
                <th scope="col" class="num">
                  Step
                </th>
              </tr>
            </thead>
            <tbody>
              {alternatives.map((one) => (
                <tr key={one.name} class={one.name === cut ? "chosen" : undefined}>
                  <td>
                    {clean(one.name)} {one.name === cut && <span class="mark">chosen</span>}
                  </td>
                  <td class="num">{show.count(one.buckets)}</td>
                  <td class="num">{show.milliseconds(one.step_seconds)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {decisions.map((one) => (
        <p key={one.key} class="small">
          {clean(one.key)}: {clean(one.choice)}. {clean(one.why)}
        </p>
      ))}
    </section>
  );
}

function Folded({ title, text }: { title: string; text: string }) {
  return (
    <details class="fold">
      <summary>{title}</summary>
      <CopyButton text={text} label={`: ${title}`} />
      <pre class="log" tabIndex={0} aria-label={title}>
        {clean(text)}
      </pre>
    </details>
  );
}

// What the controller would make of the run file.
export function PreviewPart({ preview }: { preview: Preview }) {
  const costs = costsOf(preview);
  const { config, plan, script, defaults } = preview;
  return (
    <>
      <CheckList checks={preview.checks} />
      {costs.length > 0 && (
        <dl class="figures">
          {costs.map((one) => (
            <Figure key={one.name} {...one} />
          ))}
        </dl>
      )}
      <dl class="details">
        <div>
          <dt>Scheduler</dt>
          <dd>{clean(preview.scheduler)}</dd>
        </div>
        <div>
          <dt>Directory</dt>
          <dd>
            <code>{clean(preview.directory)}</code>
          </dd>
        </div>
        {preview.after.length > 0 && (
          <div>
            <dt>After</dt>
            <dd>{preview.after.map(clean).join(", ")}</dd>
          </div>
        )}
        {defaults !== "" && (
          <div>
            <dt>Defaults from</dt>
            <dd>{clean(defaults)}</dd>
          </div>
        )}
      </dl>
      {plan ? <PlanPart plan={plan} /> : <p class="small">The preview has no plan.</p>}
      {script != null && <Folded title="Batch script" text={script} />}
      <Folded title="Command" text={preview.command.map(quoted).join(" ")} />
      {config && (
        <Folded title="Configuration with all defaults" text={JSON.stringify(config, null, 2)} />
      )}
    </>
  );
}
