"""GoogleTest programs, so that a fault of the GPU, a crash or a hang costs the one test that it befell: the rest goes on
in a new process, and what was not reached is told as that."""
import concurrent.futures
import os
import re
import subprocess
import tempfile
import time

import machine
import parts

FAULT = 86  # exit code of a program whose GPU is unusable (gpu.h): every later test would fail, too
PROCESSES = 15  # for one list of tests; more faults than that say nothing new
HANGS = 2  # the same of tests that do not end: each costs --patience
FILTER_BYTES = 100_000  # an argument may have 128 KiB
POLL = 0.1
BEGUN = re.compile(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,(]+)")


class Outcome:
    """What became of the tests of one program."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.left = {}, {}, {}, []

    def knows(self, test):
        return test in self.passed or test in self.failed or test in self.skipped

    def take(self, text):
        """Files each finished test; returns the test that was running at the end, or "", and what it said."""
        current, lines = "", []
        for line in text.splitlines():
            mark = BEGUN.match(line)
            if not mark:
                lines.append(line)
            elif mark[1] == "RUN":
                current, lines = mark[2], []
            elif mark[2] == current:
                kind = {"OK": self.passed, "FAILED": self.failed, "SKIPPED": self.skipped}[mark[1]]
                kind[current] = "" if kind is self.passed else "\n".join(lines)[-2000:]
                current, lines = "", []
        return current, "\n".join(lines).strip()


def names_of(stage, program):
    """Every test of the program that --filter lets through and this GPU can run."""
    code, out, err = stage.run([stage.program(program), "--gtest_list_tests", f"--gtest_filter={stage.options.filter}"], 60)
    if code != 0:
        last = ((out + err).strip().splitlines() or [""])[-1]
        raise RuntimeError(f"{program} does not list its tests: {'no end' if code is None else f'exit code {code}'}: {last[-300:]}")
    names, suite = [], ""
    for line in out.splitlines():
        word = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + word.strip())
        elif word.endswith("."):
            suite = word
    return [name for name in names if not is_wgmma(name) or stage.has_wgmma()]


def way_of(name):
    """The device that a case of the table of operations runs on: "bfloat16wgmma"."""
    return name.rsplit("/", 1)[-1]


def is_wgmma(name):
    return "wgmma" in way_of(name)


def by_way(names):
    ways = {}
    for name in names:
        ways.setdefault(way_of(name), []).append(name)
    return ways


def dealt(names, hands):
    return [hand for hand in (names[i::hands] for i in range(hands)) if hand]


def run_process(stage, program, names, until):
    """(exit code, or None when it was ended here; whether that was for a hang; its output). Ends at the time `until`, or
    when nothing was said for as long as one test may take."""
    arguments = [stage.program(program), "--gtest_color=no", "--gtest_filter=" + ":".join(names)]
    with tempfile.TemporaryFile() as out:
        process = parts.launch(arguments, stdout=out, stderr=subprocess.STDOUT, env=machine.program_environment(stage.bundle))
        size, moved, code, hung = 0, time.monotonic(), None, False
        while code is None and not hung and time.monotonic() < until:
            try:
                code = process.wait(timeout=POLL)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if os.fstat(out.fileno()).st_size != size:
                    size, moved = os.fstat(out.fileno()).st_size, now
                hung = now - moved > stage.options.patience
        if not parts.end_group(process):
            stage.report.note(f"a killed {program} did not go: the driver holds it")
        out.seek(0)
        return code, hung, out.read().decode(errors="replace")


def first_names(names):
    """As many as fit into one filter."""
    size = 0
    for count, name in enumerate(names):
        size += len(name) + 1
        if size > FILTER_BYTES:
            return names[:count]
    return names


def run_list(stage, program, names, outcome, until):
    """Runs the tests one after another. What is not reached by `until`, or after too many faults, goes to outcome.left."""
    left, hangs = list(names), 0
    for _ in range(PROCESSES):
        if not left or hangs == HANGS or time.monotonic() >= until:
            break
        begun = first_names(left)
        code, hung, text = run_process(stage, program, begun, until)
        running, said = outcome.take(text)
        if hung:
            hangs += 1
            outcome.failed[running or f"{program} before a test"] = f"no end within {stage.options.patience:g} s\n{said}"[-2000:]
        elif code not in (0, 1, None):
            how = "left the GPU unusable" if code == FAULT else f"ended by exit code {code}"
            outcome.failed[running or f"{program} outside of its tests"] = f"{how}: {said}"[-2000:]
        still = [name for name in left if not outcome.knows(name)]
        if code in (0, 1) and any(name in still for name in begun):
            outcome.failed[f"{program}"] = f"ended with {code} before {len(still)} of its tests: {text.strip()[-300:]}"
            left = still
            break
        if len(still) == len(left):  # nothing came of this process, and nothing would of the next
            break
        left = still
    outcome.left += left


def run_side_by_side(stage, program, lists, outcome, until):
    """Each list in processes of its own, all at once."""
    if not lists:
        return
    with concurrent.futures.ThreadPoolExecutor(len(lists)) as pool:
        for future in [pool.submit(run_list, stage, program, names, outcome, until) for names in lists]:
            future.result()


def report_tests(stage, name, outcome):
    """Reports what became of the tests; those that time did not allow are no failure."""
    counts = {"passed": len(outcome.passed), "failed": len(outcome.failed), "skipped": len(outcome.skipped), "not_run": len(outcome.left)}
    failures = [{"test": test, "message": text} for test, text in sorted(outcome.failed.items())][:60]
    stage.report.add({"name": name, **counts, "failures": failures, "skips": outcome.skipped, "left": sorted(outcome.left)[:60]})
    print(f"   {name}: " + ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in counts.items()), flush=True)
    for failure in failures[:10]:
        print(f"     {failure['test']}: {failure['message'].strip()[:400]}", flush=True)
    if outcome.failed:
        stage.report.fail(f"{name}: {counts['failed']} failed, {counts['passed']} passed; first {failures[0]['test']}: "
                          f"{(failures[0]['message'].strip().splitlines() or [''])[0][:200]}")
    elif not outcome.passed and not outcome.left:
        stage.report.fail(f"{name}: no test passed")
    if outcome.left:
        stage.report.note(f"{name}: {len(outcome.left)} tests not run" + ("" if outcome.failed else ", out of time"))


def run_all(stage, program, processes, names=None):
    """All tests, or those named: most of them in so many processes side by side, then warpgroup products by themselves."""
    outcome, until = Outcome(), stage.deadline
    names = names_of(stage, program) if names is None else names
    run_side_by_side(stage, program, dealt([name for name in names if not is_wgmma(name)], processes), outcome, until)
    for tests in by_way([name for name in names if is_wgmma(name)]).values():
        run_list(stage, program, tests, outcome, until)
    report_tests(stage, program, outcome)
    return outcome
