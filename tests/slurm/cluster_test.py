#!/usr/bin/env python3
"""deploy/slurm/cluster.sh gives a real Slurm of several nodes, and takes it away without a trace.

    tests/slurm/cluster_test.py [CASE...]
"""
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from cluster import SCRIPT, SEED, Cases, Cluster, Skip, cluster_sh, listening, need_slurm, processes_of, scaled, wait

MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, ranks, sum = 0;
  char host[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  gethostname(host, sizeof host);
  printf("rank %d of %d sum %d on %s\n", rank, ranks, sum, host);
  MPI_Finalize();
  return 0;
}
"""


def compile_mpi(cluster):
    source = cluster.jobs / "sum.c"
    if not (cluster.jobs / "sum").exists():
        source.write_text(MPI_PROGRAM)
        subprocess.run(["mpicc", "-o", cluster.jobs / "sum", source], check=True, timeout=120)
    return cluster.jobs / "sum"


def run_mpi(cluster, launch, *options):
    """The sorted lines that the ranks print."""
    job = cluster.sbatch(f"{launch} {compile_mpi(cluster)}", *options)
    state = cluster.wait_job(job)
    assert state == "COMPLETED", f"{state}: {cluster.job_output(job)}"
    return sorted(line for line in cluster.job_output(job).splitlines() if line.startswith("rank "))


def four_idle_nodes(cluster):
    status = cluster.status()
    assert status["state"] == "up", status
    nodes = {p["name"]: p["node_state"] for p in status["processes"] if p["name"].startswith("node")}
    assert nodes == {f"node0{i}": "idle" for i in range(1, 5)}, nodes
    assert all(p["state"] == "running" and p["pid"] > 1 for p in status["processes"]), status
    told = cluster.cluster_sh("status").stdout
    assert "slurmdbd" in told and str(cluster.directory) in told, told


def mpi_across_nodes(cluster):
    """One rank on each node, two where nodes have a /dev/shm of their own, through srun and mpirun; the
    site's MPI settings arrive whatever environment the job asked for."""
    host = "node0{}" if cluster.status()["namespaces"] else os.uname().nodename
    lines = run_mpi(cluster, "srun --mpi=pmix", "-N4", "--ntasks-per-node=1", "--export=NIL")
    assert lines == [f"rank {i} of 4 sum 10 on {host.format(i + 1)}" for i in range(4)], lines
    lines = run_mpi(cluster, "mpirun", "-N2", "--ntasks-per-node=1")
    assert [line.split(" on ")[0] for line in lines] == ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"], lines
    if cluster.status()["namespaces"]:
        lines = run_mpi(cluster, "srun --mpi=pmix", "-N4", "--ntasks-per-node=2")
        hosts = collections.Counter(line.split(" on ")[1] for line in lines)
        assert len(lines) == 8 and set(hosts.values()) == {2} and "sum 36" in lines[0], lines


def starts_side_by_side(cluster):
    """Steps of eight ranks, three at a time. With Slurm's own choice of fences one start in fifteen
    crashed: its tree lets ranks leave MPI_Init while others are still in it."""
    told = cluster.output("scontrol", "show", "config")
    assert re.search(r"^PMIxCollFence\s*=\s*ring$", told, re.M), told[-600:]
    start = f"timeout -k 5 200 srun --mpi=pmix --overlap --ntasks={8 if cluster.status()['namespaces'] else 4} {compile_mpi(cluster)}"
    job = cluster.sbatch(f"worker() {{ for i in 1 2 3 4 5 6 7 8; do {start} || echo failed; done; }}\nworker & worker & worker & wait",
                         "-N4", "--ntasks-per-node=2")
    assert cluster.wait_job(job, seconds=600) == "COMPLETED"
    output = cluster.job_output(job)
    assert len(re.findall("^rank 0 of", output, re.M)) == 24 and "failed" not in output, output[:3000]


def gpus_are_granted(cluster):
    job = cluster.sbatch("echo batch $CUDA_VISIBLE_DEVICES\nsrun bash -c 'echo step $CUDA_VISIBLE_DEVICES'", "-N2", "--gpus-per-node=3")
    assert cluster.wait_job(job) == "COMPLETED"
    assert sorted(cluster.job_output(job).splitlines()) == ["batch 0,1,2", "step 0,1,2", "step 0,1,2"], cluster.job_output(job)
    done = cluster.run("sbatch", "--gpus-per-node=9", "--wrap", "true")
    assert done.returncode != 0 and "Requested node configuration is not available" in done.stderr, done.stderr


def one_leaf_switch(cluster):
    """With one node of each leaf taken out, two nodes of one leaf are not to be had."""
    leaves = [{"node01", "node02"}, {"node03", "node04"}]
    job = cluster.sbatch("srun hostname -s; scontrol show hostnames", "-N2", "--switches=1")
    assert cluster.wait_job(job) == "COMPLETED"
    assert set(cluster.output("scontrol", "show", "hostnames", cluster.job(job)["NodeList"]).split()) in leaves
    job = cluster.sbatch("true", "-N2", "--switches=1@60:00", "--exclude=node01,node03")
    wait("a reason to wait", lambda: cluster.job(job).get("Reason") == "Resources")
    cluster.output("scancel", job)


def accounting(cluster):
    """State, exit code, comment and GPUs are told after the job."""
    job = cluster.sbatch("exit 3", "--comment=regatta:0123456789abcdef", "--gpus=5")
    assert cluster.wait_job(job) == "FAILED"
    row = cluster.sacct(job, "State", "ExitCode", "Comment", "AllocTRES")
    assert row[:3] == ["FAILED", "3:0", "regatta:0123456789abcdef"] and "gres/gpu=5" in row[3], row


def rest(cluster):
    """Both daemons answer; a job submitted with a token runs; a wrong token is refused."""
    for over in ("socket", "tcp"):
        code, text = cluster.rest("GET", "/nodes", over=over)
        assert code == 200 and len(json.loads(text)["nodes"]) == 4, (over, code, text[:300])
    job = {"script": "#!/bin/bash\nhostname", "job": {
        "name": "rest", "nodes": 1, "current_working_directory": str(cluster.jobs), "environment": {"PATH": "/usr/bin:/bin"},
        "standard_output": f"{cluster.jobs}/%j.out"}}
    code, text = cluster.rest("POST", "/job/submit", job, over="tcp")
    assert code == 200, text
    number = json.loads(text)["job_id"]
    assert cluster.wait_job(number) == "COMPLETED" and cluster.job_output(number).strip()
    code, _ = cluster.rest("GET", "/nodes", over="tcp", token="nonsense")
    assert code >= 400, code


def slurmctld_paused(cluster):
    """Commands hang while it is stopped, and are answered again afterwards."""
    with cluster.paused("slurmctld"):
        states = {p["name"]: p["state"] for p in cluster.status()["processes"]}
        assert states["slurmctld"] == "paused" and cluster.status()["state"] == "partly", states
        try:
            done = cluster.run("squeue", "-h", timeout=2)
            raise AssertionError(f"squeue was answered: {done}")
        except subprocess.TimeoutExpired:
            pass
    cluster.output("squeue", "-h")


def slurmctld_killed(cluster):
    """A job outlives it, and is known to the one that follows."""
    go = cluster.jobs / "go"
    job = cluster.sbatch(f"until [ -e {go} ]; do sleep 0.2; done")
    cluster.wait_job(job, "RUNNING")
    cluster.wait_saved(job)
    cluster.kill("slurmctld")
    assert cluster.run("scontrol", "ping").stdout.find(" is DOWN") > 0
    cluster.start("slurmctld")
    go.write_text("")
    assert cluster.wait_job(job) == "COMPLETED"
    cluster_is_idle(cluster)


def cluster_is_idle(cluster):
    wait("four idle nodes", lambda: cluster.output("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D").strip() == "4")


class NodeLoss:
    """A node is killed under a job. Slurm needs most of a minute to give up on it, so this is begun
    before other cases and looked at after them."""

    def begin_node_loss(self, cluster):
        self.job = cluster.sbatch("echo started on $SLURMD_NODENAME\n[ -z \"$SLURM_RESTART_COUNT\" ] || exit 0\n"
                                  "srun sleep 1000", "-N2", "--requeue")
        wait("both tasks", lambda: len(tasks_of(cluster)) == 2)
        self.node = cluster.job(self.job)["BatchHost"]
        cluster.kill(self.node)
        wait("the tasks of one node", lambda: len(tasks_of(cluster)) == 1)

    def node_lost(self, cluster):
        try:
            wait(f"{self.node} is down", lambda: re.search("State=[A-Z+]*(DOWN|DRAIN)", cluster.run(
                "scontrol", "show", "node", self.node).stdout))
        except AssertionError as error:
            told = cluster.run("scontrol", "show", "node", self.node).stdout + cluster.run("squeue").stdout
            raise AssertionError(f"{error}\n{told}") from None
        wait("a second execution ends well", lambda: cluster.runs(self.job)[-1][0] == "COMPLETED")
        assert [state for state, _ in cluster.runs(self.job)] == ["NODE_FAIL", "COMPLETED"], cluster.runs(self.job)
        first, second = [line.split()[-1] for line in cluster.job_output(self.job).splitlines() if line.startswith("started")]
        assert first == self.node != second, (self.node, first, second)
        assert not tasks_of(cluster), "a task of the first attempt is alive"
        cluster.start(self.node)
        # Down comes back by itself; drained, as Slurm also leaves a node whose launch failed, does not.
        cluster.run("scontrol", "update", f"nodename={self.node}", "state=resume")
        cluster_is_idle(cluster)


def tasks_of(cluster):
    """The `sleep 1000` of jobs, without their srun."""
    return [p for p in processes_of(cluster.directory) if command_line(p).rpartition("/")[2].startswith("sleep\0")]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def a_second_beside(cluster):
    """Without accounting and REST; it does not see the first one's jobs, and its end is not the first one's."""
    with Cluster("--no-accounting", "--no-rest", "--nodes", "1", "--gpus", "0", "--conf", "MinJobAge=77",
                 "--conf", "PartitionName=odd Nodes=ALL MaxTime=5") as second:
        assert second.directory != cluster.directory and second.status()["port"] != cluster.status()["port"]
        assert "MinJobAge               = 77 sec" in second.output("scontrol", "show", "config")
        job = second.sbatch("srun hostname", "-p", "odd")
        assert second.wait_job(job) == "COMPLETED" and job == 1
        assert second.status()["rest"] is None and not second.status()["accounting"]
    assert cluster.status()["state"] in ("up", "partly")
    cluster.output("squeue", "-h")


def refusals(cluster):
    """One line each, and nothing changed."""
    work = cluster.work / "refusals"
    work.mkdir()
    foreign = work / "foreign"
    foreign.mkdir()
    (foreign / "precious").write_text("mine")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        table = [
            (["up", "--directory", cluster.directory], 1, "a cluster runs in"),
            (["up", "--directory", work / "a", "--port", port], 1, "on this machine is in use"),
            (["up", "--directory", work / "b c"], 2, "use only letters"),
            (["up", "--directory", work / "$(true)"], 2, "use only letters"),
            (["up", "--directory", work / ("x" * 90)], 2, "too long for a unix socket"),
            (["up", "--directory", "/dev/shm/regatta"], 2, "not visible inside the nodes"),
            (["up", "--directory", foreign], 1, "is not empty and holds no cluster"),
            (["up", "--directory", foreign / "precious"], 1, "is not a directory"),
            (["up", "--directory", "/proc/self/regatta"], 2, "not visible inside the nodes"),
            (["up", "--nodes", "0"], 2, "--nodes wants a number from 1 to 64"),
            (["up", "--nodes", "65"], 2, "--nodes wants a number from 1 to 64"),
            (["up", "--gpus", "-1"], 2, "--gpus wants a number from 0 to 16"),
            (["up", "--port", "80"], 2, "--port wants a number from 1024 to 65000"),
            (["up", "--port"], 2, "--port needs a value"),
            (["up", "--conf", "two\nlines=1"], 2, "--conf wants KEY=VALUE"),
            (["up", "--sideways"], 2, "unknown option '--sideways'"),
            (["status", "-o", "yaml"], 2, "-o wants json"),
            (["sideways"], 2, "unknown command 'sideways'"),
            ([], 2, "say up, down, status"),
            (["kill", "--directory", cluster.directory], 2, "kill needs a name"),
            (["kill", "node99", "--directory", cluster.directory], 1, "there is no 'node99' in this cluster"),
            (["start", "slurmctld", "--directory", cluster.directory], 1, "slurmctld is running"),
            (["kill", "node01", "--directory", foreign], 1, "no cluster in"),
        ]
        for arguments, code, words in table:
            done = cluster_sh(*arguments)
            assert done.returncode == code and words in done.stderr, (arguments, done.returncode, done.stderr)
            assert done.stderr.count("\n") == 1 or "\n" in "".join(map(str, arguments)), (arguments, done.stderr)
    for name in ("a", "b c", "x" * 90):
        assert not (work / name).exists(), name
    assert (foreign / "precious").read_text() == "mine"
    nothing = cluster_sh("status", "--directory", work / "none", "-o", "json")
    assert nothing.returncode == 3 and json.loads(nothing.stdout)["state"] == "down", nothing
    assert cluster_sh("down", "--directory", work / "none").returncode == 0
    assert cluster.status()["state"] == "up"


def failed_start_leaves_nothing(cluster):
    """The end of the log that tells why, and no process or file."""
    work = cluster.work / "failed"
    done = cluster_sh("up", "--directory", work, "--no-accounting", "--no-rest", "--conf", "SelectType=select/nonsense")
    assert done.returncode == 1 and "select/nonsense" in done.stderr and "slurmctld" in done.stderr, done
    wait("nothing is left", lambda: not work.exists() and not processes_of(work))


# Files of the cluster's directory and names of its processes, with options.
FIRST_MOMENTS = ("run", "mysql", "slurmctld", "node03")
MOMENTS = [("run", []), ("mysql", []), ("slurmctld", ["--no-accounting"]), ("node03", ["--no-accounting"]),
           ("slurmrestd-local", ["--no-accounting"])]


def interrupted_start_leaves_nothing(cluster):
    """Ctrl-C at any moment of the start (REGATTA_SEED repeats those at random); it reaches the whole foreground group, as in a terminal."""
    before = machine()
    work = cluster.work / "interrupted"
    print(f"REGATTA_SEED={SEED}", flush=True)
    dice = random.Random(SEED)
    moments = [*MOMENTS, *((dice.uniform(0, 0.8), ["--no-accounting"]) for _ in range(scaled(20)))]
    tries = 0
    while moments:
        moment, options = moments[0]
        tries += 1
        process = subprocess.Popen([SCRIPT, "up", "--directory", work, *options], stdin=subprocess.DEVNULL, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if isinstance(moment, float):
            time.sleep(moment)  # what is tested
        else:
            wait(moment, lambda: (work / moment).exists() or recorded(work, moment) or process.poll() is not None, every=0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        _, text = process.communicate(timeout=300)
        if process.returncode == 0:  # it was up before the signal came
            cluster_sh("down", "--directory", work)
            if moment in FIRST_MOMENTS:  # a look may come late, but not each time
                assert tries < 5, f"it ended before there was {moment}"
                continue
        else:
            # Without its own trap yet, the shell ends of the signal itself.
            assert process.returncode in (130, -signal.SIGINT), (moment, process.returncode, text)
        tries = 0
        del moments[0]
        wait(f"nothing is left of {moment}", lambda: not work.exists() and not processes_of(work))
    assert machine() == before, (before, machine())


def recorded(directory, name):
    processes = directory / "processes"
    return processes.exists() and f"{name} " in processes.read_text()


def reused_pid_is_left_alone(cluster):
    """A recorded pid that now belongs to another process is not signalled."""
    work = cluster.work / "reused"
    work.mkdir()
    shutil.copy(cluster.directory / "settings", work)
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            ticks = int(pathlib.Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(") ")[2].split()[19])
            (work / "processes").write_text(f"munged {stranger.pid} {ticks - 1}\nslurmctld {stranger.pid} {ticks + 1}\n")
            assert cluster_sh("status", "--directory", work).returncode == 3
            done = cluster_sh("down", "--directory", work)
            assert done.returncode == 0 and not work.exists(), done
            assert stranger.poll() is None, "a process that was not the cluster's was killed"
        finally:
            stranger.kill()


@contextlib.contextmanager
def files_of_killed_starts():
    """Reservations of ports that root's starts have left behind, and nobody holds."""
    made = []
    for port in range(10000, 30000, 100):
        with contextlib.suppress(FileExistsError):
            made.append(open(f"/tmp/.regatta-slurm-port-{port}", "x"))
    try:
        yield
    finally:
        for file in made:
            with contextlib.suppress(BlockingIOError):  # a start beside this test has it
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                pathlib.Path(file.name).unlink(missing_ok=True)
            file.close()


def as_an_ordinary_user(_):
    """Everything without root: nodes, MPI, GPUs, REST."""
    if os.getuid() != 0:
        raise Skip("root to become somebody else; the other cases ran as an ordinary user")
    with files_of_killed_starts(), Cluster("--nodes", "2", "--no-accounting", uid=pwd.getpwnam("nobody").pw_uid) as cluster:
        lines = run_mpi(cluster, "srun --mpi=pmix", "-N2", "--ntasks-per-node=1")
        assert [line.split(" on ")[0] for line in lines] == ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"], lines
        job = cluster.sbatch("id -un; echo $CUDA_VISIBLE_DEVICES", "--gpus=2")
        assert cluster.wait_job(job) == "COMPLETED" and cluster.job_output(job).split() == ["nobody", "0,1"], cluster.job_output(job)
        for over in ("socket", "tcp"):
            code, text = cluster.rest("GET", "/ping", over=over)
            assert code == 200, text
        assert cluster_sh("down", "--directory", cluster.directory, prefix=["setpriv", "--reuid=65533", "--regid=65533",
                                                                            "--clear-groups", "--"]).returncode == 1


def without_namespaces(_):
    """One rank per node works, the user is told, and a killed node takes its steps along."""
    with Cluster("--nodes", "2", "--no-accounting", "--no-rest", "--no-namespaces") as cluster:
        assert "one rank per node" in cluster.told, cluster.told
        lines = run_mpi(cluster, "srun --mpi=pmix", "-N2", "--ntasks-per-node=1")
        assert [line.split(" on ")[0] for line in lines] == ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"], lines
        job = cluster.sbatch("srun sleep 1000", "-w", "node01")
        cluster.wait_job(job, "RUNNING")
        wait("its task", lambda: tasks_of(cluster))
        cluster.kill("node01")
        wait("its end", lambda: not tasks_of(cluster))


def machine():
    """What a node would change if it was set up outside its namespaces."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return os.uname().nodename, [line for line in mounts if line.split()[4] in ("/etc/hosts", "/dev/shm", "/proc")]


def reserve(port):
    """Reserves a port as a start does, from other starts, too; None where one beside this test has it."""
    path = f"/tmp/.regatta-slurm-port-{port}"
    while True:
        file = open(path, "a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except BlockingIOError:
            file.close()
            return None
        except FileNotFoundError:
            pass
        file.close()  # its start ended in between, and removed it


def starts_at_once_choose_other_ports(cluster):
    """Ports that another start has reserved are left alone; here two thirds of them, for starts one after the other."""
    reserved = {port: file for port in range(10000, 30000, 100) if port % 300 and (file := reserve(port))}
    assert len(reserved) > 100, "starts beside this test have some"
    try:
        work = cluster.work / "reserved"
        for _ in range(4):
            done = cluster_sh("up", "--directory", work, "--no-accounting", "--no-rest", "--nodes", 1)
            assert done.returncode == 0, done.stderr
            port = int(re.search(r"^port=(\d+)", (work / "settings").read_text(), re.M)[1])
            assert cluster_sh("down", "--directory", work).returncode == 0
            assert port not in reserved, f"{port} was reserved"
            wait("the port is free again", lambda: (file := reserve(port)) and (os.unlink(file.name), file.close()), 60)
    finally:
        for file in reserved.values():
            pathlib.Path(file.name).unlink(missing_ok=True)
            file.close()


def the_machine_keeps_its_name(cluster):
    """A node that finds itself in the namespaces of the machine gives up; tried in namespaces of our own."""
    if not cluster.status()["namespaces"] or os.getuid() != 0:
        raise Skip("root and namespaces, to be safe while it is tried")
    nodes = SCRIPT.parent / "nodes.sh"
    script = f"""hostname outside; . {nodes}; isolation=(); directory={cluster.work}; namespaces=yes
      mkdir -p $directory/log; touch $directory/hosts; spawn() {{ shift; "$@"; }}
      namespaces_work || tail -n 1 $directory/log/namespaces.out; start_node node07; hostname; grep -c /etc/hosts /proc/mounts"""
    done = subprocess.run(["unshare", "--uts", "--mount", "bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout.split("\n")[:3] == ["still in the namespaces of the machine", "outside", "0"], done


def down_leaves_nothing(cluster):
    """With jobs running and a daemon paused: no process, no port, no file."""
    job = cluster.sbatch("trap '' TERM; srun sleep 1000 & wait; sleep 1000", "-N4")
    cluster.wait_job(job, "RUNNING")
    cluster.act("pause", "slurmdbd")
    ports = range(cluster.status()["port"], cluster.status()["port"] + 14)
    assert any(map(listening, ports)) and len(processes_of(cluster.directory)) > 10
    started = time.monotonic()
    assert cluster.cluster_sh("down").returncode == 0
    left = processes_of(cluster.directory)
    assert not left, [command_line(p) for p in left]
    assert not any(map(listening, ports)) and not cluster.directory.exists()
    assert cluster.cluster_sh("down").returncode == 0, "down twice"
    print(f"  down took {time.monotonic() - started:.1f} s")


LOSS = NodeLoss()
# What the cluster does, and what its starts and ends leave behind: two tests, which run side by side.
PARTS = {
    "cluster": (four_idle_nodes, mpi_across_nodes, starts_side_by_side, gpus_are_granted, one_leaf_switch, accounting, rest,
                refusals, slurmctld_paused, slurmctld_killed, LOSS.begin_node_loss, reused_pid_is_left_alone, LOSS.node_lost,
                down_leaves_nothing),
    "starts": (failed_start_leaves_nothing, a_second_beside, starts_at_once_choose_other_ports, the_machine_keeps_its_name,
               as_an_ordinary_user, without_namespaces, interrupted_start_leaves_nothing),
}


def main():
    """Words: parts, or cases."""
    need_slurm()
    wanted = set(sys.argv[1:])
    name = next(iter(wanted)) if len(wanted) == 1 and wanted <= set(PARTS) else "cluster"
    cases = Cases(f"slurm.{name}")
    with Cluster() as cluster:
        print(f"four nodes after {cluster.seconds:.1f} s as {cluster.user}", flush=True)
        for part, members in PARTS.items():
            for case in members:
                if not wanted or wanted & {part, case.__name__}:
                    cases.run(case, cluster)
    cases.finish()


main()
