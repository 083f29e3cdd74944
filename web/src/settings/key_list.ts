// Keys of views that are not there now, as `?` tells them when they are; those of everywhere are
// known.
export const kKeysOf: { where: string; keys: [string, string][] }[] = [
  {
    where: "The list of runs",
    keys: [
      ["/", "Search runs"],
      ["j", "Next run"],
      ["k", "Previous run"],
      ["x", "Select the run"],
      ["Escape", "Select nothing"],
    ],
  },
  {
    where: "A run",
    keys: [
      ["l", "Log of the run"],
      ["]", "Next tab"],
      ["[", "Tab before"],
      ["Escape", "Back to the runs"],
    ],
  },
  { where: "Events", keys: [[".", "Show new events"]] },
  { where: "Submit", keys: [["mod+enter", "Submit the run"]] },
];

export const shownKey = (keys: string) =>
  keys === "Escape" ? "Esc" : keys.replace("mod+", "Ctrl ").replace("enter", "Enter");
