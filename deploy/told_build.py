#!/usr/bin/env python3
"""Runs a build command and tells how far it is, in place of a line per file; what else it prints comes through.

    deploy/told_build.py cmake --build --preset release --target regatta

Its exit code is the command's; 128 and the signal's number where a signal ended that, and 127 where there is none.
"""
import os
import re
import signal
import subprocess
import sys
import time

STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
SECONDS_OF_STEP = 2.0  # of one core, for a file of this project, as measured: for before there is a better figure
FIRST_TOLD, TOLD_EVERY = 20, 15  # seconds; on a terminal the line is rewritten with every step
FEWEST = 20  # steps that are worth a word


def words(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Progress:
    def __init__(self):
        self.begin = time.monotonic()
        self.told = self.begin + FIRST_TOLD - TOLD_EVERY
        self.total, self.open = 0, False
        self.cores = len(os.sched_getaffinity(0))

    def step(self, done, total):
        now = time.monotonic()
        if not self.total and total > FEWEST:
            print(f"{total} steps on {self.cores} core{'s' if self.cores > 1 else ''}: about "
                  f"{words(max(10, total * SECONDS_OF_STEP / self.cores))}, unless a cache knows them", flush=True)
        self.total = total
        text = f"built {done} of {total}"
        passed = now - self.begin
        if passed >= FIRST_TOLD and done < total:
            text += f", {words(passed)} so far, about {words(passed / max(1, done) * (total - done))} left"
        if sys.stdout.isatty():
            print(f"\r\033[K{text}", end="", flush=True)
            self.open = True
        elif now >= self.told + TOLD_EVERY and done < total:
            self.told = now
            print(text, flush=True)

    def close(self):
        if self.open:
            print(flush=True)
        self.open = False


def follow(build, progress):
    for line in build.stdout:
        found = STEP.match(line)
        if found:
            progress.step(int(found[1]), int(found[2]))
        else:
            progress.close()
            print(line, end="", flush=True)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stdout if len(sys.argv) > 1 else sys.stderr)
        return 0 if len(sys.argv) > 1 else 2
    sys.stdout.reconfigure(errors="replace")
    try:
        build = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                 env={**os.environ, "NINJA_STATUS": "[%f/%t] "})
    except OSError as error:
        print(f"deploy/told_build.py: cannot run {sys.argv[1]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: build.send_signal(number))
    signal.signal(signal.SIGINT, lambda *_: None)  # the command has it, too, and ends as it likes
    progress = Progress()
    follow(build, progress)
    code = build.wait()
    progress.close()
    if code < 0:
        print(f"{sys.argv[1]} was ended by {signal.Signals(-code).name}", flush=True)
        return 128 - code
    if code == 0 and progress.total > FEWEST:
        print(f"built in {words(time.monotonic() - progress.begin)}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
