#!/usr/bin/env -S python3 -IS
"""The no-op trainer of tests/slurm for any scheduler: what it does stands in the run's slurm.environment, and a disk
that is full is no end for good.

    chaos_trainer.py run --directory RUN [--ranks 1 …]
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "slurm"))
import noop_trainer  # noqa: E402

RETRY = 22


def main():
    arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    sys.argv[2:] = ["--directory", arguments["--directory"], "--ranks", "1"]
    try:
        run = json.loads((pathlib.Path(arguments["--directory"]) / "run.json").read_text())
        os.environ.update(run["slurm"]["environment"])
        noop_trainer.main()
    except OSError:
        os._exit(RETRY)  # without a word: the log is on the same disk, and Python then ends with 120


if __name__ == "__main__":
    main()
