"""What surrounds a controller and does it no good. Each is given a random.Random and an event that ends it."""
import contextlib
import json
import os
import pathlib
import random
import secrets
import select
import signal
import socket
import subprocess
import time

from serving import Gone, Wrong, connect, exchange, head_of, parse

TMPFS_BYTES = 96 << 20
ROUTES = ["", "/metrics", "/logs", "/checkpoints", "/explain", "/plan"]


class SmallDisk:
    """A tmpfs of its own where the user may mount one, else a plain directory that is never full."""

    def __init__(self, place):
        self.place, self.ballast = place, place / "ballast"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES},mode=0700", "chaos", place],
                              capture_output=True, text=True)
        self.mounted, self.why_not = done.returncode == 0, done.stderr.strip()

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self):
        self.ballast.unlink(missing_ok=True)

    def close(self):
        self.free()
        if self.mounted:
            subprocess.run(["umount", "-l", self.place], check=False)


def plant(dice, run, secret):
    """FIFOs and links where files of the run are expected; the directory of an attempt that nobody made with them."""
    def put(path):
        kind = dice.choice(["fifo", "secret", "passwd", "directory", "nothing"])
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            if kind == "fifo":
                os.mkfifo(path)
            else:
                os.symlink({"secret": secret, "passwd": "/etc/passwd", "directory": "/etc", "nothing": "/none"}[kind], path)
    attempts = run / "attempts"
    with contextlib.suppress(OSError):
        number = 1 + max((int(name.partition("-")[0]) for name in os.listdir(attempts)), default=0)
        folder = attempts / f"{number}-{secrets.token_hex(8)}"
        folder.mkdir()
        put(folder / "journal.jsonl")
    put(run / "plan.json")
    with contextlib.suppress(OSError):
        next_log = 1 + max((int(name.partition(".")[0]) for name in os.listdir(run / "launches")), default=0)
        put(run / "launches" / f"{next_log}.log")
    for name in ("hang.json", "exports", "submit"):
        if dice.random() < 0.3:
            put(run / name)


def processes_with(text):
    """(pid, command line) of the processes with this in their command line, zombies not among them."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = path.joinpath("cmdline").read_bytes().decode(errors="replace")
            if text in words and int(path.name) != os.getpid():
                found.append((int(path.name), words.replace("\0", " ")))
    return found


def zombies_of(parent):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, above = path.read_text().rpartition(") ")[2].split()[:2]
            if state == "Z" and int(above) == parent:
                found.append(int(path.parent.name))
    return found


def kill_trainer(run):
    """Whether one was killed, with KILL."""
    for pid, words in processes_with(str(run)):
        if "/bin/trainer run " in words:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
    return False


def misbehave(dice, place, stop, has_minutes):
    """Slurm's commands become slow, fail and cut their answers."""
    # Of an sbatch that did not submit, it is known after a minute that there is no job.
    ways = {"sbatch": ["", "", "late"] + ["slow", "fail"] * has_minutes, "squeue": ["", "slow", "fail", "cut"], "sacct": ["", "slow", "fail", "cut"],
            "scancel": ["", "slow", "late", "fail"], "scontrol": ["", "slow", "fail", "cut"]}
    while not stop.wait(dice.uniform(1, 5)):
        set_mode(place, {program: dice.choice(choices) for program, choices in ways.items()})
    set_mode(place, {})


def set_mode(place, mode):
    temporary = place / "mode.new"
    temporary.write_text(json.dumps(mode))
    temporary.rename(place / "mode")


def read_everything(dice, controller, known, stop, canary):
    """Every route of every run, again and again, sometimes as somebody else whose header nobody may see."""
    while not stop.wait(dice.uniform(0.02, 0.2)):
        runs = list(known.values())
        run = dice.choice(runs) if runs else "none"
        path = dice.choice(["/nodes", "/runs?limit=5", "/runs?state=running", "/runs/nobody", "/nowhere",
                            *(f"/runs/{run}{route}" for route in ROUTES)])
        other = {"Authorization": f"Bearer {canary}", "Cookie": f"canary={canary}"} if dice.random() < 0.5 else {}
        with contextlib.suppress(Gone):
            controller.ask(dice.choice(["GET", "GET", "GET", "GET", "PUT"]), path, headers=other)


class Connection:
    """One that does not do what clients do, until its time is over."""

    def __init__(self, dice, port, kind):
        self.kind, self.end = kind, time.monotonic() + dice.uniform(4, 30)
        self.text = head_of("GET", "/api/v1/runs?limit=1000", {"X-Padding": "x" * 200}, 0)
        self.sent, self.next = 0, 0.0
        # Addresses of their own: what is limited for each must not hit the probe.
        self.socket = connect(port, 5, f"127.0.0.{dice.randint(2, 9)}")
        if kind == "deaf":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.socket.sendall(self.text)
        if kind == "half":
            self.socket.sendall(self.text[:dice.randrange(1, len(self.text) - 1)])

    def turn(self, dice):
        """False: it is over, or the controller has closed it, for instance by its own end."""
        now, hung_up = time.monotonic(), select.poll()
        hung_up.register(self.socket, select.POLLRDHUP)
        if hung_up.poll(0):
            return False
        if self.kind == "drip" and now > self.next and self.sent < len(self.text) - 1:
            self.socket.sendall(self.text[self.sent:self.sent + 1])
            self.sent += 1
            self.next = now + dice.uniform(1, 4)
        return now < self.end


def slow_connections(port, data, seed, results, stop, canary):
    """In a process of its own."""
    dice, held = random.Random(seed), []
    with open(results, "w") as lines:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                while len(held) < dice.randint(16, 40):
                    held.append(Connection(dice, port, dice.choice(["drip", "drip", "half", "deaf"])))
            for connection in list(held):
                try:
                    if connection.turn(dice):
                        continue
                except OSError:  # closed by the controller, as it may
                    pass
                connection.socket.close()
                held.remove(connection)
            if dice.random() < 0.02:
                ask_oddly(port, lines, "/api/v1/version", {"Authorization": f"Bearer {canary}",
                                                           **{f"X-{i}": "y" for i in range(100_000)}})
            time.sleep(0.1)


def ranges(port, data, seed, results, stop, canary):
    """In a process of its own: more bytes are asked for than there are."""
    dice = random.Random(seed)
    paths = ["/", "/index.html", "/nowhere", "/api/v1/version", "/api/v1/runs", "/api/v1/runs/none", "/api/v1/nodes",
             "/api/v1/nowhere", "/api/v1/runs/none/logs"]
    with open(results, "w") as lines:
        while not stop.wait(dice.uniform(0.02, 0.2)):
            wanted = dice.choice(["bytes=0-99999", "bytes=50-99999", "bytes=-99999", "bytes=0-0,5-99999", "bytes=99999-", "x"])
            word = canary
            with contextlib.suppress(OSError):
                word = dice.choice([word, (data / "token").read_text().strip()])
            ask_oddly(port, lines, dice.choice(paths), {"Range": wanted, "Authorization": f"Bearer {word}"},
                      dice.choice(["GET", "GET", "HEAD", "POST", "PUT"]))


def ask_oddly(port, lines, path, headers, method="GET"):
    try:
        raw = exchange(port, head_of(method, path, headers, 0), 30, "127.0.0.3")
        if method != "HEAD":
            parse(raw, text=not path.startswith("/api"))
        elif raw.partition(b"\r\n\r\n")[2]:
            raise Wrong(f"HEAD has a body: {raw[:300]!r}")
    except Gone:  # killed, or closed without an answer: nothing leaves
        pass
    except Wrong as error:
        print(f"{method} {path} with {next(iter(headers.items()))}: {error}", file=lines, flush=True)
