"""`regatta serve` that is killed and started again, and clients that read every byte of its answers."""
import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

START_SECONDS = 20  # from spawn to the first answer: 2, and what a busy machine adds; one that hangs takes longer still
VERSION_SECONDS = 1
ANSWER_SECONDS = 30  # of any other answer
NEVER_OUT = {b"root:x:0:0": "/etc/passwd"}  # bytes that no answer has, and what they are; grows at the start


class Gone(Exception):
    """No answer, or not all of it, as when the controller is killed."""


class Wrong(Exception):
    """An answer that no kill explains."""


class Faults:
    """What was found; told at once."""

    def __init__(self):
        self.begin, self.texts, self.lock = time.monotonic(), [], threading.Lock()

    def add(self, text):
        with self.lock:
            self.texts.append(text)
            if len(self.texts) <= 40:
                print(f"FAULT at {time.monotonic() - self.begin:.1f} s: {text}", flush=True)


def connect(place, seconds, source=None):
    """place: a port of this machine, or the path of a unix socket."""
    if isinstance(place, int):
        return socket.create_connection(("127.0.0.1", place), seconds, (source, 0) if source else None)
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(seconds)
    plain.connect(str(place))
    return plain


def head_of(method, path, headers, length):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    if length:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    elif method == "POST":
        lines.append("Content-Length: 0")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def exchange(place, request, seconds, source=None):
    """All bytes that come back until the other side closes."""
    deadline, parts = time.monotonic() + seconds, []
    try:
        with connect(place, seconds, source) as plain:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                plain.sendall(request)  # a refusal may come before the end of the request
            while True:
                plain.settimeout(max(0.01, deadline - time.monotonic()))
                part = plain.recv(1 << 20)
                if not part:
                    return b"".join(parts)
                parts.append(part)
    except TimeoutError:
        raise Wrong(f"no whole answer within {seconds} s; {sum(map(len, parts))} bytes came") from None
    except OSError as error:
        if parts:
            return b"".join(parts)
        raise Gone(str(error)) from None


def parse(raw, text=False):
    """Status, headers and body of exactly one answer."""
    for secret, what in NEVER_OUT.items():
        if secret in raw:
            raise Wrong(f"{what} is in an answer: {raw[:300]!r}")
    if not raw:
        raise Gone("nothing came")
    head, blank, body = raw.partition(b"\r\n\r\n")
    if not blank:
        raise Gone(f"cut in its head: {raw[:100]!r}")
    status, *lines = head.decode("latin-1").split("\r\n")
    found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [^\r\n]*", status)
    headers = [tuple(line.split(": ", 1)) for line in lines]
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    if not found or len(lengths) != 1 or not lengths[0].isdigit():
        raise Wrong(f"not one answer of one length: {head[:300]!r}")
    if len(body) < int(lengths[0]):
        raise Gone(f"{len(body)} of {lengths[0]} bytes came")
    if len(body) > int(lengths[0]):
        raise Wrong(f"{len(body) - int(lengths[0])} bytes behind the answer: {body[int(lengths[0]):][:200]!r}")
    if int(found[1]) == 206 or text:
        return int(found[1]), body
    try:
        return int(found[1]), json.loads(body)
    except ValueError:
        raise Wrong(f"no JSON: {raw[:300]!r}") from None


def resident_and_descriptors(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, len(os.listdir(f"/proc/{pid}/fd"))


def free_port():
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))
        return plain.getsockname()[1]


class Controller:
    def __init__(self, name, data, work, arguments, path, faults):
        self.name, self.data, self.faults, self.port = name, data, faults, free_port()
        self.log = work / f"{name}.log"
        self.environment = {**os.environ, "PATH": path}
        self.command = [*arguments, "--allow-privileged", "--port", str(self.port), "--data", str(data)]
        self.may_fail = lambda path: False  # whether a 500 is to be expected of this path now
        self.downs = []  # [killed, spawned, first answer], of time.monotonic()
        self.lost_stores = []  # when a kill took the store with it
        self.most_memory = self.most_descriptors = 0
        self.answers = collections.Counter()
        self.process = None
        self.start()

    def token(self):
        path = self.data / "token"
        with contextlib.suppress(OSError):
            return path.read_text().strip()
        return ""

    def start(self):
        if not self.downs or len(self.downs[-1]) == 3:
            self.downs.append([time.monotonic()])
        self.downs[-1].append(time.monotonic())
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL,
                                            env=self.environment, start_new_session=True)
        while True:
            assert self.process.poll() is None, f"{self.name} does not start: {self.log.read_text()[-3000:]}"
            with contextlib.suppress(Gone):
                if self.ask("GET", "/version", seconds=60)[0] == 200:
                    break
            assert time.monotonic() < self.downs[-1][1] + 60, f"{self.name} does not answer after its start"
            time.sleep(0.02)
        if (token := self.token()):
            NEVER_OUT[token.encode()] = "the token"
        self.downs[-1].append(time.monotonic())
        took = self.downs[-1][2] - self.downs[-1][1]
        if took > START_SECONDS:
            self.faults.add(f"{self.name}: its first answer came {took:.1f} s after its start")

    def is_adopted(self):
        """Whether all that is in the runs directory is in the store (again)."""
        return self.ask("GET", "/version")[1].get("adoption", {}).get("done", True)

    def kill(self):
        self.look_at_resources()
        if self.process.poll() is not None:
            self.faults.add(f"{self.name} had ended by itself with {self.process.returncode}")
        self.downs.append([time.monotonic()])
        self.process.kill()
        self.process.wait()

    def look_at_resources(self):
        with contextlib.suppress(OSError, TypeError):
            memory, descriptors = resident_and_descriptors(self.process.pid)
            self.most_memory = max(self.most_memory, memory)
            self.most_descriptors = max(self.most_descriptors, descriptors)

    def was_down(self, begin, end):
        return any(end >= down[0] and (len(down) < 3 or begin <= down[2]) for down in self.downs)

    def ask(self, method, path, body=None, headers=None, seconds=ANSWER_SECONDS, source=None, place=None):
        """Status and JSON of an answer; Gone when the controller is killed meanwhile."""
        if (token := self.token()):
            headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        text = json.dumps(body).encode() if body is not None else b""
        request = head_of(method, "/api/v1" + path, headers or {}, len(text)) + text
        begin = time.monotonic()
        try:
            status, answer = parse(exchange(place or self.port, request, seconds, source))
            self.answers[status] += 1
            if status == 500 and not self.may_fail(path):
                self.faults.add(f"{self.name}: {method} {path}: 500: {answer}")
            return status, answer
        except Wrong as error:
            self.faults.add(f"{self.name}: {method} {path}: {error}")
            raise Gone(str(error)) from None
        except Gone as error:
            # Downs are noted before the kill, but by another thread.
            if self.process and self.process.poll() is None and not self.was_down(begin - 0.1, time.monotonic()):
                self.faults.add(f"{self.name}: {method} {path}: no whole answer though it runs: {error}")
            raise

    def end(self):
        """In good order."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=60)
            if code != 0:
                self.faults.add(f"{self.name} ends with {code} on TERM")
        except subprocess.TimeoutExpired:
            self.faults.add(f"{self.name} does not end within 60 s of TERM")
            self.process.kill()
            self.process.wait()


def trivial_server(port):
    """What a machine under this load takes to answer at all."""
    listening = socket.create_server(("127.0.0.1", port), backlog=64)
    body = b"{}"
    while True:
        plain, _ = listening.accept()
        with plain, contextlib.suppress(OSError):
            plain.recv(65536)
            plain.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def probe(port, data, results, stop):
    """In a process of its own: asks for the version, by TCP and, where there is one, by the socket, and writes down
    begin, seconds and what was wrong."""
    with open(results, "w") as lines:
        while not stop.is_set():
            for place in [port] + ([data / "controller.sock"] if data and (data / "controller.sock").exists() else []):
                headers = {}
                with contextlib.suppress(OSError, TypeError):
                    headers["Authorization"] = "Bearer " + (data / "token").read_text().strip()
                begin, kind, text = time.monotonic(), "good", ""
                try:
                    status, _ = parse(exchange(place, head_of("GET", "/api/v1/version", headers, 0), 20))
                    if status != 200:
                        kind, text = "wrong", f"status {status}"
                except Gone as error:
                    kind, text = "gone", str(error)
                except Wrong as error:
                    kind, text = "wrong", str(error)
                print(json.dumps([begin, time.monotonic() - begin, kind, text]), file=lines, flush=True)
            time.sleep(0.07)


def read_probes(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]


def described(probes):
    times = sorted(row[1] for row in probes if row[2] == "good") or [0]
    return (f"{len(times)} answers, median {1000 * times[len(times) // 2]:.1f} ms, "
            f"99 % {1000 * times[len(times) * 99 // 100]:.0f} ms, slowest {1000 * times[-1]:.0f} ms")


def judge_probes(controller, probes, trivial):
    """Every answer within a second unless the controller was starting, and none missing while it ran."""
    print(f"{controller.name}: {described(probes)}; a trivial server beside it: {described(trivial)}", flush=True)
    for begin, seconds, kind, text in probes:
        down = controller.was_down(begin - 0.1, begin + seconds)
        if kind == "wrong" or (kind == "gone" and not down):
            controller.faults.add(f"{controller.name}: GET /version: {kind}: {text}")
            continue
        # What the machine did to the simplest of all servers at that moment is not the controller's doing.
        beside = max((row[1] for row in trivial if row[0] < begin + seconds and row[0] + row[1] > begin), default=0)
        if kind == "good" and seconds > (START_SECONDS if down else VERSION_SECONDS) + 2 * beside:
            controller.faults.add(f"{controller.name}: GET /version took {seconds:.2f} s at {begin - controller.faults.begin:.1f} s"
                                  f"{' while it started' if down else ''}; a trivial server {beside:.2f} s then")
