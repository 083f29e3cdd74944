import type { RefObject } from "preact";
import { experimentHash } from "../base/route";
import * as show from "../base/format";
import { Name } from "../parts/name";
import { PagedList } from "../parts/paged_list";
import { When } from "../parts/when";
import { Done, ExperimentBadge } from "./badges";
import type { ExperimentSummary } from "./experiments_api";
import { experimentsApi } from "./experiments_api";
import { goneWrong, progressOf } from "./figures";

const kWords = { view: "experiments", title: "Experiments", one: "experiment" };
const kHeads = ["Experiment", "Run file", "State", "Layouts", "Runs", "Begun", "Last change"];

function Row({ experiment }: { experiment: ExperimentSummary }) {
  const { id, name, planned, runs, finished, layouts } = experiment;
  const progress = progressOf(experiment);
  const wrong = goneWrong(experiment);
  return (
    <tr data-experiment={id}>
      <th scope="row">
        <a class="row-link" href={experimentHash(id)}>
          <Name text={id} />
        </a>
      </th>
      <td data-name="Run file">
        <Name text={name ?? show.kDash} />
      </td>
      <td data-name="State">
        <ExperimentBadge progress={progress} />
      </td>
      <td data-name="Layouts" class="layout-names">
        {layouts.map(show.drawnName).join(", ") || show.kDash}
      </td>
      <td data-name="Runs">
        <Done finished={finished} all={Math.max(planned ?? 0, runs)} progress={progress} />
        {wrong > 0 && <span class="small failure">{show.count(wrong)} did not succeed</span>}
      </td>
      <td data-name="Begun">
        <When at={experiment.begun} ago />
      </td>
      <td data-name="Last change">
        <When at={experiment.changed} ago />
      </td>
    </tr>
  );
}

function Nothing() {
  return (
    <section class="empty">
      <h2>No experiments</h2>
      <p>
        An experiment trains one run file in several layouts of ranks (replicas, pipeline stages)
        with several seeds, one run after another, and compares them in a table. Write layouts and
        seeds into the section <code>experiment</code> of the file and begin it.
      </p>
      <pre>
        <code>regatta experiment parallel FILE</code>
      </pre>
    </section>
  );
}

function Table({ experiments, place }: {
  experiments: ExperimentSummary[];
  place: RefObject<HTMLTableElement | null>;
}) {
  return (
    <table class="experiments dense cards" ref={place}>
      <thead>
        <tr>
          {kHeads.map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {experiments.map((experiment) => (
          <Row key={experiment.id} experiment={experiment} />
        ))}
      </tbody>
    </table>
  );
}

export function ExperimentsView({ query }: { query: URLSearchParams }) {
  return (
    <PagedList
      words={kWords}
      query={query}
      ask={experimentsApi.list}
      rowsOf={(page) => page.experiments}
      table={(page, place) => <Table experiments={page.experiments} place={place} />}
      nothing={<Nothing />}
    />
  );
}
