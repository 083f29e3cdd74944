"""What the users of one controller did, what they were shown, and the comparison of both at the end."""
import contextlib
import datetime
import json
import pathlib
import random
import re
import threading
import time

from controller import OVER
from noop import run_file

import surroundings
from serving import Gone

MOST_MEMORY, MOST_DESCRIPTORS = 300, 200  # MiB; of a controller
LATEST_START = 1.5  # seconds after a run's end at which an attempt may still seem to begin
SUBMISSION_SECONDS = 80  # after which nothing is left of a submission that a kill cut off
EARLY_END = "attempts ended early without progress"

# What a run is told, what becomes of it, and how many of ten are of its kind.
KINDS = {
    "plain": ({"ends": "0"}, "succeeded", 2),
    "longer": ({"ends": "0", "steps": 40}, "succeeded", 1),
    "again": ({"ends": "22 0"}, "succeeded", 1),
    "goes_on": ({"ends": "25 25 0"}, "succeeded", 1),
    "fails": ({"ends": "20"}, "failed", 1),
    "refuses": ({"ends": "21"}, "failed", 1),
    "cancelled": ({"ends": "0", "steps": 3000}, "cancelled", 2),
    "killed": ({"ends": "0", "steps": 50}, "succeeded", 1),
}


class Submitted:
    """A run as its owner knows it."""

    def __init__(self, name, kind, key, twice):
        self.name, self.kind, self.key, self.twice = name, kind, key, twice
        self.ids, self.unanswered, self.cancelled, self.lock = set(), 0, False, threading.Lock()

    @property
    def options(self):
        return KINDS[self.kind][0]


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Story:
    """One controller, what its users did, and what they were shown."""

    def __init__(self, controller, dice, number, victims):
        self.controller, self.faults, self.dice = controller, controller.faults, dice
        kinds = [kind for kind, (_, _, weight) in KINDS.items() for _ in range(weight)]
        self.runs = []
        for i in range(number):
            kind = kinds[i % len(kinds)]
            # One that is to be cancelled must be known: cut off without a key it would train for minutes.
            key = f"key-{controller.name}-{i}" if dice.random() < 0.6 or kind == "cancelled" else None
            self.runs.append(Submitted(f"{controller.name}-{i}", kind, key, key and dice.random() < 0.5))
        self.victims = {run.name for run in dice.sample(self.runs, victims)}  # whose directories get strange files
        self.over, self.known = {}, {}  # id to (state, ended_at); name to id
        self.seen_over = {}  # id to when it was first shown as over
        self.lock, self.extra = threading.Lock(), 0

    def submit(self, run, stop):
        """As a client that goes on until there is an answer; without a key only after a refusal."""
        body, headers = run_file(run.name, **{"steps": 5, **run.options}), {"Idempotency-Key": run.key} if run.key else {}
        while True:
            try:
                status, answer = self.controller.ask("POST", "/runs", body, headers)
            except Gone:
                status, answer = 0, None
            if status in (200, 201):
                with run.lock:
                    run.ids.add(answer["id"])
                    if len(run.ids) > 1 and run.key:
                        self.faults.add(f"{run.name}: one key, two runs: {run.ids}")
                self.known[run.name] = answer["id"]
                return
            if status == 0 and not run.key:
                run.unanswered += 1
                return
            if status not in (0, 503, 507, 500, 429):
                self.faults.add(f"{run.name} is refused: {status}: {answer}")
                return
            if stop.wait(0.3):
                return

    def cancel(self, run, stop):
        told = False
        while not stop.wait(0.3):
            with contextlib.suppress(Gone):
                status, answer = self.controller.ask("POST", f"/runs/{self.known[run.name]}/cancel")
                if status in (200, 202):
                    run.cancelled = True
                    return
                # 404: its directory was not read yet, after its store was removed.
                if status not in (404, 503, 429) and not told:
                    told = True
                    self.faults.add(f"cancelling {run.name}: {status}: {answer}")

    def live(self, run, begin, end, stop):
        """The owner of one run."""
        dice = random.Random(f"{run.name} {begin}")
        if stop.wait(dice.uniform(0, max(0.1, 0.75 * (end - begin) - 3))):
            return
        twins = [threading.Thread(target=self.submit, args=(run, stop)) for _ in range(2 if run.twice else 1)]
        for twin in twins:
            twin.start()
        for twin in twins:
            twin.join()
        if run.name not in self.known:
            return
        if run.kind == "cancelled":
            stop.wait(dice.uniform(0, 4))
            self.cancel(run, stop)

    def look(self):
        """What is over stays over, and nothing that was acknowledged is missing."""
        acknowledged, starts = set(self.known.values()), len(self.controller.downs)
        adopted = self.controller.is_adopted()
        status, answer = self.controller.ask("GET", "/runs?limit=1000&full=true")
        if status != 200:
            return None
        if len(self.controller.downs) != starts:
            return None  # two controllers have answered
        shown = {run["id"]: run for run in answer["runs"]}
        if adopted and acknowledged - set(shown):
            self.faults.add(f"acknowledged and not shown: {sorted(acknowledged - set(shown))}")
        for name, run in shown.items():
            with self.lock:
                before = self.over.get(name)
                if before is None:
                    if run["state"] in OVER:
                        self.over[name] = (run["state"], run["ended_at"])
                        self.seen_over[name] = time.monotonic()
                elif run["state"] != before[0]:
                    self.faults.add(f"{name} was {before[0]} since {before[1]} and is {run['state']} ({run['state_text']}, "
                                    f"{run.get('error')})")
                    self.over[name] = (run["state"], run["ended_at"])
                elif not run["ended_at"] or abs(seconds_of(run["ended_at"]) - seconds_of(before[1])) > 1:
                    # state.json follows the store at the next visit: with both lost in between only the journal tells when.
                    if run["ended_at"] and any(0 <= lost - self.seen_over[name] < 1 for lost in self.controller.lost_stores):
                        self.over[name] = (run["state"], run["ended_at"])
                        continue
                    self.faults.add(f"{name} was {before[0]} since {before[1]} and now since {run['ended_at']}")
                    self.over[name] = (run["state"], run["ended_at"])
        return shown if adopted else None

    def watch(self, stop):
        while not stop.wait(0.3):
            with contextlib.suppress(Gone):
                self.look()
            self.controller.look_at_resources()

    def wait_all_over(self, seconds):
        deadline, shown = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            with contextlib.suppress(Gone):
                shown = self.look() or shown
                if shown and all(run["state"] in OVER for name, run in shown.items() if name not in self.of_victims()):
                    return shown
            time.sleep(0.3)
        for run in (shown or {}).values():
            if run["state"] not in OVER:
                self.faults.add(f"{run['id']} has not ended: {run['state_text']}, {run.get('error')}")
        return shown or {}

    def of_victims(self):
        return {self.known[name] for name in self.victims if name in self.known}

    def compare(self, shown, excused):
        """excused: early ends may have been too many, since disks were full and trainers were killed."""
        many = 0
        for run in self.runs:
            found = [row for row in shown.values() if row["name"] == run.name]
            least, most = len(run.ids), len(run.ids) + (0 if run.key else run.unanswered)
            if not least <= len(found) <= max(most, 1 if run.key else 0):
                self.faults.add(f"{run.name}: {len(found)} runs, acknowledged {sorted(run.ids)}, {run.unanswered} unanswered")
            for row in found:
                early = excused and row["state"] == "failed" and EARLY_END in (row.get("error") or "")
                many += early
                expected = KINDS[run.kind][1]
                if run.name in self.victims or early or row["state"] == expected or row["id"] not in run.ids:
                    continue
                if run.kind == "cancelled" and not run.cancelled:
                    continue
                self.faults.add(f"{row['id']} ({run.kind}) is {row['state']}: {row.get('error')}, and not {expected}")
        for row in shown.values():
            self.compare_with_its_directory(row)
        states = [row["state"] for row in shown.values()]
        print(f"{self.controller.name}: {len(shown)} runs: " + ", ".join(f"{states.count(s)} {s}" for s in OVER) +
              f"; {sum(run.cancelled for run in self.runs)} cancelled by request, {many} with too many early ends; answers "
              f"{dict(sorted(self.controller.answers.items()))}", flush=True)

    def compare_with_its_directory(self, row):
        directory = pathlib.Path(row["directory"])
        begins = []
        for journal in directory.glob("attempts/*/journal.jsonl"):
            if not journal.is_symlink() and journal.is_file():
                with contextlib.suppress(ValueError, IndexError):
                    begins.append(json.loads(journal.read_text().splitlines()[0])["utc_seconds"])
        ended = self.over.get(row["id"])
        if ended and ended[1] and begins and max(begins) > seconds_of(ended[1]) + LATEST_START:
            self.faults.add(f"{row['id']} was {ended[0]} since {ended[1]}, and an attempt began "
                            f"{max(begins) - seconds_of(ended[1]):.1f} s later")

    def compare_temporaries(self):
        """What a killed controller left is removed at the next start; a submission that was begun, after a minute."""
        runs, up = self.controller.data / "runs", time.monotonic() - self.controller.downs[-1][2]
        left = [path for path in runs.rglob("*.tmp-*") if path.parent != runs or
                min(up, time.time() - path.stat().st_mtime) > SUBMISSION_SECONDS]
        if left:
            self.faults.add(f"temporary files are left: {[str(path.relative_to(runs)) for path in left[:5]]}")

    def compare_leftovers(self):
        self.compare_temporaries()
        with contextlib.suppress(OSError):
            time.sleep(0.5)
            zombies = set(surroundings.zombies_of(self.controller.process.pid))
            time.sleep(2)  # one that ended this moment is reaped at the next visit
            zombies &= set(surroundings.zombies_of(self.controller.process.pid))
            if zombies:
                self.faults.add(f"{self.controller.name} has zombies: {zombies}")
        self.controller.look_at_resources()
        memory, descriptors = self.controller.most_memory, self.controller.most_descriptors
        starts = [down[2] - down[1] for down in self.controller.downs]
        print(f"{self.controller.name}: {len(starts)} starts, at most {max(starts):.1f} s until the first answer; "
              f"at most {memory:.0f} MiB, {descriptors} descriptors", flush=True)
        if memory > MOST_MEMORY or descriptors > MOST_DESCRIPTORS:
            self.faults.add(f"{self.controller.name} had {memory:.0f} MiB and {descriptors} descriptors")
        for line in self.controller.log.read_text(errors="replace").splitlines():
            if re.search(r"\bERROR\b.*(internal|developer)|terminate called|Assertion|Sanitizer|invariant", line):
                self.faults.add(f"{self.controller.name} logged: {line}")
