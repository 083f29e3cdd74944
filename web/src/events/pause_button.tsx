// A list that grows by itself stands still while the reader wants it to.
export function PauseButton({
  paused,
  onChange,
}: {
  paused: boolean;
  onChange: (paused: boolean) => void;
}) {
  return (
    <button type="button" class="quiet" onClick={() => onChange(!paused)}>
      {paused ? "Go on" : "Pause"}
    </button>
  );
}
