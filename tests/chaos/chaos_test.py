#!/usr/bin/env python3
"""Everything at once: what a controller acknowledged is kept, whatever surrounds it.

    tests/chaos/chaos_test.py [--seconds N] [--seed N] [--without ATTACKER,…] [--keep]

Two controllers, `local` (on a tmpfs that fills up) and `slurm` (commands of a Slurm that is slow, fails and cuts its
answers), get 50 runs of a trainer that trains nothing, and are attacked. Then the surroundings are calm, all runs end,
the local controller's store is removed once more, and the books are compared: what was acknowledged, what was shown
as over, and what lies in the run directories.

A minute; ten where REGATTA_REPETITIONS is 100. The same seed has the same runs and attackers, not the same moments.
"""
import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "slurm"))
from cluster import work_place  # noqa: E402
from controller import REGATTA  # noqa: E402

import surroundings  # noqa: E402
from serving import NEVER_OUT, Controller, Faults, Gone, free_port, judge_probes, probe, read_probes, trivial_server  # noqa: E402
from story import Story  # noqa: E402

ATTACKERS = ["kill", "removed_store", "killed_trainers", "full_disk", "files", "slow_connections", "ranges", "slow_slurm"]
LOCAL_RUNS, SLURM_RUNS = 40, 10
END_SECONDS = 150  # after which runs that have not ended are a fault
SETTLE_SECONDS = 13  # after a full disk until everything is written down; the pause between two tries is 5 s and doubles


class Chaos:
    def __init__(self, options, work):
        self.options, self.work, self.faults = options, work, Faults()
        self.dice, self.has_minutes = random.Random(options.seed), options.seconds >= 300
        self.attackers = [name for name in ATTACKERS if name not in options.without]
        self.stop, self.calm = threading.Event(), threading.Event()
        self.processes, self.calm_of_processes, self.ended = [], multiprocessing.Event(), multiprocessing.Event()
        self.canary, self.secret = secrets.token_hex(16), work / "secret"
        self.secret.write_text(f"a file of somebody else: {secrets.token_hex(16)}\n")
        NEVER_OUT[self.canary.encode()] = "another client's header"
        NEVER_OUT[self.secret.read_bytes().strip()] = "the content of a linked file"
        self.disk = surroundings.SmallDisk(work / "disk")
        if "full_disk" in self.attackers and not self.disk.mounted:
            self.attackers.remove("full_disk")
            print(f"SKIPPED full_disk: needs a tmpfs: {self.disk.why_not}", flush=True)
        self.slurm = work / "bin"
        (self.slurm / "jobs").mkdir(parents=True)
        for name in ("sbatch", "squeue", "scancel", "sacct", "scontrol", "sinfo"):
            (self.slurm / name).symlink_to(HERE / "fake_slurm.py")
        # Of this work directory, so that its processes are told from those of another test beside it.
        self.trainer = self.slurm / "trainer"
        self.trainer.symlink_to(HERE / "chaos_trainer.py")
        surroundings.set_mode(self.slurm, {})
        self.full_until, self.stories = 0.0, []
        self.counts = dict.fromkeys(["kills", "removed stores", "full disks", "killed trainers", "planted"], 0)

    def begin(self):
        self.local = self.story("local", self.disk.place / "data", LOCAL_RUNS, 6)
        self.on_slurm = self.story("slurm", self.work / "slurm", SLURM_RUNS, 0)

    def story(self, name, data, number, victims):
        scheduler = {"local": ["local", "--parallel", "8"], "slurm": ["slurm_cli"]}[name]
        controller = Controller(name, data, self.work, [str(REGATTA), "serve", "--trainer", str(self.trainer), "--scheduler",
                                                        *scheduler], f"{self.slurm}:{os.environ['PATH']}", self.faults)
        story = Story(controller, self.dice, number, victims if "files" in self.attackers else 0)
        controller.may_fail = lambda path: (name == "local" and time.monotonic() < self.full_until) or any(
            run in path for run in story.of_victims())
        self.stories.append(story)
        return story

    def process(self, function, *arguments):
        process = multiprocessing.Process(target=function, args=arguments, daemon=True)
        process.start()
        self.processes.append(process)

    def result(self, name):
        return self.work / f"{name}.results"

    def start_processes(self):
        """Before there are threads."""
        trivial = free_port()
        self.process(trivial_server, trivial)
        self.process(probe, trivial, None, self.result("trivial"), self.ended)
        for story in self.stories:
            controller = story.controller
            self.process(probe, controller.port, controller.data, self.result(f"{controller.name}-probe"), self.ended)
            for attacker in ("slow_connections", "ranges"):
                if attacker in self.attackers:
                    self.process(getattr(surroundings, attacker), controller.port, controller.data, self.dice.random(),
                                 self.result(f"{controller.name}-{attacker}"), self.calm_of_processes, self.canary)

    def restart(self, controller, removes_store=False):
        controller.kill()
        if removes_store:
            controller.lost_stores.append(time.monotonic())
            for path in controller.data.glob("store.sqlite*"):
                path.unlink()
            self.counts["removed stores"] += 1
        self.counts["kills"] += 1
        controller.start()

    def until_adopted(self):
        """What a rebuilt store still has to learn may not fit on a full disk: two blows at once."""
        while not self.calm.wait(0.1):
            with contextlib.suppress(Gone):
                if self.local.controller.is_adopted():
                    return

    def fill_the_disk(self, dice):
        """For some seconds, in which a run that trains can be cancelled: it may be what filled the disk."""
        self.until_adopted()
        self.full_until = float("inf")
        self.disk.fill()
        self.counts["full disks"] += 1
        begin = time.monotonic()
        waiting = [run for run in self.local.runs if run.kind == "cancelled" and run.name in self.local.known and not run.cancelled]
        if waiting:
            self.local.cancel(waiting[0], self.calm)
            if time.monotonic() > begin + 30:  # the disk stays full meanwhile, so one that waits for it waits for ever
                self.faults.add(f"cancelling took {time.monotonic() - begin:.1f} s on a full disk")
        self.calm.wait(max(0, begin + dice.uniform(2, 4.5) - time.monotonic()))
        self.disk.free()
        self.full_until = time.monotonic() + SETTLE_SECONDS

    def fate_of_local(self, dice):
        """One blow after another: what two at once take is nobody's promise. A store is removed only when what ended on
        a full disk has been written down."""
        acts = ["kill", "removed_store", "removed_store", "full_disk", "kill"]
        while True:
            for act in acts:
                if self.calm.wait(dice.uniform(1, 4)):
                    return
                if act == "full_disk" and act in self.attackers:
                    self.fill_the_disk(dice)
                elif act == "removed_store" and act in self.attackers and time.monotonic() > self.full_until:
                    self.restart(self.local.controller, True)
                elif "kill" in self.attackers:
                    self.restart(self.local.controller)
            dice.shuffle(acts)

    def fate_of_slurm(self, dice):
        while not self.calm.wait(dice.uniform(5, 15)):
            if "kill" in self.attackers:
                self.restart(self.on_slurm.controller, "removed_store" in self.attackers and dice.random() < 0.3)

    def trouble_runs(self, dice):
        """KILL for the trainers of some runs, at most twice each; strange files for others."""
        kills = {}
        while not self.calm.wait(dice.uniform(0.2, 0.8)):
            for run in self.local.runs:
                directory = self.local.controller.data / "runs" / self.local.known.get(run.name, "none")
                if run.kind == "killed" and "killed_trainers" in self.attackers and kills.get(run.name, 0) < 2 and dice.random() < 0.2:
                    if directory.name != "none" and surroundings.kill_trainer(directory):
                        kills[run.name] = kills.get(run.name, 0) + 1
                        self.counts["killed trainers"] += 1
                if run.name in self.local.victims and directory.name != "none" and dice.random() < 0.1:
                    surroundings.plant(dice, directory, self.secret)
                    self.counts["planted"] += 1

    def attack(self):
        begin = time.monotonic()
        # The rest of the time is for what has begun to end.
        end = begin + self.options.seconds * (0.75 if self.has_minutes else 0.6)
        threads = []

        def thread(function, *arguments):
            threads.append(threading.Thread(target=self.guarded, args=(function, *arguments), daemon=True))
            threads[-1].start()
        for story in self.stories:
            seeds = random.Random(self.dice.random())
            thread(story.watch, self.stop)
            thread(surroundings.read_everything, seeds, story.controller, story.known, self.stop, self.canary)
            for run in story.runs:
                thread(story.live, run, begin, end, self.stop)
        for fate in (self.fate_of_local, self.fate_of_slurm, self.trouble_runs):
            thread(fate, random.Random(self.dice.random()))
        if "slow_slurm" in self.attackers:
            thread(surroundings.misbehave, random.Random(self.dice.random()), self.slurm, self.calm, self.has_minutes)
        time.sleep(max(0, end - time.monotonic()))
        self.calm.set()
        self.calm_of_processes.set()
        print(f"calm after {time.monotonic() - begin:.0f} s: " + ", ".join(f"{n} {what}" for what, n in self.counts.items()), flush=True)
        return threads

    def guarded(self, function, *arguments):
        try:
            function(*arguments)
        except Gone:
            pass
        except Exception as error:  # a thread that dies silently would attack nothing
            self.faults.add(f"{function.__name__}: {error!r}")

    def compare(self):
        excused = self.counts["killed trainers"] + self.counts["full disks"] > 0
        for story in self.stories:
            story.wait_all_over(END_SECONDS)
        self.stop.set()
        if "removed_store" in self.attackers:
            time.sleep(1)
            self.local.compare_temporaries()
            self.restart(self.local.controller, True)
        for story in self.stories:
            story.compare(story.wait_all_over(60), excused)
            story.compare_leftovers()
        self.ended.set()
        time.sleep(0.5)
        trivial = read_probes(self.result("trivial"))
        for story in self.stories:
            judge_probes(story.controller, read_probes(self.result(f"{story.controller.name}-probe")), trivial)
            story.controller.end()
        for path in self.work.glob("*-slow_connections.results"), self.work.glob("*-ranges.results"):
            for results in path:
                for line in results.read_text().splitlines()[:5]:
                    self.faults.add(f"{results.stem}: {line}")
        # A run whose directory got strange files may still be on its way: its launches fail, and are tried again.
        open_ones = set().union(*(story.of_victims() for story in self.stories))
        left = [words for _, words in surroundings.processes_with(str(self.trainer))
                if "serve" not in words and not any(run in words for run in open_ones)]
        if left:
            self.faults.add(f"trainers are left: {left[:5]}")
        if self.secret.read_bytes().strip() not in NEVER_OUT:
            self.faults.add("the file that links named was written to")

    def run(self):
        self.begin()
        self.start_processes()
        self.attack()
        self.compare()

    def close(self):
        self.stop.set()
        self.calm.set()
        for process in self.processes:
            process.kill()
        for story in self.stories:
            with contextlib.suppress(OSError):
                story.controller.process.kill()
        for pid, _ in surroundings.processes_with(str(self.work)):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        self.disk.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full = int(os.environ.get("REGATTA_REPETITIONS", "10")) >= 100
    parser.add_argument("--seconds", type=int, default=600 if full else 60)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("REGATTA_SEED", time.time_ns() % 10**6)))
    parser.add_argument("--without", type=lambda text: [name for name in text.split(",") if name], default=[],
                        help=", ".join(ATTACKERS))
    parser.add_argument("--keep", action="store_true", help="the logs, beside which nothing is kept")
    options = parser.parse_args()
    if unknown := set(options.without) - set(ATTACKERS):
        parser.error(f"unknown attackers: {', '.join(unknown)}; there are {', '.join(ATTACKERS)}")
    print(f"--seed {options.seed} --seconds {options.seconds}, without {options.without or 'nothing'}", flush=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="regatta-chaos-", dir=work_place()))
    chaos = Chaos(options, work)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by TERM"))
    try:
        chaos.run()
    finally:
        chaos.close()
        if chaos.faults.texts:
            for path in work.glob("*.log"):
                print(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}")
        if options.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(f"chaos: {len(chaos.faults.texts)} faults; repeat with --seed {options.seed}", flush=True)
    sys.exit(1 if chaos.faults.texts else 0)


if __name__ == "__main__":
    main()
