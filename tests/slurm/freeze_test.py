#!/usr/bin/env python3
"""`regatta sbatch --freeze` on a real Slurm: what a job runs is what stood there when it was submitted, through
edits, requeues and lost answers, and `regatta diff` says what has changed since.

    tests/slurm/freeze_test.py [CASE...]
"""
import json
import os
import re
import subprocess
import sys
import time

from cluster import Cases, Cluster, need_slurm, wait
from controller import REGATTA, TRAINER, Controller, make_data
from controller import RUN as TRAINS

LOST = """#!/bin/bash
{call}
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""


class Project:
    """A git working tree with a script that says what it finds, beside a store of its own."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.root = cluster.jobs / name
        self.store = cluster.jobs / f"{name}-store"
        (self.root / "scripts").mkdir(parents=True)
        self.write("scripts/job.sh", '#!/bin/bash\n#SBATCH -o logs/%j.out\ncat value\necho "in $PWD from $SLURM_SUBMIT_DIR"\n'
                                     'bash lib/part.sh\necho results > out/$SLURM_JOB_ID\n')
        self.write("lib/part.sh", "echo part one\n")
        self.write("value", "one\n")
        self.write(".gitignore", "out/\nlogs/\n")
        for folder in ("out", "logs"):
            (self.root / folder).mkdir()
            self.write(f"{folder}/keep", "")
        self.git("init", "-q")
        self.commit()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=Test", "-c", "user.email=test@localhost", "-C", self.root, *arguments],
                              check=True, capture_output=True, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")
        return self.git("rev-parse", "HEAD")

    def environment(self, path=None):
        environment = {**os.environ, **self.cluster.environment, "REGATTA_FROZEN": str(self.store), "REGATTA_SERVER": ""}
        if path:
            environment["PATH"] = f"{path}:{environment['PATH']}"
        return environment

    def call(self, *arguments, below="", path=None, text=""):
        return subprocess.run([REGATTA, *map(str, arguments)], capture_output=True, text=True, timeout=300, input=text,
                              cwd=self.root / below, env=self.environment(path))

    def submit(self, *arguments, **options):
        done = self.call("sbatch", "--parsable", *arguments, **options)
        assert done.returncode == 0 and re.fullmatch(r"\d+\n", done.stdout), done
        return int(done.stdout), done.stderr

    def frozen(self):
        jobs = self.store / "jobs"
        return sorted(path for path in jobs.iterdir() if path.name[0] != ".") if jobs.exists() else []

    def log(self, number):
        return (self.root / "logs" / f"{number}.out").read_text()


def what_is_edited_while_it_waits_changes_nothing(cluster):
    project = Project(cluster, "edited")
    project.write("value", "one, not committed\n")
    project.write("new.txt", "never added\n")
    number, said = project.submit("-H", "--freeze", "scripts/job.sh")
    head = project.git("rev-parse", "HEAD")
    assert f"froze 5 files" in said and head[:12] in said and "git ignores it: logs, out" in said, said
    project.write("value", "two\n")
    project.write("lib/part.sh", "echo part two\n")
    project.write("scripts/job.sh", "#!/bin/bash\nexit 1\n")
    (project.root / "new.txt").unlink()
    project.commit()
    cluster.output("scontrol", "release", number)
    assert cluster.wait_job(number) == "COMPLETED", cluster.job(number)
    folder, = project.frozen()
    tree = folder / "tree"
    assert project.log(number) == f"one, not committed\nin {tree} from {tree}\npart one\n", project.log(number)
    assert (project.root / "out" / str(number)).read_text() == "results\n", "what git ignores is where it was"
    assert (tree / "new.txt").read_text() == "never added\n"
    assert cluster.job(number)["JobName"] == "job.sh", cluster.job(number)


def a_requeued_job_runs_the_same_again(cluster):
    project = Project(cluster, "requeued")
    project.write("scripts/job.sh", "#!/bin/bash\n#SBATCH --requeue -o logs/%j.out\ncat value\n")
    number, _ = project.submit("--freeze", "scripts/job.sh")
    # Requeued after its end, not during it: slurmctld may hear of a start's end when the job waits again already, and
    # then takes it for the end of the job.
    assert cluster.wait_job(number) == "COMPLETED" and project.log(number) == "one\n", cluster.job(number)
    project.write("value", "two\n")
    time.sleep(1.5)  # within the second of that end, slurmd refuses the job's next start: "Job credential revoked"
    cluster.output("scontrol", "requeue", number)
    cluster.output("scontrol", "update", f"JobId={number}", "StartTime=now")  # Slurm's own delay is two minutes
    wait("it has run again", lambda: project.log(number) == "one\none\n")
    assert cluster.wait_job(number) == "COMPLETED", (project.log(number), cluster.job(number))


def a_commit_is_run_whatever_the_tree_looks_like(cluster):
    project = Project(cluster, "commit")
    first = project.git("rev-parse", "HEAD")
    project.write("value", "two\n")
    project.commit()
    project.write("value", "three\n")
    project.write("scripts/job.sh", "#!/bin/bash\nexit 1\n")
    for name in ("HEAD~1", first[:10]):
        number, said = project.submit(f"--freeze={name}", "scripts/job.sh")
        assert f"of commit {first[:12]}" in said, said
        assert cluster.wait_job(number) == "COMPLETED", cluster.job(number)
        assert project.log(number).startswith("one\n"), project.log(number)
    number, _ = project.submit("--freeze=HEAD~1", project.root / "scripts/job.sh")
    assert cluster.wait_job(number) == "COMPLETED", "an absolute path means the commit's script, too"
    project.write("late.sh", "#!/bin/bash\ntrue\n")
    for words, sentence in ((("--freeze=nowhere", "scripts/job.sh"), "'nowhere' is not a commit"),
                            (("--freeze=HEAD", "late.sh"), "late.sh is not in ")):
        done = project.call("sbatch", *words)
        assert done.returncode == 7 and done.stdout == "" and sentence in done.stderr and done.stderr.count("\n") == 1, done
    assert len(project.frozen()) == 3, project.frozen()


def logs_input_and_folder_are_where_they_would_have_been(cluster):
    project = Project(cluster, "places")
    project.write("scripts/here.sh", "#!/bin/bash\ncat\npwd\necho trouble >&2\n")
    project.write("scripts/input", "asked\n")
    project.commit()
    number, _ = project.submit("--freeze", "-o", "mine-%j", "-e", "err-%j", "-i", "input", "here.sh", below="scripts")
    assert cluster.wait_job(number) == "COMPLETED", cluster.job(number)
    folder = project.frozen()[-1] / "tree"
    assert (project.root / f"scripts/mine-{number}").exists(), cluster.job(number)
    assert (project.root / f"scripts/mine-{number}").read_text() == f"asked\n{folder}/scripts\n"
    assert (project.root / f"scripts/err-{number}").read_text() == "trouble\n"
    number, _ = project.submit("--freeze", "--wrap=pwd")
    assert cluster.wait_job(number) == "COMPLETED", cluster.job(number)
    assert (project.root / f"slurm-{number}.out").read_text() == f"{project.frozen()[-1]}/tree\n"
    number, _ = project.submit("--freeze", "-a", "2", "--chdir=scripts", "--wrap=pwd")
    assert cluster.wait_job(number) == "COMPLETED", cluster.job(number)
    assert (project.root / f"scripts/slurm-{number}_2.out").read_text() == f"{project.frozen()[-1]}/tree/scripts\n"
    number, said = project.submit("--freeze", f"--chdir={cluster.jobs}", "-o", f"{cluster.jobs}/out-%j", "--wrap=pwd")
    assert "is not in" in said and "not frozen" in said, said
    assert cluster.wait_job(number) == "COMPLETED" and (cluster.jobs / f"out-{number}").read_text() == f"{cluster.jobs}\n"
    number, _ = project.submit("--freeze", text="#!/bin/bash\n#SBATCH -o logs/%j.out\ncat value\n")
    assert cluster.wait_job(number) == "COMPLETED" and project.log(number) == "one\n", "a script from stdin"


def its_own_options_are_not_the_scripts(cluster):
    project = Project(cluster, "words")
    project.write("scripts/echo.sh", '#!/bin/bash\n#SBATCH -o logs/%j.out\necho "$@"\n')
    project.write("large", "x" * 2000)
    number, said = project.submit("scripts/echo.sh", "--freeze", "--freeze-limit=1")
    assert "froze" not in said and project.frozen() == [], said
    assert cluster.wait_job(number) == "COMPLETED" and project.log(number) == "--freeze --freeze-limit=1\n", project.log(number)
    number, _ = project.submit("--freeze-limit=5M", "-J", "named", "--freeze", "scripts/echo.sh", "--freeze=x")
    assert cluster.wait_job(number) == "COMPLETED" and project.log(number) == "--freeze=x\n", project.log(number)
    assert cluster.job(number)["JobName"] == "named"
    for words, sentence in ((("--freeze-limit=5M",), "no effect without --freeze"), (("--freeze", "--freeze-limit=big"), "use a size"),
                            (("--freeze", "--freeze-limit=1K"), "--freeze-limit=SIZE"),
                            (("--freeze", "--wrap=true", ":", "--wrap=true"), "single jobs")):
        done = project.call("sbatch", *words, "scripts/echo.sh")
        assert done.returncode == 7 and sentence in done.stderr and done.stdout == "", (words, done)
    done = project.call("sbatch", "--freeze", "--test-only", "scripts/echo.sh")
    assert done.returncode == 0 and len(project.frozen()) == 1, done


def a_refused_one_leaves_nothing_and_a_lost_one_its_tree(cluster):
    project = Project(cluster, "refused")
    done = project.call("sbatch", "--freeze", "-p", "nowhere", "scripts/job.sh")
    assert done.returncode == 1 and "sbatch: error" in done.stderr and project.frozen() == [], done
    for name, call, left in (("lost", '/usr/bin/sbatch "$@" > /dev/null', True), ("never", "true", False)):
        folder = cluster.work / f"freeze-{name}"
        folder.mkdir()
        (folder / "sbatch").write_text(LOST.replace("{call}", call))
        (folder / "sbatch").chmod(0o755)
        done = project.call("sbatch", "-H", "--parsable", "--freeze", "scripts/job.sh", path=folder)
        assert len(project.frozen()) >= 1, "it may be there all the same"
        if left:
            assert done.returncode == 0, done
            assert project.call("diff", done.stdout.strip()).returncode == 0, "it is known by its job"
            cluster.output("scancel", done.stdout.strip())


def diff_tells_what_has_changed(cluster):
    project = Project(cluster, "diff")
    number, said = project.submit("-H", "--freeze", "scripts/job.sh")
    name = project.frozen()[0].name
    assert name in said, said
    done = project.call("diff", number)
    assert done.returncode == 0 and done.stdout == "" and "nothing has changed since" in done.stderr, done
    project.write("value", "two\n")
    project.write("more.txt", "\n")
    (project.root / "lib/part.sh").unlink()
    for what in (number, name):
        done = project.call("diff", what)
        assert done.returncode == 1, done
        assert done.stdout == ("gone  lib/part.sh\nnew  more.txt\nchanged  value\n--- frozen/value\n+++ now/value\n"
                               "@@ -1 +1 @@\n-one\n+two\n"), done.stdout
    done = project.call("diff", "--names-only", number)
    assert done.stdout == "gone  lib/part.sh\nnew  more.txt\nchanged  value\n", done.stdout
    told = json.loads(project.call("diff", number, "-o", "json").stdout)
    assert [(change["path"], change["change"]) for change in told["changes"]] == [
        ("lib/part.sh", "gone"), ("more.txt", "new"), ("value", "changed")], told
    done = project.call("diff", "99999999")
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "not a job that was frozen" in done.stderr, done
    cluster.output("scancel", number)


def diff_finds_the_tree_of_a_run(cluster):
    """Of a run that a frozen script trains, and of one that the controller made, beside its run file."""
    project = Project(cluster, "run")
    data = make_data(cluster.work)
    text = TRAINS.format(name="frozen", data=data, ranks=1, steps=20, every=10, keep_last=1, nodes=1, more="", slurm="time_limit: 10")
    project.write("run.yaml", text)
    controller = Controller(cluster)
    try:
        project.write("train.sh", f"#!/bin/bash\n#SBATCH -o logs/%j.out\nsrun -n1 {TRAINER} run --directory "
                                  f"{controller.state}/runs/mine run.yaml\n")
        number, _ = project.submit("-H", "--freeze", "train.sh")
        project.write("run.yaml", "no run file any more\n")
        cluster.output("scontrol", "release", number)
        assert cluster.wait_job(number) == "COMPLETED", project.log(number)
        wait("the run is shown", lambda: controller.call("show", "mine").returncode == 0, 120, 0.5)
        ask = lambda *words: subprocess.run([REGATTA, "diff", "--server", controller.server, *map(str, words)], timeout=60,
                                            capture_output=True, text=True, env=project.environment(), cwd=project.root)
        done = ask("mine", "--names-only")
        assert done.returncode == 1 and done.stdout == "changed  run.yaml\n", done
        plain = cluster.work / "plain.yaml"
        plain.write_text(text.replace("name: frozen", "name: plain"))
        submitted = json.loads(controller.call("submit", str(plain), "-o", "json").stdout)["id"]
        done = ask(submitted)
        assert done.returncode == 3 and "run.json" in done.stderr and f"regatta diff {submitted} FILE" in done.stderr, done
        done = ask(submitted, plain)
        assert done.returncode == 0 and "the same" in done.stderr, done
        plain.write_text(plain.read_text().replace("steps: 20", "steps: 30"))
        done = ask(submitted, plain)
        assert done.returncode == 1 and done.stdout == "steps: 20 -> 30\n", done
    finally:
        controller.kill()
        cluster.run("scancel", "--user", cluster.user)


def main():
    need_slurm()
    cases = Cases("slurm_freeze")
    wanted = sys.argv[1:]
    with Cluster() as cluster:
        for case in (what_is_edited_while_it_waits_changes_nothing, a_requeued_job_runs_the_same_again,
                     a_commit_is_run_whatever_the_tree_looks_like, logs_input_and_folder_are_where_they_would_have_been,
                     its_own_options_are_not_the_scripts, a_refused_one_leaves_nothing_and_a_lost_one_its_tree,
                     diff_tells_what_has_changed, diff_finds_the_tree_of_a_run):
            if not wanted or case.__name__ in wanted:
                cases.run(case, cluster)
    cases.finish()


if __name__ == "__main__":
    main()
