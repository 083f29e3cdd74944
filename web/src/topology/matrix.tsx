import { useMemo, useState } from "preact/hooks";
import * as show from "../base/format";
import type { Graph } from "./graph";
import { oddOf } from "./graph";
import type { Cell, Matrix } from "./paths";
import { matrixOf } from "./paths";

const clean = show.withoutEscapes;
const kMostColumns = 48; // of the table

// How near: NVLink, below one PCIe switch, over a CPU, over several. The word stands in the cell.
const kNear: Record<string, string> = {
  NVL: "direct",
  NVB: "direct",
  C2C: "direct",
  PIX: "near",
  PXB: "near",
  P2C: "near",
  PXN: "near",
};

function speedText(cell: Cell): string | null {
  return cell.gbPerSecond == null ? null : `${show.number(cell.gbPerSecond)}\u202fGB/s`;
}

function CellView({ cell, speeds }: { cell: Cell; speeds: boolean }) {
  const speed = speedText(cell);
  if (cell.type === "LOC") return <td class="self">–</td>;
  return (
    <td class={kNear[cell.type] ?? "far"} title={`${cell.meaning}${speed ? `, ${speed}` : ""}`}>
      {cell.text}
      {speeds && <span class="small">{show.number(cell.gbPerSecond)}</span>}
    </td>
  );
}

function Odd({ graph, node, matrix }: { graph: Graph; node: string; matrix: Matrix }) {
  const labels = new Map(matrix.columns.map(({ vertex, label }) => [vertex.id, label]));
  const all = [...matrix.columns.map(({ vertex }) => vertex), ...graph.below(node, "pci")];
  const found = all.flatMap((vertex) =>
    oddOf(graph, vertex).map((text) => ({
      name: labels.get(vertex.id) ?? vertex.id.slice(vertex.id.lastIndexOf("/") + 1),
      text,
    })),
  );
  if (found.length === 0) return null;
  return (
    <ul class="odd">
      {found.map(({ name, text }, index) => (
        <li key={index}>
          <b>{clean(name)}</b>: {clean(text)}
        </li>
      ))}
    </ul>
  );
}

// How the GPUs of a node reach each other and its NICs, as `nvidia-smi topo -m` shows it, with the
// speed of the narrowest part.
export function DeviceMatrix({ graph, node }: { graph: Graph; node: string }) {
  const matrix = useMemo(() => matrixOf(graph, node), [graph, node]);
  const [speeds, setSpeeds] = useState(true);
  if (!matrix) return <p class="nothing">No GPU of {clean(node)} is described.</p>;
  const columns = matrix.columns.slice(0, kMostColumns);
  const more = matrix.columns.length - columns.length;
  return (
    <div class="devices">
      <label class="speeds">
        <input
          type="checkbox"
          checked={speeds}
          onChange={(event) => setSpeeds(event.currentTarget.checked)}
        />
        with GB/s, one direction, of the narrowest part
      </label>
      <div class="scroll" tabIndex={0} role="group" aria-label={`GPUs and NICs of ${clean(node)}`}>
        <table class="matrix">
          <caption class="visually-hidden">
            How the GPUs of {clean(node)} reach its GPUs and NICs
          </caption>
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">GPU</span>
              </th>
              {columns.map(({ vertex, label }) => (
                <th key={vertex.id} scope="col" title={clean(graph.text(vertex, "model") ?? "")}>
                  {clean(label)}
                </th>
              ))}
              <th scope="col">NUMA</th>
            </tr>
          </thead>
          <tbody>
            {matrix.rows.map((row) => (
              <tr key={row.vertex.id}>
                <th scope="row">{clean(row.label)}</th>
                {row.cells.slice(0, kMostColumns).map((cell, index) => (
                  <CellView key={index} cell={cell} speeds={speeds} />
                ))}
                <td>{row.numa == null ? show.kDash : clean(row.numa)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more > 0 && <p class="small">And {more} more devices; `regatta topo` has them all.</p>}
      <p class="matrix-legend small">
        {matrix.legend.map(([word, meaning]) => (
          <span key={word}>
            <b>{word}</b> {meaning}
          </span>
        ))}
      </p>
      <Odd graph={graph} node={node} matrix={matrix} />
    </div>
  );
}
