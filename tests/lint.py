#!/usr/bin/env python3
"""Checks layout, C++ and shell scripts with clang-format, clang-tidy and shellcheck.

    tests/lint.py format                 all tracked C++ and CUDA files, by .clang-format
    tests/lint.py shellcheck             all tracked shell scripts, by name or first line
    tests/lint.py clang-tidy [--all]     product files that changed, or all of them, by .clang-tidy

Changed is what differs from where the branch left its upstream or main, on main itself from the commit before the
last; of a header, a source that includes it. More than 40 files are checked with --all only: without it 40 of them
are, chosen by the date. With --all they are read as the build compiles them, several at once: in a third of the time.
clang-tidy takes the commands of build/release/compile_commands.json; test code and what only nvcc compiles is not
checked. What was found clean is not looked at again while it, all that it includes, its command, the rules and the
versions of the tools stay the same: build/lint/clean remembers it.

Prints `file:line:column: error: …` per finding; a line `skipped: …` tells what was not checked. Exit code 1 when
something is found, 77 when nothing could be checked; with `lint` in REQUIRE that is a failure.
"""
import argparse
import concurrent.futures
import datetime
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

from compile_database import units, write_plain

CORES = os.cpu_count() or 1
PRODUCT = ("base/", "topology/", "checkpoint/", "trainer/", "orchestrator/")
MOST_CHANGED = 40  # about 70 s on two cores
LLVM = "14"  # each version of clang-format has a layout of its own, each of clang-tidy its own findings


class Unable(Exception):
    """Nothing can be checked; the text says what is needed."""


def program(name, version=None):
    for candidate in (f"{name}-{version}", name) if version else (name,):
        if not shutil.which(candidate):
            continue
        told = subprocess.run([candidate, "--version"], capture_output=True, text=True).stdout
        if version is None or re.search(rf"version {version}\.", told):
            return candidate
    raise Unable(f"needs {name}{' ' + version if version else ''}; `deploy/install.sh test` installs it")


def git(root, *arguments):
    """The names or the one line that git prints; None where it fails."""
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unable("needs git") from error
    return done.stdout if done.returncode == 0 else None


def tracked(root):
    listed = git(root, "ls-files", "-z")
    if listed is None:
        raise Unable("needs a git checkout: only tracked files are checked")
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def in_parallel(command, names, root, chunk, ended=lambda names, is_clean: None):
    """The lines that the command prints, which gets `chunk` files at a time, and whether it failed for any."""
    def one(start):
        done = subprocess.run([*command, *names[start:start + chunk]], cwd=root, capture_output=True, text=True)
        ended(names[start:start + chunk], done.returncode == 0 and not findings(done.stdout.splitlines(), root, False))
        return done.stdout + done.stderr, done.returncode != 0
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        results = list(pool.map(one, range(0, len(names), chunk)))
    return [line for text, _ in results for line in text.splitlines()], any(failed for _, failed in results)


def findings(lines, root, failed):
    """Each finding once, with its path from the root; what a tool says when it cannot work is one, too."""
    prefix = re.escape(f"{root}/")
    found = [re.sub(f"^{prefix}", "", line).replace(": warning: ", ": error: ") for line in lines
             if re.match(r"[^\s:][^:]*:\d+:\d+: (fatal )?(error|warning): |error: ", line)]
    if failed and not found:
        found = [line for line in lines if line.strip()][:20] or ["error: the tool failed without a message"]
    def place(line):
        name, *numbers = line.split(":")[:3]
        return name, [int(number) if number.isdigit() else 0 for number in numbers], line
    return sorted(set(found), key=place)


def check_format(root):
    tool = program("clang-format", LLVM)
    names = [name for name in tracked(root) if name.endswith((".h", ".cc", ".cu", ".cuh"))]
    lines, failed = in_parallel([tool, "--dry-run", "-Werror", "--style=file"], names, root, 32)
    found = findings(lines, root, failed)
    first = {line.split(":")[0]: line for line in reversed(found)}
    found = list(reversed(first.values()))  # of each file its first
    misformatted = sorted(name for name, line in first.items() if "clang-format-violations" in line)
    if misformatted:
        found.append(f"mend with: {tool} -i {' '.join(misformatted)}")
    return names, found, []


def is_shell(path):
    if path.suffix:
        return path.suffix == ".sh"
    with path.open("rb") as file:
        return re.match(rb"#!\s*\S*/(env (-S )?)?(ba|da)?sh\b", file.readline(200)) is not None


def check_shell(root):
    tool = program("shellcheck")
    names = [name for name in tracked(root) if is_shell(root / name)]
    # From info on, where an unquoted variable is; SC2317 takes what a trap calls for unreachable.
    lines, failed = in_parallel([tool, "--severity=info", "--exclude=SC2317", "--format=gcc"], names, root, 8)
    return names, findings([line.replace(": note: ", ": error: ", 1) for line in lines], root, failed), []


def changed(root):
    """Tracked and new files that differ from where the work began; None where the history does not go so far."""
    head = git(root, "rev-parse", "HEAD")
    bases = (git(root, "merge-base", "HEAD", other) for other in ("@{upstream}", "origin/HEAD", "main"))
    base = next((b for b in bases if b and b != head), None) or git(root, "rev-parse", "--verify", "-q", "HEAD~1")
    if base is None:
        return None
    listed = [git(root, "diff", "-z", "--name-only", base.strip()), git(root, "ls-files", "-z", "--others", "--exclude-standard")]
    return {name for text in listed for name in (text or "").split("\0") if name}


def sources_of(root, names, compiled):
    """Of what changed, the sources that are compiled: themselves, and for a header one that includes it."""
    chosen = {name for name in names if name in compiled}
    headers = {name for name in names if name.endswith(".h") and name.startswith(PRODUCT) and (root / name).is_file()}
    beside = {header: header[:-2] + ".cc" for header in headers}
    chosen |= {source for source in beside.values() if source in compiled}
    alone = {header for header, source in beside.items() if source not in compiled}
    for source in [*sorted(chosen), *sorted(compiled - chosen)]:
        if not alone:
            break
        included = alone & set(re.findall(r'#include "([^"]+)"', (root / source).read_text(errors="replace")))
        if included:
            chosen.add(source)
            alone -= included
    return sorted(chosen)


class Clean:
    """What was found clean before, as empty files named by a digest of all that the checker reads: it is not looked at again."""

    def __init__(self, root, call):
        self.root, self.folder = root, root / "build" / "lint" / "clean"
        self.folder.mkdir(parents=True, exist_ok=True)
        versions = [subprocess.run([name, "--version"], capture_output=True, text=True).stdout for name in (call[0], "c++")]
        self.common = "\0".join([*call, *versions, *((root / name).read_text() for name in (".clang-tidy", "tests/lint.py")
                                              if (root / name).is_file())])
        self.read = {}  # of each file its text's digest and the files that it includes

    def included(self, path, folders):
        """Of a file, itself and all that it includes by quotes, however deep; those of the system stand by their version."""
        found, due = {}, [path]
        while due:
            path = due.pop()
            if path in found:
                continue
            if path not in self.read:
                text = path.read_bytes()
                self.read[path] = hashlib.sha256(text).hexdigest(), re.findall(rb'^\s*#\s*include "([^"]+)"', text, re.M)
            found[path] = self.read[path][0]
            for name in self.read[path][1]:
                places = (folder / name.decode() for folder in (path.parent, *folders))
                due += [place.resolve() for place in places if place.is_file()][:1]
        return found

    def mark(self, name, command):
        """The file that says that `name` is clean as it is now."""
        folders = [pathlib.Path(text) for text in re.findall(r"(?:-I|-isystem) ?(\S+)", command)]
        read = self.included((self.root / name).resolve(), folders)
        told = "\0".join([self.common, command, *(f"{path} {digest}" for path, digest in sorted(read.items()))])
        return self.folder / hashlib.sha256(told.encode()).hexdigest()


def check_cpp(root, everything):
    tool = program("clang-tidy", LLVM)
    database = root / "build" / "release" / "compile_commands.json"
    if not database.is_file():
        raise Unable("needs build/release/compile_commands.json, which `deploy/build.sh` leaves")
    plain = root / "build" / "lint"
    commands = {os.path.relpath(entry["file"], root): entry["command"] for entry in write_plain(database, plain)}
    compiled = {name for name in commands if name.startswith(PRODUCT) and (root / name).is_file()}
    headers = f"--header-filter=^{re.escape(str(root))}/({'|'.join(PRODUCT)})"  # those of tests that stand in for CUDA's are left out
    names, skips = sorted(compiled), []
    if everything:
        return names, unseen(root, [tool, "-p", str(database.parent), "--quiet", headers, "--checks=-bugprone-suspicious-include"],
                              {os.path.relpath(unit.source, root): unit.command for unit in units(database)
                               if any(os.path.relpath(member, root) in compiled for member in unit.members)}), skips
    differing = changed(root)
    names = names if differing is None else sources_of(root, differing, compiled)
    if len(names) > MOST_CHANGED:
        skips = [f"{len(names) - MOST_CHANGED} of {len(names)} changed files; --all checks all"]
        day = datetime.date.today().isoformat()
        names = sorted(names, key=lambda name: hashlib.sha256(f"{day} {name}".encode()).digest())[:MOST_CHANGED]
    return names, unseen(root, [tool, "-p", str(plain), "--quiet", headers], {name: commands[name] for name in names}), skips


def unseen(root, call, commands):
    """What the checker finds in those of the sources that were not found clean as they are."""
    clean = Clean(root, call)
    marks = {name: clean.mark(name, command) for name, command in commands.items()}

    def ended(checked, is_clean):
        if is_clean:
            marks[checked[0]].touch()
    lines, failed = in_parallel(call, [name for name in commands if not marks[name].exists()], root, 1, ended)
    return findings(lines, root, failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["format", "shellcheck", "clang-tidy"])
    parser.add_argument("--all", action="store_true", help="all product files, for clang-tidy")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent, help="the checkout")
    options = parser.parse_args()
    root = options.root.resolve()
    try:
        names, found, skips = {"format": lambda: check_format(root), "shellcheck": lambda: check_shell(root),
                               "clang-tidy": lambda: check_cpp(root, options.all)}[options.check]()
    except Unable as reason:
        needed = "lint" in os.environ.get("REQUIRE", "").split(",")
        print(f"{'error' if needed else 'skipped'}: {reason}")
        return 1 if needed else 77
    lines = found + [f"skipped: {skip}" for skip in skips]
    count = sum(": error: " in line for line in found)
    print("\n".join([*lines, f"{options.check}: {count} findings in {len(names)} files"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
