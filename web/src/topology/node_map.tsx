import { useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import type { SlimNode } from "../nodes/nodes_api";
import type { Standing } from "../nodes/standing";
import { isSuspect, kStandingNames, kStandings, standingOf } from "../nodes/standing";
import { StandingIcon, shapeAt } from "../nodes/state_icon";
import { useWidth } from "../parts/width";
import type { Tier } from "./fabric";
import type { MapGroup, MapLayout } from "./map_layout";
import { cellAt, kCell, layoutMap, neighbour } from "./map_layout";

const clean = show.withoutEscapes;
const kMostLetters = 15; // of a group's name in the drawing; the line below has all of it

interface MapProps {
  label: string; // what it is, for who cannot see it
  groups: MapGroup[];
  tiers?: Tier[];
  nodes: Map<string, SlimNode>; // whose states are known
  marked?: Set<string>;
  markedAs?: string; // what the marks say
  onOpen: (node: string) => void;
}

const kNone: Tier[] = [];
const kUnmarked = new Set<string>();

export function standingIn(nodes: Map<string, SlimNode>, name: string): Standing {
  const node = nodes.get(name);
  return node ? standingOf(node.state) : "unknown";
}

// A path for all cells of a standing, so that thousands of nodes are a dozen elements.
function paths(layout: MapLayout, nodes: Map<string, SlimNode>) {
  const found = new Map<Standing, { boxes: string; shapes: string }>();
  let suspects = "";
  for (const { node, x, y } of layout.cells) {
    const standing = standingIn(nodes, node);
    const path = found.get(standing) ?? { boxes: "", shapes: "" };
    path.boxes += `M${x + 0.5} ${y + 0.5}h${kCell - 1}v${kCell - 1}h${1 - kCell}z`;
    path.shapes += shapeAt(standing, x, y);
    found.set(standing, path);
    const known = nodes.get(node);
    if (known && isSuspect(known)) suspects += `M${x + kCell - 8} ${y}h8v8z`;
  }
  return { found, suspects };
}

// The switches that join the groups, and a box for each group's leaves.
function Switches({
  layout,
  groups,
  tiers,
}: {
  layout: MapLayout;
  groups: MapGroup[];
  tiers: Tier[];
}) {
  return (
    <>
      <path
        class="wire"
        d={layout.wires.map(({ x1, x2, y }) => `M${x1} ${y + 0.5}H${x2}`).join("")}
      />
      {layout.bars.map(({ tier, ...box }) => (
        <rect key={tier} class="bar" {...box} rx={4}>
          <title>{`Level ${tiers[tier]?.level}: ${clean(tiers[tier]?.name ?? "")}`}</title>
        </rect>
      ))}
      {layout.labels.map(({ group, ...box }) => {
        const name = clean(groups[group]?.name ?? "");
        const letters = Array.from(name);
        const cut = letters.length > kMostLetters;
        return (
          <g key={group}>
            <rect class="leaf" {...box} rx={4} />
            <text x={box.x + 6} y={box.y + kCell / 2}>
              {cut ? `…${letters.slice(1 - kMostLetters).join("")}` : name}
            </text>
            <title>{clean(groups[group]?.title ?? name)}</title>
          </g>
        );
      })}
    </>
  );
}

function Drawing({
  layout,
  groups,
  tiers,
  nodes,
  marked,
  cursor,
}: {
  layout: MapLayout;
  groups: MapGroup[];
  tiers: Tier[];
  nodes: Map<string, SlimNode>;
  marked: Set<string>;
  cursor: number | null;
}) {
  const fixed = useMemo(() => {
    const { found, suspects } = paths(layout, nodes);
    const marks = layout.cells
      .filter(({ node }) => marked.has(node))
      .map(({ x, y }) => `M${x - 1.5} ${y - 1.5}h${kCell + 3}v${kCell + 3}h${-kCell - 3}z`);
    return (
      <>
        <Switches layout={layout} groups={groups} tiers={tiers} />
        {kStandings.map((standing) => {
          const path = found.get(standing);
          return (
            path && (
              <g key={standing} class={`standing ${standing}`}>
                <path class="box" d={path.boxes} />
                <path class="shape" d={path.shapes} />
              </g>
            )
          );
        })}
        {suspects !== "" && <path class="suspects" d={suspects} />}
        {marks.length > 0 && <path class="marks" d={marks.join("")} />}
      </>
    );
  }, [layout, groups, tiers, nodes, marked]);
  const at = cursor == null ? null : layout.cells[cursor];
  const height = layout.height + 4;
  const side = kCell + 4;
  return (
    <svg
      width={layout.width}
      height={height}
      viewBox={`-2 -2 ${layout.width} ${height}`}
      aria-hidden="true"
    >
      {fixed}
      {at && <rect class="cursor" x={at.x - 2} y={at.y - 2} width={side} height={side} rx={3} />}
    </svg>
  );
}

function nodeText(node: SlimNode | undefined, name: string): string {
  if (!node) return `${clean(name)}: state not known`;
  const parts = [`${clean(name)}: ${clean(node.state)}`];
  if (node.gpus) {
    parts.push(`${node.gpus_allocated ?? show.kDash} of ${node.gpus.count} GPUs in use`);
  }
  if (node.runs.length > 0) parts.push(`runs ${node.runs.map(clean).join(", ")}`);
  if (isSuspect(node)) parts.push(`suspicion ${node.suspicion.toFixed(2)}`);
  if (node.reason) parts.push(clean(node.reason));
  return parts.join(" · ");
}

function Legend({
  layout,
  nodes,
  markedAs,
  marked,
}: {
  layout: MapLayout;
  nodes: Map<string, SlimNode>;
  markedAs: string | undefined;
  marked: Set<string>;
}) {
  const marks = layout.cells.filter(({ node }) => marked.has(node)).length;
  const counts = new Map<Standing, number>();
  let suspects = 0;
  for (const { node } of layout.cells) {
    const standing = standingIn(nodes, node);
    counts.set(standing, (counts.get(standing) ?? 0) + 1);
    const known = nodes.get(node);
    if (known && isSuspect(known)) suspects += 1;
  }
  return (
    <p class="map-legend">
      {kStandings.map((standing) => {
        const count = counts.get(standing) ?? 0;
        return (
          count > 0 && (
            <span key={standing}>
              <StandingIcon standing={standing} /> {show.count(count)} {kStandingNames[standing]}
            </span>
          )
        );
      })}
      {suspects > 0 && <span class="suspect-key">{show.count(suspects)} suspected</span>}
      {markedAs != null && (
        <span class="mark-key">
          {show.count(marks)} {markedAs}
        </span>
      )}
    </p>
  );
}

function Readout({
  node,
  name,
  group,
}: {
  node: SlimNode | undefined;
  name: string;
  group: MapGroup | undefined;
}) {
  return (
    <>
      <span>{nodeText(node, name)}</span>
      {group?.name && <span class="small">{clean(group.title ?? group.name)}</span>}
    </>
  );
}

const kKeys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

// Nodes as cells by group, with the switches that join these. Arrow keys move from cell to cell,
// Enter opens one; what the cell is stands below, and in the table beside the map.
export function NodeMap({ label, groups, tiers = kNone, nodes, onOpen, ...rest }: MapProps) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [cursor, setCursor] = useState<number | null>(null);
  const [byPointer, setByPointer] = useState(false); // whose every move is not to be read out
  const { marked: marks = kUnmarked, markedAs } = rest;
  const layout = useMemo(
    () => (width > 0 ? layoutMap(groups, tiers, width - 4) : null),
    [groups, tiers, width],
  );
  const cells = layout?.cells ?? [];
  const shown = cursor == null ? null : cells[cursor];
  const press = (event: KeyboardEvent) => {
    if (kKeys.includes(event.key)) {
      event.preventDefault();
      setByPointer(false);
      setCursor((old) => (old == null ? 0 : neighbour(cells, old, event.key)));
    } else if (event.key === "Enter" && shown) {
      event.preventDefault();
      onOpen(shown.node);
    }
  };
  const under = (event: MouseEvent) => {
    const corner = place.current?.getBoundingClientRect();
    if (!corner) return null;
    return cellAt(cells, event.clientX - corner.left - 2, event.clientY - corner.top - 2);
  };
  const group = shown ? groups[shown.group] : undefined;
  return (
    <div class="node-map">
      <div
        ref={place}
        class="cells"
        role="application"
        tabIndex={0}
        aria-label={`${label}. Arrow keys move from node to node, Enter opens one.`}
        onKeyDown={press}
        onFocus={() => setCursor((old) => (old == null && cells.length > 0 ? 0 : old))}
        onMouseMove={(event) => {
          const at = under(event);
          if (at == null) return;
          setByPointer(true);
          setCursor(at);
        }}
        onClick={(event) => {
          const at = under(event);
          const cell = at == null ? null : cells[at];
          if (cell) onOpen(cell.node);
        }}
      >
        {layout && (
          <Drawing
            layout={layout}
            groups={groups}
            tiers={tiers}
            nodes={nodes}
            marked={marks}
            cursor={cursor}
          />
        )}
      </div>
      <p class="map-readout" role="status" aria-live={byPointer ? "off" : "polite"}>
        {shown && <Readout node={nodes.get(shown.node)} name={shown.node} group={group} />}
        {shown && marks.has(shown.node) && <span class="small">{markedAs}</span>}
      </p>
      {layout && (
        <Legend layout={layout} nodes={nodes} markedAs={markedAs} marked={marks} />
      )}
      {layout != null && layout.leftOut > 0 && (
        <p class="small">And {show.count(layout.leftOut)} more nodes, which only the table has.</p>
      )}
    </div>
  );
}
