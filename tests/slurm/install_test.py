#!/usr/bin/env python3
"""deploy/slurm/install.sh installs what is missing and lets no service start, on a machine that is
made up: apt-get and dpkg-query are stand-ins, and /usr/sbin and /run/lock are directories of the test.

    tests/slurm/install_test.py
"""
import argparse
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from unittest import mock

from cluster import ROOT, Cases, Skip, wait

SCRIPT = ROOT / "deploy" / "slurm" / "install.sh"
# Root inside, with /usr/sbin and /run/lock of the machine's own, wherever namespaces are allowed.
INSIDE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
          'mount --bind "$1/sbin" /usr/sbin; mount --bind "$1/lock" /run/lock; shift; exec "$@"', "sh"]


class Machine:
    """`installed` are the packages that are there; `apt` is what apt-get's stand-in does on `install`."""

    def __init__(self, installed="", apt="exit 0"):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="regatta-install-"))
        for name in ("bin", "sbin", "lock"):
            (self.place / name).mkdir()
        self.policy = self.place / "sbin" / "policy-rc.d"
        self.program("dpkg-query", f'for p; do :; done\ncase " {installed} " in *" $p "*) echo "install ok installed";; *) exit 1;; esac')
        self.program("apt-get", f'echo "$@" >>{self.place}/calls\n[ "$1" = install ] || exit 0\n'
                                f'cp -p {self.policy} {self.place}/seen\n{self.policy}; echo $? >{self.place}/answer\n{apt}')
        self.program("sleep", "exec /bin/sleep 0.1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def program(self, name, text):
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def start(self, *arguments, root=True):
        inside = [*INSIDE, self.place] if root else []
        return subprocess.Popen([*inside, SCRIPT, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={"PATH": f"{self.place}/bin:/usr/bin:/bin", "HOME": "/"})

    def run(self, *arguments, **options):
        with self.start(*arguments, **options) as process:
            out, err = process.communicate(timeout=60)
            return process.returncode, out, err

    def calls(self):
        path = self.place / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def left(self):
        return sorted(p.name for p in (self.place / "sbin").iterdir())


def everything():
    """The names that install.sh wants, as it tells them."""
    with Machine() as machine:
        code, _, err = machine.run("--check", root=False)
        assert code == 1 and "missing: " in err and err.count("\n") == 1, err
        return err.partition("missing: ")[2].split()


def nothing_missing():
    """Neither root nor apt-get is asked for."""
    with Machine(installed=" ".join(everything())) as machine:
        assert machine.run(root=False) == (0, "", "") and machine.run("--check", root=False) == (0, "", "")
        assert machine.calls() == [] and machine.left() == []


def only_what_is_missing():
    """While apt-get works policy-rc.d answers 101; afterwards there is none, as before."""
    names = everything()
    assert "slurmctld" in names and "munge" in names and "mariadb-server" in names
    with Machine(installed=" ".join(n for n in names if n not in ("munge", "slurmd"))) as machine:
        code, out, err = machine.run()
        assert code == 0 and out == "installing with apt-get: munge slurmd\n", (code, out, err)
        assert machine.calls() == ["update", "install -y --no-install-recommends munge slurmd"], machine.calls()
        assert (machine.place / "answer").read_text() == "101\n" and machine.left() == []


def own_policy_comes_back():
    """Contents and mode of the machine's own policy-rc.d, also when a killed run had set it aside."""
    for aside in (False, True):
        with Machine() as machine:
            own = machine.policy.with_name("policy-rc.d.before-regatta") if aside else machine.policy
            own.write_text("#!/bin/sh\nexit 104\n")
            own.chmod(0o750)
            if aside:
                machine.policy.write_text("#!/bin/sh\n# regatta-slurm-install: temporary\nexit 101\n")
            assert machine.run()[0] == 0
            assert (machine.place / "answer").read_text() == "101\n"
            assert machine.policy.read_text().endswith("104\n") and machine.policy.stat().st_mode & 0o777 == 0o750
            assert machine.left() == ["policy-rc.d"], machine.left()


def failure_is_told():
    """After three tries, with apt-get's last lines, and the policy is gone again."""
    with Machine(apt="echo E: no such mirror; exit 100") as machine:
        code, _, err = machine.run()
        assert code == 1 and "E: no such mirror" in err and err.count("try ") == 3, err
        assert machine.left() == [] and len(machine.calls()) == 6, machine.calls()


def interrupted():
    """Ctrl-C and TERM while apt-get works, to all of the group or to the script alone."""
    for number, everyone in ((signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGTERM, False)):
        with Machine(apt="/bin/sleep 3") as machine:
            machine.policy.write_text("own")
            with machine.start() as process:
                wait("apt-get is at work", lambda: (machine.place / "answer").exists())
                (os.killpg if everyone else os.kill)(process.pid, number)
                process.communicate(timeout=60)
            assert process.returncode in (130, 143), process.returncode
            assert machine.policy.read_text() == "own" and machine.left() == ["policy-rc.d"], machine.left()


def ordinary_user():
    """Without sudo: one line with the names."""
    with Machine() as machine:
        (machine.place / "bin" / "id").write_text("#!/bin/sh\necho 1000\n")
        (machine.place / "bin" / "id").chmod(0o755)
        shadow = machine.place / "only"
        shadow.mkdir()
        for name in ("bash", "env", "grep", "realpath", "sed"):
            (shadow / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
        done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=60, env={"PATH": f"{machine.place}/bin:{shadow}"})
        assert done.returncode == 1 and "needs root to install munge" in done.stderr and done.stderr.count("\n") == 1, done


def bad_words():
    for words in (["--sideways"], ["all"]):
        with Machine() as machine:
            code, _, err = machine.run(*words, root=False)
            assert code == 2 and "unknown word" in err and err.count("\n") == 1 and machine.calls() == [], err


def run_sh_installs_it():
    """The stage `install` of tests/run.sh, where the stage `slurm` follows; where it cannot, a skip that says why."""
    spec = importlib.util.spec_from_file_location("run_sh", ROOT / "tests" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    refusal = "deploy/slurm/install.sh: needs root to install munge\n"
    rows = [  # chosen stages, exit code of slurm/install.sh, REQUIRE; passed, failed, skipped
        (None, 0, "", (2, 0, 0)), (["install"], 1, "", (1, 0, 0)), (["install", "slurm"], 0, "", (2, 0, 0)),
        (None, 1, "", (1, 0, 1)), (None, 1, "gpu", (1, 0, 1)), (None, 1, "gpu,slurm", (1, 1, 0))]
    for stages, code, require, expected in rows:
        with tempfile.TemporaryDirectory() as place:
            calls = []

            def stand_in(arguments, limit, environment=None, log=None):
                calls.append(arguments)
                slurm = arguments == ["deploy/slurm/install.sh"]
                pathlib.Path(log).write_text(refusal if slurm else "")
                return code if slurm else 0
            module.run, module.RESULTS = stand_in, pathlib.Path(place)
            totals = module.Totals()
            with mock.patch.dict(os.environ, REQUIRE=require):
                module.install(totals, 9, argparse.Namespace(all=False, stage=stages))
            assert (totals.passed, totals.failed, totals.skipped) == expected, (stages, code, require, vars(totals))
            assert (len(calls) == 2) == (stages != ["install"]) and calls[0] == ["deploy/install.sh", "test"], calls
            assert all("needs root to install munge" in why for why in totals.skips + totals.failures), vars(totals)


def needs_namespaces(case):
    def checked():
        with Machine() as machine:
            done = subprocess.run([*INSIDE, machine.place, "true"], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Skip(f"user namespaces ({done.stderr.strip()})")
        case()
    checked.__name__ = case.__name__
    return checked


def main():
    cases = Cases("slurm.install")
    for case in (nothing_missing, ordinary_user, bad_words, run_sh_installs_it, needs_namespaces(only_what_is_missing),
                 needs_namespaces(own_policy_comes_back), needs_namespaces(failure_is_told), needs_namespaces(interrupted)):
        cases.run(case)
    cases.finish()


main()
