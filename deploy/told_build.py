#!/usr/bin/env python3
"""Runs a build command and tells how far it is, in place of a line per file; what else it prints comes through.

    deploy/told_build.py cmake --build --preset release --target regatta
"""
import os
import re
import subprocess
import sys
import time

STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
SECONDS_OF_STEP = 2.5  # of one core, for a file of this project, as measured: for before there is a better figure
FIRST_TOLD, TOLD_EVERY = 20, 15  # seconds; on a terminal the line is rewritten with every step


def words(seconds):
    return f"{max(10, round(seconds, -1)):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Progress:
    def __init__(self):
        self.begin = time.monotonic()
        self.told = self.begin + FIRST_TOLD - TOLD_EVERY
        self.total, self.open = 0, False
        self.cores = len(os.sched_getaffinity(0))

    def step(self, done, total):
        now = time.monotonic()
        if not self.total and total > 20:
            print(f"{total} steps on {self.cores} core{'s' if self.cores > 1 else ''}: about "
                  f"{words(total * SECONDS_OF_STEP / self.cores)}, unless a cache knows them", flush=True)
        self.total = total
        text = f"built {done} of {total}"
        passed = now - self.begin
        if passed >= FIRST_TOLD and done < total:
            text += f", {words(passed)} so far, about {words(passed / done * (total - done))} left"
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


def main():
    build = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             env={**os.environ, "NINJA_STATUS": "[%f/%t] "})
    progress = Progress()
    try:
        for line in build.stdout:
            found = STEP.match(line)
            if found:
                progress.step(int(found[1]), int(found[2]))
            else:
                progress.close()
                print(line, end="", flush=True)
        code = build.wait()
    except KeyboardInterrupt:
        progress.close()
        build.wait()
        return 130
    progress.close()
    if code == 0 and progress.total > 20:
        print(f"built in {words(time.monotonic() - progress.begin)}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
