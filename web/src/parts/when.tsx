import { useNow } from "../base/poll";
import * as show from "../base/format";

const kAgeMilliseconds = 15_000; // ages are told in minutes

// A moment: how long ago, or the reader's own time; the title has that and UTC.
export function When({ at, ago = false }: { at: string | null | undefined; ago?: boolean }) {
  const now = useNow(ago && at != null, kAgeMilliseconds);
  if (at == null) return <>{show.kDash}</>;
  const full = `${show.when(at)} here, ${show.utc(at)}`;
  return (
    <time dateTime={at} title={full}>
      {ago ? show.ago(at, now) : show.when(at)}
    </time>
  );
}
