"""A controller of regatta on a throw-away cluster, and the runs that tests of Slurm submit to it."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

from cluster import ROOT, wait
import served
from served import server_of

BUILD = pathlib.Path(os.environ.get("REGATTA_BINARY_DIR", ROOT / "build" / "release"))
REGATTA = BUILD / "orchestrator" / "regatta"
TRAINER = BUILD / "trainer" / "regatta-train"
OVER = ("succeeded", "failed", "stopped", "cancelled")

RUN = """name: {name}
model: {{preset: tiny, layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 16}}
optimizer: {{learning_rate: 0.003}}
threads: 1
ranks: {ranks}
steps: {steps}
evaluate: {{every: 50, samples: 32}}
checkpoint: {{every: {every}, keep_last: {keep_last}}}
{more}
slurm:
  nodes: {nodes}
  ranks_per_node: 1
  {slurm}
"""


def make_data(directory):
    return served.make_data(directory, TRAINER)


class Controller:
    """`regatta serve` on the cluster; may be killed and started again. `path` comes before PATH."""

    def __init__(self, cluster, name="serve", path="", trainer=TRAINER):
        self.cluster, self.process, self.path, self.trainer = cluster, None, path, trainer
        self.state, self.log = cluster.work / name, cluster.work / f"{name}.log"
        self.start()

    def start(self, scheduler="slurm_cli", environment=None):
        """environment: more or other variables than the cluster's; None for one that is left out."""
        log = open(self.log, "ab")
        whole = {**os.environ, **self.cluster.environment, "PATH": f"{self.path}{os.environ['PATH']}", **(environment or {})}
        self.process = subprocess.Popen(
            [REGATTA, "serve", "--allow-privileged", "--port", "0", "--data", self.state, "--trainer", self.trainer,
             "--scheduler", scheduler], stdout=subprocess.PIPE, stderr=log, text=True, stdin=subprocess.DEVNULL,
            env={name: value for name, value in whole.items() if value is not None}, start_new_session=True)
        log.close()
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.told()[-2000:]

    @property
    def server(self):
        return server_of(self.state)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def told(self):
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def tell(self):
        """Prints what the jobs' scripts said, and the end of the controller's log."""
        for path in sorted((self.state / "runs").glob("*/submit/*.out")):
            lines = path.read_text(errors="replace").splitlines()
            print(f"--- {path.parts[-3]} {path.name}\n" + "\n".join(line for line in lines if "exported:" not in line))
        print(self.told()[-3000:])

    def call(self, *arguments, server=True):
        """A command of regatta; server=False for those that need no controller."""
        more = ["--server", self.server] if server else []
        return subprocess.run([REGATTA, *map(str, arguments), *more], capture_output=True, text=True,
                              timeout=120, env={**os.environ, **self.cluster.environment})

    def submit(self, name, steps, every=50, more="", slurm="time_limit: 10", ranks=4, nodes=None, keep_last=3,
               options=()):
        """Submits a run with one rank per node; its id. `nodes` may be a range that ends at `ranks`."""
        path = self.cluster.work / f"{name}.yaml"
        path.write_text(RUN.format(name=name, data=self.cluster.work / "data", steps=steps, every=every, more=more,
                                   slurm=slurm, ranks=ranks, nodes=nodes or ranks, keep_last=keep_last))
        done = self.call("submit", path, "-o", "json", *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["id"]

    def show(self, run):
        return json.loads(self.call("show", run, "-o", "json").stdout)

    def wait_over(self, run, seconds=400):
        shown = wait(f"run {run} ends", lambda: (s := self.show(run))["state"] in OVER and s, seconds, 0.5)
        return shown["state"], shown.get("error") or ""

    def wait_step(self, run, step):
        def reached():
            if self.steps(run) >= step:
                return True
            shown = self.show(run)
            assert shown["state"] not in OVER, f"run {run} is {shown['state']}: {shown.get('error')}; {tail_of(self, run)}"
            return False
        wait(f"run {run} reaches step {step}", reached, 300, 0.3)

    def directory(self, run):
        return self.state / "runs" / run

    def attempts(self, run):
        """The records of each attempt, in their order."""
        journals = self.directory(run).glob("attempts/*/journal.jsonl")
        found = []
        for journal in sorted(journals, key=lambda path: (int(path.parent.name.split("-")[0]), path)):
            found.append([])
            for line in journal.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    found[-1].append(json.loads(line))
        return found

    def records(self, run, kind):
        return [record for attempt in self.attempts(run) for record in attempt if record["type"] == kind]

    def steps(self, run):
        return max((record["step"] for record in self.records(run, "step")), default=0)


def checkpoints(directory):
    """Directories of whole checkpoints by step."""
    found = {}
    for path in sorted((directory / "checkpoints").glob("step-*")):
        if (path / "manifest.json").exists():
            found[int(path.name.split("-")[1])] = path
    return found


def weights(directory, step=None):
    """The step of the last checkpoint, or that one, and the bytes of its tensors."""
    found = checkpoints(directory)
    step = max(found) if step is None else step
    return step, [path.read_bytes() for path in sorted(found[step].glob("*.safetensors"))]


def succeeds(controller, run):
    state, error = controller.wait_over(run)
    assert state == "succeeded", f"{state}: {error}; {tail_of(controller, run)}"


def tail_of(controller, run):
    text = ""
    for path in sorted((controller.directory(run) / "submit").glob("*")):
        if path.suffix in (".out", ".log"):
            text += f"\n--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-8:])
    return text
