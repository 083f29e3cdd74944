#!/usr/bin/env python3
"""Hostile texts through the real sbatch: each is refused in one line, and then nothing was submitted, or
arrives at the job byte for byte. No case may run anything that a text asks for (a file `canary`).

    tests/slurm/hostile_test.py [PART OF A NAME...]

The trainer is a script that keeps its arguments and environment as the kernel has them.
"""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import uuid

from cluster import ROOT, Cases, Cluster, need_slurm, wait
from served import bearer

BUILD = pathlib.Path(os.environ.get("REGATTA_BINARY_DIR", ROOT / "build" / "release"))
REGATTA = BUILD / "orchestrator" / "regatta"
OVER = ("succeeded", "failed", "stopped", "cancelled")
# Until a run ends: twice a lost answer of sbatch, which is looked for during a minute, and some waiting for others.
LONG_SECONDS = 400
TRAINER = """#!/bin/sh
PATH=/usr/bin:/bin
tr '\\0' '\\n' < /proc/$$/cmdline | { while read -r word; do [ "$word" = --directory ] && read -r run && break; done
  cat /proc/$$/environ > "$run/seen.environ"; cat /proc/$$/cmdline > "$run/seen.argv"; }
echo 0 > "$REGATTA_EXIT_FILE"
"""
# Stands before srun in the PATH of a setup: there is no container plug-in here.
SRUN = """#!/bin/bash
printf '%s\\0' "$@" >> "{seen}"
kept=()
for word; do [[ $word = --container-* ]] || kept+=("$word"); done
exec /usr/bin/srun "${{kept[@]}}"
"""

TEXTS = {
    "a line break": "main\ntouch canary", "a sbatch line": "main\n#SBATCH --hold\n#SBATCH --comment=stolen\n", "CR": "main\rtouch canary\r\n",
    "a tab": "main\tx", "a single quote": "main';touch canary;'", "a double quote": 'main";touch canary;"',
    "a substitution": "$(touch canary)", "backticks": "`touch canary`", "a variable": "$HOME ${PATH} $((1+1))", "a semicolon": "main;touch canary",
    "a pipe": "main|touch canary&", "a redirection": "main>canary", "a leading dash": "-rf", "an option": "--wrap=touch canary",
    "percent signs": "%j%%%u%A%%j%", "glob signs": "*?[a-z]{a,b}~ !!", "backslashes": "\\n\\\\main\\", "an ANSI escape": "\x1b[31mred\x1b[0m\x07",
    "UTF-8": "zürich 日本 🐢", "C1 and bidi": "\u009b31m\u202emain\u2028", "a separator": "main\x1fCOMPLETED\x1f0:0", "DEL": "main\x7f",
    "blanks": "  main  ", "a comment": "#main", "fields": "main JobState=COMPLETED ExitCode=0:0 PreemptTime=2026-01-01T00:00:00",
}
NUL = "main\0touch canary"
LONG = "x" * 100_000
CONTROL = [name for name, text in TEXTS.items() if any(ord(c) < 32 or ord(c) == 127 for c in text)]
PRINTABLE = [name for name in TEXTS if name not in CONTROL]


def body(**slurm):
    """A run file of one rank; keys of the section `slurm`."""
    return {"name": "hostile", "data": {"path": "/data"}, "ranks": 1,
            "slurm": {"nodes": 1, "time_limit": 10, "requeue": False, **slurm}}


class Serve:
    """`regatta serve` on the cluster, with directories of any name."""

    def __init__(self, cluster, name, runs=None, trainer=None):
        self.cluster, self.state = cluster, cluster.work / name
        self.runs = os.fsencode(runs or self.state / "runs")
        self.trainer = os.fsencode(trainer or cluster.work / "trainer")
        self.log = cluster.work / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [REGATTA, "serve", "--allow-privileged", "--port", "0", "--data", self.state, "--runs", self.runs,
                 "--trainer", self.trainer, "--scheduler", "slurm_cli"], stdout=subprocess.PIPE, stderr=log,
                stdin=subprocess.DEVNULL, env={**os.environ, **cluster.environment}, cwd=cluster.work)

    def wait_ready(self):
        line = self.process.stdout.readline().decode()
        assert line.startswith("http://"), self.log.read_text(errors="replace")
        self.address = line.strip().removeprefix("http://")

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, method, path, data=None, headers=None):
        """(status, bytes of the answer), of the first answer that is none of a busy machine: those ask to come again."""
        def answer():
            connection = http.client.HTTPConnection(self.address, timeout=120)
            with contextlib.closing(connection):
                connection.request(method, "/api/v1" + path, data, {**bearer(self.state), **(headers or {})})
                answer = connection.getresponse()
                found = answer.status, answer.read()
            return found if found[0] != 503 else None
        return wait(f"{method} {path} is answered", answer, every=0.5)

    def post(self, run, headers=None):
        return self.call("POST", "/runs", run if isinstance(run, bytes) else json.dumps(run, ensure_ascii=False).encode(), headers)

    def submit(self, run):
        status, text = self.post(run, {"Idempotency-Key": uuid.uuid4().hex})
        assert status in (200, 201), text.decode()
        return json.loads(text)["id"]

    def show(self, run):
        return json.loads(self.call("GET", f"/runs/{run}")[1])

    def wait_over(self, run):
        return wait(f"run {run} ends", lambda: (s := self.show(run))["state"] in OVER and s, LONG_SECONDS, 0.3)

    def directory(self, run):
        return os.path.join(self.runs, run.encode())

    def read(self, run, name):
        with open(os.path.join(self.directory(run), os.fsencode(name)), "rb") as file:
            return file.read()

    def environment(self, run):
        return dict(pair.split(b"=", 1) for pair in self.read(run, "seen.environ").split(b"\0")[:-1])

    def launches(self, run):
        """Oldest first. There is one, but where a busy slurmctld took so long that nobody knew whether it had the job
        (and it had not): then another follows."""
        place = os.path.join(self.directory(run), b"launches")
        names = [os.fsdecode(name) for name in (os.listdir(place) if os.path.isdir(place) else []) if name.endswith(b".json")]
        return [json.loads(self.read(run, f"launches/{name}")) for name in sorted(names, key=lambda name: int(name[:-5]))]

    def submitted(self, run):
        """Its newest launch once that is a job."""
        launches = self.launches(run)
        return launches and launches[-1]["handle"] and launches[-1]

    def output(self, run):
        """What the job printed."""
        place = os.path.join(self.directory(run), b"submit")
        return b"".join(self.read(run, f"submit/{name}") for name in map(os.fsdecode, sorted(os.listdir(place)))
                        if name.endswith((".out", ".log"))).decode(errors="replace")


def one_line(text, *parts):
    """A message for a terminal: one line, nothing that moves the cursor, not a book."""
    assert text and len(text.encode()) <= 1500, f"{len(text)} characters: {text[:300]}"
    bad = [c for c in text if c != "\t" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    assert not bad, f"{bad!r} in {text!r}"
    for part in parts:
        assert part in text, f"no {part!r} in {text!r}"


def tree(directory):
    return sorted(path for path in pathlib.Path(os.fsdecode(directory)).rglob("*"))


def is_refused(serve, run, *parts):
    """POST says why in one line that names the place, and nothing is left of the run."""
    before = tree(serve.runs)
    status, text = serve.post(run)
    assert status in (413, 422), f"status {status}: {text[:300]!r}"
    one_line(json.loads(text)["detail"], *parts)
    assert tree(serve.runs) == before, "something was left behind"


def words():
    """Every text as each of the words that go to sbatch's options."""
    for key in ("partition", "account", "qos", "reservation", "constraint", "exclude", "switches"):
        chosen = TEXTS if key in ("partition", "exclude") else ("a sbatch line", "a substitution", "an option", "a separator", "UTF-8")
        for name in chosen:
            value = TEXTS[name]
            yield f"{key}: {name}", body(**{key: [value] if key == "exclude" else value}), (f"slurm.{key}:",)
        yield f"{key}: a NUL", body(**{key: [NUL] if key == "exclude" else NUL}), (f"slurm.{key}:",)
        yield f"{key}: 100 kB", body(**{key: [LONG] if key == "exclude" else LONG}), (f"slurm.{key}:",)


def places():
    for name in (*CONTROL, "UTF-8", "a substitution", "an option", "percent signs", "a comment", "backslashes"):
        yield f"name: {name}", {**body(), "name": TEXTS[name]}, (": name:",)
    yield "name: a NUL", {**body(), "name": NUL}, (": name:",)
    yield "name: 100 kB", {**body(), "name": LONG}, (": name:",)
    for name in CONTROL:
        yield f"data path: {name}", {**body(), "data": {"path": "/data/" + TEXTS[name]}}, (": data.path:",)
    yield "data path: a NUL", {**body(), "data": {"path": "/" + NUL}}, (": data.path:",)
    yield "data path: 100 kB", {**body(), "data": {"path": "/" + LONG}}, (": data.path:",)
    yield "data path: a leading dash", {**body(), "data": {"path": "--wrap=x"}}, ("data.path:",)


def variables():
    names = {"none": "", "an assignment": "A=B", "a blank": "A B", "a line break": "A\ntouch canary", "an option": "-u", "UTF-8": "É",
             "a substitution": "$(touch canary)", "a digit": "1A", "an ANSI escape": "A\x1b[31m", "a NUL": "A\0B", "100 kB": "A" * 1000,
             "a function": "BASH_FUNC_srun%%", "the shell's": "BASH_ENV", "bash's own": "_", "the loader's": "LD_PRELOAD", "Slurm's": "SLURM_CONF",
             "sbatch's": "SBATCH_HOLD", "srun's": "SRUN_EXPORT_ENV", "PMIx's": "PMIX_RANK", "Regatta's": "REGATTA_EXIT_FILE", "IFS": "IFS"}
    for what, name in names.items():
        yield f"variable's name: {what}", body(environment={name: "x"}), ("slurm.environment.",)
    yield "variable: a NUL", body(environment={"A": NUL}), ("slurm.environment.A:", "NUL")
    yield "variable: 128 KiB", body(environment={"A": "x" * 131072}), ("slurm.environment.A:", "131072")
    yield "variables: 300 kB", body(environment={f"A{i}": "x" * 60000 for i in range(5)}), ("slurm.environment:", "5 variables")
    yield "variables: 300", body(environment={f"A{i}": "" for i in range(300)}), ("slurm.environment:", "300 variables")


def options():
    texts = {"short": "-H", "none": "", "dashes": "--", "a word": "hold", "three dashes": "---hold", "hold": "--hold", "its beginning": "--hol",
             "wrap": "--wrap=touch canary", "array": "--array=0-99", "export": "--export=NONE", "comment": "--comment=stolen",
             "job name": "--job-name=stolen", "output": "--output=/tmp/x", "chdir": "--chdir=/", "uid": "--uid=0", "a script": "canary.sh",
             "a blank in the name": "--ho ld", "a substitution in the name": "--$(touch canary)=x", "a NUL": "--mail-user=" + NUL,
             "100 kB": "--mail-user=" + LONG, "test only": "--test-only", "wait": "--wait", "clusters": "--clusters=all"}
    for what, text in texts.items():
        yield f"option: {what}", body(options=[text]), ("slurm.options:",)
    for name in CONTROL:
        yield f"option: {name}", body(options=["--mail-user=" + TEXTS[name]]), ("slurm.options:",)
    yield "options: 300", body(options=["--mail-user=x"] * 300), ("slurm.options:", "300")


def containers():
    image = {"image": "image.sqsh"}
    for name in ("a sbatch line", "CR", "a tab", "an ANSI escape", "DEL"):
        yield f"mount: {name}", body(container={**image, "mounts": [TEXTS[name]]}), ("slurm.container.mounts:",)
        yield f"image: {name}", body(container={"image": TEXTS[name]}), ("slurm.container.image:",)
    yield "mount: a NUL", body(container={**image, "mounts": [NUL]}), ("slurm.container.mounts:",)
    yield "mount: two in one", body(container={**image, "mounts": ["/a:/b,/:/host"]}), ("slurm.container.mounts:",)
    yield "mount: none", body(container={**image, "mounts": [""]}), ("slurm.container.mounts:",)
    yield "mount: 100 kB", body(container={**image, "mounts": [LONG]}), ("slurm.container.mounts:",)
    yield "mount: no image", body(container={"mounts": ["/a:/b"]}), ("slurm.container.mounts:",)
    for option in ("-c", "touch", "--mpi=none", "--ntasks=9", "--multi-prog", "--output=x", "--kill-on-bad-exit=0", "--x\ny"):
        yield f"container argument: {option!r}", body(container={**image, "arguments": [option]}), ("slurm.container.arguments:",)


def files():
    """Run files that are none, or that hide something from whoever reads them."""
    whole = json.dumps(body()).encode()
    yield "file: invalid UTF-8", whole.replace(b"/data", b"/d\xff\xfe"), ("UTF-8",)
    yield "file: half a character", whole.replace(b"/data", b"/d\xed\xa0\x80"), ("UTF-8",)
    yield "file: a raw NUL", whole.replace(b"/data", b"/d\0"), ("UTF-8",)
    yield "file: a key twice", whole.replace(b'"nodes"', b'"nodes": 4, "nodes"'), ("nodes", "twice")
    yield "file: an unknown key with a line break", {**body(), "a\nb": 1}, ("unknown key",)
    yield "file: an unknown key of Slurm's", body(hold="yes"), ("slurm.hold", "unknown key")
    yield "file: two documents", whole + b"\n---\n" + whole, ("first document",)
    yield "file: deep", b"[" * 5000 + b"]" * 5000, ()
    yield "file: numbers as texts", body(nodes="1; touch canary"), ("slurm.nodes:",)
    yield "file: a time with more", body(time_limit="10 --hold"), ("slurm.time_limit:",)
    yield "file: memory with more", body(memory_per_node="1G\n#SBATCH"), ("slurm.memory_per_node:",)
    yield "setup: a NUL", body(setup=NUL), ("slurm.setup:", "NUL")
    yield "setup: more than 64 KiB", body(setup="# " + "x" * 65535), ("slurm.setup:", "65537")


def refused_cases(cases, serve):
    for rows in (words, places, variables, options, containers, files):
        for name, run, parts in rows():
            cases.run(named(name, is_refused), serve, run, *parts)
    cases.run(named("file: 2 MiB", is_too_large), serve)


def is_too_large(serve):
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer may come before the end of the question
        status, text = serve.post(b"{" + b" " * (2 << 20) + b"}")
        assert status == 413, status
        one_line(json.loads(text)["detail"])


def named(name, function):
    def case(*arguments):
        function(*arguments)
    case.__name__ = name
    return case


# What follows goes to sbatch: submitted all together, then looked at.

SPECIAL = {"PATH": "/nonexistent", "HOME": "/home of $(touch canary)", "PWD": "/x", "TMPDIR": "/tmp/x y", "LANG": "xx", "TZ": "x",
           "token": "x", "run_directory": "/", "trainer": "/bin/false", "job": "1", "UTF8": "é" * 32768, "EMPTY": "",
           "OPTERR": "0", "PS4": "$(touch canary)", "PROMPT_COMMAND": "touch canary", "POSIXLY_CORRECT": "1"}
SETUPS = {  # the text, and what it leaves in the environment, or None where the job must end with 20
    "a sbatch line": ("#SBATCH --hold\n#SBATCH --comment=stolen\n  #SBATCH --wrap=x\nexport SEEN=1", "1"),
    "every text in 64 KiB": ("", None),
    "an open quote": ("echo 'open", None),
    "exit 0": ("exit 0", None),
    "the end of something": ("true\n}\ndone\nfi\n)", None),
}
ALL = "\n".join(text for text in TEXTS.values() if not text.endswith("\n"))
HERE = f"read -r -d '' SEEN <<'END OF SEEN'\n{ALL}\nEND OF SEEN\nexport SEEN\n"
SETUPS["every text in 64 KiB"] = (HERE + "#" * (65536 - len(HERE.encode())), ALL)
MOUNTS = ["/a:/b:ro", *(f"/{TEXTS[name]}:/x".replace(",", "") for name in PRINTABLE)]
REFUSED_BY_SLURM = {  # what slurmctld or sbatch finds, with what the message must hold
    "partition: none of the cluster": (dict(partition="nonsense"), "nvalid partition"),
    "partition: a word of a lost connection": (dict(partition="munge"), "nvalid partition"),
    "partition: half a list": (dict(partition="main[01-"), "nvalid partition"),
    "exclude: half a list": (dict(exclude=["node[01-"]), "nvalid node"),
    "exclude: a hundred million nodes": (dict(exclude=["node[0-99999999]"]), "nvalid node"),
    "exclude: backwards": (dict(exclude=["node[9-1]"]), "nvalid node"),
    "constraint: open brackets": (dict(constraint="(([["), "nvalid feature"),
    "option: unknown, with words of a lost connection": (dict(options=["--unable=connection refused"]), "--unable"),
    "option: a time with words of a lost connection": (dict(options=["--begin=connection refused"]), "--begin"),
    "option: a time with words of a wait": (dict(options=["--begin=try again"]), "--begin"),
    "option: a license with words of a lost connection": (dict(options=["--licenses=unable to contact"]), "icense"),
    "options: 1 MB": (dict(options=["--mail-user=" + "x" * 3950] * 254), "bytes"),
}
PLACES = {"blanks and quotes": "it's \"a\" `touch canary` $(touch canary) ; touch canary", "percent signs": "%j %% 100%u%",
          "glob signs": "[a-z]*?{b,c}~!", "UTF-8": "zürich 日本🐢", "an option": "-rf --hold", "a sbatch line": "#SBATCH --hold",
          "invalid UTF-8": os.fsdecode(b"\xff\xfe"), "3 kB": "/".join(["x" * 250] * 12)}
BAD_PLACES = {"a line break": "a\nb", "an ANSI escape": "\x1b[31m", "a backslash": "a\\b", "DEL": "\x7f", "4 kB": "/".join(["x" * 250] * 16)}


def variable_of(name):
    return "V_" + name.replace(" ", "_").replace("-", "_")


def submit_all(cluster, serve):
    """The runs by kind and name."""
    runs = {}
    environment = {variable_of(name): text for name, text in TEXTS.items()}
    paths = "/data/" + "/".join(TEXTS[name] for name in PRINTABLE)
    runs["variables"] = serve.submit({**body(environment={**environment, **SPECIAL}), "data": {"path": paths}})
    for name, (text, _) in SETUPS.items():
        runs["setup", name] = serve.submit(body(setup=text))
    seen = cluster.work / "srun.seen"
    program = cluster.work / "bin" / "srun"
    program.parent.mkdir()
    program.write_text(SRUN.format(seen=seen))
    program.chmod(0o755)
    arguments = ["--container-name=" + TEXTS[name] for name in PRINTABLE]
    runs["container"] = serve.submit(body(setup=f"PATH={program.parent}:$PATH", container={
        "image": "/" + "".join(TEXTS[name] for name in PRINTABLE), "mounts": MOUNTS, "arguments": arguments}))
    for name in PRINTABLE:
        runs["mail", name] = serve.submit(body(options=["--begin=now+1hour", "--mail-type=TIME_LIMIT", "--mail-user=" + TEXTS[name]],
                                               exclude=["node04", "node[02-03]"], switches="1@5"))
    for name, (slurm, _) in REFUSED_BY_SLURM.items():
        runs["refused", name] = serve.submit(body(**slurm))
    return runs


def asked(cluster, *command):
    """The output of a question that a busy slurmctld may answer too late."""
    def answer():
        done = cluster.run(*command)
        return done if done.returncode == 0 or "timed out" not in done.stderr else None
    done = wait(f"{command[0]} is answered", answer)
    assert done.returncode == 0, done.stderr
    return done.stdout


def comment_of(serve, run):
    """The job's comment must be ours, whatever the texts say: each launch that is a job has one."""
    comments = {f"regatta:{launch['token']}": bool(launch["handle"]) for launch in serve.launches(run)}
    jobs = asked(serve.cluster, "squeue", "-h", "-t", "all", "-n", "hostile", "-o", "%k").splitlines()
    ours = sorted(job for job in jobs if job in comments)
    return bool(ours) and ours == sorted(comment for comment, has_job in comments.items() if has_job) or (ours, jobs)


def succeeds(serve, run):
    shown = serve.wait_over(run)
    assert shown["state"] == "succeeded", f"{shown['state']}: {shown['error']}\n{serve.output(run)[-300:]}"
    assert comment_of(serve, run) is True, comment_of(serve, run)


def variable_arrives(serve, run, name, text):
    succeeds(serve, run)
    got = serve.environment(run).get(name.encode())
    assert got == text.encode(), f"{got!r:.300}, expected {text!r:.300}"


def data_path_arrives(serve, run):
    succeeds(serve, run)
    assert json.loads(serve.read(run, "run.json"))["data"]["path"] == "/data/" + "/".join(TEXTS[name] for name in PRINTABLE)
    words = serve.read(run, "seen.argv").split(b"\0")[1:-1]
    assert words[:6] == [serve.trainer, b"run", b"--directory", serve.directory(run), b"--ranks", b"1"], words


def setup_is_only_shell(serve, run, expected):
    if expected is not None:
        succeeds(serve, run)
        assert serve.environment(run).get(b"SEEN") == expected.encode()
        return
    shown = serve.wait_over(run)
    assert shown["state"] == "failed" and serve.launches(run)[-1]["exit_code"] == 20, shown
    assert "slurm.setup" in serve.output(run), serve.output(run)
    assert not os.path.exists(os.path.join(serve.directory(run), b"seen.argv")), "the trainer ran"


def container_arrives(serve, run):
    succeeds(serve, run)
    image = "--container-image=/" + "".join(TEXTS[name] for name in PRINTABLE)
    wanted = [image, "--container-mounts=" + ",".join(MOUNTS), *("--container-name=" + TEXTS[name] for name in PRINTABLE)]
    words = (serve.cluster.work / "srun.seen").read_bytes().split(b"\0")
    got = [word for word in words if word.startswith(b"--container-")]
    steps, once = 2 * len(serve.launches(run)), [word.encode() for word in wanted]  # the proof of the nodes, and the ranks
    assert got in [number * once for number in range(2, steps + 1)], got


def option_arrives(serve, run, text):
    """Word for word at slurmctld, and no field of the answer is taken from it."""
    try:
        job = wait("the job is submitted", lambda: serve.submitted(run), LONG_SECONDS)["handle"].split(":")[1]
        told = asked(serve.cluster, "scontrol", "show", "job", job)
        for part in (f"   MailUser={text} MailType=TIME_LIMIT\n", "ExcNodeList=node[02-04]", "Switches=1@00:05:00", "JobState=PENDING"):
            assert part in told, f"no {part} in {told}"
        assert comment_of(serve, run) is True, comment_of(serve, run)
        assert serve.show(run)["state"] in ("queued", "starting"), serve.show(run)
    finally:  # or the next case would fail for this one, too
        status = serve.call("POST", f"/runs/{run}/cancel")[0]
    assert status == 202, status


def all_are_cancelled(serve, runs):
    states = {serve.wait_over(run)["state"] for run in runs}
    assert states == {"cancelled"}, states


def is_refused_by_slurm(serve, run, part):
    shown = serve.wait_over(run)
    assert shown["state"] == "failed", shown
    one_line(shown["error"], part)
    assert serve.call("GET", f"/runs/{run}/explain")[0] == 200, "whatever Slurm could not read"
    launches = serve.launches(run)
    assert launches and all(launch["over"] and not launch["handle"] for launch in launches), launches
    jobs = asked(serve.cluster, "squeue", "-h", "-t", "all", "-o", "%k")
    assert not any(launch["token"] in jobs for launch in launches), jobs


def place_arrives(serve, run):
    succeeds(serve, run)
    words = serve.read(run, "seen.argv").split(b"\0")[1:-1]
    assert words[0] == serve.trainer and words[3] == serve.directory(run), words
    assert json.loads(serve.call("GET", "/version")[1])["scheduler"] == "slurm_cli"


def place_is_refused(serve, part):
    assert serve.process.wait(LONG_SECONDS) != 0 and not serve.process.stdout.read()
    lines = [line for line in serve.log.read_text(errors="replace").splitlines() if "runs as root" not in line]
    assert len(lines) == 1, lines
    one_line(lines[0], part)


def no_canary(cluster, serves):
    found = [path for path in tree(cluster.work) if path.name == "canary"]
    assert not found, found
    launches = [json.loads(path.read_text()) for serve in serves for path in tree(serve.runs) if path.parent.name == "launches"
                and path.suffix == ".json"]
    known = {"regatta:" + launch["token"] for launch in launches if launch["handle"]}
    jobs = dict(row.split("|") for row in asked(cluster, "squeue", "-h", "-t", "all", "-o", "%A|%k").splitlines())
    numbers = set(asked(cluster, "sacct", "-n", "-X", "-P", "-S", "now-1hour", "-o", "JobID").split())
    assert numbers <= set(jobs), f"{numbers - set(jobs)} are nobody's"
    assert len(jobs) > 10 and set(jobs.values()) <= known and len(set(jobs.values())) == len(jobs), f"{jobs}, but {known}"


def serve_at(cluster, name, text, trainer_text):
    """A controller whose runs lie in a directory of that name, and whose trainer in another."""
    number = len(list(cluster.work.iterdir()))
    place = cluster.work / f"at-{number}"
    trainer = place / "t" / trainer_text / "regatta-train"
    trainer.parent.mkdir(parents=True)
    trainer.write_text(TRAINER)
    trainer.chmod(0o755)
    return Serve(cluster, f"state-{number}", place / text / "runs", trainer)


def submitted_cases(cases, cluster, serve):
    good = {name: serve_at(cluster, name, text, text if len(text) < 300 else "t") for name, text in PLACES.items()}
    bad = {f"runs: {name}": serve_at(cluster, name, text, "t") for name, text in BAD_PLACES.items()}
    bad |= {f"trainer: {name}": serve_at(cluster, name, "r", text) for name, text in BAD_PLACES.items() if name in ("a line break", "an ANSI escape")}
    # A controller that knows the nodes looks at what runs ask for before sbatch does; it does here, not only where the
    # cases before took long enough.
    wait("the nodes are known", lambda: json.loads(serve.call("GET", "/nodes")[1])["taken_at"], LONG_SECONDS, 0.5)
    runs = submit_all(cluster, serve)
    for other in good.values():
        with contextlib.suppress(AssertionError, OSError):  # told by its case
            other.wait_ready()
            other.run = other.submit(body())
    for name in PRINTABLE:
        cases.run(named(f"option's value: {name}", option_arrives), serve, runs["mail", name], TEXTS[name])
    cases.run(named("option's values: cancelled", all_are_cancelled), serve, [runs["mail", name] for name in PRINTABLE])
    for name, (_, part) in REFUSED_BY_SLURM.items():
        cases.run(named(name, is_refused_by_slurm), serve, runs["refused", name], part)
    for name, text in {**{variable_of(name): text for name, text in TEXTS.items()}, **SPECIAL}.items():
        cases.run(named(f"variable: {name}", variable_arrives), serve, runs["variables"], name, text)
    cases.run(named("data path: every printable text", data_path_arrives), serve, runs["variables"])
    for name, (_, expected) in SETUPS.items():
        cases.run(named(f"setup: {name}", setup_is_only_shell), serve, runs["setup", name], expected)
    cases.run(named("container: every printable text", container_arrives), serve, runs["container"])
    for name, other in good.items():
        cases.run(named(f"directories: {name}", lambda other=other: place_arrives(other, other.run)))
    for name, other in bad.items():
        cases.run(named(f"directory of {name}", place_is_refused), other, "the trainer" if name.startswith("trainer") else "the run directory")
    cases.run(named("nothing ran, and every job is known", no_canary), cluster, [serve, *good.values()])
    for other in (*good.values(), *bad.values()):
        other.end()


def main():
    need_slurm()
    cases = Cases("slurm_hostile")
    # On a busy machine the jobs are looked at minutes after their end, and what is slow is not lost.
    patience = ("MinJobAge=3000", "SlurmdTimeout=600", "BatchStartTimeout=300", "MessageTimeout=60")
    with Cluster("--no-rest", *(word for line in patience for word in ("--conf", line))) as cluster:
        trainer = cluster.work / "trainer"
        trainer.write_text(TRAINER)
        trainer.chmod(0o755)
        serve = Serve(cluster, "main")
        try:
            serve.wait_ready()
            refused_cases(cases, serve)
            submitted_cases(cases, cluster, serve)
        finally:
            serve.end()
            print(serve.log.read_text(errors="replace")[-1500:])
    cases.finish()


if __name__ == "__main__":
    main()
