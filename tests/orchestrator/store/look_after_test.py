#!/usr/bin/env python3
"""What `regatta serve` does beside everything else: it rolls up old steps, removes old exports and checks its pages.

    look_after_test.py BUILD      a build folder with regatta

The last line is `N passed, N failed, N skipped`.
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, OverSocket, conclude, run_cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
FIRST_LOOK = ["--first-look", "0.2"]
DAY = 86400
CHECKPOINT = "step-0000000007-aaaa"


class Served:
    """A controller on `folder` while the block lasts, with these files of defaults."""

    def __init__(self, folder, user="", site=""):
        self.data = folder / "data"
        environment = {**os.environ, **NO_DEFAULTS}
        for variable, text in (("REGATTA_CONFIG", user), ("REGATTA_SITE_CONFIG", site)):
            if text:
                path = folder / (variable + ".yaml")
                path.write_text(text)
                path.chmod(0o600)
                environment[variable] = str(path)
        self.process = subprocess.Popen(
            [BUILD / "orchestrator" / "regatta", "serve", "--allow-privileged", "--port", "0", "--data", self.data,
             "--scheduler", "local", "--trainer", "/bin/false", *FIRST_LOOK],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        assert self.process.stdout.readline(), "it did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(120)

    def ask(self, method, path, body=None):
        connection = OverSocket(self.data / "controller.sock")
        with contextlib.closing(connection):
            connection.request(method, "/api/v1" + path, body)
            return json.loads(connection.getresponse().read())


def eventually(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def store(folder):
    connection = sqlite3.connect(folder / "data" / "store.sqlite", timeout=30)
    connection.isolation_level = None
    return contextlib.closing(connection)


def ended_run(folder):
    """A run that has ended three days ago, with 6,000 steps of two seconds each; its id and its directory."""
    with Served(folder) as served:
        run = served.ask("POST", "/runs", "name: old\nsteps: 6000\ndata: {path: /nowhere}\n")["id"]
        served.ask("POST", f"/runs/{run}/cancel")
        eventually(lambda: served.ask("GET", f"/runs/{run}")["ended_at"] is not None)
        directory = pathlib.Path(served.ask("GET", f"/runs/{run}")["directory"])
    with store(folder) as rows:
        rows.execute("BEGIN")
        rows.execute("UPDATE runs SET ended_utc = ?, drained = 1, settled = 1", (time.time() - 3 * DAY,))
        number = rows.execute("SELECT number FROM runs").fetchone()[0]
        rows.execute("INSERT INTO attempts(row, run, number, execution, started) VALUES(1000, ?, 1000, 'x', 1)", (number,))
        rows.executemany("INSERT INTO steps(cursor, run, attempt, sequence, step, seconds, loss, place) VALUES(?, ?, 1000, ?, ?, ?, 1, ?)",
                         [(10000 + i, number, i, i, 2 * i, i) for i in range(1, 6001)])
        # Blocks of which no figure is known: a mask of none.
        rows.executemany("INSERT INTO step_blocks VALUES(1000, 10, ?, ?, ?, ?, ?, 5, ?, ?, x'00000000')",
                         [(i, i + 4, 10000 + i + 4, i, i + 4, 2 * i, 2 * i + 8) for i in range(1, 6001, 5)])
        rows.execute("COMMIT")
    return run, directory


def resolution(folder):
    with store(folder) as rows:
        found = rows.execute("SELECT resolution FROM run_resolutions").fetchone()
        return found and found[0], rows.execute("SELECT count(*) FROM steps").fetchone()[0]


METRICS = "metrics: {{raw_days: {}, ten_second_days: 90, minute_days: 365}}\n"


def old_steps_are_rolled_up_as_the_file_says(folder):
    ended_run(folder)
    with Served(folder, user=METRICS.format(1)):
        eventually(lambda: resolution(folder) == (10, 1))


def the_users_file_is_before_that_of_the_site(folder):
    ended_run(folder)
    with Served(folder, user=METRICS.format(30), site=METRICS.format(1)):
        time.sleep(1.5)  # several times as long as until its first look
        assert resolution(folder) == (None, 6000), resolution(folder)
    with Served(folder, site=METRICS.format(1)):
        eventually(lambda: resolution(folder) == (10, 1))


def steps_of_three_days_stay_where_no_file_says_more(folder):
    ended_run(folder)
    with Served(folder):
        time.sleep(1.5)
    assert resolution(folder) == (None, 6000), resolution(folder)


def old_exports_go_as_the_file_says(folder):
    run, directory = ended_run(folder)
    export = directory / "exports" / CHECKPOINT
    export.mkdir(parents=True)
    (export / "config.json").write_text("{}")
    with store(folder) as rows:
        rows.execute("INSERT INTO events(utc, kind, run, checkpoint, node, actor, words) VALUES(?, 'checkpoint.exported', ?, ?, '', "
                     "'token', '')", (time.time() - 3 * DAY, run, CHECKPOINT))
    for days in (4, None):
        with Served(folder, user=f"exports: {{keep_days: {days}}}\n" if days else ""):
            time.sleep(1.5)
        assert export.is_dir(), f"it is younger than {days} days, or nobody has said any"
    with Served(folder, user="exports: {keep_days: 2}\n") as served:
        eventually(lambda: not export.exists())
        removals = "/events?kind=checkpoint.export_removed"  # which is written after it
        eventually(lambda: served.ask("GET", removals)["events"])
        (event,) = served.ask("GET", removals)["events"]
        assert event["run"] == run and event["checkpoint"] == CHECKPOINT and not event["by"], event


def a_damaged_page_is_told_of(folder):
    ended_run(folder)
    with Served(folder) as served:
        eventually(lambda: served.ask("GET", "/health")["status"] == "ok")
    with store(folder) as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = rows.execute("PRAGMA page_size").fetchone()[0]
        page = rows.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'warnings_of_run'").fetchone()[0]
    with open(folder / "data" / "store.sqlite", "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"Z" * 512)
    with Served(folder) as served:
        eventually(lambda: served.ask("GET", "/health")["status"] == "degraded")
        (check,) = [check for check in served.ask("GET", "/health")["checks"] if check["name"] == "store"]
        assert not check["good"] and "the store is damaged (table warnings" in check["detail"], check
        assert len(served.ask("GET", "/runs")["runs"]) == 1, "what can be read is served"


CASES = [old_steps_are_rolled_up_as_the_file_says, the_users_file_is_before_that_of_the_site,
         steps_of_three_days_stay_where_no_file_says_more, old_exports_go_as_the_file_says, a_damaged_page_is_told_of]


def in_its_folder(case):
    def run():
        with tempfile.TemporaryDirectory(prefix="regatta-look-after-") as name:
            case(pathlib.Path(name))
    run.__name__ = case.__name__
    return run


if __name__ == "__main__":
    sys.exit(conclude(run_cases("look_after", [in_its_folder(case) for case in CASES])))
