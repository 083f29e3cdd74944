import * as show from "../base/format";
import { CopyButton } from "../parts/copy_button";
import { DownloadButton } from "../parts/download";
import type { Experiment, FigureKey, Layout, Published } from "./experiments_api";
import { experimentPath, experimentsApi, markdownPath } from "./experiments_api";
import { bestOf, cellOf, figuresOf, kFigures, meanOf, notesOf, publishedText } from "./figures";
import { fetchFile } from "../base/download";

const clean = show.withoutEscapes;

function FigureCell({ layout, of, isBest }: { layout: Layout; of: FigureKey; isBest: boolean }) {
  const figure = meanOf(layout, of);
  const title = kFigures[of].title;
  if (!figure) {
    return (
      <td class="num none" data-name={title}>
        {show.kDash}
      </td>
    );
  }
  const { mean, deviation } = cellOf(of, figure);
  return (
    <td class={isBest ? "num best" : "num"} data-name={title}>
      {isBest && (
        <>
          <span aria-hidden="true">★ </span>
          <span class="visually-hidden">best: </span>
        </>
      )}
      {mean}
      {deviation !== "" && <span class="small">{deviation}</span>}
      {figure.runs !== layout.succeeded && <span class="small">n = {show.count(figure.runs)}</span>}
    </td>
  );
}

function shapeText({ ranks, pipeline, schedule }: Layout): string {
  const stages = pipeline > 1 ? `, ${show.count(pipeline)} stages, ${clean(schedule ?? "")}` : "";
  return `${show.count(ranks)} rank${ranks === 1 ? "" : "s"}${stages}`;
}

function LayoutRow({ layout, figures, best }: {
  layout: Layout;
  figures: FigureKey[];
  best: Map<FigureKey, Layout[]>;
}) {
  const failed = layout.failed.length;
  return (
    <tr>
      <th scope="row">
        {show.drawnName(layout.name)}
        <span class="small">{shapeText(layout)}</span>
      </th>
      <td class="num" data-name="Runs">
        {show.count(layout.succeeded)}
        {failed > 0 && <span class="small failure">{show.count(failed)} left out</span>}
      </td>
      {figures.map((key) => (
        <FigureCell
          key={key}
          layout={layout}
          of={key}
          isBest={best.get(key)?.includes(layout) ?? false}
        />
      ))}
    </tr>
  );
}

function PublishedRows({ published, figures }: { published: Published; figures: FigureKey[] }) {
  return (
    <tbody class="published">
      <tr>
        <th scope="rowgroup" colSpan={2 + figures.length}>
          As published, not measured here: {clean(published.what)}, on {clean(published.hardware)}
        </th>
      </tr>
      {published.layouts.map((layout) => (
        <tr key={layout.name}>
          <th scope="row">{show.drawnName(layout.name)}</th>
          <td class="num none" data-name="Runs">
            {show.kDash}
          </td>
          {figures.map((key) => (
            <td
              key={key}
              class={layout.figures[key] == null ? "num none" : "num"}
              data-name={kFigures[key].title}
            >
              {publishedText(key, layout.figures[key])}
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}

const kNever = new AbortController().signal;

// The same table for a document or a program.
function Copies({ experiment }: { experiment: Experiment }) {
  const { experiment: id } = experiment;
  const markdown = async () => (await fetchFile(markdownPath(id), kNever, () => undefined)).text();
  const json = async () => JSON.stringify(await experimentsApi.experiment(id, kNever), null, 2);
  return (
    <span class="copies">
      <CopyButton text={markdown} label=" of the table" shown="Copy Markdown" />
      <CopyButton text={json} label=" of the table" shown="Copy JSON" />
      <DownloadButton
        path={markdownPath(id)}
        name={`experiment-${id}.md`}
        bytes={0}
        text="Download Markdown"
        label="of the table"
      />
      <DownloadButton
        path={experimentPath(id)}
        name={`experiment-${id}.json`}
        bytes={0}
        text="Download JSON"
        label="of the table"
      />
    </span>
  );
}

export function LayoutTable({ experiment }: { experiment: Experiment }) {
  const { layouts, published, agreement, loss_samples: samples } = experiment;
  const figures = figuresOf(experiment);
  const best = new Map(figures.map((key) => [key, bestOf(key, layouts)]));
  const titleOf = (key: FigureKey) =>
    key === "validation_loss" && samples != null
      ? `Validation loss after ${show.count(samples)} samples`
      : kFigures[key].title;
  return (
    <section class="view-part" aria-label="Layouts">
      <div class="buckets-head">
        <h2>Layouts</h2>
        <Copies experiment={experiment} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Layouts, table">
        <table class="layouts dense cards">
          <thead>
            <tr>
              <th scope="col">Layout</th>
              {["Runs", ...figures.map(titleOf)].map((head) => (
                <th key={head} scope="col" class="num">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {layouts.map((layout) => (
              <LayoutRow key={layout.name} {...{ layout, figures, best }} />
            ))}
          </tbody>
          <PublishedRows {...{ published, figures }} />
        </table>
      </div>
      <ul class="sentences small">
        <li>
          Mean ± sample standard deviation over seeds, of the runs that succeeded. ★: the best mean
          of its column, but for figures that a layout does not change.
        </li>
        {[...agreement.sentences, ...notesOf(experiment)].map((sentence) => (
          <li key={sentence}>{show.clipped(sentence)}</li>
        ))}
        <li>
          {clean(published.note)} <code>{clean(published.link)}</code> says why.
        </li>
      </ul>
    </section>
  );
}
