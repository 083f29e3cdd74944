import { useMemo } from "preact/hooks";
import * as show from "../base/format";
import { setQuery } from "../base/route";
import type { Environment } from "../environment/environment_api";
import { useRefuge } from "../parts/refuge";
import type { Known } from "./compare_api";
import type { ComparedSection } from "./fingerprints";
import { comparedSections, equalAttempts, hiddenKeys } from "./fingerprints";
import type { Shown } from "./tables";
import { DifferenceRow, RunColumns } from "./tables";

const kMostRows = 300; // of a section
const kMostNamed = 5;
const kSameText =
  "have the same fingerprint: what differs in their results is chance or the machine's state.";

const environmentIn = ({ environment }: Known): Environment | null =>
  environment && "environment" in environment ? environment.environment : null;
const nameIn = (names: Map<string, string>, { run }: Known) => names.get(run.id) ?? run.id;
const listed = (words: string[]) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;

// Runs without one, and why.
function Without({ known, names }: Pick<Shown, "known" | "names">) {
  const without = known.flatMap((one) =>
    one.environment && "kind" in one.environment ? [{ one, told: one.environment }] : [],
  );
  if (without.length === 0) return null;
  return (
    <ul class="small">
      {without.map(({ one, told }) => (
        <li key={one.run.id}>
          {nameIn(names, one)} is left out: {show.clipped(told.why)}
          {told.kind === "away" && "; asking again"}
        </li>
      ))}
    </ul>
  );
}

// Which attempts are equal, and in how much the others are.
function Verdict({
  environments,
  sections,
  ...shown
}: Pick<Shown, "known" | "names"> & {
  environments: (Environment | null)[];
  sections: ComparedSection[];
}) {
  const { known, names } = shown;
  const count = environments.filter((one) => one != null).length;
  const groups = equalAttempts(environments);
  const hidden = hiddenKeys(environments);
  const equal = sections.filter(({ isEqual }) => isEqual).map(({ name }) => name);
  const nameAt = (index: number) => {
    const one = known[index];
    return one ? nameIn(names, one) : "";
  };
  if (count === 0) return <p>None of these runs has an environment to compare.</p>;
  if (count === 1) return <p>Only one of these runs has an environment: nothing to compare it with.</p>;
  const [first] = groups;
  const isSame = first?.length === count;
  const isAllButConfiguration = !isSame && equal.length === sections.length;
  return (
    <>
      {groups.map((group) => (
        <p key={group[0]}>
          {isSame ? "These attempts" : listed(group.map(nameAt))} {kSameText}
        </p>
      ))}
      {isAllButConfiguration && (
        <p>These attempts differ in the configuration alone, which is compared above.</p>
      )}
      {!isSame && equal.length > 0 && <p>Equal: {listed(equal)}.</p>}
      {hidden.length > 0 && (
        <p>
          Values that are not shown may differ, too:{" "}
          {show.withoutEscapes(hidden.slice(0, kMostNamed).map(show.drawnName).join(", "))}
          {hidden.length > kMostNamed && ` and ${hidden.length - kMostNamed} more`}.
        </p>
      )}
    </>
  );
}

function countText({ rows, isEqual }: ComparedSection): string {
  if (isEqual) return "equal";
  const count = rows.filter(({ differs }) => differs).length;
  return count === 0
    ? "digests differ in what reads alike"
    : `${count} of ${rows.length} ${count === 1 ? "differs" : "differ"}`;
}

function SectionRows({
  section,
  all,
  ...shown
}: Shown & { section: ComparedSection; all: boolean }) {
  const { known, base } = shown;
  const { name, digests } = section;
  const told = all ? section.rows : section.rows.filter((row) => row.differs || row.mayDiffer);
  const left = told.length - kMostRows;
  const from = base ? Math.max(0, known.indexOf(base)) : 0;
  return (
    <tbody data-section={name}>
      <tr class="section-row">
        <th scope="rowgroup">
          {name} <span class="small">{countText(section)}</span>
        </th>
        {digests.map((digest, index) => (
          <td key={known[index]?.run.id}>
            {digest === undefined ? (
              <span class="small">not known</span>
            ) : (
              <>
                {digests[from] !== undefined && digest !== digests[from] && (
                  <>
                    <span aria-hidden="true">≠ </span>
                    <span class="visually-hidden">differs: </span>
                  </>
                )}
                <code>{show.withoutEscapes(digest)}</code>
              </>
            )}
          </td>
        ))}
      </tr>
      {told.slice(0, kMostRows).map((row) => (
        <DifferenceRow key={row.key} row={row} {...shown} />
      ))}
      {left > 0 && (
        <tr>
          <td colSpan={1 + known.length} class="small">
            {show.count(left)} more of {name} are left out here.
          </td>
        </tr>
      )}
    </tbody>
  );
}

function Differences({ all, ...shown }: Shown & { all: boolean }) {
  const { known, names } = shown;
  const environments = useMemo(() => known.map(environmentIn), [known]);
  const sections = useMemo(() => comparedSections(environments), [environments]);
  const some = environments.some((one) => one != null);
  const told = sections.filter(({ isEqual }) => some && (all || !isEqual));
  return (
    <>
      <Without known={known} names={names} />
      <Verdict {...{ known, names, environments, sections }} />
      {told.length > 0 && (
        <div class="scroll" role="region" tabIndex={0} aria-label="Fingerprints, table">
          <table class="differences">
            <RunColumns first="Section and key" {...shown} />
            {told.map((section) => (
              <SectionRows key={section.name} section={section} all={all} {...shown} />
            ))}
          </table>
        </div>
      )}
    </>
  );
}

// Of the newest attempts. They are large, and few look at them.
export function Fingerprints({
  asked,
  all,
  ...shown
}: Shown & { asked: boolean; all: boolean }) {
  const heading = useRefuge<HTMLHeadingElement>(asked);
  const isHere = asked && shown.known.every(({ environment }) => environment !== undefined);
  return (
    <div class="fingerprints">
      <h3 ref={heading}>Fingerprints</h3>
      {!asked && (
        <>
          <p class="small">
            What the newest attempts were built of and ran on, asked for when you want it.
          </p>
          <button type="button" onClick={() => setQuery({ environments: "1" })}>
            Compare the environments
          </button>
        </>
      )}
      {asked && !isHere && <p class="loading">Loading environments…</p>}
      {isHere && <Differences all={all} {...shown} />}
    </div>
  );
}
