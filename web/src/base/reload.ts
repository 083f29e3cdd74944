// A script that could not be loaded stays so until the page is loaded anew, and after an update of
// the controller its scripts have other names.
const kKey = "regatta-reloaded"; // when that was done by itself, in ms
const kPause = 60_000;

function wasJustDone(): boolean {
  try {
    return Date.now() - Number(sessionStorage.getItem(kKey) ?? 0) < kPause;
  } catch {
    return true; // no storage: it could be done without an end
  }
}

// Loads the page anew, where somebody answers, and that was not just done.
export async function reloadOnce() {
  if (wasJustDone()) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) return;
    sessionStorage.setItem(kKey, String(Date.now()));
    location.reload();
  } catch {
    // Nobody answers: what is shown is more than the browser would show.
  }
}
