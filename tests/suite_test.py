#!/usr/bin/env python3
"""What tests/run.py and deploy/told_build.py tell of builds that are slow and of tests that fail; that linters find what
is planted; and that what a stranger meets first (licence, version, CI, containers, CONTRIBUTING) is of one piece."""
import argparse
import configparser
import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import lint  # noqa: E402
import run  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
BUILD = pathlib.Path(os.environ.get("REGATTA_BINARY_DIR", ROOT / "build" / "release"))

REPORT = """<testsuite>
<testcase name="a_test.Cases/Of.Holds/named" status="run"/>
<testcase name="a_test.Cases/Of.Holds/0  # GetParam() = 40-byte object &lt;68-CE 9D-F0&gt;" status="fail"><failure message=""/>
<system-out>/src/a_test.cc:12: Failure
Expected: 1
  Which is: 2

[  FAILED  ] Of.Holds</system-out></testcase>
<testcase name="slurm.a" status="fail"><failure message="Timeout"/><system-out>failed  slurm.a.case  3 s: AssertionError: no
passed  slurm.a.other  1 s</system-out></testcase>
<testcase name="b_test.C.D/1  # GetParam() = 8-byte object &lt;01&gt;" status="notrun"><skipped message="x"/>
<system-out>needs slurm: missing</system-out></testcase>
</testsuite>"""


def told(function, *arguments, **options):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        function(*arguments, **options)
    return output.getvalue()


class OfTests(unittest.TestCase):
    def test_names_without_bytes_and_reasons_beside_them(self):
        with tempfile.TemporaryDirectory() as folder:
            totals, run.RESULTS = run.Totals(), pathlib.Path(folder)
            bin_folder = pathlib.Path(folder) / "bin"
            bin_folder.mkdir()
            (bin_folder / "ctest").write_text("#!/bin/sh\nwhile [ \"$1\" != --output-junit ]; do shift; done\n"
                                              f"cat > \"$2\" <<'END'\n{REPORT}\nEND\n")
            (bin_folder / "ctest").chmod(0o755)
            told(run.ctest, totals, "unit", folder, 10, [], {"PATH": f"{bin_folder}:/usr/bin:/bin"})
            self.assertEqual((totals.passed, totals.failed, totals.skipped), (1, 2, 1))
            self.assertEqual(totals.skips, ["unit: b_test.C.D/1: needs slurm: missing"])
            first, second = totals.failures
            self.assertTrue(first.startswith("unit: a_test.Cases/Of.Holds/0: \n    /src/a_test.cc:12: Failure\n    Expected: 1"), first)
            self.assertEqual(second, "unit: slurm.a: Timeout\n    failed  slurm.a.case  3 s: AssertionError: no")


    def tries(self, tries, *reports):
        """What is told of a ctest that writes one report after the other."""
        with tempfile.TemporaryDirectory() as folder:
            totals, run.RESULTS = run.Totals(), pathlib.Path(folder)
            totals.tries = tries
            bin_folder = pathlib.Path(folder) / "bin"
            bin_folder.mkdir()
            for number, report in enumerate(reports):
                (bin_folder / f"{number}.xml").write_text(f"<testsuite>{report}</testsuite>")
            (bin_folder / "ctest").write_text(f"""#!/bin/sh
echo "$@" >> {folder}/calls
number=$(($(wc -l < {folder}/calls) - 1))
while [ "$1" != --output-junit ]; do shift; done
cp {bin_folder}/$number.xml "$2"
""")
            (bin_folder / "ctest").chmod(0o755)
            told(run.ctest, totals, "unit", folder, 10, ["-L", "^unit$"], {"PATH": f"{bin_folder}:/usr/bin:/bin"})
            return totals, (pathlib.Path(folder) / "calls").read_text().splitlines()

    FAILED = '<testcase name="{}" status="fail"><failure message="Timeout"/></testcase>'
    PASSED = '<testcase name="{}" status="run"/>'

    def test_what_failed_by_accident_passes_by_itself_and_is_named(self):
        totals, calls = self.tries(2, self.FAILED.format("a") + self.FAILED.format("b") + self.PASSED.format("c"),
                                   self.PASSED.format("a") + self.FAILED.format("b"))
        self.assertEqual((totals.passed, totals.failed), (2, 1))
        self.assertEqual(totals.again, ["unit: a: Timeout"])
        self.assertEqual(totals.failures, ["unit: b: Timeout"])
        self.assertIn("--rerun-failed -L ^unit$", calls[1])
        self.assertIn("-j 1 ", calls[1])

    def test_with_all_there_is_one_try_and_many_failures_are_no_accident(self):
        totals, calls = self.tries(1, self.FAILED.format("a"), self.PASSED.format("a"))
        self.assertEqual((totals.failed, len(calls)), (1, 1))
        names = [f"case{number}" for number in range(run.SECOND_TRIES + 1)]
        totals, calls = self.tries(2, "".join(map(self.FAILED.format, names)), "".join(map(self.PASSED.format, names)))
        self.assertEqual((totals.failed, len(calls)), (len(names), 1))

    def test_a_script_that_failed_runs_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run.RESULTS = pathlib.Path(folder)
            script = f"""n=$(cat {folder}/n 2>/dev/null || echo 0); echo $((n + 1)) > {folder}/n
[ $n = 0 ] && echo 'not ok 3 - a page' && echo '3 passed, 1 failed, 0 skipped' && exit 1
echo '4 passed, 0 failed, 0 skipped'"""
            for tries, expected in ((2, (4, 0)), (1, (3, 1))):
                totals, log = run.Totals(), pathlib.Path(folder) / "n"
                totals.tries = tries
                log.unlink(missing_ok=True)
                told(run.counted, totals, "web", ["sh", "-c", script], 10)
                self.assertEqual((totals.passed, totals.failed), expected)
                self.assertEqual(len(totals.again), 1 if tries == 2 else 0)

    def test_one_that_can_runs_only_what_failed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run.RESULTS = pathlib.Path(folder)
            for second, expected, again in (("2 passed, 0 failed, 0 skipped", (5, 0, 1), 1), ("1 passed, 1 failed, 0 skipped", (4, 1, 1), 0)):
                script = f"""[ "${{1:-}}" = --again ] || {{ echo '3 passed, 2 failed, 1 skipped'; exit 1; }}
echo '{second}'; case '{second}' in *' 0 failed'*) ;; *) exit 1;; esac"""
                totals = run.Totals()
                totals.tries = 2
                told(run.counted, totals, "web", ["sh", "-c", script, "sh"], 10, again="--again")
                self.assertEqual((totals.passed, totals.failed, totals.skipped), expected)
                self.assertEqual(len(totals.again), again)


class OfBuilds(unittest.TestCase):
    def build(self, script, limit, every):
        with tempfile.TemporaryDirectory() as folder:
            run.RESULTS, totals = pathlib.Path(folder), run.Totals()
            return told(run.build, totals, limit, ["sh", "-c", script], every=every), totals

    def test_a_slow_one_goes_on_and_says_so(self):
        text, totals = self.build("for i in 1 2 3 4 5 6 7 8 9 10; do echo built $i of 10; sleep 0.3; done", 2, 0.2)
        self.assertEqual((totals.passed, totals.failed), (1, 0), text)
        self.assertIn("   over its budget, goes on: built ", text)

    def test_one_in_which_nothing_moves_is_given_up(self):
        text, totals = self.build("echo built 1 of 10; exec sleep 100", 1, 0.2)
        self.assertEqual((totals.passed, totals.failed), (0, 1), text)

    def test_a_failure_shows_its_end(self):
        text, totals = self.build("echo 'a.cc:1: error: no'; exit 3", 10, 1)
        self.assertIn("a.cc:1: error: no", text)
        self.assertIn("exit code 3", totals.failures[0])


class OfTheDemo(unittest.TestCase):
    def test_it_builds_no_test(self):
        targets = re.search(r"^targets=\((.*)\)$", (ROOT / "deploy" / "demo.sh").read_text(), re.M)[1].split()
        if not (BUILD / "build.ninja").exists():
            self.skipTest("needs a build folder of Ninja's in REGATTA_BINARY_DIR")
        done = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", *targets], capture_output=True, text=True, timeout=60)
        objects = [line for line in done.stdout.splitlines() if line.endswith(".o")]
        self.assertGreater(len(objects), 100, done.stderr)
        self.assertEqual([name for name in objects if name.startswith(("tests/", "trainer/cuda"))], [])

    def test_no_interruption_is_lost_as_a_command_begins(self):
        """Bash loses one in several hundred where it waits for a command in the foreground."""
        demo = (ROOT / "deploy" / "demo.sh").read_text()
        lasting = [line for line in demo.splitlines() if re.search(r"build[.]sh|regatta\" watch", line)]
        self.assertEqual([line for line in lasting if "attended " not in line], [])
        self.assertEqual(len(lasting), 2)
        functions = "".join(re.search(rf"^{name}\(\) {{\n.*?^}}\n", demo, re.M | re.S)[0] for name in ("attended", "cleanup"))
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "demo.sh"
            script.write_text(f". {ROOT}/deploy/aside.sh\nif [ -z \"${{WORKS:-}}\" ]; then export WORKS=1; run_aside group bash {script}; fi\n"
                              f"controller= run= cluster=\n{functions}trap cleanup EXIT\ntrap 'exit 143' TERM\n"
                              "echo begins\nattended sleep 1000\n")
            for number in range(200):
                process = subprocess.Popen(["bash", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                           start_new_session=True)
                self.assertEqual(process.stdout.readline(), "begins\n")
                time.sleep(0.003 * number / 200)
                os.killpg(process.pid, signal.SIGINT)
                # Its output ends when nothing that it has started is left.
                self.assertEqual((process.communicate(timeout=60)[0], process.returncode), ("", 130), number)


class OfSteps(unittest.TestCase):
    def told_build(self, script):
        return subprocess.run([ROOT / "deploy" / "told_build.py", "sh", "-c", script], capture_output=True, text=True, timeout=60)

    def test_what_is_being_done_and_about_how_long(self):
        done = self.told_build("for i in $(seq 400); do echo \"[$i/400] Building CXX object $i.o\"; done")
        self.assertEqual(done.returncode, 0, done)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^400 steps on \d+ cores?: about \d+ (min|s), unless a cache knows them$")
        self.assertRegex(lines[-1], r"^built in ")
        self.assertEqual(len(lines), 2, "no line for each file")

    def test_warnings_and_errors_come_through_with_the_exit_code(self):
        done = self.told_build("echo '[1/2] Building'; echo 'FAILED: a.o'; echo 'a.cc:1: error: no' >&2; exit 1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "FAILED: a.o\na.cc:1: error: no\n")

    def test_what_ends_it_is_told_and_is_its_exit_code(self):
        done = self.told_build("echo '[1/2] a'; kill -KILL $$")
        self.assertEqual((done.returncode, done.stdout), (137, "sh was ended by SIGKILL\n"))
        for words, code in ((["/nowhere/cmake"], 127), ([], 2), (["--help"], 0)):
            done = subprocess.run([ROOT / "deploy" / "told_build.py", *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_signal_reaches_the_command(self):
        script = "trap 'echo saved; exit 9' INT TERM; echo ready; for i in $(seq 600); do sleep 0.1; done"
        for number in (signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen([ROOT / "deploy" / "told_build.py", "sh", "-c", script], stdout=subprocess.PIPE, text=True,
                                       start_new_session=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            self.assertEqual((process.communicate(timeout=60)[0], process.returncode), ("saved\n", 9), number)

    def test_little_is_not_worth_a_word(self):
        self.assertEqual(self.told_build("echo '[1/3] Linking'; echo 'ninja: no work to do.'").stdout, "ninja: no work to do.\n")


class OfLinters(unittest.TestCase):
    """Each plants one fault in a small checkout, and a stage of tests/run.py must fail for it and say where."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "checkout"
        self.root.mkdir()
        run.RESULTS = pathlib.Path(folder.name) / "results"
        run.RESULTS.mkdir()
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, self.root)
        environment = unittest.mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        for name in [name for name in os.environ if name.startswith("GIT_")]:  # of the hook that runs this
            del os.environ[name]
        self.git("init", "-q")

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=Test", "-c", "user.email=test@localhost", "-C", self.root, *arguments], check=True,
                       capture_output=True)

    def write(self, files):
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.git("add", "-A")

    def checked(self, stage, everything=False, required=""):
        """What the totals have of the stage afterwards; a test that finds its tool missing is skipped."""
        totals = run.Totals()
        with unittest.mock.patch.dict(os.environ, {"REQUIRE": required or os.environ.get("REQUIRE", "")}):
            told(run.lint, totals, stage, 60, argparse.Namespace(all=everything), ["--root", str(self.root)])
        for reason in totals.skips:
            if not required and "deploy/install.sh" in reason:
                self.skipTest(reason)
        return totals

    def assert_found(self, totals, *expected):
        self.assertEqual((totals.passed, totals.failed, totals.skipped), (0, 1, 0), totals.skips)
        for text in expected:
            self.assertIn(text, totals.failures[0])

    def assert_clean(self, totals):
        self.assertEqual((totals.passed, totals.failed, totals.skipped), (1, 0, 0), totals.failures + totals.skips)

    def test_a_file_that_is_badly_formatted(self):
        self.write({"base/good.cc": "int f() { return 1; }\n", "base/kernel.cuh": "#pragma once\nint g();\n",
                    "base/table.cc": "// clang-format off\nint  t [] = {1,2};\n"})
        self.assert_clean(self.checked("format"))
        for name in ("base/bad.cc", "base/bad.cu"):
            self.write({name: "int f( ) {return 1;}\n"})
            self.assert_found(self.checked("format"), f"\n    {name}:1:7: error: code should be clang-formatted",
                              "\n    mend with: clang-format")
            self.write({name: "int h();\n"})
        self.assert_clean(self.checked("format"))

    def test_an_unquoted_variable_in_a_shell_script(self):
        good = "#!/usr/bin/env bash\nset -eu\nrm -f \"$1\"\n"
        self.write({"deploy/good.sh": good, ".ci/run": good, "tests/a.py": "#!/usr/bin/env python3\nprint(1)\n", "data": "$1\n"})
        self.assert_clean(self.checked("shellcheck"))
        for name in ("deploy/bad.sh", ".ci/bad"):
            self.write({name: "#!/bin/sh\nset -eu\nrm -f $1\n"})
            self.assert_found(self.checked("shellcheck"), f"\n    {name}:3:7: error: ", "SC2086")
            self.write({name: good})

    def test_an_unquoted_variable_in_the_batch_script(self):
        name = "orchestrator/batch/job.sh"
        good = (ROOT / name).read_text()
        quoted = 'rm -f "$exit_file" "$request"'
        self.assertEqual(good.count(quoted), 1)
        self.write({name: good})
        self.assert_clean(self.checked("shellcheck"))
        self.write({name: good.replace(quoted, quoted.replace('"', ""))})
        self.assert_found(self.checked("shellcheck"), f"\n    {name}:", "SC2086")

    MOVED = ("#include <string>\n#include <utility>\n#include \"base/a.h\"\n"
             "std::string::size_type f(std::string text) {\n  const std::string other = std::move(text);\n"
             "  return other.size() + %s.size();\n}\n")

    def compiled(self, *names):
        (self.root / "build" / "release").mkdir(parents=True, exist_ok=True)
        (self.root / "build" / "release" / "compile_commands.json").write_text(json.dumps(
            [{"directory": str(self.root / "build" / "release"), "file": str(self.root / name),
              "command": f"c++ -std=c++20 -Wall -Werror -I{self.root} -c {self.root / name}"} for name in names]))

    def test_a_use_after_move(self):
        self.write({".gitignore": "/build/\n", "base/a.h": "#pragma once\n", "base/a.cc": self.MOVED % "other",
                    "base/old.cc": self.MOVED % "text", "tests/base/a_test.cc": self.MOVED % "text"})
        self.git("commit", "-qm", "first")
        self.write({"base/a.h": "#pragma once\nint unused();\n"})
        self.git("commit", "-qam", "second")
        totals = self.checked("clang-tidy")
        self.assertRegex("".join(totals.skips), "needs build/release/compile_commands.json")
        self.assertEqual((totals.passed, totals.failed), (0, 0))
        self.compiled("base/a.cc", "base/old.cc", "tests/base/a_test.cc")
        self.assert_clean(self.checked("clang-tidy"))  # base/a.cc, for its header; the others did not change
        self.assert_found(self.checked("clang-tidy", everything=True), "base/old.cc:6:25: error: 'text' used after it was moved")
        self.write({"base/a.cc": self.MOVED % "text"})
        self.assert_found(self.checked("clang-tidy"), "\n    base/a.cc:6:25: error: 'text' used after it was moved",
                          "[bugprone-use-after-move")

    def test_what_is_clean_is_not_looked_at_again_until_something_that_it_reads_changes(self):
        header = "#pragma once\n#include \"base/deep.h\"\n"
        self.write({".gitignore": "/build/\n", "base/a.h": header, "base/deep.h": "#pragma once\nint unused();\n",
                    "base/a.cc": self.MOVED % "other", "base/b.cc": "int f();\n"})
        self.compiled("base/a.cc", "base/b.cc")
        marks = self.root / "build" / "lint" / "clean"

        def looked_at():
            """How many files a stage looks at in which nothing is found."""
            before = set(os.listdir(marks)) if marks.is_dir() else set()
            self.assert_clean(self.checked("clang-tidy", everything=True))
            return len(set(os.listdir(marks)) - before)
        self.assertEqual([looked_at(), looked_at()], [2, 0])
        self.write({"base/deep.h": "#pragma once\nint unused_too();\n"})
        self.assertEqual([looked_at(), looked_at()], [1, 0])
        rules = (self.root / ".clang-tidy").read_text()
        (self.root / ".clang-tidy").write_text(rules + "# other\n")
        self.assertEqual([looked_at(), looked_at()], [2, 0])
        self.write({"base/deep.h": "#pragma once\n#define other text\n"})
        for _ in range(2):  # what has findings is looked at each time
            self.assertEqual(self.checked("clang-tidy", everything=True).failed, 1)
        self.write({"base/deep.h": "#pragma once\nint unused();\n"})
        (self.root / "build" / "release" / "compile_commands.json").write_text(
            (self.root / "build" / "release" / "compile_commands.json").read_text().replace("-Wall", "-Wextra"))
        self.assertEqual([looked_at(), looked_at()], [2, 0])

    def test_all_files_are_read_as_the_build_compiles_them(self):
        unity = "build/release/base/Unity/unity_0_cxx.cxx"
        self.write({".gitignore": "/build/\n", "base/a.h": "#pragma once\n", "base/a.cc": "int unused();\n",
                    "base/b.cc": self.MOVED % "text"})
        self.compiled(unity)
        (self.root / unity).parent.mkdir(parents=True)
        (self.root / unity).write_text("".join(f'#include "{self.root}/base/{name}.cc"\n' for name in "ab"))
        self.assert_found(self.checked("clang-tidy", everything=True), "\n    base/b.cc:6:25: error: 'text' used after it was moved")
        self.write({"base/b.cc": self.MOVED % "other"})
        self.assert_clean(self.checked("clang-tidy", everything=True))
        self.assertEqual(len(os.listdir(self.root / "build" / "lint" / "clean")), 1)

    def test_what_changed_has_a_bound_and_the_rest_is_told(self):
        names = [f"base/a{number}.cc" for number in range(lint.MOST_CHANGED + 3)]
        self.write({".gitignore": "/build/\n", **{name: "int f();\n" for name in names}})
        self.git("commit", "-qm", "first")  # without a commit before it, everything counts as changed
        self.compiled(*names)
        totals = self.checked("clang-tidy")
        self.assertEqual((totals.passed, totals.failed, totals.skips),
                         (1, 0, ["clang-tidy: 3 of 43 changed files; --all checks all"]))

    def test_a_missing_tool_is_a_skip_with_its_reason_or_a_failure_where_it_is_required(self):
        with tempfile.TemporaryDirectory() as empty, unittest.mock.patch.dict(os.environ, {"PATH": empty}):
            for stage, tool in (("format", "clang-format 14"), ("shellcheck", "shellcheck"), ("clang-tidy", "clang-tidy 14")):
                totals = run.Totals()
                told(run.lint, totals, stage, 60, argparse.Namespace(all=False))
                self.assertEqual(totals.skips, [f"{stage}: needs {tool}; `deploy/install.sh test` installs it"])
                self.assertEqual((totals.passed, totals.failed), (0, 0))
                self.assert_found(self.checked(stage, required="lint"), f"error: needs {tool}")


class OfTheDoor(unittest.TestCase):
    """What a stranger finds first."""

    def text(self, name):
        return (ROOT / name).read_text()

    def test_the_version_is_from_one_place(self):
        version = re.search(r"project\(regatta VERSION (\S+)", self.text("CMakeLists.txt"))[1]
        self.assertIn(f"\n## {version} (", self.text("CHANGELOG.md"))
        self.assertEqual(json.loads(self.text("web/package.json"))["version"], version)
        self.assertEqual(json.loads(self.text("web/package-lock.json"))["version"], version)
        pattern = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
        product = ("base", "topology", "checkpoint", "trainer", "orchestrator", "deploy", "cmake", "web/src")
        sources = (path for folder in product for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
        spelled = [str(path) for path in sources if pattern.search(re.sub(r"//.*", "", path.read_text(errors="replace")))]
        self.assertEqual(spelled, [], "the version belongs in project() only")
        program = BUILD / "orchestrator" / "regatta"
        if program.exists():
            told_version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
            self.assertRegex(told_version, rf"\b{re.escape(version)}\b")

    def test_hosted_ci_calls_what_anybody_calls(self):
        workflow = self.text(".github/workflows/ci.yml")
        commands = re.findall(r"^ +- run: (.*)$", workflow, re.M)
        self.assertIn(".ci/run", commands)
        self.assertEqual([c for c in commands if not re.match(r"\.ci/run$|apt-get update|git config --global --add safe", c)], [],
                         "what tests belongs in .ci/run")
        self.assertTrue(os.access(ROOT / ".ci" / "run", os.X_OK))
        self.assertRegex(self.text(".ci/run"), r"(?m)^exec tests/run\.sh$")

    def test_licence_and_notice(self):
        digest = hashlib.sha256(self.text("LICENSE").strip().encode()).hexdigest()
        self.assertEqual(digest, "283ea6cc2997a1a70da0049e09adf9317bb60ca1b51279b65196b83a69e1996b", "the text of apache.org")
        notice = self.text("NOTICE")
        self.assertRegex(notice, r"\ARegatta\nCopyright \d{4} the Regatta authors\n")
        for name in re.findall(r"^- (\S+/\S+)", notice, re.M):
            self.assertTrue((ROOT / name).is_file(), name)
        for package in json.loads(self.text("web/package.json"))["dependencies"]:
            self.assertIn(package, notice.lower(), "what the page contains is named")

    def test_containers_use_what_is_there(self):
        settings = json.loads(self.text(".devcontainer/devcontainer.json"))
        self.assertIn("deploy/install.sh all", settings["onCreateCommand"])
        image = self.text("deploy/Dockerfile")
        self.assertEqual({settings["image"], *re.findall(r"^FROM (\S+?)(?:-slim)?(?: AS \w+)?$", image, re.M)}, {"debian:12"})
        self.assertRegex(image, r"(?m)^USER (?!root)", "`regatta serve` refuses to run as root")
        for name in re.findall(r"\b(?:deploy/\w+\.sh|LICENSE|NOTICE)\b", image):
            self.assertTrue((ROOT / name).is_file(), name)
        cmake = "".join(path.read_text() for folder in ("orchestrator", "topology", "trainer") for path in (ROOT / folder).rglob("CMakeLists.txt"))
        installed = set(re.findall(r"install\(TARGETS (\S+)", cmake)) - {"regatta-cuda"}
        self.assertEqual(set(re.search(r"--target ([^&]*)&&", image)[1].replace("\\", "").split()), installed)

    def test_what_contributing_tells_to_run_is_there(self):
        page = self.text("CONTRIBUTING.md")
        for title in ("Build", "Test", "Debug", "Style", "Figures"):
            self.assertIn(f"\n## {title}\n", page)
        for name in set(re.findall(r"(?:^|[\s`(])((?:tests|deploy|\.ci)/[\w./-]*\w|\.\w[\w-]+)(?=[\s`),;:])", page)):
            self.assertTrue((ROOT / name).exists(), name)
        presets = {preset["name"] for preset in json.loads(self.text("CMakePresets.json"))["configurePresets"]}
        table = "".join(re.findall(r"^\| (`.*)$", page, re.M))
        self.assertEqual({name for name in presets if f"`{name}`" not in table}, set())
        stages = {stage[0] for stage in run.STAGES}
        self.assertEqual(set(re.findall(r"tests/lint\.py ([\w-]+)", page)) - stages, set())
        self.assertEqual(set(re.findall(r"--stage ([\w-]+)", page)) - stages, set())

    def test_editors_and_clang_format_agree(self):
        sections = configparser.ConfigParser()
        sections.read_string("[top]\n" + self.text(".editorconfig"))
        layout = dict(line.split(": ") for line in self.text(".clang-format").splitlines())
        self.assertEqual(sections["*.{cc,cu,cuh,h}"]["max_line_length"], layout["ColumnLimit"])
        self.assertEqual((sections["*"]["end_of_line"], sections["*"]["charset"], sections["*"]["indent_size"]), ("lf", "utf-8", "2"))


if __name__ == "__main__":
    unittest.main()
