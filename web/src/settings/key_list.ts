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
      ["c", "Compare the selected runs"],
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
  {
    where: "Log of a run",
    keys: [
      ["/", "Search in the log"],
      ["f", "Follow the log, or pause"],
      ["e", "First error of the log"],
      ["n", "Next line found"],
      ["N", "Line found before"],
    ],
  },
  {
    where: "Compare",
    keys: [
      ["a", "Add a run to the comparison"],
      ["d", "Only differences, or everything"],
      ["Escape", "All lines, then back to the runs"],
    ],
  },
  {
    where: "Sweeps",
    keys: [
      ["j", "Next sweep"],
      ["k", "Sweep before"],
    ],
  },
  {
    where: "A sweep",
    keys: [
      ["j", "Next trial"],
      ["k", "Trial before"],
      ["x", "Select the trial"],
      ["c", "Compare the selected trials"],
      ["Escape", "Back to the sweeps"],
    ],
  },
  {
    where: "Experiments",
    keys: [
      ["j", "Next experiment"],
      ["k", "Experiment before"],
    ],
  },
  {
    where: "An experiment",
    keys: [
      ["j", "Next run"],
      ["k", "Previous run"],
      ["Escape", "Back to the experiments"],
    ],
  },
  {
    where: "Nodes",
    keys: [
      ["/", "Search nodes"],
      ["j", "Next node"],
      ["k", "Node before"],
      ["Escape", "Close the node"],
    ],
  },
  { where: "Events", keys: [[".", "Show new events"]] },
  { where: "Submit", keys: [["mod+enter", "Submit the run"]] },
];

export const shownKey = (keys: string) =>
  keys === "Escape" ? "Esc" : keys.replace("mod+", "Ctrl ").replace("enter", "Enter");
