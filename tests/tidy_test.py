#!/usr/bin/env python3
"""Plants one violation after another in a copy of a tiny tree and checks that tests/tidy.py finds it."""
import pathlib
import subprocess
import sys
import tempfile

TIDY = pathlib.Path(__file__).resolve().parent / "tidy.py"
CASES = [
    ("upward include", "base/a.cc", '#include "trainer/device/device.h"\n', "base may not see trainer"),
    ("orchestrator past the contract", "orchestrator/a.cc", '#include "trainer/model/bert.h"\n', "sees only trainer/contract/"),
    ("trainer past the plan", "trainer/a.cc", '#include "topology/doctor/doctor.h"\n', "sees only topology/plan/ and topology/nccl/"),
    ("contract into the trainer", "trainer/contract/a.cc", '#include "trainer/model/bert.h"\n', "sees nothing else of the trainer"),
    ("a command that reads the store", "orchestrator/cli/ls_command.cc", '#include "orchestrator/store/store_reads.h"\n', "through its API"),
    ("a command's header that sees the controller", "orchestrator/cli/a.h", '#include "orchestrator/control/preview.h"\n', "through its API"),
    ("against the order of rooms", "trainer/model/bert.cc", '#include "trainer/step/train_loop.h"\n', "trainer/model comes before trainer/step"),
    ("against the order of rooms, from a folder", "trainer/cpu/a.cc", '#include "trainer/model/bert.h"\n', "trainer/cpu comes before"),
    ("a second type of one name", "trainer/run/a.h", "#pragma once\nstruct Taken {\n};\n", "Taken is a type of trainer/device/taken.h, too"),
    ("a second name for another", "trainer/run/a.h", "#pragma once\nusing Taken = int;\n", "Taken is a type of trainer/device/taken.h, too"),
    ("in no room", "trainer/a.h", "#pragma once\n", "in no room"),
    ("another version", "CHANGELOG.md", "# Changelog\n\n## 9.9.9 (today)\n", "version 9.9.9, and CMakeLists.txt has 0.1.0"),
    ("full json in a header", "base/a.h", "#pragma once\n#include <nlohmann/json.hpp>\n", "json_fwd"),
    ("spdlog outside its file", "trainer/a.cc", "#include <spdlog/spdlog.h>\n", "belongs in base/log.cc only"),
    ("no pragma once", "base/a.h", "int f();\n", "#pragma once"),
    ("a long file", "base/a.cc", "int x;\n" * 601, "601 lines"),
    ("a long line", "base/a.cc", "// " + "x" * 100 + "\n", "103 columns"),
    ("a long function", "base/a.cc", "int f() {\n" + "  g();\n" * 69 + "}\n", "a function of 71 lines"),
    ("a long kernel", "trainer/cuda/a.cu", "void f(\n    int x) {\n" + "  g();\n" * 68 + "}\n", "a function of 71 lines"),
    ("a long line of device code", "trainer/cuda/a.cuh", "#pragma once\n// " + "x" * 100 + "\n", "103 columns"),
    ("a long file of device code", "trainer/cuda/a.cu", "int x;\n" * 601, "601 lines"),
    ("no pragma once in device code", "trainer/cuda/a.cuh", "int f();\n", "#pragma once"),
    ("json in device code", "trainer/cuda/a.cu", "#include <nlohmann/json_fwd.hpp>\n", "does not include nlohmann"),
    ("a log in device code", "trainer/cuda/a.cu", '#include "base/log.h"\n', "does not include base/log.h"),
    ("spdlog in device code", "trainer/cuda/a.cuh", "#include <spdlog/spdlog.h>\n", "does not include spdlog"),
    ("a launch by syntax", "trainer/cuda/a.cu", "void f() { k<<<1, 2>>>(); }\n", "through launch()"),
    ("assembly", "trainer/cuda/a.cu", 'void f() { asm volatile(""); }\n', "ptx.cuh only"),
    ("thrust", "trainer/cuda/a.cu", "#include <thrust/sort.h>\n", "no such library"),
    ("a launch in ptx.cuh", "trainer/cuda/kernels/ptx.cuh", "void f() { k<<<1, 2>>>(); }\n", "through launch()"),
    ("CUDA elsewhere", "trainer/a.cc", "#include <cuda_runtime.h>\n", "belongs in trainer/cuda/"),
    ("kernels never built", "trainer/cuda/unlisted.cu", "int x;\n", "in no CMakeLists.txt"),
    ("no README beside kernels", "trainer/cuda/a.cuh", "#pragma once\n", "trainer/cuda:1: every folder"),
    ("a view", "base/a.cc", "auto x = std::views::" + "iota(1);\n", "clang 14"),
    ("a shell", "base/a.cc", "int f() { return sys" + 'tem("ls"); }\n', "argument vector"),
    ("an unfinished place", "base/a.cc", "// TO" + "DO\n", "unfinished"),
    ("environment deep inside", "trainer/model/bert.cc", 'auto* x = std::getenv("A");\n', "environment is read in main"),
    ("environment beside the plug-in", "topology/tuner/table.cc", 'auto* x = std::getenv("A");\n', "environment is read in main"),
    ("never built", "base/unlisted.cc", "int x;\n", "in no CMakeLists.txt"),
    ("globbed sources", "base/CMakeLists.txt", "file(GLOB x *.cc)\n", "not globbed"),
    ("no README", "topology/a.h", "#pragma once\n", "README.md"),
    ("a long README", "base/README.md", "# base\n" * 151, "151 lines in a README"),
    ("a long first README", "README.md", "# tree\n" * 121, "121 lines in a README"),
    ("a link to nothing", "docs/a.md", "[b](../base/b.md)\n", "docs/a.md:1: there is no base/b.md"),
    ("code that is prose", "docs/a.md", "- so:\n\n    ls\n", "docs/a.md:3: code in a list"),
    ("a link to no heading", "docs/a.md", "[b](../base/README.md#nothing)\n", "base/README.md has no heading for #nothing"),
]


def clean_tree(root):
    (root / "CMakeLists.txt").write_text("project(tree VERSION 0.1.0 LANGUAGES CXX)\n")
    (root / "base").mkdir()
    (root / "base" / "README.md").write_text("# base\n\n## What it is\n" + "line\n" * 147)
    (root / "README.md").write_text("[base](base/README.md#what-it-is), [there](#tree), [elsewhere](https://example.org/)\n# tree\n")
    (root / "base" / "good.cc").write_text('#include "base/good.h"\n')
    (root / "base" / "CMakeLists.txt").write_text("add_library(base good.cc a.cc)\n")
    # What is allowed: a function of 70 lines, comments about launches, assembly in its one place.
    (root / "base" / "good.h").write_text("#pragma once\nint f() {\n" + "  g();\n" * 68 + "}\n")
    (root / "tests" / "trainer" / "cuda").mkdir(parents=True)
    # The command that is the controller sees it, and what a key may be all commands do.
    (root / "orchestrator" / "cli").mkdir(parents=True)
    (root / "orchestrator" / "README.md").write_text("# orchestrator\n")
    (root / "orchestrator" / "cli" / "CMakeLists.txt").write_text("add_library(cli serve_command.cc change_commands.cc)\n")
    (root / "orchestrator" / "cli" / "serve_command.cc").write_text(
        '#include "orchestrator/control/controller.h"\n#include "orchestrator/store/store.h"\n')
    (root / "orchestrator" / "cli" / "change_commands.cc").write_text('#include "orchestrator/control/request_key.h"\n')
    # A type's name may be used again in another layer, within a class and in a source.
    (root / "trainer" / "device").mkdir(parents=True)
    (root / "trainer" / "README.md").write_text("# trainer\n")
    (root / "trainer" / "device" / "taken.h").write_text("#pragma once\nclass Taken {\n  struct Inner {};\n};\n")
    (root / "base" / "taken.h").write_text("#pragma once\nstruct Taken;\nstruct Taken {\n  struct Inner {};\n};\n")
    (root / "tests" / "README.md").write_text("# tests\n")
    (root / "tests" / "trainer" / "cuda" / "ptx.cuh").write_text(
        '#pragma once\n#include <cuda_runtime.h>\n// no <<<1, 2>>> and no asm\nvoid f() { asm volatile(""); }\n')


def findings(root):
    done = subprocess.run([sys.executable, TIDY, root], capture_output=True, text=True)
    return done.returncode, done.stdout


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        clean_tree(root)
        code, text = findings(root)
        if code != 0:
            failed += 1
            print(f"FAILED clean tree: {text}")
    for title, path, text, expected in CASES:
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            clean_tree(root)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            code, output = findings(root)
            if code != 1 or expected not in output:
                failed += 1
                print(f"FAILED {title}: expected '{expected}' in: {output}")
    total = len(CASES) + 1
    print(f"{total - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
