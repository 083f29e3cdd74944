"""What the stages of tests/gpu.sh share: their report, their time, and processes that end with them."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import threading
import time

import machine

GRACE = 15  # seconds that a stage leaves between its last part and its limit
LEAST = 5  # below which a part is not begun
KILLED = 10  # that a killed process may take to go: longer, and the driver holds it
RUNNING = set()  # processes of this process's stage


class Skip(Exception):
    """A stage that cannot run here, and why."""


class Report:
    """A stage's JSON; every change is on disk at once, whole. Parts side by side may share it."""

    def __init__(self, path, head):
        self.path, self.data, self.lock = pathlib.Path(path), head, threading.RLock()
        self.save()

    def save(self):
        with self.lock:
            scratch = self.path.with_suffix(".tmp")
            scratch.write_text(json.dumps(self.data, indent=1) + "\n")
            scratch.replace(self.path)

    def add(self, result):
        with self.lock:
            self.data["results"].append(result)
            self.save()

    def note(self, text):
        with self.lock:
            print(f"   {text}", flush=True)
            self.data["notes"].append(text)
            self.save()

    def fail(self, what):
        with self.lock:
            print(f"   FAILED: {what}", flush=True)
            self.data["failures"].append(what)
            self.save()


class Stage:
    """What a stage's parts share."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.bundle = pathlib.Path(options.bundle)
        self.on_gpu = options.device == "cuda"
        self.deadline = time.monotonic() + options.limit - min(GRACE, options.limit / 2)
        self.lengths = self.bundle / "data" / "lengths_wikipedia_512.csv"

    def remaining(self):
        return self.deadline - time.monotonic()

    def until(self, seconds, reserve=0):
        """The time at which a part of so many seconds ends, where `reserve` is left for those behind it, or half of what there
        is when that is less."""
        return min(time.monotonic() + seconds, self.deadline - min(reserve, self.remaining() / 2))

    def has_wgmma(self):
        """Warpgroup products are compute capability 9.0's alone."""
        return self.report.data["machine"].get("compute_capability") in ("9.0", "")

    def program(self, name):
        path = self.bundle / "bin" / name
        if not os.access(path, os.X_OK):
            raise FileNotFoundError(f"{path} is not in the bundle; make one with tests/gpu.sh --pack")
        return str(path)

    def run(self, arguments, limit, environment=None):
        """(exit code or None when the limit ended it, stdout, stderr); ends all that it started."""
        limit = min(limit, self.remaining(), self.options.part_limit)
        if limit <= 0:
            return None, "", "no time was left"
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = launch(arguments, stdout=out, stderr=err, env=environment or machine.program_environment(self.bundle))
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                code = None
            end_group(process)
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(errors="replace"), err.read().decode(errors="replace")

    def measure(self, name, arguments, limit, environment=None):
        """Runs a program that prints one JSON, and keeps it with its command. A stage that is out of time says so and has
        not failed by it, unless this is the first that it measures."""
        if self.remaining() < LEAST and self.has_measured():
            self.report.note(f"not measured, out of time: {name}")
            return None, ""
        start = time.monotonic()
        cut_off = min(limit, self.options.part_limit) > self.remaining() and self.has_measured()
        code, out, err = self.run(arguments, limit, environment)
        record = {"name": name, "command": shlex.join(map(str, arguments)), "seconds": round(time.monotonic() - start, 1)}
        try:
            if code == 0:
                record["result"] = json.loads(out)
        except json.JSONDecodeError as error:
            code = f"0, but its output is no JSON ({error})"
        if "result" not in record:
            why = "ran into its time limit" if code is None else f"exit code {code}"
            record["error"] = f"{why}: {err.strip()[-1500:]}"
            last = (err.strip().splitlines() or [""])[-1]
            if code is None and cut_off:
                record["error"] = f"out of time after {record['seconds']} s"
                self.report.note(f"cut off, out of time after {record['seconds']} s: {name}")
            else:
                self.report.fail(f"{name}: {why}: {last[-300:]}")
        self.report.add(record)
        return record.get("result"), err

    def has_measured(self):
        return any("result" in record for record in self.report.data["results"])


def end_group(process):
    """Ends what is left of a process that was started with its own session. False where it does not go, as when the
    driver waits for a kernel that never ends."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    RUNNING.discard(process)
    try:
        process.wait(timeout=KILLED)
    except subprocess.TimeoutExpired:
        return False
    return True


def launch(arguments, **more):
    """A process with a session of its own, which ends with this one if that is asked to end."""
    process = subprocess.Popen(list(map(str, arguments)), stdin=subprocess.DEVNULL, start_new_session=True, **more)
    RUNNING.add(process)
    return process


def end_all(*_):
    for process in list(RUNNING):
        end_group(process)
    os._exit(143)
