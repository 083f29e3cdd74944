#!/usr/bin/env python3
"""Checks the rules of the house that a machine can check. Prints `file:line: message` per finding.

    tests/tidy.py [ROOT]       exit code 1 when something is found
"""
import os
import pathlib
import re
import sys
import unicodedata

import rooms

FOLDERS = ["base", "topology", "checkpoint", "trainer", "orchestrator"]  # each sees those before it
SKIPPED = {"build", "node_modules", "demo", "dist", ".git", "out", "__pycache__", ".ccache"}
# `bench plan` plans with what it measures on the ranks themselves.
TRAINER_SEES = ("topology/plan/", "topology/nccl/")
# Commands ask the controller through its API: only those that are one, or that work on its store while none runs, see it.
CONTROLLER_ROOMS = ("orchestrator/store/", "orchestrator/control/")
IS_CONTROLLER = ("orchestrator/cli/serve_command.cc", "orchestrator/cli/backup_command.cc")
SHARED_WITH_COMMANDS = ("orchestrator/control/request_key.h",)  # what a key may be, which a command says before it asks
MAX_LINES, MAX_COLUMNS, MAX_FUNCTION = 600, 100, 70
# header → where it may be included; a prefix ending in "/" is a folder
HEAVY = {
    "spdlog/": ["base/log.cc"],
    "yaml-cpp/": ["base/document.cc"],
    "pugixml": ["topology/graph/xml.cc"],
    "CLI/": ["orchestrator/", "trainer/"],
    "re2/": ["orchestrator/control/log_search.cc"],
    "httplib.h": ["orchestrator/api/exchange.cc"],
    "sqlite3.h": ["orchestrator/", "tests/orchestrator/"],
    "curl/": ["orchestrator/", "tests/orchestrator/"],
    "xxhash.h": ["base/", "trainer/data/"],
    "dnnl": ["trainer/cpu/"],
    "omp.h": ["trainer/cpu/"],
    "mpi.h": ["trainer/mpi/"],
    "cuda": ["trainer/cuda/", "tests/trainer/cuda/"],
    "cublas": ["trainer/cuda/", "tests/trainer/cuda/"],
    "nccl.h": ["trainer/cuda/", "trainer/nccl/"],
}
# A plug-in of NCCL's has no main: the environment is all that reaches it.
READS_ENVIRONMENT = r"(main|cli\w*|client\w*|rendezvous)\.cc$|^topology/tuner/plugin\.cc$"
BANNED = [
    (r"#include <(format|expected|source_location)>", "this header is not in every supported compiler"),
    (r"\bstd::views::", "views do not compile with clang 14"),
    (r"\b(TO[D]O|FIX[M]E|X[X]X)\b", "an unfinished place"),
    (r"\busing namespace std\b", "names come with their namespace"),
    (r"\b(system|popen)\(", "processes start by argument vector (base/process.h)"),
    (r"\bDISABLED[_]", "a disabled test"),
]

# Device code compiles with nvcc and as plain C++ on an emulated GPU, so what only one of the two
# understands stays in one place, and what needs seconds to parse stays out.
DEVICE_CODE = (".cu", ".cuh")
DEVICE_BANNED_HEADERS = ("nlohmann/", "spdlog/", "yaml-cpp/", "base/log.h", "base/document.h")
DEVICE_BANNED = [
    (r"<<<", "kernels start through launch() (trainer/cuda/kernels/launch.cuh)"),
    (r"\b(asm|__asm__|__asm)\b", "assembly belongs in wgmma.cuh and ptx.cuh only"),
    (r"#include <(thrust|cub|cooperative_groups)\b", "the emulated GPU has no such library"),
]


def walk(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not SKIPPED & set(relative.parts[:-1]):
            yield relative


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def check_include(name, header):
    """Why `name` may not include the project's `header`, or nothing."""
    folder, target = name.split("/")[0], header.split("/")[0]
    if folder not in FOLDERS or target not in FOLDERS:
        return "tests are not included by the product" if folder in FOLDERS and target == "tests" else None
    if FOLDERS.index(target) > FOLDERS.index(folder):
        return f"{folder} may not see {target} (base < topology < checkpoint < trainer < orchestrator)"
    if folder == "orchestrator" and target == "trainer" and not header.startswith("trainer/contract/"):
        return "orchestrator sees only trainer/contract/ of the trainer"
    if folder == "trainer" and target == "topology" and not header.startswith(TRAINER_SEES):
        return "the trainer sees only topology/plan/ and topology/nccl/ of topology"
    if name.startswith("trainer/contract/") and target == "trainer" and not header.startswith("trainer/contract/"):
        return "trainer/contract/ sees nothing else of the trainer"
    if (name.startswith("orchestrator/cli/") and name not in IS_CONTROLLER and header.startswith(CONTROLLER_ROOMS)
            and header not in SHARED_WITH_COMMANDS):
        return "a command asks the controller through its API; only serve and backup see store/ and control/"
    return None


def check_rooms(name, header):
    product = name.split("/")[0] in FOLDERS and header.split("/")[0] in FOLDERS
    return rooms.against_order(name, header) if product else None


def check_code(name, text, report):
    if name.split("/")[0] in FOLDERS and rooms.room_of(name) is None:
        report(name, 1, "in no room; tests/rooms.py lists them")
    generated = "generated" in text[:300].lower()
    lines = text.splitlines()
    if len(lines) > MAX_LINES and not generated:
        report(name, len(lines), f"{len(lines)} lines; look for the missing concept (limit {MAX_LINES})")
    if name.endswith((".h", ".cuh")) and "#pragma once" not in text:
        report(name, 1, "a header starts with #pragma once")
    if not generated and name.split("/")[0] in FOLDERS:  # a test may be one long table
        check_functions(name, lines, report)
    if name.endswith(DEVICE_CODE):
        check_device_code(name, lines, report)
    for number, line in enumerate(lines, 1):
        columns = sum(not unicodedata.combining(character) for character in line)
        if columns > MAX_COLUMNS and not generated and "http" not in line:
            report(name, number, f"{columns} columns (limit {MAX_COLUMNS})")
        included = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if included:
            header = included[1]
            why = check_include(name, header) or check_rooms(name, header)
            if why:
                report(name, number, why)
            for heavy, places in HEAVY.items():
                if header.startswith(heavy) and not any(
                    name == place or (place.endswith("/") and name.startswith(place)) for place in places
                ):
                    report(name, number, f"<{header}> belongs in {', '.join(places)} only")
            if header == "nlohmann/json.hpp" and name.endswith(".h"):
                report(name, number, "headers use nlohmann/json_fwd.hpp")
        for pattern, why in BANNED:
            if re.search(pattern, line):
                report(name, number, why)
        if "getenv(" in line and name.split("/")[0] in FOLDERS and not re.search(READS_ENVIRONMENT, name):
            report(name, number, "the environment is read in main, the command line and rendezvous only")


def check_functions(name, lines, report):
    """A function outside of a class starts and ends in the first column, as clang-format leaves it."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "}" and start is not None:
            if number - start + 1 > MAX_FUNCTION:
                report(name, start, f"a function of {number - start + 1} lines (limit {MAX_FUNCTION})")
            start = None
        elif re.match(r"[A-Za-z_]", line) and not re.match(r"(namespace|using|template|public|private)\b", line):
            start = number


def check_device_code(name, lines, report):
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for pattern, why in DEVICE_BANNED:
            if re.search(pattern, code) and not (name.endswith(("/ptx.cuh", "/wgmma.cuh")) and "ptx.cuh" in why):
                report(name, number, why)
        included = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if included and included[1].startswith(DEVICE_BANNED_HEADERS):
            report(name, number, f"device code does not include {included[1]}")


def check_tree(root, names, report):
    lists = {n: read(root / n) for n in names if n.endswith("CMakeLists.txt")}
    for name in names:
        if name.endswith((".cc", ".cu")):
            stem, parent = pathlib.PurePosixPath(name).name, pathlib.PurePosixPath(name).parent
            listed = False
            for folder in [parent, *parent.parents]:
                text = lists.get(str(folder / "CMakeLists.txt"), "")
                listed = listed or re.search(r"(^|[\s/(])" + re.escape(stem) + r"($|[\s)])", text) is not None
            listed = listed or any(f"../{stem}" in t for n, t in lists.items() if n.startswith(f"{parent}/"))
            listed = listed or any(f"../{parent.name}/{stem}" in t for n, t in lists.items()
                                   if n.startswith(f"{parent.parent}/"))
            if not listed:
                report(name, 1, "in no CMakeLists.txt, so never built")
    for name, text in lists.items():
        if "file(GLOB" in text:
            report(name, 1, "sources are listed, not globbed")
    for folder in FOLDERS + ["web", "tests", "trainer/contract", "trainer/data", "trainer/cpu", "trainer/cuda", "deploy"]:
        if (root / folder).is_dir() and f"{folder}/README.md" not in names:
            report(folder, 1, "every folder has a README.md")


README_LINES = 150  # a page; the first one, of the whole project, has fewer
FIRST_README_LINES = 120


def slug(title):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def code_in_lists(lines):
    """Numbers of the lines that Markdown takes for prose: behind an item of a list code is indented by four more than its text."""
    in_list, fenced, before = False, False, "text"
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line:
            before = before if fenced else ""
            continue
        if re.match(r"- |\d+\. ", line):
            in_list = True
        elif not line.startswith(" ") and before == "":
            in_list = False
        elif in_list and before == "" and re.match(r" {4}(?! {2}|- |\d)", line):
            yield number
        before = line


def check_pages(root, names, report):
    """Lengths, code that shows as code, and links within the project that lead somewhere."""
    pages = {n: read(root / n) for n in names if n.endswith(".md")}
    anchors = {n: {slug(title) for title in re.findall(r"^#+ (.*)$", text, re.M)} for n, text in pages.items()}
    for name, text in pages.items():
        lines = text.splitlines()
        most = FIRST_README_LINES if name == "README.md" else README_LINES
        if name.endswith("README.md") and len(lines) > most:
            report(name, len(lines), f"{len(lines)} lines in a README (at most {most}); what is longer belongs in docs/")
        for number in code_in_lists(lines):
            report(name, number, "code in a list is indented by four more than the list's text")
        for number, line in enumerate(lines, 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                full = os.path.normpath(pathlib.PurePosixPath(name).parent / path) if path else name
                if not (root / full).exists():
                    report(name, number, f"there is no {full}")
                elif anchor and full in anchors and anchor not in anchors[full]:
                    report(name, number, f"{full} has no heading for #{anchor}")


PUBLIC_TYPE = re.compile(r"(?:struct|class|enum(?: class)?|union) (\w+)(?: final)?(?: *[:{].*)?$|using (\w+) =")


def check_types(root, names, report):
    """A public type has a name of its own within its layer, whatever its room's namespace."""
    first = {}  # (layer, type) → where it is defined
    for name in names:
        if name.split("/")[0] not in FOLDERS or not name.endswith(".h"):
            continue
        for number, line in enumerate(read(root / name).splitlines(), 1):
            found = PUBLIC_TYPE.match(line)  # from the first column: nested ones are indented
            if found is None:
                continue
            kind = (name.split("/")[0], found[1] or found[2])
            if kind in first and first[kind] != name:
                report(name, number, f"{kind[1]} is a type of {first[kind]}, too; one of them needs another name")
            first.setdefault(kind, name)


def check_version(root, report):
    """One version: of project() in CMakeLists.txt."""
    def version(name, pattern):
        found = re.search(pattern, read(root / name)) if (root / name).is_file() else None
        return found and found[1]
    of_project = version("CMakeLists.txt", r"project\([^)]*VERSION ([\d.]+)")
    for name, pattern in (("web/package.json", r'"version": "([^"]*)"'), ("web/package-lock.json", r'"version": "([^"]*)"'),
                          ("CHANGELOG.md", r"\n## ([^\s]+)")):
        other = version(name, pattern)
        if other and other != of_project:
            report(name, 1, f"version {other}, and CMakeLists.txt has {of_project}")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    findings = []

    def report(name, line, message):
        findings.append(f"{name}:{line}: {message}")

    names = [str(path) for path in walk(root)]
    for name in names:
        if name.endswith((".cc", ".h", ".cu", ".cuh")):
            check_code(name, read(root / name), report)
    check_tree(root, set(names), report)
    check_pages(root, names, report)
    check_types(root, names, report)
    check_version(root, report)
    print("\n".join(findings + [f"tidy: {len(findings)} findings in {len(names)} files"]))
    return 1 if findings else 0


sys.exit(main())
