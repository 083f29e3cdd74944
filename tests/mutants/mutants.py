#!/usr/bin/env python3
"""Plants small faults in the product and asks the test that is named for each whether it notices.

    tests/mutants/mutants.py                 a tenth of the faults, chosen by the date
    tests/mutants/mutants.py --all           all of them
    tests/mutants/mutants.py --only REGEX    those whose names match
    tests/mutants/mutants.py --check         only whether every fault still fits its file and its test exists
    tests/mutants/mutants.py --learn REGEX   runs whole test programs instead and prints which tests notice

A fault is an entry of tests/mutants/*.toml (README.md tells the keys). All faults of a file, and of those that are
compiled with it, are compiled into one object, each behind a switch that REGATTA_MUTANT turns on when the test
starts, and the object is linked into the test program in place of the real one: one build serves all faults, and
nothing of it reaches the product.
The last line is `N passed, N failed, N skipped`; a fault that survives has failed.
"""
import argparse
import concurrent.futures
import dataclasses
import datetime
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import compile_database  # noqa: E402
FOLDER = pathlib.Path(__file__).resolve().parent
CORES = os.cpu_count() or 1
TEST_SECONDS = 120  # a fault may make a test hang, which is one way of noticing it
KEYS = {"name", "file", "find", "replace", "test", "program"}

SWITCH = """#ifndef REGATTA_MUTANTS
#define REGATTA_MUTANTS
#include <cstdlib>
static inline bool regatta_mutant(int number) {
  static const int active = [] {
    const char* text = std::getenv("REGATTA_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return number == active;
}
#endif
#line 1 "%s"
"""


class Unfit(Exception):
    """A fault that does not fit: its text, its file or its test is not what the entry says."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int  # what REGATTA_MUTANT is for it, from 1
    name: str
    file: str     # of the product, from the root
    find: str     # stands once in the file
    replace: str
    program: str  # the test program that must notice
    test: str     # a filter of googletest: Suite.Case

    @property
    def is_statement(self):
        return self.find.rstrip().endswith((";", "}"))


# A guard or a value at the outermost level of a statement's text.
PART = re.compile(r"\A\s*(?:\?|:(?!:)|&&|\|\|)|(?:\?|(?<!:):|&&|\|\|)\s*\Z|;")
DECLARES = re.compile(r"\A\s*(?:const |static |constexpr )*(?!return\b|throw\b|delete\b|co_)[A-Za-z_][\w:]*(?:<[^;()]*>)?[&*]? \w+(?: = |\(|\{|;)")


def statements(text):
    """Those at the outermost level of a text of statements."""
    depth, begin, found = 0, 0, []
    for at, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if depth == 0 and letter in ";}":
            found.append(text[begin:at + 1])
            begin = at + 1
    return found


def read_mutants(folder=FOLDER):
    """All entries, in the order of file and place, so that neighbours share objects and programs."""
    entries = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text()).get("mutant", []):
            if set(entry) != KEYS:
                raise Unfit(f"{path.name}: {entry.get('name', 'an entry without a name')}: keys must be {', '.join(sorted(KEYS))}; "
                            f"differing: {', '.join(sorted(set(entry) ^ KEYS))}")
            entries.append(entry)
    names = [entry["name"] for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise Unfit(f"{name}: two faults have this name")
    entries.sort(key=lambda entry: (entry["program"], entry["file"], entry["name"]))
    return [Mutant(number, **entry) for number, entry in enumerate(entries, 1)]


def place(text, mutant):
    """Where the fault's text stands. Raises Unfit unless it stands there exactly once and would change something."""
    count = text.count(mutant.find)
    if count != 1:
        raise Unfit(f"{mutant.name}: {mutant.file} has its text {count} times, not once; `find` must be unique")
    if mutant.find.strip() == mutant.replace.strip():
        raise Unfit(f"{mutant.name}: `find` and `replace` are equal")
    begin = text.index(mutant.find)
    end = begin + len(mutant.find)
    if any(mutant.find.count(opens) != mutant.find.count(closes) for opens, closes in ("()", "{}", "[]")):
        raise Unfit(f"{mutant.name}: its text opens a bracket that it does not close, or the reverse; take the whole expression")
    if not mutant.is_statement and PART.search(mutant.find):
        raise Unfit(f"{mutant.name}: its text is a part of an expression or of a statement; take the whole one")
    before = text[:begin].rstrip()
    if mutant.find.lstrip().startswith("{") and before.endswith(("(", ",")):
        raise Unfit(f"{mutant.name}: its text is a list of initial values, which a switch cannot choose; take one of them")
    if mutant.is_statement and before.endswith(","):
        raise Unfit(f"{mutant.name}: its text is the end of a statement of several expressions; take the whole one")
    if mutant.is_statement and any(map(DECLARES.search, statements(mutant.find))) and not text[end:].lstrip().startswith("}"):
        raise Unfit(f"{mutant.name}: its text declares a name, which would end with the switch's block though the fault is off; "
                    "take the statements up to the end of its block, too")
    return begin, end


def with_switches(text, mutants):
    """The source with every fault behind its switch: a statement in an `if`, an expression in a `?:`."""
    spans = {}
    for mutant in mutants:
        spans.setdefault(place(text, mutant), []).append(mutant)
    result, end_before = [], 0
    for (begin, end), here in sorted(spans.items()):
        if begin < end_before:
            raise Unfit(f"{here[0].name}: its text overlaps that of another fault; give both the same `find`")
        original = text[begin:end]
        if here[0].is_statement:
            choice = "".join(f"if (regatta_mutant({m.number})) {{ {m.replace} }} else " for m in here) + f"{{ {original} }}"
        else:
            choice = "(" + "".join(f"regatta_mutant({m.number}) ? ({m.replace}) : " for m in here) + f"({original}))"
        result += [text[end_before:begin], choice]
        end_before = end
    return "".join(result) + text[end_before:]


def check(mutants):
    """Raises Unfit for the first fault that does not fit its file, or whose test is in no source of a test."""
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    for file, here in by_file.items():
        path = ROOT / file
        if not path.is_file() or path.suffix != ".cc":
            raise Unfit(f"{here[0].name}: {file} is not a source file of the product (.cc)")
        with_switches(path.read_text(), here)
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
    for mutant in mutants:
        suite, dot, case = mutant.test.partition(".")
        suites = "|".join(map(re.escape, suite.split("/")))  # of a parametrised test: Cases/Suite.Case/0, or Suite/0.Case
        if not dot or not re.search(rf"TEST\w*\(\s*({suites}),\s*{re.escape(case.split('/')[0])}\)", sources):
            raise Unfit(f"{mutant.name}: no test is called {mutant.test}")


class Builder:
    """Compiles mutated sources and links them into copies of the test programs of a finished build."""

    def __init__(self, build, mutants):
        self.build, self.folder = build, build.parent / "mutants"
        self.units = {}  # by file: what it is compiled with
        for unit in compile_database.units(build / "compile_commands.json"):
            for member in unit.members:
                self.units.setdefault(os.path.relpath(member, ROOT), unit)
        self.outputs = {pathlib.Path(line.split(":")[0]).name: line.split(":")[0] for line in
                        self.run(["ninja", "-t", "targets", "all"]).splitlines() if "EXECUTABLE_LINKER" in line}
        self.mutants = mutants

    def run(self, command):
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise Unfit(f"{shlex.join(command)[:200]}…\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def mutated(self, file):
        """The path of a copy of the file with its faults; the file's own where it has none."""
        here = [m for m in self.mutants if m.file == file]
        if not here:
            return ROOT / file
        source = self.folder / "source" / file
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(SWITCH % file + with_switches((ROOT / file).read_text(), here))
        return source

    def object_of(self, unit):
        name = os.path.relpath(unit.source, ROOT)
        sources = [self.mutated(os.path.relpath(member, ROOT)) for member in unit.members]
        source = sources[0]
        if unit.is_unity:
            source = self.folder / "source" / name
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text("".join(f'#include "{member}"\n' for member in sources))
        target = self.folder / "objects" / (name + ".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        words = shlex.split(unit.command)
        words[words.index("-o") + 1], words[words.index("-c") + 1] = str(target), str(source)
        cache = [found] if (found := shutil.which("ccache")) else []
        self.run([*cache, *words, "-w"])
        return target

    def compile(self):
        """One object a unit. Raises Unfit with the compiler's words for every unit whose faults do not compile."""
        files = sorted({m.file for m in self.mutants})
        for file in files:
            if file not in self.units:
                raise Unfit(f"{file}: is compiled by nothing in {self.build}")
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            waiting = {unit: pool.submit(self.object_of, unit) for unit in dict.fromkeys(self.units[file] for file in files)}
        unfit = [str(error) for objects in waiting.values() if (error := objects.exception())]
        if unfit:
            raise Unfit("\nfailed  ".join(unfit))
        self.objects = {file: waiting[self.units[file]].result() for file in files}

    def link(self, program):
        """The program with the mutated objects that its faults need."""
        if program not in self.outputs:
            return None
        words = shlex.split(self.run(["ninja", "-t", "commands", "-s", self.outputs[program]]))
        words = words[words.index("&&") + 1:]
        words = words[:words.index("&&")] if "&&" in words else words
        files = {m.file for m in self.mutants if m.program == program}
        real = [w for w in words if w.endswith(".o") and any(w.endswith("/" + pathlib.Path(f).name + ".o") and
                                                            w.split("CMakeFiles")[0] + pathlib.Path(f).name == f for f in files)]
        words = [w for w in words if w not in real]
        target = self.folder / "bin" / program
        target.parent.mkdir(parents=True, exist_ok=True)
        at = words.index("-o")
        words[at + 1] = str(target)
        words[at:at] = sorted({str(self.objects[file]) for file in files})
        self.run(words)
        return target


# Of the simulation: the first that shows a fault ends it, and which that is changes with every change of the controller.
WORLDS = "200"


def run_test(builder, mutant, number, whole=False):
    """The exit code and output of the test with a fault switched on (0: none). 124: it did not end."""
    command = [str(builder.folder / "bin" / mutant.program), "--gtest_color=no"]
    if not whole:
        command += [f"--gtest_filter={mutant.test}"]
    try:
        done = subprocess.run(command, cwd=(builder.build / builder.outputs[mutant.program]).parent, capture_output=True, text=True,
                              errors="replace", timeout=TEST_SECONDS, stdin=subprocess.DEVNULL,
                              env={**os.environ, "REGATTA_MUTANT": str(number), **({"REGATTA_WORLDS": WORLDS} if number else {})})
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as end:
        return 124, (end.stdout or b"").decode(errors="replace")


def judge(builder, mutant, sound):
    """passed: the test passes without the fault and fails with it."""
    code, output = sound
    if code != 0 or "Running 0 tests" in output:
        return "failed", f"{mutant.program} {mutant.test} does not pass without a fault (exit code {code})"
    if re.search(r"\[  SKIPPED \]", output) and not re.search(r"\[       OK \]", output):
        return "skipped", f"{mutant.test} is skipped here"
    code, output = run_test(builder, mutant, mutant.number)
    if code == 0:
        return "failed", f"survived {mutant.program} {mutant.test} ({mutant.file})"
    return "passed", ""


def learn(builder, mutants):
    """Prints which tests of the whole program notice each fault; of those only whose filter `test` is where it is one."""
    for mutant in mutants:
        code, output = run_test(builder, mutant, mutant.number, whole="*" not in mutant.test)
        found = dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/.]+)", output, re.M))
        print(f"{mutant.name}: exit code {code}; {' '.join(found) or ('survived' if code == 0 else output[-300:])}", flush=True)


def chosen(mutants, options):
    if options.only or options.learn:
        return [m for m in mutants if re.search(options.only or options.learn, m.name)]
    if options.all:
        return mutants
    day = datetime.date.today().toordinal() % 10  # neighbours share objects, so a day's tenth is one piece
    return mutants[day * len(mutants) // 10:(day + 1) * len(mutants) // 10]


def examine(builder, mutants):
    """Yields each fault with its outcome and why."""
    missing = {p for p in {m.program for m in mutants} if builder.link(p) is None}
    present = [m for m in mutants if m.program not in missing]
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        tests = {(m.program, m.test): m for m in present}
        sound = dict(zip(tests, pool.map(lambda m: run_test(builder, m, 0), tests.values())))
        outcomes = pool.map(lambda m: judge(builder, m, sound[m.program, m.test]), present)
        for mutant, (outcome, why) in zip(present, outcomes):
            yield mutant, outcome, why
    for mutant in mutants:
        if mutant.program in missing:
            yield mutant, "skipped", f"needs {mutant.program}, which is not built here"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument("--only", metavar="REGEX", help="those whose names match")
    parser.add_argument("--learn", metavar="REGEX", help="print which tests of the whole program notice them")
    parser.add_argument("--check", action="store_true", help="whether they still fit; builds nothing")
    parser.add_argument("--list", action="store_true", help="print faults and tests")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="a finished build")
    options = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        mutants = read_mutants()
        if not options.learn:
            check(mutants)
        if options.check or options.list:
            for mutant in mutants if options.list else []:
                print(f"{mutant.name}  {mutant.file}  {mutant.program}.{mutant.test}")
            print(f"{len(mutants)} faults fit")
            return 0
        mutants = chosen(mutants, options)
        builder = Builder(options.build.resolve(), mutants)
        builder.compile()
        if options.learn:
            for program in sorted({m.program for m in mutants}):
                builder.link(program)
            learn(builder, mutants)
            return 0
        for mutant, outcome, why in examine(builder, mutants):
            counts[outcome] += 1
            print(f"{outcome}  {mutant.name}{': ' + why if why else ''}", flush=True)
    except Unfit as error:
        print(f"failed  {error}")
        counts["failed"] += 1
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
