#!/usr/bin/env python3
"""Webhooks of `regatta serve` with a real receiver, and the document's program as judge of every signature.

    tests/orchestrator/webhooks/webhooks_test.py BUILD [CASE...]
"""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, OverSocket

BUILD = pathlib.Path(sys.argv[1])
REGATTA, TRAINER = BUILD / "orchestrator/regatta", BUILD / "trainer/regatta-train"
SECRET = "5f2b6c0d9e8a7f6b5c4d3e2f1a0b9c8d"
OPERATOR = 1  # exit codes of docs/formats/controller.md
SECONDS = 90  # the deadline of what should take less than a few

# The program of docs/webhooks.md, as it stands there.
EXAMPLE = {}
CODE = re.search(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.S).group(1)
assert len([line for line in CODE.splitlines() if line.strip()]) <= 10, "ten lines"
exec(compile(CODE, "docs/webhooks.md", "exec"), EXAMPLE)


def wait(what, predicate, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not (value := predicate()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return value


class Receiver:
    """Keeps what it accepts; `answer` is called with the event of each request and gives a status (or hangs)."""

    def __init__(self, answer=lambda event: 200, certificate=None):
        self.answer, self.events, self.tries, self.forged = answer, [], [], []
        self.retry_after = None
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event = json.loads(body)
                receiver.tries.append((time.monotonic(), event))
                expected = hmac.new(SECRET.encode(), self.headers["X-Regatta-Timestamp"].encode() + b"." + body, hashlib.sha256)
                if (self.headers["X-Regatta-Signature"] != "sha256=" + expected.hexdigest()
                        or not EXAMPLE["is_genuine"](SECRET, self.headers, body)
                        or EXAMPLE["is_genuine"](SECRET, self.headers, body + b" ")
                        or EXAMPLE["is_genuine"]("another secret", self.headers, body)
                        or self.headers["X-Regatta-Number"] != str(event["number"])
                        or self.headers["X-Regatta-Event"] != event["kind"]):
                    receiver.forged.append((dict(self.headers), body))
                status = receiver.answer(event)
                if 200 <= status < 300:
                    receiver.events.append(event)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    if receiver.retry_after:
                        self.send_header("Retry-After", receiver.retry_after)
                    if 300 <= status < 400:
                        self.send_header("Location", receiver.elsewhere)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            do_GET = do_POST

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_port}/hidden-path"
        self.elsewhere = self.url
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def numbers(self):
        return [event["number"] for event in self.events]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Served:
    def __init__(self, work, *options, config=None, environment=None):
        self.work, self.data, self.log = work, work / "data", work / "serve.log"
        self.options, self.environment = options, {**os.environ, **NO_DEFAULTS, **(environment or {})}
        if config is not None:
            path = work / "config.yaml"
            path.write_text(config)
            path.chmod(0o600)
            self.environment["REGATTA_CONFIG"] = str(path)
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [REGATTA, "serve", "--allow-privileged", "--port", "0", "--scheduler", "local", "--data", self.data,
                 "--trainer", TRAINER, *self.options], stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment)
        self.ready = self.process.stdout.readline().startswith("http://")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        """Seconds that it took."""
        begin = time.monotonic()
        self.process.terminate()
        assert self.process.wait(120) == 0
        return time.monotonic() - begin

    def told(self):
        return self.log.read_text()

    def request(self, method, path, body=None):
        connection = OverSocket(self.data / "controller.sock")
        connection.request(method, "/api/v1" + path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text)

    def call(self, *arguments):
        return subprocess.run([REGATTA, *arguments, "--server", f"unix:{self.data}/controller.sock"], text=True, capture_output=True,
                              env=self.environment, timeout=SECONDS)

    def make_events(self, count):
        """References come and go, an event each time."""
        body = {"name": "made", "threshold": 0.7, "evaluations": [[60.5, 150000, 0.41]]}
        for i in range(count):
            status, answer = self.request("POST", "/references", json.dumps(body)) if i % 2 == 0 else self.request(
                "DELETE", "/references/made")
            assert status in (200, 201), answer

    def events(self, query=""):
        return self.request("GET", "/events?since=0&limit=1000" + query)[1]["events"]

    def webhook(self):
        return self.request("GET", "/webhooks")[1]["webhooks"][0]


@contextlib.contextmanager
def served(*options, config=None, environment=None):
    with tempfile.TemporaryDirectory(prefix="regatta-webhooks-") as name:
        work = pathlib.Path(name)
        (work / "secret").write_text(SECRET + "\n")
        (work / "secret").chmod(0o600)
        words = [str(word).replace("SECRET", str(work / "secret")) for word in options]
        one = Served(work, *words, config=config and config.replace("SECRET", str(work / "secret")), environment=environment)
        try:
            yield one
        finally:
            one.process.kill()
            one.process.wait()
            print(one.told()[-2000:])


def options_for(receiver, *more):
    return ("--webhook", receiver.url, "--webhook-secret", "SECRET", "--webhook-private", *more)


def events_come_in_order_and_are_signed():
    receiver, nodes = Receiver(), Receiver()
    config = (f"webhooks:\n  - {{name: pager, url: '{receiver.url}', secret_file: SECRET, allow_private: true}}\n"
              f"  - {{name: some, url: '{nodes.url}', secret_file: SECRET, allow_private: true, kinds: [reference.removed, node]}}\n")
    with served(config=config) as one:
        one.make_events(60)
        all_events = one.events()
        wait("all are told", lambda: len(receiver.events) >= len(all_events))
        assert receiver.events == all_events, "each as GET /events has it, once, in order"
        assert [event["kind"] for event in all_events][:1] == ["controller.started"]
        wanted = [event for event in all_events if event["kind"] == "reference.removed"]
        wait("some are told", lambda: len(nodes.events) >= len(wanted))
        assert nodes.events == wanted and len(wanted) == 30
        states = {each["name"]: each for each in one.request("GET", "/webhooks")[1]["webhooks"]}
        assert states["pager"]["state"] == "idle" and states["pager"]["delivered"] == all_events[-1]["number"], states
        assert states["some"]["waiting"] == 0 and states["some"]["kinds"] == ["reference.removed", "node"], states
        shown = one.call("webhooks").stdout
        assert "pager" in shown and "idle" in shown, shown
        assert one.request("POST", "/webhooks/none/redeliver")[0] == 404
    assert not receiver.forged and not nodes.forged, (receiver.forged + nodes.forged)[:1]


def what_fails_is_tried_again():
    bad = {"count": 3}

    def answer(event):
        if event["kind"] == "reference.added" and bad["count"] > 0:
            bad["count"] -= 1
            return 500
        return 200
    receiver = Receiver(answer)
    with served(*options_for(receiver)) as one:
        one.make_events(4)
        expected = one.events()
        wait("it fails", lambda: one.webhook()["failures"] >= 1)
        state = one.webhook()
        assert state["state"] == "retrying" and "status 500" in state["error"] and state["waiting"] >= 4, state
        assert "500" in one.call("webhooks").stdout
        wait("all are told", lambda: len(receiver.events) >= len(expected))
        assert receiver.events == expected, "in order, whatever failed"
        tries = [at for at, event in receiver.tries if event["number"] == expected[1]["number"]]
        pauses = [later - earlier for earlier, later in zip(tries, tries[1:])]
        assert len(tries) == 4 and 0.4 < pauses[0] < 2 and 0.9 < pauses[1] < 3 and 1.9 < pauses[2] < 5.5, pauses
        wait("all is well", lambda: one.webhook()["state"] == "idle" and one.webhook()["error"] is None)
        # One that says when it wants to be asked again.
        bad["count"], receiver.retry_after = 1, "4"
        one.make_events(1)
        wait("it is told", lambda: len(receiver.tries) >= len(expected) + 5)
        assert 3.9 < receiver.tries[-1][0] - receiver.tries[-2][0] < 6, receiver.tries[-2:]
        receiver.retry_after = None
        one.make_events(2)
        expected = one.events()
        wait("all are told", lambda: len(receiver.events) >= len(expected))
        # A receiver that takes none: somebody says to go on without one event.
        bad["count"] = 10**6
        one.make_events(2)
        wait("it fails again", lambda: one.webhook()["state"] == "retrying")
        done = one.call("webhooks", "--skip", one.webhook()["name"])
        assert done.returncode == 0, done.stderr
        wait("it goes on", lambda: receiver.events[-1]["kind"] == "webhook.skipped")
        told = [event["kind"] for event in receiver.events[len(expected):]]
        assert told == ["reference.removed", "webhook.skipped"], told
    assert not receiver.forged


def a_kill_loses_nothing():
    slow = threading.Event()

    def answer(event):
        if not slow.is_set():
            time.sleep(0.03)
        return 200
    receiver = Receiver(answer)
    with served(*options_for(receiver)) as one:
        for _ in range(4):
            one.make_events(30)
            time.sleep(0.2)  # what is tested: a kill somewhere in the middle of what waits
            one.kill()
            one.start()
            assert one.ready, one.told()
        slow.set()
        expected = [event["number"] for event in one.events()]
        wait("all are told", lambda: receiver.numbers() and receiver.numbers()[-1] == expected[-1])
        numbers = receiver.numbers()
        assert sorted(set(numbers)) == expected, "none is lost"
        # As they arrived: what a killed controller sent last may be kept after what the next one sends first.
        arrived = [event["number"] for _, event in receiver.tries]
        assert arrived == sorted(arrived), "and each comes after those before it"
        twice = len(numbers) - len(set(numbers))
        print(f"{len(expected)} events, {twice} of them twice")
        assert twice <= 4, "a kill repeats one at most"
        # While nothing listens: what fails is neither lost nor tried in haste after a restart.
        receiver.answer = lambda event: 503
        one.make_events(2)
        wait("it fails often", lambda: one.webhook()["failures"] >= 3)
        before = len(receiver.tries)
        for _ in range(3):
            one.kill()
            one.start()
        assert one.webhook()["failures"] >= 3, "known after a restart"
        assert len(receiver.tries) <= before + 3, "pauses hold"
        receiver.answer = lambda event: 200
        expected = [event["number"] for event in one.events()]
        wait("all are told", lambda: receiver.numbers()[-1] >= expected[-1])
        assert sorted(set(receiver.numbers())) == expected
    assert not receiver.forged


def a_receiver_that_hangs_delays_nobody():
    hangs, lasts = threading.Event(), []

    def answer(event):
        if not hangs.is_set():
            hangs.wait(120)
            return 504  # whoever asked has gone
        return 200
    hung, good = Receiver(answer), Receiver()
    with served(*options_for(hung), "--webhook", good.url) as one:
        one.make_events(10)
        expected = one.events()
        wait("the other is told", lambda: len(good.events) >= len(expected))

        def untold():
            return [each["name"] for each in one.request("GET", "/webhooks")[1]["webhooks"] if each["delivered"] is None]
        wait("that is known", lambda: len(untold()) == 1)
        (name,) = untold()

        def state():
            return next(each for each in one.request("GET", "/webhooks")[1]["webhooks"] if each["name"] == name)
        assert state()["failures"] == 0, "long before the one that hangs is given up"
        for _ in range(50):
            begin = time.monotonic()
            assert one.request("GET", "/webhooks")[0] == 200
            lasts.append(time.monotonic() - begin)
        assert sorted(lasts)[25] < 1, sorted(lasts)
        wait("its time is over", lambda: state()["failures"] >= 1)
        assert "time" in state()["error"].lower(), state()
        # In the middle of the next request: an end waits for nobody.
        tries = len(hung.tries)
        wait("it is tried again", lambda: len(hung.tries) > max(1, tries))
        assert one.end() < 8, "a request has 10 s"
        hangs.set()
        one.start()
        wait("what hung is told", lambda: len(hung.events) >= len(expected))
        assert hung.events[:len(expected)] == expected


def nothing_goes_elsewhere():
    target = Receiver()
    receiver = Receiver(lambda event: 307)
    receiver.elsewhere = target.url
    with served(*options_for(receiver)) as one:
        state = wait("it fails", lambda: one.webhook() if one.webhook()["failures"] else None)
        assert "307" in state["error"] and "no redirect" in state["error"], state
        assert not target.tries, "a redirect is not followed"
    # Private addresses need to be allowed, by name too; proxies of the environment are not asked.
    proxies = {name: target.url for name in ("http_proxy", "all_proxy", "ALL_PROXY")}
    for url in (f"http://localhost:{target.server.server_port}/", f"http://localhost.localdomain:{target.server.server_port}/"):
        with served("--webhook", url, "--webhook-secret", "SECRET", environment=proxies) as one:
            state = wait("it is refused", lambda: one.webhook() if one.webhook()["failures"] else None)
            assert "loopback" in state["error"] or "resolve" in state["error"], state
            assert not target.tries
    # Addresses that none may have, allowed or not; in one line, before anything is sent.
    for host in ("169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0", "[::]", "0", "0xa9fea9fe", "[fe80::1]", "224.0.0.1"):
        with served("--webhook", f"http://{host}/latest/meta-data", "--webhook-secret", "SECRET", "--webhook-private") as one:
            assert not one.ready and one.process.wait(20) == 7, one.told()
            last = one.told().splitlines()[-1]
            assert "no webhook may use" in last and "meta-data" not in one.told(), last
    names_that_lie(target)


def a_certificate_that_nobody_vouches_for_is_refused():
    with tempfile.TemporaryDirectory(prefix="regatta-webhooks-") as name:
        pem = pathlib.Path(name) / "own.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", pem.with_suffix(".crt"),
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        pem.write_text(pem.read_text() + pem.with_suffix(".crt").read_text())
        receiver = Receiver(certificate=pem)
        with served(*options_for(receiver)) as one:
            one.make_events(1)
            state = wait("it fails twice", lambda: one.webhook() if one.webhook()["failures"] >= 2 else None)
            assert "certificate" in state["error"], state
            assert state["delivered"] is None and not receiver.tries, "nothing was sent"
            assert "hidden-path" not in one.told()


def names_that_lie(target):
    """In a mount namespace of its own /etc/hosts says that a name is an address that none may have."""
    with tempfile.TemporaryDirectory(prefix="regatta-hosts-") as name:
        hosts = pathlib.Path(name) / "hosts"
        for address in ("169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0"):
            hosts.write_text(f"{address} liar.example\n127.0.0.1 localhost\n")
            probe = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
            if subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
                print("skipped: names that resolve to forbidden addresses, which need a mount namespace")
                return
            with served() as one:
                one.kill()
                options = ["--webhook", f"http://liar.example:{target.server.server_port}/", "--webhook-secret", str(one.work / "secret"),
                           "--webhook-private"]
                with open(one.log, "ab") as log:
                    one.process = subprocess.Popen(
                        [*probe, REGATTA, "serve", "--allow-privileged", "--port", "0", "--scheduler", "local", "--data", one.data,
                         "--trainer", TRAINER, *options], stdout=subprocess.PIPE, stderr=log, text=True, env=one.environment)
                assert one.process.stdout.readline().startswith("http://"), one.told()
                state = wait("it is refused", lambda: one.webhook() if one.webhook()["failures"] else None)
                assert "no webhook may use" in state["error"], (address, state)
                assert not target.tries


def secrets_are_told_to_nobody():
    receiver = Receiver(lambda event: 500)
    with served(config=f"webhooks:\n  - {{name: pager, url: '{receiver.url}', secret_file: SECRET, allow_private: true}}\n") as one:
        wait("it fails", lambda: one.webhook()["failures"] >= 2)
        arguments = pathlib.Path(f"/proc/{one.process.pid}/cmdline").read_bytes().decode()
        texts = [one.told(), json.dumps(one.request("GET", "/webhooks")[1]), json.dumps(one.events()), arguments,
                 one.call("webhooks").stdout, one.call("webhooks", "-o", "json").stdout, one.call("serve", "--help").stdout,
                 one.call("config", "show").stdout, one.call("config", "show", "--origin").stdout]
        for text in texts:
            assert SECRET not in text and "hidden-path" not in text, text
        assert one.webhook()["url"] == receiver.url.rsplit("/", 1)[0]
    # Files that others may read, and entries that cannot be: refused in one line with the place.
    for mode, entry, code, word in (
            (0o644, "{name: a, url: 'https://example.org/', secret_file: SECRET}", OPERATOR, "chmod 600"),
            (0o600, "{name: 'a b', url: 'https://example.org/', secret_file: SECRET}", 7, "config.yaml:2"),
            (0o600, "{name: a, url: 'https://example.org/'}", 7, "secret_file"),
            (0o600, "{name: a, url: 'https://example.org/', secret_file: SECRET, kinds: [run.lost]}", 7, "run.lost"),
            (0o600, "{name: a, url: 'ftp://example.org/', secret_file: SECRET}", 7, "neither http nor https"),
            (0o600, "{name: a, url: 'https://me:hidden-path@example.org/', secret_file: SECRET}", 7, "user or a password")):
        with tempfile.TemporaryDirectory(prefix="regatta-webhooks-") as name:
            work = pathlib.Path(name)
            (work / "secret").write_text(SECRET)
            (work / "secret").chmod(mode)
            one = Served(work, config=f"webhooks:\n  - {entry.replace('SECRET', str(work / 'secret'))}\n")
            assert not one.ready
            result = one.process.wait(20)
            told = one.told()
            assert word in told.splitlines()[-1] and "hidden-path" not in told and SECRET not in told, told
            assert result == code, (result, told)


CASES = [events_come_in_order_and_are_signed, what_fails_is_tried_again, a_kill_loses_nothing,
         a_receiver_that_hangs_delays_nobody, nothing_goes_elsewhere, secrets_are_told_to_nobody,
         a_certificate_that_nobody_vouches_for_is_refused]


def main():
    for case in CASES:
        if not sys.argv[2:] or case.__name__ in sys.argv[2:]:
            case()
            print(f"{case.__name__}: ok", flush=True)


if __name__ == "__main__":
    main()
