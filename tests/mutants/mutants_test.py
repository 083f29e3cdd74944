#!/usr/bin/env python3
"""That planted faults are switched, told and counted as tests/mutants/mutants.py says, and that all of them still fit."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutants  # noqa: E402




def fault(number, find, replace, **others):
    return mutants.Mutant(**{"number": number, "name": f"m{number}", "file": "a.cc", "find": find, "replace": replace,
                             "program": "a_test", "test": "A.B", **others})


class OfTexts(unittest.TestCase):
    def test_expressions_and_statements(self):
        text = "int f(int a) {\n  a += 1;\n  return a < 3 ? a : 3;\n}\n"
        self.assertEqual(mutants.with_switches(text, [fault(1, "a += 1;", ""), fault(2, "a < 3", "a <= 3")]),
                         "int f(int a) {\n  if (regatta_mutant(1)) {  } else { a += 1; }\n"
                         "  return (regatta_mutant(2) ? (a <= 3) : (a < 3)) ? a : 3;\n}\n")

    def test_several_faults_of_one_place(self):
        self.assertEqual(mutants.with_switches("x = a;", [fault(1, "a", "b"), fault(2, "a", "c")]),
                         "x = (regatta_mutant(1) ? (b) : regatta_mutant(2) ? (c) : (a));")

    def test_what_does_not_fit_is_refused(self):
        for text, here, words in (("b", [fault(1, "a", "c")], "0 times"), ("a a", [fault(1, "a", "c")], "2 times"),
                                  ("a", [fault(1, "a", " a ")], "are equal"),
                                  ("abc", [fault(1, "ab", "x"), fault(2, "bc", "y")], "overlaps"),
                                  ("a = 1, b = 2;", [fault(1, "b = 2;", "")], "of several expressions"),
                                  ("f({a, b});", [fault(1, "{a, b}", "{a, a}")], "initial values"),
                                  ("{ f(); int a = 1; g(a); }", [fault(1, "f(); int a = 1;", "int a = 1;")], "declares a name")):
            with self.assertRaisesRegex(mutants.Unfit, words):
                mutants.with_switches(text, here)

    def test_entries(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.toml"
            entry = '[[mutant]]\nname="m"\nfile="a.cc"\nfind="a"\nreplace="b"\nprogram="a_test"\ntest="A.B"\n'
            path.write_text(entry.replace('test="A.B"\n', ""))
            with self.assertRaisesRegex(mutants.Unfit, "differing: test"):
                mutants.read_mutants(pathlib.Path(folder))
            path.write_text(entry + entry)
            with self.assertRaisesRegex(mutants.Unfit, "two faults have this name"):
                mutants.read_mutants(pathlib.Path(folder))

    def test_ten_days_are_all_faults_once(self):
        class Day(mutants.datetime.date):
            ordinal = 0

            @classmethod
            def today(cls):
                return cls.fromordinal(cls.ordinal)
        options = type("Options", (), {"only": None, "learn": None, "all": False})
        plain, found = mutants.datetime.date, []
        mutants.datetime.date = Day
        try:
            for Day.ordinal in range(730001, 730011):
                found += mutants.chosen(list(range(87)), options)
        finally:
            mutants.datetime.date = plain
        self.assertEqual(sorted(found), list(range(87)))

    def test_all_faults_fit(self):
        mutants.check(mutants.read_mutants())


# Compiled together.
PRODUCT = {"a.cc": "int twice(int value) { return 2 * value; }\nint half(int value) { return value / 2; }\n",
           "b.cc": "static int third(int value) { return value / 3; }\nint sixth(int value) { return third(value) / 2; }\n"}
TESTS = """#include <gtest/gtest.h>
int twice(int);
int half(int);
TEST(Twice, IsTwice) { EXPECT_EQ(twice(3), 6); }
TEST(Twice, IsTested) { EXPECT_EQ(half(0), 0); }
TEST(Twice, NeverHolds) { EXPECT_EQ(twice(3), 7); }
TEST(Twice, IsSkipped) { GTEST_SKIP() << "needs a GPU"; }
"""


@unittest.skipUnless(shutil.which("ninja") and shutil.which("cmake"), "needs cmake and ninja")
class OfRuns(unittest.TestCase):
    """The whole way, on a product of two functions."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tests" / "mutants").mkdir(parents=True)
        for name, text in PRODUCT.items():
            (self.root / name).write_text(text)
        (self.root / "tests" / "a_test.cc").write_text(TESTS)
        (self.root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(A CXX)\nset(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nfind_package(GTest REQUIRED)\n"
            "add_library(a STATIC a.cc b.cc)\nset_target_properties(a PROPERTIES UNITY_BUILD ON)\nadd_executable(a_test tests/a_test.cc)\ntarget_link_libraries(a_test a GTest::gtest_main)\n")
        shutil.copy(mutants.FOLDER / "mutants.py", self.root / "tests" / "mutants")
        shutil.copy(mutants.FOLDER.parent / "compile_database.py", self.root / "tests")

    def entry(self, name, find, replace, test, program="a_test"):
        with open(self.root / "tests" / "mutants" / "a.toml", "a") as file:
            file.write(f'[[mutant]]\nname="{name}"\nfile="a.cc"\nfind="{find}"\nreplace="{replace}"\nprogram="{program}"\ntest="{test}"\n')

    def run_all(self):
        build = self.root / "build" / "release"
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.root, "-B", build], check=True, capture_output=True)
        subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
        done = subprocess.run([sys.executable, self.root / "tests" / "mutants" / "mutants.py", "--all"], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_killed_survived_unsound_and_skipped(self):
        self.entry("killed", "2 * value", "3 * value", "Twice.IsTwice")
        self.entry("survivor", "value / 2", "value / 3", "Twice.IsTested")
        self.entry("hangs", "return value / 2;", "for (volatile int i = 0;; i = i) { } return value / 2;", "Twice.IsTested")
        self.entry("crashes", "2 * value", "*static_cast<volatile int*>(nullptr)", "Twice.IsTwice")
        self.entry("unsound", "2 * value", "4 * value", "Twice.NeverHolds")
        self.entry("needs-gpu", "2 * value", "5 * value", "Twice.IsSkipped")
        self.entry("not-built", "2 * value", "6 * value", "Twice.IsTwice", "b_test")
        mutated = (self.root / "tests" / "mutants" / "a.toml").read_text().replace('find="value / 2"', 'find="return value / 2;"') \
            .replace('replace="value / 3"', 'replace="return value / 3;"')
        (self.root / "tests" / "mutants" / "a.toml").write_text(mutated)
        runner = self.root / "tests" / "mutants" / "mutants.py"
        runner.write_text(runner.read_text().replace("TEST_SECONDS = 120", "TEST_SECONDS = 15"))
        code, output = self.run_all()
        self.assertEqual(code, 1, output)
        told = {line.split()[1].rstrip(":"): line for line in output.splitlines()[:-1]}
        self.assertEqual({name: line.split()[0] for name, line in told.items()},
                         {"killed": "passed", "survivor": "failed", "hangs": "passed", "crashes": "passed", "unsound": "failed",
                          "needs-gpu": "skipped", "not-built": "skipped"}, output)
        self.assertIn("survived a_test Twice.IsTested (a.cc)", told["survivor"])
        self.assertIn("does not pass without a fault", told["unsound"])
        self.assertEqual(output.splitlines()[-1], "3 passed, 2 failed, 2 skipped")

    def test_a_fault_that_does_not_compile_is_told(self):
        self.entry("broken", "2 * value", "2 * valu", "Twice.IsTwice")
        code, output = self.run_all()
        self.assertEqual((code, output.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("valu", output)

    def test_a_test_that_is_not_there_is_told(self):
        self.entry("nobody", "2 * value", "7", "Twice.IsThrice")
        code, output = self.run_all()
        self.assertEqual((code, output), (1, "failed  nobody: no test is called Twice.IsThrice\n0 passed, 1 failed, 0 skipped\n"))


if __name__ == "__main__":
    unittest.main()
