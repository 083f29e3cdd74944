"""How tests reach a `regatta serve`: by its data directory, where its socket and its token are; and data to train on."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

# In the environment of every test but those of the defaults: empty, no file of site or user fills in its runs.
NO_DEFAULTS = {"REGATTA_CONFIG": "", "REGATTA_SITE_CONFIG": ""}


def server_of(data):
    """What --server and REGATTA_SERVER take."""
    return f"unix:{data}/controller.sock"


def bearer(data):
    """The headers that raw HTTP over TCP needs."""
    return {"Authorization": "Bearer " + (pathlib.Path(data) / "token").read_text().strip()}


class OverSocket(http.client.HTTPConnection):
    """HTTP over a controller's unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def make_data(directory, trainer):
    """A dataset of made-up sentences."""
    words = "boat river wind sail oar crew race lake shore storm rope mast tide deck".split()
    lines, state = [], 1
    for number in range(600):
        sentence = []
        for _ in range(8):
            state = (state * 1103515245 + 12345) % 2**31
            sentence.append(words[state // 65536 % len(words)])
        lines.append("The " + " ".join(sentence) + "." + ("\n" if number % 6 == 5 else ""))
    text = directory / "corpus.txt"
    text.write_text("\n".join(lines) + "\n")
    subprocess.run([trainer, "prepare", text, "-o", directory / "data", "--train-vocab", "256"], check=True,
                   capture_output=True, timeout=120)
    return directory / "data"


def serve_here(build, data):
    """The process of a controller of this machine's runs, which answers over its socket."""
    process = subprocess.Popen(
        [build / "orchestrator" / "regatta", "serve", "--allow-privileged", "--port", "0", "--data", data, "--scheduler", "local",
         "--trainer", build / "trainer" / "regatta-train"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, **NO_DEFAULTS})
    process.stdout.readline()
    return process


class Served:
    """A controller of this machine's runs in `folder`, with a dataset of made-up sentences beside it, and `regatta` for it."""

    def __init__(self, build, folder):
        self.folder, self.data, self.regatta = folder, folder / "controller", build / "orchestrator" / "regatta"
        make_data(folder, build / "trainer" / "regatta-train")
        self.environment = {**os.environ, **NO_DEFAULTS, "REGATTA_SERVER": server_of(self.data)}
        self.process = serve_here(build, self.data)

    def ask(self, method, path):
        connection = OverSocket(self.data / "controller.sock")
        try:
            connection.request(method, "/api/v1" + path)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            assert answer.status < 300, (path, body)
            return body
        finally:
            connection.close()

    def call(self, *words):
        return subprocess.run([self.regatta, *map(str, words)], capture_output=True, text=True, timeout=220, env=self.environment)

    def begin(self, *words):
        return Follower([self.regatta, *map(str, words)], env=self.environment)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


class Follower:
    """A program that goes on, and what it has written so far."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.written = {"stdout": b"", "stderr": b""}
        self.readers = [threading.Thread(target=self.read, args=(name,), daemon=True) for name in self.written]
        for reader in self.readers:
            reader.start()

    def read(self, name):
        while part := getattr(self.process, name).read1(65536):
            self.written[name] += part

    @property
    def output(self):
        return self.written["stdout"].decode(errors="replace")

    @property
    def errors(self):
        return self.written["stderr"].decode(errors="replace")

    def until(self, what, holds, seconds=90):
        """Waits until `holds()`; `what` is what failed otherwise."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s: {self.output[-1000:]!r} {self.errors[-1000:]!r}"
            time.sleep(0.05)

    def end(self, signal=None, seconds=120):
        """Its exit code, when all that it wrote has been read; with a signal, that ends it."""
        if signal is not None:
            self.process.send_signal(signal)
        code = self.process.wait(seconds)
        for reader in self.readers:
            reader.join(seconds)
        return code


class Skipped(Exception):
    """A case that this machine cannot run, and why."""


def run_cases(name, cases, *given):
    """Each with what is given; every failure is counted, and the next one runs. How many passed, failed and were skipped."""
    results = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        try:
            case(*given)
            outcome, why = "passed", ""
        except Skipped as reason:
            outcome, why = "skipped", f": {reason}"
        except Exception as error:
            outcome, why = "failed", f": {type(error).__name__}: {str(error)[:1500]}"
        results[outcome] += 1
        print(f"{outcome}  {name}.{case.__name__}{why}", flush=True)
    return results


def conclude(results):
    """The last line of a test program, and its exit code."""
    print(", ".join(f"{count} {outcome}" for outcome, count in results.items()))
    return 1 if results["failed"] else 0
