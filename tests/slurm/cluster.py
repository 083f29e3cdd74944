"""A throw-away Slurm for tests: one cluster per test file, in a temporary directory, on free ports.

    with Cluster() as cluster:
        job = cluster.sbatch("srun hostname", "-N2")
        assert cluster.wait_job(job) == "COMPLETED"

Every wait has a deadline that a busy machine meets; nothing here depends on being root.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS

SCRIPT = ROOT / "deploy" / "slurm" / "cluster.sh"
SKIPPED = 77  # what ctest is told to count as skipped
PERCENT = int(os.environ.get("REGATTA_REPETITIONS", "100"))
SEED = int(os.environ.get("REGATTA_SEED", time.time_ns() % 10**6))
SECONDS = 180  # the deadline of whatever should take less than a few seconds
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job in the background; whatever is started would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Skip(Exception):
    """A case that cannot run here, with the reason."""


def wait(what, predicate, seconds=SECONDS, every=0.1):
    """The first true value of the predicate; an AssertionError after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(every)


def scaled(full):
    return max(2, full * PERCENT // 100)


def side_by_side(*parts):
    """Calls all of them at once; the first of their errors once all are through."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(parts))) as pool:
        futures = [pool.submit(part) for part in parts]
    for future in futures:
        future.result()


def processes_of(directory):
    """Pids of all processes with the directory in command line, environment or working directory."""
    found, text = [], os.fsencode(directory)
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.joinpath("stat").read_text().rpartition(") ")[2][0] in "ZX" or int(path.name) == os.getpid():
                continue
            places = path.joinpath("cmdline").read_bytes() + path.joinpath("environ").read_bytes()
            if text in places or os.fsencode(os.readlink(path / "cwd")).startswith(text):
                found.append(int(path.name))
    return found


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def cluster_sh(*arguments, prefix=(), timeout=900, environment=None):
    """Runs cluster.sh; the completed process, whatever its exit code."""
    return subprocess.run([*prefix, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, **(environment or {})))


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Cluster:
    """Options are those of `cluster.sh up`; `uid` runs everything as that user (needs root)."""

    def __init__(self, *options, uid=None):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="regatta-slurm-", dir=work_place()))
        self.work.chmod(0o755)
        self.directory = self.work / "cluster"
        self.jobs = self.work / "jobs"
        self.jobs.mkdir()
        self.jobs.chmod(0o1777)  # jobs that come through REST may belong to nobody
        self.user = pwd.getpwuid(os.getuid() if uid is None else uid).pw_name
        self.prefix = []
        if uid is not None:
            group = pwd.getpwuid(uid).pw_gid
            os.chown(self.work, uid, group)
            self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={group}", "--clear-groups", "--"]
        started = time.monotonic()
        done = self.cluster_sh("up", "--timeout", 300, *options)
        if done.returncode != 0:
            shutil.rmtree(self.work, ignore_errors=True)
            raise AssertionError(f"cluster.sh up: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        self.told = done.stdout + done.stderr
        self.seconds = time.monotonic() - started
        self.environment = self.read_environment()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self.show_logs()
        self.down()

    def cluster_sh(self, command, *arguments, **options):
        return cluster_sh(command, "--directory", self.directory, *arguments, prefix=self.prefix, **options)

    def read_environment(self):
        """What `. DIR/env` gives, as a dictionary; and no defaults of the machine that the test runs on."""
        lines = (self.directory / "env").read_text().splitlines()
        pairs = [line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export ")]
        return {**{key: value.strip("'") for key, value in pairs}, **NO_DEFAULTS}

    def show_logs(self):
        for name in ("slurmctld.log", "slurmdbd.log"):
            path = self.directory / "log" / name
            if path.exists():
                print(f"--- {path}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-30:]), flush=True)

    def down(self):
        """Idempotent; raises when something of the cluster is left."""
        done = self.cluster_sh("down")
        assert done.returncode == 0, f"cluster.sh down: {done.stderr}"
        wait("processes of the cluster end", lambda: not processes_of(self.directory))
        shutil.rmtree(self.work, ignore_errors=True)

    def run(self, *command, timeout=SECONDS, environment=None, **options):
        """A command that sees the cluster; the completed process, whatever its exit code."""
        env = {**os.environ, **self.environment, **(environment or {})}
        return subprocess.run([*self.prefix, *map(str, command)], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, cwd=self.jobs, env=env, **options)

    def output(self, *command, **options):
        """The output of a command that must succeed."""
        done = self.run(*command, **options)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()}"
        return done.stdout

    def sbatch(self, script, *options):
        """Submits lines of bash; the job's number. Its output is in jobs/NUMBER.out."""
        handle, path = tempfile.mkstemp(suffix=".sh", dir=self.jobs)
        with os.fdopen(handle, "w") as file:
            file.write("#!/bin/bash\n" + script + "\n")
        os.chmod(path, 0o644)
        return int(self.output("sbatch", "--parsable", "-o", f"{self.jobs}/%j.out", "--open-mode=append", *options, path))

    def job(self, number):
        """Fields of `scontrol show job` by name, or {} once slurmctld has forgotten it; waits for a busy one."""
        def answer():
            done = self.run("scontrol", "show", "job", "-o", number)
            return done if done.returncode == 0 or "Invalid job id" in done.stderr else None
        return dict(re.findall(r"(\S+?)=(\S*)", wait("slurmctld answers", answer).stdout))

    def wait_job(self, number, states=("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
                 seconds=SECONDS):
        """Waits for one of the states and returns it; once slurmctld has forgotten the job, slurmdbd is asked."""
        wanted = (states,) if isinstance(states, str) else states
        deadline = time.monotonic() + seconds
        while True:
            job = self.job(number)
            state = job["JobState"] if job else self.runs(number)[-1][0]
            if state in wanted:
                return state
            assert time.monotonic() < deadline, f"job {number} is not {' or '.join(wanted)} within {seconds} s: {job or state}"
            time.sleep(0.1)

    def runs(self, number):
        """(state, nodes) of every execution of the job that slurmdbd knows, a requeued one's too, oldest first."""
        lines = self.output("sacct", "-D", "-X", "-P", "-n", "-j", number, "-o", "State,NodeList").splitlines()
        return [tuple(line.split("|")) for line in lines] or [("UNKNOWN", "")]

    def wait_saved(self, number):
        """Until slurmctld has written the job's present state; killed before, it starts with an older one."""
        mark = f"saved-{time.monotonic_ns()}"
        self.output("scontrol", "update", f"jobid={number}", f"comment={mark}")
        state = self.directory / "state" / "job_state"
        wait("slurmctld saves its state", lambda: state.exists() and mark.encode() in state.read_bytes())

    def job_output(self, number):
        return (self.jobs / f"{number}.out").read_text(errors="replace")

    def sacct(self, number, *fields):
        """Text fields of the job itself, waiting until slurmdbd knows its end."""
        def row():
            lines = self.output("sacct", "-X", "-P", "-n", "-j", number, "-o", ",".join(("End", *fields))).splitlines()
            return lines and not lines[-1].startswith("Unknown") and lines[-1].split("|")[1:]
        return wait(f"sacct knows the end of job {number}", row)

    def jobs_submitted(self):
        """As slurmctld itself counts them."""
        return int(re.search(r"Jobs submitted:\s*(\d+)", self.output("sdiag"))[1])

    def calls(self):
        """As slurmctld counts what it was asked, by type."""
        found = re.findall(r"^\t(REQUEST_\w+|MESSAGE_\w+)\s.*count:(\d+)", self.output("sdiag"), re.M)
        return {name: int(count) for name, count in found}

    def status(self):
        return json.loads(self.cluster_sh("status", "-o", "json").stdout)

    def act(self, command, name):
        done = self.cluster_sh(command, name)
        assert done.returncode == 0, f"cluster.sh {command} {name}: {done.stderr}"

    def kill(self, name):
        """A node as if its plug was pulled, or a daemon (slurmctld, slurmdbd, ...) with SIGKILL."""
        self.act("kill", name)

    def start(self, name):
        self.act("start", name)

    @contextlib.contextmanager
    def paused(self, name):
        """SIGSTOP for the duration of a with statement."""
        self.act("pause", name)
        try:
            yield
        finally:
            self.act("resume", name)

    def rest(self, method, path, body=None, over="socket", token=None):
        """(HTTP status, text). `path` follows /slurm/v0.0.N; over "socket" or "tcp" (with a token)."""
        headers = {"Content-Type": "application/json"}
        if over == "socket":
            connection = SocketConnection(self.environment["REGATTA_SLURM_REST_SOCKET"], 60)
        else:
            address = self.environment["REGATTA_SLURM_REST_URL"].removeprefix("http://")
            connection = http.client.HTTPConnection(address, timeout=60)
            command = self.environment["REGATTA_SLURM_REST_TOKEN_COMMAND"].split()
            token = token or self.output(*command).strip().removeprefix("SLURM_JWT=")
            headers |= {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": token}
        with contextlib.closing(connection):
            api = self.environment["REGATTA_SLURM_REST_API"]
            connection.request(method, f"/slurm/{api}{path}", json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")


def work_place():
    """munge wants parents that nobody else can write to, and Slurm a short path without blanks."""
    place = tempfile.gettempdir()
    plain = re.fullmatch(r"[A-Za-z0-9_./+-]{1,40}", place) and not place.startswith("/dev/shm")
    return place if plain else "/tmp"


def need_slurm():
    """Ends the file as skipped, or as failed with REQUIRE=slurm, where Slurm is not installed."""
    done = subprocess.run([ROOT / "deploy" / "slurm" / "install.sh", "--check"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        print(f"needs slurm: {done.stderr.strip()}; run deploy/slurm/install.sh")
        sys.exit(1 if "slurm" in os.environ.get("REQUIRE", "").split(",") else SKIPPED)


# Before a command of Slurm's: tells when it began and, unless it was killed, ended, and with which code.
RECORDED = """#!/bin/bash -p
name=${{0##*/}}
words="$name $*"
echo "begins $EPOCHREALTIME 0 ${{words//$'\\n'/ }}" >> {log}
{command} "$@"
code=$?
echo "ends $EPOCHREALTIME $code ${{words//$'\\n'/ }}" >> {log}
exit $code
"""


class Recorded:
    """All commands by which a program asks Slurm or changes jobs, but sbatch; for whoever has `path` before its PATH."""

    NAMES = ("squeue", "sacct", "scontrol", "sinfo", "sdiag", "sprio", "sshare", "sacctmgr", "scancel", "srun")

    def __init__(self, directory):
        directory.mkdir()
        self.log, self.path = directory / "log", f"{directory}:"
        for name in self.NAMES:
            (directory / name).write_text(RECORDED.format(log=self.log, command=shutil.which(name)))
            (directory / name).chmod(0o755)

    def lines(self, kind, since):
        text = self.log.read_text() if self.log.exists() else ""
        found = [line.split(" ", 3) for line in text.splitlines()]
        return [(float(at), int(code), words) for what, at, code, words in found if what == kind and float(at) >= since]

    def asked(self, since=0):
        """(seconds since 1970, command line) of all that have begun since then, oldest first."""
        return [(at, words) for at, _, words in self.lines("begins", since)]

    def answered(self, since=0):
        """The same of those that have ended well since then."""
        return [(at, words) for at, code, words in self.lines("ends", since) if code == 0]


class Cases:
    """Runs cases, in whatever thread calls, tells each with its seconds, and ends with the exit code."""

    def __init__(self, suite):
        self.suite = suite
        self.lock = threading.Lock()
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def run(self, function, *arguments):
        started = time.monotonic()
        outcome, why = "passed", ""
        try:
            function(*arguments)
        except Skip as reason:
            outcome, why = "skipped", f": needs {reason}"
        except Exception as error:  # every failure is counted, and the next case runs
            outcome, why = "failed", f": {type(error).__name__}: {error}"
        with self.lock:
            self.counts[outcome] += 1
        print(f"{outcome}  {self.suite}.{function.__name__}  {time.monotonic() - started:.1f} s{why}", flush=True)

    def finish(self):
        print(", ".join(f"{number} {outcome}" for outcome, number in self.counts.items()))
        sys.exit(1 if self.counts["failed"] else 0 if self.counts["passed"] else SKIPPED)
