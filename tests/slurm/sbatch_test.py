#!/usr/bin/env python3
"""`regatta sbatch` on a real Slurm: it is sbatch to whoever calls it, what it tells of a script is what sbatch
does with it, and a submission whose answer is lost is found and never repeated.

    tests/slurm/sbatch_test.py [CASE...]
"""
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from cluster import Cases, Cluster, Skip, need_slurm, processes_of, side_by_side, wait
from controller import REGATTA, TRAINER, Controller, make_data, weights
from controller import RUN as TRAINS

# Answers of sbatch that never arrive: the real one is called (or is not), and what it says is lost.
LOST = """#!/bin/bash
{call}
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""
RUN = """name: victim
data: {path: /nowhere}
steps: 10
ranks: 1
slurm: {nodes: 1, ranks_per_node: 1, time_limit: 10, requeue: false, setup: sleep 600}
"""


def script(cluster, name, *lines):
    path = cluster.jobs / name
    path.write_text("\n".join(("#!/bin/bash", *lines)) + "\n")
    return path


def call(cluster, *arguments, program=(REGATTA, "sbatch"), path=None, text="", extra=None, server=""):
    """`regatta sbatch` in the cluster's folder of jobs."""
    environment = {**os.environ, **cluster.environment, **(extra or {})}
    environment["REGATTA_SERVER"] = server
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    return subprocess.run([*map(str, program), *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=300, cwd=cluster.jobs, env=environment)


def held(cluster, *arguments, **options):
    """Submits a job that stays held; (its fields, what was said of it besides that)."""
    done = call(cluster, "-H", "--parsable", *arguments, **options)
    assert done.returncode == 0 and re.fullmatch(r"\d+\n", done.stdout), (done.stdout, done.stderr)
    job = cluster.job(int(done.stdout))
    cluster.output("scancel", done.stdout.strip())
    told = f"regatta: the job is held; `scontrol release {done.stdout.strip()}` lets it start\n"
    assert done.stderr.endswith(told), done.stderr
    return job, done.stderr.removesuffix(told)


def without_ours(text):
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("regatta: "))


def it_answers_as_sbatch_does(cluster):
    plain = script(cluster, "plain.sh", "echo $0 $* > args; exit 3")
    bad = script(cluster, "bad.sh", "#SBATCH --partition=nowhere")
    for arguments in (("-H", plain), ("-H", "--parsable", plain), ("-H", "--wrap", "true"), ("-HQ", plain),
                      ("--test-only", plain), ("--wait", plain), (bad,), ("missing.sh",), ("--no-such-option", plain),
                      ("-N", "99", plain), ("--version",), ("--usage",), ("-H", "-a", "1-3", plain)):
        theirs = call(cluster, *arguments, program=("sbatch",))
        ours = call(cluster, *arguments)
        assert ours.returncode == theirs.returncode, (arguments, ours, theirs)
        number = re.compile(r"\d+(-\d+-\d+T\S+)?")
        assert number.sub("N", ours.stdout) == number.sub("N", theirs.stdout), (arguments, ours, theirs)
        assert number.sub("N", without_ours(ours.stderr)) == number.sub("N", theirs.stderr), (arguments, ours, theirs)
    assert call(cluster, "--wait", plain, "a", "b c").returncode == 3
    assert (cluster.jobs / "args").read_text().endswith(" a b c\n")
    shown = call(cluster, "--help")
    assert shown.stdout.startswith("regatta sbatch") and "--dependency" in shown.stdout, shown
    cluster.run("scancel", "--user", cluster.user)


def a_script_from_stdin_is_read_and_passed_on(cluster):
    job, said = held(cluster, text="#!/bin/bash\n#SBATCH -J piped\ntrue\n#SBATCH -N2\n")
    assert job["JobName"] == "piped" and job["NumNodes"].split("-")[0] == "1", job
    assert "stdin:4: sbatch ignores this line" in said, said


def a_link_of_that_name_stands_for_it(cluster):
    folder = cluster.work / "links"
    folder.mkdir()
    (folder / "sbatch").symlink_to(REGATTA)
    job, _ = held(cluster, "--wrap=true", program=(folder / "sbatch",), path=folder)
    assert job["Comment"].startswith("regatta-sbatch:"), job
    done = call(cluster, "--wrap=true", program=(folder / "sbatch",), extra={"PATH": str(folder)})
    assert done.returncode == 1 and "there is no sbatch in PATH" in done.stderr, done


def a_script_that_is_a_pipe_is_read_once(cluster):
    done = subprocess.run(["bash", "-c", f"{REGATTA} sbatch -H --parsable <(printf '#!/bin/sh\\n#SBATCH -J pipe\\ntrue\\n')"],
                          capture_output=True, text=True, timeout=60, env={**os.environ, **cluster.environment})
    assert done.returncode == 0 and done.stderr.startswith("regatta: the job is held; ") and done.stderr.count("\n") == 1, done
    assert cluster.job(int(done.stdout))["JobName"] == "pipe", done
    cluster.output("scancel", done.stdout.strip())


def a_wrapper_does_not_call_itself_for_ever(cluster):
    folder = cluster.work / "wrapper"
    folder.mkdir()
    (folder / "sbatch").write_text(f'#!/bin/sh\nexec {REGATTA} sbatch "$@"\n')
    (folder / "sbatch").chmod(0o755)
    job, _ = held(cluster, "--wrap=true", program=(folder / "sbatch",), path=folder)
    assert job["Comment"].startswith("regatta-sbatch:"), job


def the_environment_arrives(cluster):
    done = call(cluster, "--wait", "--wrap", "echo $MINE > mine", extra={"MINE": "was here", "SBATCH_JOB_NAME": "by variable"})
    assert done.returncode == 0 and (cluster.jobs / "mine").read_text() == "was here\n", done


def only_what_nobody_said_is_added(cluster):
    plain = script(cluster, "plain.sh", "true")
    said = script(cluster, "said.sh", "#SBATCH --comment=mine --open-mode=truncate -o log", "true")
    job, text = held(cluster, plain)
    assert re.fullmatch(r"regatta-sbatch:[0-9a-f]{16}", job["Comment"]) and not text, (job, text)
    job, _ = held(cluster, said)
    assert job["Comment"] == "mine", job
    job, _ = held(cluster, "--comment=hers", said)
    assert job["Comment"] == "hers", job
    requeue = script(cluster, "requeue.sh", "#SBATCH --output=kept-%j.out --requeue", "echo start $SLURM_RESTART_COUNT",
                     "[ -n \"$SLURM_RESTART_COUNT\" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }")
    done = call(cluster, "--parsable", requeue)
    log = cluster.jobs / f"kept-{done.stdout.strip()}.out"
    cluster.wait_job(int(done.stdout), "COMPLETED")
    assert re.search(r"^start$.*^start 1$", log.read_text(), re.M | re.S), log.read_text()


# Lines behind "#!/bin/bash", the name that the job must get (None: the script's), and what must be told.
VARIANTS = {
    "at the top": (["#SBATCH -J x"], "x", None),
    "after blanks and comments": (["", "  # words", "\t", "#SBATCH --job-name=x"], "x", None),
    "after a command": (["set -e", "#SBATCH -J x"], None, ":3: sbatch ignores this line"),
    "after a command that is indented": (["  true", "#SBATCH -J x"], None, ":3: sbatch ignores this line"),
    "with a blank": (["# SBATCH -J x"], None, ":2: sbatch takes `# SBATCH -J x` for a comment"),
    "indented": (["  #SBATCH -J x"], None, ":2: sbatch takes"),
    "in small letters": (["#sbatch -J x"], None, ":2: sbatch takes"),
    "switched off": (["##SBATCH -J x"], None, None),
    "quoted": (["#SBATCH -J 'x y'"], "x", None),  # the name's first word, as scontrol's line is cut here
    "with a comment": (["#SBATCH -J x # why"], "x", None),
    "with a sign in the word": (["#SBATCH -J x#y"], "x", None),
    "escaped": (["#SBATCH -J x\\#y"], "x#y", None),
    "several in a line": (["#SBATCH -H -J x"], "x", None),
    "the later one": (["#SBATCH -J w", "#SBATCH -J x"], "x", None),
    "a variable": (["#SBATCH -J $HOME"], "$HOME", ":2: sbatch expands nothing here"),
    "with tabs": (["#SBATCH\t-J\tx"], "x", None),
    "shortened": (["#SBATCH --job-n=x"], "x", None),
}


def what_is_told_of_a_script_is_what_sbatch_does(cluster):
    wrong = []
    for number, (name, (lines, wanted, finding)) in enumerate(VARIANTS.items()):
        path = script(cluster, f"variant{number}.sh", *lines, "true")
        job, said = held(cluster, path)
        if job["JobName"] != (wanted or path.name) or (finding is None) != (said == "") or (finding or "") not in said:
            wrong.append(f"{name}: job {job['JobName']}, said {said!r}")
    assert not wrong, "\n".join(wrong)


def a_log_without_a_folder_is_told(cluster):
    path = script(cluster, "logs.sh", "#SBATCH --output=logs/%j.out", "true")
    done = call(cluster, "--parsable", path)
    assert ":2: there is no folder " in done.stderr and done.returncode == 0, done
    assert cluster.wait_job(int(done.stdout)) == "FAILED"
    (cluster.jobs / "logs").mkdir()
    done = call(cluster, "--parsable", path)
    assert done.stderr == "" and cluster.wait_job(int(done.stdout)) == "COMPLETED", done


def a_refusal_has_the_bytes_of_sbatch(cluster):
    plain = script(cluster, "bytes.sh", "true")
    twice = script(cluster, "twice.sh", "#SBATCH --no-such-option=3", "true")
    empty = script(cluster, "empty.sh")
    empty.write_text("")
    dos = script(cluster, "dos.sh", "true\r")
    dos.write_bytes(b"#!/bin/bash\r\ntrue\r\n")
    for arguments in (("--no-such-option", plain), ("-p", "nowhere", plain), ("missing.sh",), (twice,), (empty,), (dos,),
                      ("-N", "0", plain), ("-t", "never", plain), ("--gpus-per-task=1", plain), ("-Z", plain)):
        theirs = call(cluster, *arguments, program=("sbatch",))
        ours = call(cluster, *arguments)
        assert theirs.returncode != 0 and ours.returncode == theirs.returncode, (arguments, ours, theirs)
        assert without_ours(ours.stderr) == theirs.stderr and ours.stdout == theirs.stdout, (arguments, ours, theirs)


# Options, what is told of them, and whether the real Slurm refuses them (else what it makes of them is looked at).
GPUS = (
    ("-N2 --gpus=4 --gpus-per-node=4", "is for the whole job", True),
    ("-N2 --gpus=6 --gpus-per-node=2", "is for the whole job", True),
    ("-N1 --gpus=7 --gpus-per-node=4", "not a multiple of", True),
    ("-N1 --gpus=2 --gres=gpu:4", "not a multiple of", True),
    ("-N2 --gpus=1", "fewer than its 2 nodes", True),
    ("--gpus-per-task=1", "without a number of tasks", True),
    ("--gpus=4 --gpus-per-task=1 -n2", "for the whole job", True),
    ("-N1 -n2 --gpus-per-node=4 --gpus-per-task=1", "wants exactly 4 tasks a node", True),
    ("-N1 --gres=gpu:4 --gpus-per-task=1", "wants exactly 4 tasks a node", True),
    ("-N1 --ntasks-per-node=1 --gpus-per-node=4 --gpus-per-task=1", "wants exactly 4 tasks a node", True),
    ("-N1 -n1 --gpus-per-node=4 --gpus-per-task=3", "wants whole tasks", True),
    ("--gres=gpu:h100:4 --gpus-per-node=4", "with and without a type", True),
    ("--gres=gpu:4 --gpus-per-node=2", "gets 4 GPUs a node", False),
    ("--gres=gpu:2 --gpus-per-node=4", "gets 2 GPUs a node", False),
    ("--gres=gpu:0 --gpus-per-node=2", "", False),
    ("-N2 --gpus=8 --gpus-per-node=4", "", False),
    ("-N2 --gpus=3", "", False),
    ("--gpus=4 --gpus-per-task=1", "", False),
    ("--ntasks-per-node=4 --gpus-per-task=1", "", False),
    ("-N2 -n4 --gpus-per-node=4 --gpus-per-task=2", "", False),
    ("-N2 -n2 --ntasks-per-node=1 --gpus-per-node=8 --gpus-per-task=8 --gres=gpu:8", "", False),
)


def what_is_told_of_gpus_is_what_slurm_does(cluster):
    plain = script(cluster, "gpus.sh", "true")
    wrong = []
    for words, finding, refused in GPUS:
        done = call(cluster, "--test-only", *words.split(), plain)
        told = [line for line in done.stderr.splitlines() if "[gpu-conflict]" in line]
        if (done.returncode != 0) != refused or len(told) != bool(finding) or not any(finding in line for line in [*told, ""]):
            wrong.append(f"{words}: {done.returncode} {done.stderr!r}")
    assert not wrong, "\n".join(wrong)
    for words, wanted in (("--gres=gpu:4 --gpus-per-node=2", 4), ("--gres=gpu:2 --gpus-per-node=4", 2)):
        done = call(cluster, "--parsable", *words.split(), "--wrap=scontrol show -d job $SLURM_JOB_ID > got-$SLURM_JOB_ID")
        number = int(done.stdout)
        assert cluster.wait_job(number) == "COMPLETED"
        text = (cluster.jobs / f"got-{number}").read_text()
        assert re.search(rf"GRES=gpu:h100:{wanted}\(", text), text
    both = script(cluster, "gres.sh", "#SBATCH --gres=gpu:4", "#SBATCH --gres=gpu:2", "true")
    job, said = held(cluster, both)
    assert job["TresPerNode"] == "gres:gpu:2" and "gres.sh:3: only the last --gres counts" in said, (job, said)


def minutes_that_look_like_hours_are_told(cluster):
    path = script(cluster, "minutes.sh", "#SBATCH -t 1:00", "true")
    job, said = held(cluster, path)
    assert job["TimeLimit"] == "00:01:00" and "minutes.sh:2: --time=1:00 is minutes and seconds: 1 minute" in said, (job, said)
    job, said = held(cluster, "-t", "1:00:00", path)
    assert job["TimeLimit"] == "01:00:00" and said == "", (job, said)
    job, said = held(cluster, "--wrap=true", extra={"SBATCH_TIMELIMIT": "2:00"})
    assert job["TimeLimit"] == "00:02:00" and said.startswith("regatta: --time=2:00 is minutes"), (job, said)


SHOW_STEP = """bash -c '[ $SLURM_PROCID != 0 ] || scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID'"""


def cpus_of_steps(cluster, done):
    """CPUs that the steps of a job got, in their order; the job must end well."""
    number = int(done.stdout)
    assert cluster.wait_job(number) == "COMPLETED", done
    return [int(count) for count in re.findall(r" CPUs=(\d+) Tasks=2 ", (cluster.jobs / f"cpus-{number}.out").read_text())]


def a_step_that_loses_cpus_is_told(cluster):
    """srun counts what a task gets: --cpus-per-task of the job does not make a step larger in 22.05 and 23.02. Its tasks
    share all CPUs of the job then, or get one each where the step takes no more than it asks for."""
    version = cluster.output("sbatch", "--version")
    forgets = re.search(r" (22\.05|23\.02)\.", version) is not None
    options = "#SBATCH -N1 --ntasks-per-node=2 -c2 -o cpus-%j.out"
    path = script(cluster, "cpus.sh", options, f"srun {SHOW_STEP}", f"srun --exact {SHOW_STEP}")
    done = call(cluster, "--parsable", path)
    assert ("cpus.sh:3: this srun does not take --cpus-per-task=2 from its job" in done.stderr) == forgets, done
    assert cpus_of_steps(cluster, done) == [4, 2 if forgets else 4], version
    for name, *lines in (("keeps.sh", "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK", f"srun --exact {SHOW_STEP}"),
                         ("says.sh", f"srun -c2 --exact {SHOW_STEP}")):
        done = call(cluster, "--parsable", script(cluster, name, options, *lines))
        assert done.stderr == "" and cpus_of_steps(cluster, done) == [4], (name, done)


STEPS_OF_GPUS = [  # the job's option, the step's, and how many GPUs each of its tasks sees; None: the step is refused
    ("--gpus-per-node=h100:2", "", 2), ("--gpus-per-node=h100:2", "--gpus-per-node=2", 2),
    ("--gpus-per-node=h100:2", "--gres=gpu:2", None), ("--gpus-per-node=h100:2", "--gpus=2", None),
    ("--gpus-per-node=h100:2", "--gpus-per-task=1", None), ("--gpus-per-node=h100:2", "--gpus-per-task=h100:1", 0),
    ("--gpus-per-node=2", "--gpus-per-task=1", 1), ("--gpus-per-node=2", "--gpus-per-node=h100:2", None),
    ("--gpus-per-node=2", "--gpus-per-node=4", None), ("--gpus-per-node=2", "--gpus-per-node=1", 1),
]


def a_step_that_loses_gpus_is_told(cluster):
    """Each row as this Slurm has it, and told where the step gets none or is refused; the releases differ."""
    show = """bash -c 'echo "sees [$CUDA_VISIBLE_DEVICES]"'"""
    jobs = []
    for number, (job, step, sees) in enumerate(STEPS_OF_GPUS):
        path = script(cluster, f"gpus{number}.sh", f"#SBATCH -N1 --ntasks-per-node=2 {job} -o gpus-%j.out",
                      f"srun {step} --mpi=none {show}", "echo returned $?")
        done = call(cluster, "--parsable", path)
        told = re.search(r"gpus\d+.sh:3: this srun has .* \[srun-gpus\]", done.stderr) is not None
        assert told == (not sees), (job, step, done.stderr)
        jobs.append(int(done.stdout))
    if " 22.05." not in cluster.output("sbatch", "--version"):
        return
    for number, (job, step, sees) in zip(jobs, STEPS_OF_GPUS):
        cluster.wait_job(number)
        text = (cluster.jobs / f"gpus-{number}.out").read_text()
        seen = [len(re.findall(r"\d+", devices)) for devices in re.findall(r"sees \[(.*)\]", text)]
        assert seen == ([] if sees is None else [sees, sees]), (job, step, text)
        assert ("returned 0" in text) == (sees is not None), (job, step, text)


def a_limit_that_a_maintenance_blocks_is_told(cluster):
    cluster.output("scontrol", "create", "reservation", "reservationname=maint1", "starttime=now+2hours", "duration=60",
                   "flags=maint,ignore_jobs", "nodes=ALL", f"users={cluster.user}")
    try:
        path = script(cluster, "long.sh", "#SBATCH -t 3:00:00", "true")
        # Where Slurm's answer about reservations takes more than some seconds, nothing is told.
        def told():
            done = call(cluster, "--parsable", path)
            found = re.search(r"long.sh:2: the job waits until the maintenance maint1 is over: it begins at .*"
                              r"; --time=(\d:\d\d:00) would still fit", done.stderr)
            if not found:
                cluster.output("scancel", done.stdout.strip())
            return found and (done, found)
        done, found = wait("it is told", told)
        wait("Slurm says so, too", lambda: "maintenance" in cluster.output("squeue", "-h", "-j", done.stdout.strip(), "-o", "%r").lower())
        fits = call(cluster, "--parsable", "-t", found[1], path)
        assert fits.stderr == "" and cluster.wait_job(int(fits.stdout)) == "COMPLETED", fits
        cluster.output("scancel", done.stdout.strip())
        assert held(cluster, "--reservation=maint1", path)[1] == ""
        wait("so is no limit", lambda: "the time limit unlimited reaches into it" in held(cluster, "--wrap=true")[1])
    finally:
        cluster.output("scontrol", "delete", "reservationname=maint1")
    assert held(cluster, path)[1] == ""


def a_folder_of_another_user_is_told(cluster):
    """Root may write everywhere, so this asks as nobody; the job itself need not run."""
    if os.geteuid() != 0:
        raise Skip("root, to ask as another user")
    theirs = cluster.jobs / "theirs"
    theirs.mkdir(mode=0o755)
    path = script(cluster, "theirs.sh", "#SBATCH -o theirs/%j.out", "true")
    done = call(cluster, "--test-only", path, program=("setpriv", "--reuid=65534", "--clear-groups", "--", REGATTA, "sbatch"))
    assert "theirs.sh:2: you may not write into the folder " in done.stderr and "[no-access]" in done.stderr, done
    assert "no-access" not in call(cluster, "--test-only", path).stderr
    job = call(cluster, "--parsable", "-i", "nothing", path)
    assert "there is no file " in job.stderr and cluster.wait_job(int(job.stdout)) == "FAILED", job


def a_script_that_is_too_large_is_told(cluster):
    path = script(cluster, "large.sh", "true", *["# padding padding padding padding"] * 130000)
    theirs = call(cluster, path, program=("sbatch",))
    done = call(cluster, path)
    assert without_ours(done.stderr) == theirs.stderr and done.returncode == theirs.returncode == 1, done
    assert f"regatta: the script has {path.stat().st_size} bytes, and slurmctld takes 4 MiB" in done.stderr, done


def a_held_job_starts_as_was_told(cluster):
    done = call(cluster, "--hold", "--wrap=true")
    found = re.search(r"regatta: the job is held; `(scontrol release \d+)` lets it start", done.stderr)
    assert found, done
    cluster.output(*found[1].split())
    assert cluster.wait_job(int(found[1].split()[-1])) == "COMPLETED"
    assert call(cluster, "-HQ", "--wrap=true").stderr == ""
    cluster.run("scancel", "--user", cluster.user)


def a_controller_that_is_named_and_away_is_told(cluster):
    job, said = held(cluster, "--wrap=true", server="http://127.0.0.1:9")
    assert job["Comment"].startswith("regatta-sbatch:") and "no node is avoided: cannot reach the controller" in said, said


def a_refusal_says_what_to_do(cluster):
    done = call(cluster, "-p", "nowhere", "--wrap=true")
    assert done.returncode == 1 and done.stdout == "", done
    assert "sbatch: error" in done.stderr and "see `sinfo` for the partitions" in done.stderr, done
    done = call(cluster, "-p", "munge", "--wrap=true")
    assert "looking for a job" not in done.stderr and "see `sinfo`" in done.stderr, done


def lost_answer(cluster, name, command):
    folder = cluster.work / name
    folder.mkdir()
    (folder / "sbatch").write_text(LOST.replace("{call}", command))
    (folder / "sbatch").chmod(0o755)
    return folder


def a_lost_answer_is_found_and_never_repeated(cluster):
    lost = lost_answer(cluster, "lost", '/usr/bin/sbatch "${@/#--wait/-H}" > /dev/null')
    for number, more in enumerate(((), ("--parsable",), ("--array=1-3",))):
        done = call(cluster, "-H", "-J", f"lost{number}", *more, "--wrap=true", path=lost)
        assert done.returncode == 0, done
        assert re.fullmatch(r"\d+\n" if more == ("--parsable",) else r"Submitted batch job \d+\n", done.stdout), done
        assert waiting(cluster) == [f"{re.search('[0-9]+', done.stdout)[0]} lost{number}"], (done, waiting(cluster))
        cluster.output("scancel", "--user", cluster.user)
    done = call(cluster, "-H", "--wait", "--wrap=true", path=lost)
    assert done.returncode == 1 and "its end is not waited for" in done.stderr and waiting(cluster), done
    cluster.output("scancel", "--user", cluster.user)
    done = call(cluster, "-HQ", "--wrap=true", path=lost)
    assert done.returncode == 0 and done.stdout == "" and waiting(cluster), done
    cluster.output("scancel", "--user", cluster.user)
    theirs = script(cluster, "theirs.sh", "#SBATCH --wait --hold", "true")
    done = call(cluster, theirs, path=lost_answer(cluster, "lost2", 'timeout 20 /usr/bin/sbatch "$@" > /dev/null'))
    assert done.returncode == 1 and "its end is not waited for" in done.stderr and waiting(cluster), done
    cluster.output("scancel", "--user", cluster.user)
    done = call(cluster, "-H", "--comment=mine", "--wrap=true", path=lost)
    assert done.returncode == 1 and done.stdout == "" and "look with `squeue --me`" in done.stderr, done
    cluster.run("scancel", "--user", cluster.user)


def waiting(cluster):
    """Ids and names of all jobs that wait; an array is one."""
    return cluster.output("squeue", "-h", "-t", "PD", "-o", "%A %j").splitlines()


def what_was_never_submitted_is_told(cluster):
    never = lost_answer(cluster, "never", "true")
    done = call(cluster, "--wrap=true", path=never)
    assert done.returncode == 1 and done.stdout == "" and "probably none was submitted" in done.stderr, done


def a_stopped_slurmctld_makes_no_second_job(cluster):
    said = cluster.work / "said"
    with open(said, "wb") as log, cluster.paused("slurmctld"):
        process = subprocess.Popen([REGATTA, "sbatch", "-H", "--wrap=true"], stdout=subprocess.PIPE, stderr=log, text=True,
                                   cwd=cluster.jobs, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **cluster.environment, "REGATTA_SERVER": ""})
        wait("sbatch gives up", lambda: "looking for a job" in said.read_text(), 120)
    output, _ = process.communicate(timeout=180)
    jobs = waiting(cluster)
    assert len(jobs) <= 1 and (process.returncode == 0) == (len(jobs) == 1) == bool(output), (jobs, process.returncode, output)
    print(f"  {len(jobs)} jobs: {said.read_text().splitlines()}")
    cluster.run("scancel", "--user", cluster.user)


def a_signal_ends_the_waiting_sbatch(cluster):
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen([REGATTA, "sbatch", "--wait", "--wrap=sleep 100"], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, cwd=cluster.jobs, env={**os.environ, **cluster.environment})
        assert process.stdout.readline().startswith("Submitted batch job "), "it is told while sbatch waits"
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        assert process.wait(60) == -number, process.returncode
        assert children and all(int(child) not in processes_of(cluster.directory) for child in children)
    cluster.run("scancel", "--user", cluster.user)


def suspected_nodes_are_avoided(cluster):
    controller = Controller(cluster)
    try:
        path = cluster.work / "victim.yaml"
        path.write_text(RUN)
        run = json.loads(controller.call("submit", path, "-o", "json").stdout)["id"]
        wait("the job runs", lambda: cluster.output("squeue", "-h", "-t", "R", "-o", "%N").strip())
        name = cluster.output("squeue", "-h", "-t", "R", "-o", "%N").strip()
        cluster.kill(name)

        def suspicion():
            rows = json.loads(controller.call("nodes", "-o", "json").stdout)["nodes"]
            return {row["name"]: row["suspicion"] for row in rows}.get(name, 0)
        wait(f"{name} is suspected", lambda: suspicion() >= 0.9, 240, 1)
        controller.call("cancel", run)
        cluster.start(name)
        wait(f"{name} is back", lambda: "IDLE" in cluster.output("sinfo", "-h", "-n", name, "-o", "%T").upper()
             and "*" not in cluster.output("sinfo", "-h", "-n", name, "-o", "%T"))
        controller.kill()
        controller.start()
        wait("the nodes are known", lambda: controller.call("nodes").returncode == 0, 120)
        job, said = held(cluster, "-N2", "--wrap=true", server=controller.server)
        assert job["ExcNodeList"] == name and f"keeps off {name}, which is suspected (" in said, said
        job, said = held(cluster, "-N2", server=controller.server, text="#!/bin/sh\ntrue\n")
        assert job["ExcNodeList"] == name, (job, said)
        job, said = held(cluster, "-N4", "--wrap=true", server=controller.server)
        assert job["ExcNodeList"] == "(null)" and f"may start on {name}" in said, (job, said)
        job, said = held(cluster, "-N1", "-x", "node04", "--wrap=true", server=controller.server)
        assert job["ExcNodeList"] == "node04", (job, said)
        done = call(cluster, "-N1", "-t", "never", "--wrap=true", server=controller.server)
        assert done.returncode != 0 and "avoids no node: Slurm cannot say" in done.stderr, done
        done = subprocess.run(["bash", "-c", f"{REGATTA} sbatch -H --parsable <(printf '#!/bin/sh\\ntrue\\n')"], capture_output=True,
                              text=True, timeout=60, env={**os.environ, **cluster.environment, "REGATTA_SERVER": controller.server})
        assert done.returncode == 0 and "avoids no node" in done.stderr, done
        assert cluster.job(int(done.stdout))["ExcNodeList"] == "(null)", done
    finally:
        controller.kill()


def a_run_that_a_script_trains_is_shown(cluster):
    """From its first record on, through a requeue, to the weights of an undisturbed run."""
    data = make_data(cluster.work)
    run = cluster.work / "trains.yaml"
    run.write_text(TRAINS.format(name="trains", data=data, ranks=1, steps=8000, every=1000, keep_last=3, nodes=1, more="",
                                 slurm="time_limit: 10"))
    controller = Controller(cluster)
    try:
        train = f"exec srun -n1 {TRAINER} run --directory"
        path = script(cluster, "train.sh", "#SBATCH --signal=USR2@120 --requeue -o train-%j.out",
                      f"{train} {controller.state}/runs/mine {run}")
        plain = script(cluster, "plain.sh", f"{train} {cluster.work}/plain {run}")
        job = int(call(cluster, "--parsable", path, server=controller.server).stdout)
        undisturbed = int(call(cluster, "--parsable", plain).stdout)
        found = wait("the run is shown", lambda: (done := controller.call("show", "mine", "-o", "json")).returncode == 0
                     and json.loads(done.stdout), 120, 0.5)
        assert found["id"] == "mine" and found["state"] in ("running", "starting"), found
        refused = controller.call("cancel", "mine")
        assert refused.returncode == 5 and "scancel" in refused.stderr, refused
        controller.wait_step("mine", 3000)
        cluster.output("scontrol", "requeue", job)
        state, error = controller.wait_over("mine")
        if state == "stopped":  # seen between the two attempts
            wait("it goes on to its end", lambda: controller.show("mine")["state"] == "succeeded", 240, 0.5)
        else:
            assert state == "succeeded", (state, error)
        assert controller.show("mine")["attempts"] == 2, controller.show("mine")
        assert cluster.wait_job(undisturbed) == "COMPLETED"
        assert weights(controller.directory("mine")) == weights(cluster.work / "plain")
    finally:
        controller.kill()
        cluster.run("scancel", "--user", cluster.user)


CASES = [it_answers_as_sbatch_does, a_script_from_stdin_is_read_and_passed_on, a_link_of_that_name_stands_for_it,
         a_script_that_is_a_pipe_is_read_once, a_wrapper_does_not_call_itself_for_ever, the_environment_arrives,
         only_what_nobody_said_is_added, what_is_told_of_a_script_is_what_sbatch_does, a_log_without_a_folder_is_told,
         a_controller_that_is_named_and_away_is_told, a_refusal_has_the_bytes_of_sbatch,
         what_is_told_of_gpus_is_what_slurm_does, minutes_that_look_like_hours_are_told, a_step_that_loses_cpus_is_told,
         a_step_that_loses_gpus_is_told,
         a_limit_that_a_maintenance_blocks_is_told, a_script_that_is_too_large_is_told, a_held_job_starts_as_was_told,
         a_folder_of_another_user_is_told, a_refusal_says_what_to_do, a_lost_answer_is_found_and_never_repeated,
         what_was_never_submitted_is_told, a_stopped_slurmctld_makes_no_second_job, a_signal_ends_the_waiting_sbatch]
# Each of these takes as long as all the others: on clusters of their own, beside the first.
GROUPS = [CASES, [suspected_nodes_are_avoided], [a_run_that_a_script_trains_is_shown]]


def on_a_cluster(cases, chosen):
    if chosen:
        with Cluster("--no-rest") as cluster:
            for case in chosen:
                cases.run(case, cluster)


def main():
    need_slurm()
    cases = Cases("slurm_sbatch")
    chosen = [[case for case in some if not sys.argv[1:] or case.__name__ in sys.argv[1:]] for some in GROUPS]
    side_by_side(*[functools.partial(on_a_cluster, cases, some) for some in chosen])
    cases.finish()


if __name__ == "__main__":
    main()
