import { useNow } from "../base/poll";
import * as show from "../base/format";

const kAgeMilliseconds = 15_000; // ages are told in minutes

// A moment: how long ago, or the reader's own time; the title has that and UTC, which `full` tells
// those who cannot point at it, too.
export function When({
  at,
  ago = false,
  full: isFull = false,
}: {
  at: string | null | undefined;
  ago?: boolean;
  full?: boolean;
}) {
  const now = useNow(ago && at != null, kAgeMilliseconds);
  if (at == null) return <>{show.kDash}</>;
  const full = `${show.when(at)} here, ${show.utc(at)}`;
  const time = (
    <time dateTime={at} title={full}>
      {ago ? show.ago(at, now) : show.when(at)}
    </time>
  );
  if (!isFull) return time;
  return (
    <>
      {time} <span class="small utc">{show.utc(at)}</span>
    </>
  );
}
