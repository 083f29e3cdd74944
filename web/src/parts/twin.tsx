import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { save } from "../base/download";
import type { Table } from "./chart_data";
import { csvOf, fileName } from "./chart_data";
import { DataTable } from "./data_table";
import { Menu } from "./menu";

// What every drawing has beside it: its figures as a table, and both as files. The tools stand in
// its head, the table below it.
export function useTwin({
  title,
  file,
  table,
  picture,
  children,
}: {
  title: string;
  file?: string | undefined; // how the files' names begin
  table: () => Table;
  picture: () => Promise<Blob | null>;
  children?: ComponentChildren; // more of the menu
}): { tools: ComponentChildren; table: ComponentChildren } {
  const [open, setOpen] = useState(false);
  const [notSaved, setNotSaved] = useState(false);
  const place = useId();
  const name = (extension: string) => fileName(file ? `${file}-${title}` : title, extension);
  const saveTable = () =>
    save(new Blob([csvOf(table())], { type: "text/csv;charset=utf-8" }), name("csv"));
  const savePicture = async () => {
    const blob = await picture().catch(() => null); // too large for a canvas, for one
    setNotSaved(!blob);
    if (blob) save(blob, name("png"));
  };
  const tools = (
    <span class="chart-tools">
      <button
        type="button"
        class="quiet"
        aria-expanded={open}
        aria-controls={open ? place : undefined}
        aria-label={`Table: ${title}`}
        onClick={() => setOpen(!open)}
      >
        Table <span aria-hidden="true">{open ? "▴" : "▾"}</span>
      </button>
      <Menu
        label={
          <>
            Options<span class="visually-hidden">: {title}</span>
          </>
        }
      >
        {children}
        <button type="button" onClick={saveTable}>
          Save as CSV
        </button>
        <button type="button" onClick={() => void savePicture()}>
          Save as PNG
        </button>
        <span class="failure" role="status">
          {notSaved && "The browser could not draw it"}
        </span>
      </Menu>
    </span>
  );
  return {
    tools,
    table: open && (
      <div id={place}>
        <DataTable caption={title} table={table()} />
      </div>
    ),
  };
}
