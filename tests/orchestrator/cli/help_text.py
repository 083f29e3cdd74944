"""What `regatta --help` says, and how a test of it runs one of its cases."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REGATTA = pathlib.Path(sys.argv[1]) / "orchestrator" / "regatta"
SKIPPED = 77  # what ctest is told to count as skipped


class Missing(Exception):
    """A program that the case needs is not installed. The second argument is what REQUIRE calls it."""


def need(program, requirement="shells"):
    if not shutil.which(program):
        raise Missing(f"needs {program}; apt-get install {program}", requirement)


def run(*words, **options):
    return subprocess.run([REGATTA, *words], capture_output=True, text=True, timeout=60, check=True, **options).stdout


class Help:
    """What the program's help says of a command: its options, the words that each allows, its parts."""

    def __init__(self, path):
        self.path, self.choices, self.takes_value, self.operands = path, {}, set(), []
        self.text = run(*path, "--help") if path != ("sbatch",) else ""
        self.parts = []
        part = ""
        for line in self.text.split("\n"):
            if re.match(r"\S.*:$", line):
                part = line
            option = re.match(r"  (-[\w,-]+)(?: ([^ ]\S*))?", line)
            word = re.match(r"  (\S+)", line)
            if part == "Positionals:" and word:
                self.operands.append(word[1])
            elif part == "Options:" and option:
                for name in option[1].split(","):
                    value = (option[2] or "").split("=")[0]
                    self.choices[name] = value.split("|") if "|" in value or value == "mlperf" else []
                    if value and not line[len(option[1]) + 2:].startswith("  "):
                        self.takes_value.add(name)
            elif part not in ("Options:", "Positionals:", "Examples:", "") and word:
                self.parts.append(word[1])


@functools.lru_cache
def commands():
    """Of every command: the words that name it. The program itself is ()."""
    all_of_them = {(): Help(())}
    for name in all_of_them[()].parts:
        all_of_them[name,] = Help((name,))
        for part in all_of_them[name,].parts:
            all_of_them[name, part] = Help((name, part))
    assert len(all_of_them) > 30 and ("ckpt", "verify") in all_of_them, list(all_of_them)
    assert sum(len(each.choices) for each in all_of_them.values()) > 200
    return all_of_them


def main(cases, folder_of):
    """Runs the case that the second argument names, in what `folder_of` makes of a new folder."""
    case = {each.__name__: each for each in cases}[sys.argv[2]]
    with tempfile.TemporaryDirectory() as name:
        try:
            case(folder_of(pathlib.Path(name)))
        except Missing as missing:
            why, requirement = missing.args
            print(f"skipped: {case.__name__} {why}")
            return 1 if requirement in os.environ.get("REQUIRE", "").split(",") else SKIPPED
    print("passed")
    return 0
