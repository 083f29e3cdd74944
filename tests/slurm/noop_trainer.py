#!/usr/bin/env -S python3 -IS
"""Obeys the contract of `regatta-train run` (trainer/contract/README.md) on one rank, and trains nothing.

The run's slurm.environment says what it does:
  NOOP_ENDS   exit codes of the run's executions, in the order of their epochs; the last one repeats
  NOOP_STEPS  steps of an execution                      (3)
  NOOP_PAUSE  seconds between two steps                  (0.1)

Whatever it writes into the journal it also tells in the file `writers` of the run directory, one line
"epoch execution type" each, under O_APPEND: the order of its lines shows whether two wrote at once.
"""
import json
import os
import pathlib
import secrets
import signal
import sys
import time

FENCED, STOPPED, CONTINUE = 23, 24, 25
REASONS = {0: "steps", STOPPED: "stopped", CONTINUE: "deadline"}
STOPS = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}


def numbers(folder):
    """Leading numbers of the names in a folder."""
    return [int(name.partition("-")[0]) for name in os.listdir(folder) if name[:1].isdigit()]


def take_epoch(directory):
    while True:
        epoch = max(numbers(directory / "epoch"), default=0) + 1
        try:
            os.close(os.open(directory / "epoch" / str(epoch), os.O_CREAT | os.O_EXCL, 0o600))
            return epoch
        except FileExistsError:
            pass


class Fenced(Exception):
    """A newer execution has the run."""


class Attempt:
    def __init__(self, directory):
        self.directory = directory
        number = max(numbers(directory / "attempts"), default=0) + 1
        self.execution = secrets.token_hex(8)
        folder = directory / "attempts" / f"{number}-{self.execution}"
        (folder / "logs").mkdir(parents=True)
        self.epoch = take_epoch(directory)
        self.began, self.sequence, self.step = time.monotonic(), 0, self.newest_checkpoint()
        steps = json.loads((directory / "run.json").read_text())["steps"]
        self.journal = self.open(folder / "journal.jsonl")
        self.writers = self.open(directory / "writers")
        self.write("start", attempt=number, execution=self.execution, epoch=self.epoch, process=os.getpid(),
                   host=os.uname().nodename, version="no-op", steps=steps, batch_size=1, ranks=1, ranks_per_node=1,
                   device="none", first_step=self.step, metric="mlm_accuracy")

    @staticmethod
    def open(path):
        return os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def newest_checkpoint(self):
        names = os.listdir(self.directory / "checkpoints")
        return max((int(name.split("-")[1]) for name in names if name.startswith("step-")), default=0)

    def write(self, kind, **fields):
        if max(numbers(self.directory / "epoch")) > self.epoch:
            raise Fenced()
        record = {"sequence": self.sequence, "utc_seconds": time.time(), "seconds": time.monotonic() - self.began,
                  "type": kind, **fields}
        self.sequence += 1
        os.write(self.writers, f"{self.epoch} {self.execution} {kind}\n".encode())
        os.write(self.journal, (json.dumps(record) + "\n").encode())

    def checkpoint(self):
        name = f"step-{self.step:010d}"
        if (self.directory / "checkpoints" / name).exists():
            return
        (self.directory / "checkpoints" / name).mkdir()
        self.write("checkpoint", step=self.step, name=name, status="written", bytes=0)

    def train(self, steps, pause):
        """True unless it was asked to stop."""
        for _ in range(steps):
            # Stopped and continued meanwhile, Python's call returns a signal that is none.
            sent = signal.sigtimedwait(STOPS, pause)
            if sent and sent.si_signo in STOPS:
                return False
            self.step += 1
            self.write("step", step=self.step, loss=1.0, samples=1, tokens=1, step_seconds=pause)
        return True

    def run(self):
        ends = [int(word) for word in os.environ.get("NOOP_ENDS", "0").split()]
        code = ends[min(self.epoch, len(ends)) - 1]
        if not self.train(int(os.environ.get("NOOP_STEPS", "3")), float(os.environ.get("NOOP_PAUSE", "0.1"))):
            code = STOPPED
        if code in REASONS:
            self.checkpoint()
        message = "" if code in REASONS else f"told to end with {code}"
        self.write("end", reason=REASONS.get(code, "failed"), step=self.step, exit_code=code, message=message)
        return code


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    assert sys.argv[1] == "run" and arguments["--ranks"] == "1", sys.argv
    try:
        code = Attempt(pathlib.Path(arguments["--directory"])).run()
    except Fenced:
        code = FENCED
    word = os.environ.get("REGATTA_EXIT_FILE")
    if not word:
        sys.exit(code)
    pathlib.Path(word).write_text(f"{code}\n")


if __name__ == "__main__":
    main()
