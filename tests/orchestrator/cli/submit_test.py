#!/usr/bin/env python3
"""What a submission to Slurm would do, published logs as reference curves, and a terminal without colours.

    submit_test.py BUILD      a build folder with regatta and regatta-train

Slurm's programs are scripts that know two nodes. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, OverSocket, Skipped, conclude, make_data, run_cases, server_of  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
REGATTA, TRAINER = BUILD / "orchestrator" / "regatta", BUILD / "trainer" / "regatta-train"
LOGS = pathlib.Path(os.environ.get("REGATTA_SHARED_DIR", ROOT.parent / "shared")) / "data" / "mlperf_logs"
CONFIG = """ClusterName = test
SLURM_VERSION = 24.11.5
MinJobAge = 300 sec
JobRequeue = 1
AccountingStorageType = accounting_storage/none
"""
NODE = ("NodeName=node{} Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot=64 Gres=gpu:h100:8 State=IDLE RealMemory=1000000 "
        "AllocMem=0 FreeMem=900000 Sockets=2 Partitions=main\n")
PROGRAMS = ("sbatch", "squeue", "scancel", "sacct", "scontrol", "sinfo")
RUN = """name: planned
model: {{preset: tiny, layers: 2, hidden: 64, heads: 2, feed_forward: 128, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 32}}
ranks: 16
device: cuda
steps: 100
slurm: {{nodes: 2, ranks_per_node: 8, gpus_per_rank: 1, time_limit: 60, partition: main, environment: {{NOTE: "two words"}}}}
"""


def make_slurm(place):
    """Programs that answer what a controller asks when it starts, and take no job."""
    place.mkdir()
    (place / "config.txt").write_text(CONFIG)
    (place / "nodes.txt").write_text(NODE.format(1) + NODE.format(2))
    for program in PROGRAMS:
        path = place / program
        path.write_text(f"""#!/bin/sh
echo "{program} $*" >> '{place}/asked'
case "{program} $*" in
*--version*) echo slurm 24.11.5 ;;
sbatch*) echo 'no job may be submitted' >&2; exit 1 ;;
*'show config'*) cat '{place}/config.txt' ;;
*'show node'*) cat '{place}/nodes.txt' ;;
esac
""")
        path.chmod(0o700)


class World:
    def __init__(self, folder):
        self.folder, self.data, self.bin = folder, folder / "controller", folder / "bin"
        self.environment = {**os.environ, **NO_DEFAULTS}
        make_slurm(self.bin)
        self.run_file = folder / "planned.yaml"
        self.run_file.write_text(RUN.format(data=make_data(folder, TRAINER)))
        self.process = subprocess.Popen(
            [REGATTA, "serve", "--allow-privileged", "--port", "0", "--data", self.data, "--scheduler", "slurm_cli", "--trainer", TRAINER,
             "--cluster", ROOT / "topology" / "examples" / "dgx-h100.yaml"],
            stdout=subprocess.PIPE, stderr=(folder / "serve.log").open("w"), text=True,
            env={**self.environment, "PATH": f"{self.bin}:{os.environ['PATH']}"})
        assert self.process.stdout.readline(), (folder / "serve.log").read_text()

    def ask(self, method, path, body=None):
        connection = OverSocket(self.data / "controller.sock")
        try:
            connection.request(method, "/api/v1" + path, body, {"Content-Type": "application/yaml"} if body else {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def call(self, *words):
        return subprocess.run([REGATTA, *map(str, words), "--server", server_of(self.data)], capture_output=True, text=True,
                              timeout=120, env=self.environment)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def a_dry_run_shows_the_script_and_the_plan(world):
    status, preview = world.ask("POST", "/runs?dry_run=true", world.run_file.read_text())
    assert status == 200, preview
    assert preview["scheduler"] == "slurm_cli" and preview["name"] == "planned", preview
    script, plan = preview["script"], preview["plan"]
    assert script.startswith("#!/bin/bash") and "run_name='planned'" in script, script
    assert "--nodes=2" in preview["command"] and "--partition=main" in preview["command"], preview["command"]
    assert plan and plan["bucket_ends"] and plan["why"], plan
    assert preview["command"][0] == "sbatch", preview["command"]

    done = world.call("submit", world.run_file, "--dry-run")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "would submit" in shown and "planned to slurm_cli" in shown, shown
    assert f"{len(plan['bucket_ends'])} gradient buckets; {plan['why']}" in shown, shown
    assert shown.rstrip("\n").endswith(script.rstrip("\n")), shown
    assert world.ask("GET", "/runs?archived=all")[1]["runs"] == [], "nothing was submitted"
    asked = [line for line in (world.bin / "asked").read_text().splitlines() if line.startswith("sbatch")]
    assert all("--version" in line for line in asked), asked


def a_run_begins_with_a_model_or_says_why_not(world):
    model = world.folder / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 3}')
    relative = os.path.relpath(model)
    for words, expected in ((("nobody@best",), "no run 'nobody'"), (("no/such",), "there is no model at"),
                            ((relative,), "model.layers: is 2, and num_hidden_layers"), (("",), "--from is empty")):
        for dry in ((), ("--dry-run",)):
            done = world.call("submit", world.run_file, *dry, "--from", *words)
            assert done.returncode and expected in done.stdout + done.stderr, (words, done.stdout, done.stderr)
    assert world.ask("GET", "/runs?archived=all")[1]["runs"] == [], "nothing was submitted"


def published_logs_are_imported_in_one_call(world):
    if not LOGS.is_dir():
        assert "shared" not in os.environ.get("REQUIRE", "").split(","), f"no published logs in {LOGS}"
        raise Skipped(f"no published logs in {LOGS}")
    expected = json.loads((LOGS / "expected.json").read_text())
    names = sorted(name for name in expected if name.endswith(".txt") and (LOGS / name).exists())
    assert len(names) > 3, names
    done = world.call("import", "mlperf", *(LOGS / name for name in names), "-o", "json")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(names) and len({answer["name"] for answer in answers}) == len(names)
    for name, answer in zip(names, answers, strict=True):
        told, published = world.ask("GET", "/references/" + answer["name"])[1], expected[name]
        assert told["evaluation_count"] == published["n_evals"] == len(told["evaluations"]), (name, told)
        for (seconds, _, accuracy), point in zip(told["evaluations"], published["curve"], strict=True):
            assert abs(seconds - point["ms_since_run_start"] / 1e3) < 1e-6 and accuracy == point["value"], (name, seconds, point)
        first = published["first_eval_at_or_above_target"]
        reached = told["time_to_accuracy_seconds"]
        assert reached is None if first is None else abs(reached - first["ms_since_run_start"] / 1e3) < 1e-6, (name, told)
        assert told["global_batch"] == published["hyperparameters"]["global_batch_size"], (name, told)
        minutes, lasted = published["run_minutes"], told["run_seconds"]
        assert lasted is None if minutes is None else abs(lasted - minutes * 60) < 1e-6, (name, told)
    again = world.call("import", "mlperf", *(LOGS / name for name in names))
    assert again.returncode == 0 and len(again.stdout.splitlines()) == len(names), again


def on_a_terminal(world, words, **more):
    """What a command writes when its output is a terminal."""
    terminal, other = pty.openpty()
    process = subprocess.Popen([REGATTA, *words], stdin=other, stdout=other, stderr=other,
                               env={**world.environment, "TERM": "xterm-256color", "REGATTA_SERVER": server_of(world.data), **more})
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    process.wait(60)
    return shown


def a_terminal_without_colours_gets_none(world):
    for words in (["ls"], ["nodes"], ["--help"], ["ls", "--nonsense"], ["show", "nobody"],
                  ["submit", str(world.run_file), "--dry-run"]):
        shown = on_a_terminal(world, words, NO_COLOR="1")
        assert shown and b"\x1b[" not in shown, (words, shown)


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            results = run_cases("submit", [a_dry_run_shows_the_script_and_the_plan, a_run_begins_with_a_model_or_says_why_not,
                                           published_logs_are_imported_in_one_call,
                                           a_terminal_without_colours_gets_none], world)
        finally:
            world.close()
    return conclude(results)


if __name__ == "__main__":
    sys.exit(main())
