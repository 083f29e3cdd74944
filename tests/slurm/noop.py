"""Runs of the no-op trainer: a controller for them, and what must hold of them whatever happened."""
import collections
import http.client
import json
import pathlib
import re
import urllib.parse

from cluster import wait
from controller import OVER, Controller
from served import bearer

# An sbatch option of runs that wait, where submission is measured, not how jobs share few cores.
WAITING = "--begin=now+1hour"
NOOP_TRAINER = pathlib.Path(__file__).resolve().parent / "noop_trainer.py"


def run_file(name, ends="0", steps=3, pause=0.1, **slurm):
    return {"name": name, "data": {"path": "/nowhere"}, "steps": 10**6,
            "slurm": {"nodes": 1, "ranks_per_node": 1, "time_limit": 10,
                      "environment": {"NOOP_ENDS": ends, "NOOP_STEPS": str(steps), "NOOP_PAUSE": str(pause)}, **slurm}}


class NoopController(Controller):
    """`regatta serve` with the no-op trainer, or another, asked over HTTP."""

    def __init__(self, cluster, name, path="", trainer=NOOP_TRAINER):
        self.submitted = set()
        super().__init__(cluster, name, path, trainer)

    def request(self, method, path, body=None, headers=None):
        """The answer of a controller that is there; while it starts, or is too busy, it asks to come again."""
        def answer():
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=120)
            try:
                connection.request(method, "/api/v1" + path, json.dumps(body) if body else None,
                                   {**({"Content-Type": "application/json"} if body else {}), **bearer(self.state), **(headers or {})})
                found = connection.getresponse()
                return None if found.status == 503 else (found.status, found.read().decode())
            finally:
                connection.close()
        status, text = wait(f"{method} {path} is answered", answer, 120, 0.5)
        assert status < 300, f"{method} {path}: {status}: {text}"
        return json.loads(text)

    def submit(self, name, key=None, **options):
        """The id of a new run of run_file()."""
        headers = {"Idempotency-Key": key} if key else {}
        run = self.request("POST", "/runs", run_file(name, **options), headers)["id"]
        self.submitted.add(run)
        return run

    def runs(self):
        return {run["id"]: run for run in self.request("GET", "/runs?limit=1000")["runs"]}

    def explain(self, run):
        return self.request("GET", f"/runs/{run}/explain")

    def wait_all_over(self, runs, seconds=400, meanwhile=lambda: None):
        def over():
            meanwhile()
            now = self.runs()
            return all(now[run]["state"] in OVER for run in runs) and now
        return wait(f"{len(runs)} runs end", over, seconds, 0.5)

    def launches(self, run):
        paths = sorted((self.directory(run) / "launches").glob("*.json"), key=lambda path: int(path.stem))
        return [json.loads(path.read_text()) for path in paths]

    def writers(self, run):
        """(epoch, execution, type) of every record written, in the order of writing."""
        path = self.directory(run) / "writers"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(epoch), execution, kind) for epoch, execution, kind in map(str.split, lines)]


def with_a_controller(case, cluster, path=""):
    """The case as one without arguments, of (cluster, controller)."""
    def run():
        controller = NoopController(cluster, case.__name__, path)
        try:
            case(cluster, controller)
        except Exception:
            print(controller.log.read_text()[-6000:], flush=True)
            raise
        finally:
            controller.kill()
    run.__name__ = case.__name__
    return run


def accounted(cluster):
    """By token (number, begin, end) of all executions that slurmdbd has heard of, oldest first."""
    jobs = collections.defaultdict(list)
    for line in cluster.output("sacct", "-D", "-X", "-P", "-n", "-S", "now-1day", "-o",
                               "JobIDRaw,Start,End,SubmitLine").splitlines():
        *row, submitted = line.split("|", 3)
        token = re.search(r"--comment=regatta:([0-9a-f]{16})", submitted)
        if token:
            jobs[token[1]].append(tuple(row))
    return jobs


def what_was_done(controller, run):
    """What tells afterwards who started what: launches, and what the jobs' scripts said."""
    outputs = sorted((controller.directory(run) / "submit").glob("*.out"))
    said = [f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}" for path in outputs]
    lines = [line for line in controller.log.read_text(errors="replace").splitlines() if run in line]
    return "\n".join([json.dumps(controller.launches(run)), *said, *lines[-40:]])


def ends_once(controller, run):
    """Of all executions one came to the run's end, and none wrote after a newer one had begun."""
    lines = controller.writers(run)
    ends = [record for record in controller.records(run, "end") if record["exit_code"] not in (22, 25)]
    assert len(ends) == 1, f"run {run} ended {len(ends)} times: {lines}\n{what_was_done(controller, run)}"
    late, newest = collections.Counter(), 0
    for epoch, execution, _ in lines:
        newest = max(newest, epoch)
        late[execution] += epoch < newest
    # One record may be on its way when the newer epoch is taken.
    assert all(count <= 1 for count in late.values()), f"two wrote to run {run} at once: {lines}"


def nothing_doubled(cluster, controller, runs, slurm_forgot=False):
    """Every launch has the job that it names, there is no other, one at a time, and none is left in the queue.

    slurm_forgot: slurmctld was killed before it saved jobs, which then have nothing in sacct, or no end.
    """
    def all_written():  # into the run's directory, a moment after it is over
        launches = {run: controller.launches(run) for run in runs}
        return all(launch["over"] for each in launches.values() for launch in each) and launches
    written = wait("the end of every launch is written down", all_written, 240)
    named = {launch["token"]: launch["handle"].split(":")[1] for launches in written.values() for launch in launches
             if launch["handle"]}
    comments = {f"regatta:{launch['token']}" for launches in written.values() for launch in launches}
    wait("no job is left", lambda: not comments & set(cluster.output("squeue", "-h", "-t", "PD,R,CG", "-o", "%k").split()), 240)

    def all_accounted():
        jobs = accounted(cluster)
        ended = [rows[-1][2] != "Unknown" for token in named if (rows := jobs.get(token))]
        return (slurm_forgot or len(ended) == len(named) and all(ended)) and jobs
    jobs = wait("sacct knows every launch's job", all_accounted, 240, 0.5)
    for run, launches in written.items():
        executions = []
        for launch in launches:
            rows = jobs.get(launch["token"], [])
            numbers = {number for number, _, _ in rows}
            expected = {named[launch["token"]]} if launch["handle"] else set()
            assert numbers == expected or slurm_forgot and not numbers, f"launch {launch} of {run} has jobs {numbers}"
            executions += [(begin, end) for _, begin, end in rows if begin not in ("None", "Unknown")]
        executions.sort()
        overlap = [pair for pair in zip(executions, executions[1:]) if pair[1][0] < pair[0][1]]
        assert slurm_forgot or not overlap, f"jobs of {run} ran at once: {overlap}"
    print(f"{len(written)} runs, {sum(map(len, written.values()))} launches, {len(named)} of them with a job", flush=True)
