#!/usr/bin/env python3
"""What tests/run.py and deploy/told_build.py tell of builds that are slow and of tests that fail."""
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
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


if __name__ == "__main__":
    unittest.main()
