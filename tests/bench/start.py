#!/usr/bin/env python3
"""How soon `regatta serve` answers with many run directories that its store does not know. Prints JSON.

    tests/bench/start.py [--runs 100000] [--directory DIR]

Fails when the first answer takes over 2 s, or an old run is ever shown as queued.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from served import OverSocket  # noqa: E402

BUILD = pathlib.Path(os.environ.get("REGATTA_BINARY_DIR", ROOT / "build" / "release"))
REGATTA = BUILD / "orchestrator" / "regatta"
RUN = json.dumps({"name": "old", "steps": 10, "data": {"path": "/nowhere"}})
END = '{"sequence": 1, "utc_seconds": %f, "seconds": 5, "type": "end", "reason": "steps", "exit_code": 0}\n'
START = ('{"sequence": 0, "utc_seconds": %f, "seconds": 0, "type": "start", "attempt": 1, "execution": "%016x", '
         '"process": 1, "host": "elsewhere", "steps": 10, "batch_size": 1}\n')


def get(path, target):
    connection = OverSocket(path)
    connection.request("GET", target)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def make_old_run(runs, number):
    created = 1.7e9 + number
    directory = runs / f"old-{number:06d}"
    attempt = directory / "attempts" / f"1-{number:016x}"
    attempt.mkdir(parents=True)
    (directory / "run.json").write_text(RUN)
    (directory / "submission.json").write_text(
        json.dumps({"id": directory.name, "created_utc": created, "wanted": "run", "body_digest": ""}))
    (directory / "state.json").write_text(
        json.dumps({"state": "succeeded", "ended_utc": created + 5, "failures": 0, "progress_step": -1, "launch": 1}))
    (attempt / "journal.jsonl").write_text(START % (created, number) + END % (created + 5))


def remove(work):
    """Several at a time, as one by one a disk takes fifteen times as long."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for run in (work / "runs").iterdir():
            pool.submit(shutil.rmtree, run, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100000)
    parser.add_argument("--directory", type=pathlib.Path)
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="regatta-start-", dir=options.directory))
    runs, data = work / "runs", work / "data"
    runs.mkdir(mode=0o700)
    for number in range(options.runs):
        make_old_run(runs, number)
    trainer = work / "trainer"
    trainer.write_text("#!/bin/sh\nexit 1\n")
    trainer.chmod(0o700)
    results = {"benchmark": "start", "runs": options.runs}
    begin = time.monotonic()
    server = subprocess.Popen(
        [REGATTA, "serve", "--allow-privileged", "--port", "0", "--data", data, "--runs", runs, "--trainer", trainer,
         "--scheduler", "local"], stdout=subprocess.DEVNULL, stderr=open(work / "log", "wb"), start_new_session=True)
    queued = slowest = 0
    try:
        while True:
            try:
                version = get(data / "controller.sock", "/api/v1/version")
                break
            except (OSError, http.client.HTTPException):
                assert server.poll() is None, (work / "log").read_text()[-2000:]
                assert time.monotonic() - begin < 120, "no answer"
                time.sleep(0.005)
        results["first_answer_seconds"] = time.monotonic() - begin
        while not version["adoption"]["done"]:
            asked = time.monotonic()
            queued += len(get(data / "controller.sock", "/api/v1/runs?state=queued")["runs"])
            version = get(data / "controller.sock", "/api/v1/version")
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.2)
        results["all_adopted_seconds"] = time.monotonic() - begin
        results["slowest_pair_of_answers_seconds"] = slowest
        results["shown_as_queued"] = queued
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
        results["peak_megabytes"] = int(status.split("VmHWM:")[1].split()[0]) / 1000
        results["adopted"] = version["adoption"]["read"]
    finally:
        server.terminate()
        server.wait(60)
        remove(work)
    print(json.dumps(results, indent=2))
    good = results["first_answer_seconds"] <= 2 and queued == 0 and results["adopted"] == options.runs
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
