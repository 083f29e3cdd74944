#!/usr/bin/env -S python3 -IS
"""sbatch, squeue, scancel, sacct, scontrol and sinfo of a cluster that is a directory.

Called by one of these names, it finds beside itself `jobs` with a file for each job, `trainer`, which is what a job
runs, and `mode`: by name of a command how it behaves now. A call that is slow ends early when the mode changes.

  slow    30 s before it does anything
  late    30 s after it has done everything and before it says so
  fail    ends as if slurmctld were not there
  cut     leaves out the second half of its answer, and reports success
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(sys.argv[0]).absolute().parent
SLOW_SECONDS = 30
TIME = "%Y-%m-%dT%H:%M:%S"


def mode_of(program):
    try:
        return json.loads((HERE / "mode").read_text()).get(program, "")
    except ValueError:
        return ""


def linger(program, mode):
    deadline = time.monotonic() + SLOW_SECONDS
    while mode_of(program) == mode and time.monotonic() < deadline:
        time.sleep(0.2)


def jobs():
    found = [json.loads(path.read_text()) for path in (HERE / "jobs").glob("*.json")]
    return sorted(found, key=lambda job: job["id"])


def save(job):
    path = HERE / "jobs" / f"{job['id']}.json"
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(job))
    temporary.rename(path)


def stamp(seconds):
    return time.strftime(TIME, time.gmtime(seconds)) if seconds else "N/A"


def run_job(job):
    """In a process of its own, from submission to end. TERM ends the job, as scancel without --signal does."""
    def end(state, code):
        job.update(state=state, end=time.time(), code=code)
        save(job)
        os._exit(0)

    trainer = []

    def cancelled(*_):
        for process in trainer:
            process.kill()
        end("CANCELLED", 0)
    signal.signal(signal.SIGTERM, cancelled)
    job["runner"] = os.getpid()
    save(job)
    time.sleep(random.uniform(0.1, 1))
    out = pathlib.Path(job["directory"]) / "submit" / f"{job['token']}-{job['id']}.out"
    with open(out, "a") as log:
        log.write(f"regatta: run {job['token']}, job {job['id']}, restart 0, 1 nodes (node01)\n")
        log.flush()
        trainer.append(subprocess.Popen([HERE / "trainer", "run", "--directory", job["directory"], "--ranks", "1"],
                                        cwd=job["directory"], stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        job.update(state="RUNNING", start=time.time(), trainer=trainer[0].pid)
        save(job)
        code = trainer[0].wait()
        code = code if code >= 0 else 128 - code
        log.write(f"regatta: step ended with {code}\nregatta: returns {code}\n")
    end("FAILED" if code else "COMPLETED", code)


def sbatch(options):
    named = dict(word[2:].split("=", 1) for word in options if word.startswith("--") and "=" in word)
    number = 1
    while True:
        try:
            os.close(os.open(HERE / "jobs" / str(number), os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError:
            number += 1
    job = {"id": number, "name": named["job-name"], "token": named["comment"].removeprefix("regatta:"),
           "directory": named["chdir"], "state": "PENDING", "submit": time.time(), "start": 0, "end": 0, "code": 0,
           "comment": named["comment"]}
    save(job)
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        run_job(job)
    return f"{number}\n"


def values_of(job):
    """By squeue's letter and by sacct's name."""
    now = time.time()
    common = {"A": job["id"], "T": job["state"], "V": stamp(job["submit"]), "S": stamp(job["start"]),
              "e": stamp(job["end"]), "l": "10:00", "L": "10:00", "M": "0:01", "D": 1, "C": 1, "Q": 1, "b": "N/A", "P": "main",
              "a": "root", "q": "normal", "u": "root", "N": "node01" if job["start"] else "", "Z": job["directory"],
              "r": "Resources" if job["state"] == "PENDING" else "None", "o": "script", "k": job["comment"], "j": job["name"]}
    code = f"{job['code']}:0"
    return common, {
        "JobIDRaw": job["id"], "State": job["state"], "ExitCode": code, "DerivedExitCode": code, "Submit": common["V"],
        "Eligible": common["V"], "Start": common["S"] if job["start"] else "Unknown",
        "End": common["e"] if job["end"] else "Unknown", "ElapsedRaw": int((job["end"] or now) - (job["start"] or now)),
        "Timelimit": "00:10:00", "NNodes": 1, "AllocCPUS": 1, "Priority": 1, "AllocTRES": "cpu=1", "ReqTRES": "cpu=1",
        "Partition": "main", "Account": "root", "QOS": "normal", "User": "root", "NodeList": common["N"] or "None assigned",
        "FailedNode": "", "Restarts": 0, "Reason": "None", "WorkDir": job["directory"], "SubmitLine": "sbatch",
        "Comment": job["comment"], "JobName": job["name"]}


def option(options, name):
    return next(word.partition("=")[2] for word in options if word.startswith(f"--{name}="))


def squeue(options):
    shape = option(options, "format")
    return "".join(re.sub("%([A-Za-z])", lambda found: str(values_of(job)[0][found[1]]), shape) + "\n" for job in jobs())


def sacct(options):
    names, delimiter = option(options, "format").split(","), option(options, "delimiter")
    return "".join(delimiter.join(str(values_of(job)[1][name]) for name in names) + "\n" for job in jobs())


def scancel(options):
    sent = next((word.partition("=")[2] for word in options if word.startswith("--signal=")), "")
    for job in jobs():
        if str(job["id"]) != options[-1] or job["end"] or f"--name={job['name']}" not in options:
            continue
        try:
            os.kill(job.get("trainer", 0) or job["runner"] if sent else job["runner"], signal.SIGTERM)
        except (ProcessLookupError, KeyError):
            pass
    return ""


def scontrol(options):
    words = [word for word in options if not word.startswith("--")]
    if words == ["show", "config"]:
        return ("ClusterName = chaos\nSLURM_VERSION = 24.11.5\nAccountingStorageType = accounting_storage/slurmdbd\n"
                "MinJobAge = 300 sec\nJobRequeue = 1\n")
    if words == ["show", "node"]:
        return "NodeName=node01 State=IDLE CPUTot=64 CPUAlloc=0 RealMemory=64000 FreeMem=32000 Partitions=main\n"
    return ""


def main():
    program, options = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    if "--version" in options:
        print("slurm 24.11.5")
        return
    mode = mode_of(program)
    if mode == "slow":
        linger(program, mode)
    if mode == "fail":
        sys.exit(f"{program}: error: Unable to contact slurm controller (connect failure)")
    answer = globals()[program](options)
    if mode == "late":
        linger(program, mode)
    if mode == "cut":
        answer = answer[:len(answer) // 2 + 7]
    sys.stdout.write(answer)


if __name__ == "__main__":
    main()
