import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import type { Refusal } from "../base/request";
import { go, setQuery, withQuery } from "../base/route";
import { Connection, ErrorPanel } from "../parts/notices";
import { Pages } from "../parts/pages";
import { When } from "../parts/when";
import { NoFabric } from "../topology/fabric_choice";
import { FabricView } from "../topology/fabric_view";
import { NodeMap } from "../topology/node_map";
import type { Known } from "../topology/topology_api";
import { useTopology } from "../topology/topology_api";
import { FindingsPart, useFindings } from "./findings";
import { FreeTogether } from "./free_together";
import { NodeChips, NodeFilters, activeNodeFilters, focusSearch } from "./node_filters";
import { NodePanel } from "./node_panel";
import { NodeTable, nodeHash } from "./node_table";
import type { FullNode, NodePage, Reservation, SlimNode } from "./nodes_api";
import { nodesApi } from "./nodes_api";
import { totalsOf } from "./standing";

const clean = show.withoutEscapes;
const kPageSize = 100;
const kEvery = 5000; // ms; Slurm itself is asked more seldom
const kEveryAll = 10_000;
const kViews = ["table", "grid", "fabric"] as const;
type Look = (typeof kViews)[number];
const kLooks: Record<Look, string> = { table: "Table", grid: "Grid", fabric: "Fabric" };

// What is asked of the API for the table at this address.
function nodeQuery(query: URLSearchParams): string {
  const asked = new URLSearchParams(activeNodeFilters(query));
  const after = query.get("after");
  if (after) asked.set("after", after);
  asked.set("limit", String(kPageSize));
  asked.set("full", "true");
  return asked.toString();
}

function lookOf(query: URLSearchParams): Look {
  return kViews.find((look) => look === query.get("view")) ?? "table";
}

function Looks({ look }: { look: Look }) {
  return (
    <nav class="looks" aria-label="How nodes are shown">
      {kViews.map((one) => (
        <a
          key={one}
          href={withQuery(location.hash, { view: one === "table" ? null : one })}
          aria-current={one === look ? "page" : undefined}
        >
          {kLooks[one]}
        </a>
      ))}
    </nav>
  );
}

function Summary({ all }: { all: NodePage }) {
  const totals = useMemo(() => totalsOf(all.nodes), [all]);
  const states = totals.states.map(([state, count]) => `${show.count(count)} ${clean(state)}`);
  return (
    <p class="node-summary">
      {states.join(" · ")}
      {totals.gpus != null && (
        <>
          {" "}
          · GPUs: {show.count(totals.gpusAllocated)} of {show.count(totals.gpus)} in use
        </>
      )}
      {totals.suspects > 0 && ` · ${totals.suspects} avoided because suspected`}
      {all.taken_at != null && (
        <span class="small">
          {" "}
          as of <When at={all.taken_at} ago />
        </span>
      )}
      {all.next != null && (
        <span class="small"> of the first {show.count(all.nodes.length)} nodes</span>
      )}
    </p>
  );
}

function Trouble({ text }: { text: string | null }) {
  if (text == null) return null;
  return (
    <section class="notice warning" role="status">
      <strong>What Slurm last said of its nodes may be old or have gaps</strong>
      <p>{clean(text)}</p>
    </section>
  );
}

function Reservations({ list }: { list: Reservation[] }) {
  if (list.length === 0) return null;
  return (
    <section class="notice reservations" aria-label="Reservations">
      <strong>{list.length === 1 ? "One reservation" : `${list.length} reservations`}</strong>
      <ul>
        {list.map((one, index) => (
          <li key={index}>
            {clean(one.name)}
            {one.maintenance && " (maintenance)"}: {clean(one.nodes)},{" "}
            <When at={one.starts_at} /> to <When at={one.ends_at} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function nodesText(shown: number, total: number): string {
  if (shown < total) return `${show.count(shown)} of ${show.count(total)} nodes`;
  return `${show.count(total)} ${total === 1 ? "node" : "nodes"}`;
}

// A filter that is half typed is wrong for a moment at each letter, which nothing cries out.
function Refused({ refusal }: { refusal: Refusal | null }) {
  if (!refusal) return null;
  const title = "The controller refused the list of nodes";
  const text = clean(refusal.message);
  if (refusal.parameter == null) return <ErrorPanel title={title} text={text} />;
  return (
    <section class="notice error">
      <strong>{title}</strong>
      <pre>{text}</pre>
    </section>
  );
}

function TableView({
  query,
  onPage,
}: {
  query: URLSearchParams;
  onPage: (page: NodePage) => void;
}) {
  const asked = nodeQuery(query);
  const [answer, setAnswer] = useState<{ asked: string; page: NodePage<FullNode> } | null>(null);
  const [unasked, setUnasked] = useState(false);
  const health = usePoll(asked, unasked ? 1000 : kEvery, async (signal) => {
    const page = await nodesApi.page(asked, signal);
    setAnswer((old) => (old?.page === page && old.asked === asked ? old : { asked, page }));
    setUnasked(page.taken_at == null);
    onPage(page);
  });
  const page = answer?.page;
  const filtered = activeNodeFilters(query).length > 0;
  // Where one machine is all there is nothing is filtered; by the newest answer, lest the focus go.
  const isLone = page?.total === 1 && answer?.asked === asked;
  return (
    <>
      <Connection health={health} />
      <Refused refusal={health.refusal} />
      {(filtered || (page && !isLone)) && (
        <div class="tools">
          <NodeFilters query={query} refusal={health.refusal} />
          {page && (
            <span class="small" role="status">
              {nodesText(page.nodes.length, page.total)}
            </span>
          )}
        </div>
      )}
      <NodeChips query={query} />
      {!page && !health.refusal && !health.failure && <p class="loading">Loading nodes…</p>}
      {page && page.nodes.length > 0 && (
        <div class={answer?.asked === asked ? "" : "stale"}>
          <NodeTable nodes={page.nodes} />
        </div>
      )}
      {page && page.nodes.length === 0 && <Nothing page={page} filtered={filtered} />}
      {page && (
        <Pages
          of="the nodes"
          cursor="after"
          query={query}
          next={answer?.asked === asked ? page.next : null}
        />
      )}
    </>
  );
}

function Nothing({ page, filtered }: { page: NodePage; filtered: boolean }) {
  if (page.taken_at == null) return <p class="loading">Asking Slurm for its nodes…</p>;
  if (page.total > 0) return <p class="nothing">No node comes after this place in the list.</p>;
  if (!filtered) return <p class="nothing">The scheduler lists no node.</p>;
  return (
    <section class="empty">
      <h2>No node is like that</h2>
      <p>No node passes all of these filters.</p>
      <button
        type="button"
        onClick={() => {
          go("#/nodes");
          focusSearch();
        }}
      >
        Show all nodes
      </button>
    </section>
  );
}

const open = (name: string) => go(nodeHash(name));

// All of them, or those that pass the filters.
function GridView({ query, all }: { query: URLSearchParams; all: NodePage }) {
  const filters = new URLSearchParams(activeNodeFilters(query)).toString();
  const [answer, setAnswer] = useState<{ filters: string; page: NodePage } | null>(null);
  const health = usePoll(filters === "" ? null : filters, kEveryAll, async (signal) => {
    const page = await nodesApi.all(signal, filters);
    setAnswer((old) => (old?.page === page && old.filters === filters ? old : { filters, page }));
  });
  const page = filters === "" ? all : answer?.page;
  const refusal = filters === "" ? null : health.refusal; // else that of filters that are gone
  const stale = filters !== "" && answer?.filters !== filters;
  return (
    <>
      <Refused refusal={refusal} />
      <div class="tools">
        <NodeFilters query={query} refusal={refusal} />
        <span class="small" role="status">
          {page && nodesText(page.nodes.length, all.nodes.length)}
        </span>
      </div>
      <NodeChips query={query} />
      {!page && !refusal && <p class="loading">Loading nodes…</p>}
      {page && page.nodes.length > 0 && (
        <div class={stale ? "stale" : ""}>
          <Cells nodes={page.nodes} />
        </div>
      )}
      {page && page.nodes.length === 0 && <Nothing page={page} filtered={filters !== ""} />}
    </>
  );
}

function Cells({ nodes }: { nodes: SlimNode[] }) {
  const groups = useMemo(() => [{ name: "", nodes: nodes.map(({ name }) => name) }], [nodes]);
  const byName = useMemo(() => new Map(nodes.map((node) => [node.name, node])), [nodes]);
  const label = `${nodes.length} nodes by name`;
  return <NodeMap label={label} groups={groups} nodes={byName} onOpen={open} />;
}

function FabricPart({
  machines,
  failure,
  nodes,
  run,
}: {
  machines: Known;
  failure: string | null; // why the fabric is not here
  nodes: Map<string, SlimNode>;
  run: string | null;
}) {
  const names = [...nodes.values()].filter((node) => run != null && node.runs.includes(run));
  const marks = names.map(({ name }) => name);
  if (!machines) return <NoFabric machines={machines} failure={failure} />;
  const marked = run == null ? {} : { run: { nodes: marks, isInOrder: false, as: `of ${clean(run)}` } };
  return <FabricView machines={machines} nodes={nodes} onOpen={open} {...marked} />;
}

// The open runs on these nodes: one of them may be marked in the fabric.
function RunChoice({ nodes, run }: { nodes: SlimNode[]; run: string | null }) {
  const runs = useMemo(() => [...new Set(nodes.flatMap((node) => node.runs))].sort(), [nodes]);
  if (runs.length === 0 && run == null) return null;
  return (
    <label class="run-choice">
      Mark the nodes of{" "}
      <select value={run ?? ""} onChange={(event) => setQuery({ run: event.currentTarget.value })}>
        <option value="">no run</option>
        {[...runs, ...(run != null && !runs.includes(run) ? [run] : [])].map((id) => (
          <option key={id} value={id}>
            {clean(id)}
          </option>
        ))}
      </select>
    </label>
  );
}

// The focus goes back to what opened the panel, or else to the page's heading.
function useReturn(name: string | null) {
  const heading = useRef<HTMLHeadingElement>(null);
  const before = useRef(name);
  useEffect(() => {
    const left = before.current;
    before.current = name;
    if (name != null || left == null) return;
    const find = (which: string) => document.querySelector<HTMLElement>(which);
    const row = find(`tr[data-node="${CSS.escape(left)}"] .row-link`);
    (row ?? find(".node-map .cells") ?? heading.current)?.focus();
  }, [name]);
  return heading;
}

export function NodesView({ query }: { query: URLSearchParams }) {
  const look = lookOf(query);
  const name = query.get("node");
  const [all, setAll] = useState<NodePage | null>(null);
  const [newest, setNewest] = useState<NodePage | null>(null);
  const health = usePoll("all", kEveryAll, async (signal) => {
    const page = await nodesApi.all(signal);
    setAll((old) => (old === page ? old : page));
  });
  const latest = look === "table" ? (newest ?? all) : all; // only the table asks for the newest
  const isLocal = latest?.scheduler === "local";
  // One machine has no fabric to be shown unasked.
  const { machines, health: asking } = useTopology(look === "fabric" || (all != null && !isLocal));
  const known = { machines, failure: asking.failure };
  const findings = useFindings(machines != null);
  const byName = useMemo(() => new Map(all?.nodes.map((node) => [node.name, node])), [all]);
  const close = () => setQuery({ node: null });
  const heading = useReturn(name);
  useEffect(() => {
    document.title = "Nodes · Regatta";
  }, []);
  return (
    <>
      <div class="heading">
        <h1 ref={heading} tabIndex={-1}>
          Nodes
        </h1>
        {isLocal && <span class="small">without Slurm: the machine of the controller</span>}
        <Looks look={look} />
      </div>
      {look !== "table" && <Connection health={health} />}
      <Trouble text={latest?.trouble ?? null} />
      {asking.refusal && (
        <ErrorPanel title="The fabric cannot be shown" text={clean(asking.refusal.message)} />
      )}
      {all && <Summary all={all} />}
      {all && <Reservations list={all.reservations} />}
      {name != null && (
        <NodePanel name={name} machines={machines} findings={findings} onClose={close} />
      )}
      {look === "table" && <TableView query={query} onPage={setNewest} />}
      {look !== "table" && !all && !health.refusal && !health.failure && (
        <p class="loading">Loading nodes…</p>
      )}
      {look !== "table" && <Refused refusal={health.refusal} />}
      {look === "grid" && all && <GridView query={query} all={all} />}
      {look === "fabric" && all && (
        <>
          <RunChoice nodes={all.nodes} run={query.get("run")} />
          <FabricPart {...known} nodes={byName} run={query.get("run")} />
        </>
      )}
      {all && !isLocal && (
        <FreeTogether
          {...known}
          nodes={byName}
          isAsked={all.taken_at != null}
          partition={query.get("partition")}
        />
      )}
      <FindingsPart page={findings} />
    </>
  );
}
