#!/usr/bin/env python3
"""examples/client: its types are generated from docs/openapi.json by an off-the-shelf generator, and it works.

    client_test.py BUILD       a build folder with regatta and regatta-train

The last line is `N passed, N failed, N skipped`.
"""
import filecmp
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "orchestrator" / "api"))
import openapi_test  # noqa: E402  (it reads BUILD as this does)

CLIENT = ROOT / "examples" / "client"


def npm(*words):
    done = subprocess.run(["npm", *words, "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"],
                          cwd=CLIENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def its_types_are_made_and_fit():
    stamp = CLIENT / "node_modules" / ".regatta-lock"
    if not stamp.exists() or not filecmp.cmp(stamp, CLIENT / "package-lock.json", shallow=False):
        npm("ci")
        shutil.copyfile(CLIENT / "package-lock.json", stamp)
    npm("run", "generate")
    npm("run", "check")


def the_page_takes_what_the_api_answers():
    """By its document: tests/web/api_types.ts compiles."""
    assert (ROOT / "web" / "node_modules").exists(), "web/build.sh comes first"
    done = subprocess.run([CLIENT / "node_modules" / ".bin" / "tsc", "-p", ROOT / "tests" / "web"], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def it_submits_watches_downloads_and_cancels():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = folder / "run.yaml"
        run.write_text(openapi_test.RUN.format(name="example", data=openapi_test.make_data(
            folder, openapi_test.BUILD / "trainer" / "regatta-train"), steps=3000))
        controller = openapi_test.Controller(folder)
        try:
            done = subprocess.run(["node", CLIENT / "out" / "client.js", f"http://{controller.address}",
                                   controller.data / "token", run, folder / "results"],
                                  capture_output=True, text=True, timeout=300)
        finally:
            controller.end()
        assert done.returncode == 0, done
        last = done.stdout.splitlines()[-1]
        assert " succeeded, " in last and " cancelled; 2 listed" in last, done.stdout
        told = json.loads((folder / "results" / "time_to_accuracy.json").read_text())
        assert told["time"]["training_seconds"] > 0 and len(told["reached"]) == 2, told
        rows = (folder / "results" / "evaluations.csv").read_text().splitlines()
        assert rows[0] == "step,seconds,accuracy,loss" and len(rows) > 100, len(rows)
        assert (folder / "results" / "log.txt").stat().st_size > 0


def main():
    failed = 0
    for case in (its_types_are_made_and_fit, the_page_takes_what_the_api_answers,
                 it_submits_watches_downloads_and_cancels):
        try:
            case()
            print(f"passed  client.{case.__name__}", flush=True)
        except Exception as error:  # every failure is counted, and the next case runs
            failed += 1
            print(f"failed  client.{case.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{3 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
