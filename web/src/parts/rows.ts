// Moves the focus among the rows' links; where none has it, to the first or the last.
export function stepRows(table: HTMLElement | null, by: 1 | -1) {
  const links = [...(table?.querySelectorAll<HTMLElement>(".row-link") ?? [])];
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((link) => link.closest("tr") === row);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
}
