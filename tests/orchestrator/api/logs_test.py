#!/usr/bin/env python3
"""Logs over real HTTP, held against the files themselves and what coreutils and grep make of them.

    logs_test.py BUILD      a build folder with regatta and regatta-train

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import Follower, OverSocket, conclude, make_data, run_cases, serve_here, server_of  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
REGATTA = BUILD / "orchestrator" / "regatta"
RUN = """name: {name}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 8}}
threads: 1
steps: {steps}
evaluate: {{every: {every}, samples: 16}}
checkpoint: {{every: {every}, keep_last: 2}}
target: {{value: 0.9}}
"""


class World:
    def __init__(self, folder):
        self.data = folder / "controller"
        self.corpus = make_data(folder, BUILD / "trainer" / "regatta-train")
        self.start()
        self.id = self.submit("logged", 10, 5)
        deadline = time.monotonic() + 60
        while self.get("")["state"] != "succeeded" and time.monotonic() < deadline:
            time.sleep(0.1)
        self.directory = pathlib.Path(self.get("")["directory"])
        self.log = self.directory / "launches" / "1.log"

    def start(self):
        self.process = serve_here(BUILD, self.data)

    def ask(self, method, path, body=None):
        connection = OverSocket(self.data / "controller.sock")
        try:
            connection.request(method, "/api/v1/runs" + path, body)
            answer = connection.getresponse()
            text = answer.read()
            text.decode()  # strictly UTF-8
            return answer.status, json.loads(text)
        finally:
            connection.close()

    def submit(self, name, steps, every):
        status, run = self.ask("POST", "", RUN.format(name=name, data=self.corpus, steps=steps, every=every))
        assert status == 201, run
        return run["id"]

    def get(self, path, status=200, **query):
        found, answer = self.ask("GET", f"/{self.id}{path}?{urllib.parse.urlencode(query)}")
        assert found == status, (path, query, found, answer)
        return answer

    def search(self, **query):
        """The lines of all pages."""
        lines, pages, begun = [], 0, {}
        while True:
            begin = time.monotonic()
            page = self.get("/logs/search", **query, **begun)
            assert time.monotonic() - begin < 30, "a page has a bounded time"
            pages += 1
            lines += page["lines"]
            if page["next"] is None:
                return lines, pages
            begun = {"from": page["next"]}

    def regatta(self, *words, **options):
        return subprocess.run([REGATTA, words[0], "--server", server_of(self.data), *words[1:]], timeout=120,
                              capture_output=True, **options)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def text_of(count):
    return "".join(f"line {n} of a log, {n * 7919 % 1000:03d} {'WARN' if n % 97 == 0 else 'info'} é\n"
                   for n in range(1, count + 1)).encode()


def tool(*words):
    return subprocess.run(words, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout


def a_range_is_the_bytes_of_the_file(world):
    content = text_of(20000)
    world.log.write_bytes(content)
    for limit in (4, 5, 1000, 262144):
        joined, offset = b"", 0
        while limit > 10 and offset < len(content) or offset < 200:
            part = world.get("/logs", offset=offset, limit=limit)
            assert part["offset"] == offset and part["size"] == len(content) and part["file"] == "launches/1.log"
            bytes_ = part["text"].encode()
            assert 0 < len(bytes_) <= limit and part["next"] == offset + len(bytes_)
            assert part["begins_in_line"] == (offset > 0 and content[offset - 1:offset] != b"\n")
            assert part["ends_in_line"] == (not bytes_.endswith(b"\n"))
            joined, offset = joined + bytes_, part["next"]
        assert content.startswith(joined) and (limit <= 10 or joined == content)
    assert world.get("/logs", offset=len(content))["text"] == ""
    for bad in ({"limit": 3}, {"limit": 262145}, {"tail": 0}, {"offset": -1}, {"rank": -1}, {"attempt": 0}):
        assert world.get("/logs", 400, **bad)["parameter"] == next(iter(bad))
    assert world.get("/logs", 400, tail=3, offset=4)["parameter"] == "tail"


def a_tail_is_that_of_coreutils(world):
    for content in (text_of(3000), text_of(10) + b"torn", b"\n\n\n", b"one", b"", b"one\n", b"\n", b"a\n\n"):
        world.log.write_bytes(content)
        for lines in (1, 2, 3, 9, 10, 11, 100, 3000, 5000):
            part = world.get("/logs", tail=lines)
            expected = tool("tail", "-n", str(lines), str(world.log))
            assert part["text"].encode() == expected, (content[:30], lines, part["text"][:50], expected[:50])
            assert part["next"] == len(content) and not part["begins_in_line"]
            assert world.regatta("logs", world.id, "--tail", str(lines)).stdout == expected
    world.log.write_bytes("é".encode() * 300_000)
    part = world.get("/logs", tail=1, limit=1001)
    assert part["text"] == "é" * 500 and part["begins_in_line"] and part["next"] == 600_000


def a_pipe_that_closes_ends_it(world):
    world.log.write_bytes(text_of(50000))
    for more in ("", "-f", "--grep ."):
        done = subprocess.run(["sh", "-c", f'"$0" logs --server "$1" "$2" {more} | head -n 1', REGATTA, server_of(world.data),
                               world.id], capture_output=True, timeout=60)
        assert done.stdout.endswith("line 1 of a log, 919 info é\n".encode()) and done.stderr == b"", (more, done)


def a_download_tells_that_the_log_has_grown(world):
    def download(**headers):
        connection = OverSocket(world.data / "controller.sock")
        try:
            connection.request("GET", f"/api/v1/runs/{world.id}/logs/download", None,
                               {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()
    content = text_of(100)
    world.log.write_bytes(content)
    status, head, body = download()
    assert (status, body, head["Cache-Control"]) == (200, content, "no-store"), (status, head)
    tag = head["ETag"]
    assert download(If_None_Match=tag)[0] == 304
    with open(world.log, "ab") as file:
        file.write(b"more\n")
    status, head, body = download(If_None_Match=tag)
    assert (status, body) == (200, content + b"more\n") and head["ETag"] != tag, (status, head)
    assert download(If_Range=tag, Range=f"bytes={len(content)}-")[::2] == (206, b"more\n")


def a_search_is_that_of_grep(world):
    world.log.write_bytes(text_of(5000) + b"WARN torn")
    for words, query in ((["WARN"], {"grep": "WARN"}), (["-i", "warn"], {"grep": "warn", "ignore_case": "true"}),
                         (["^line [0-9]*7 .* 00[0-9]"], {"grep": "^line [0-9]*7 .* 00[0-9]"}), (["é$"], {"grep": "é$"})):
        for context in (0, 2, 20):
            for limit in (3, 1000):
                if limit == 3 and words == ["é$"]:
                    continue
                lines, pages = world.search(context=context, limit=limit, **query)
                assert limit == 1000 or pages > 1
                shown = "".join(f"{line['line']}{':' if line['match'] else '-'}{line['text']}\n" for line in lines).encode()
                expected = tool("grep", "-n", "-C", str(context), *words, str(world.log)).replace(b"--\n", b"")
                assert shown == expected, (words, context, limit)
    content = world.log.read_bytes()
    for line in world.search(grep="WARN")[0]:
        assert content[line["offset"]:].startswith(line["text"].encode())
    expected = tool("grep", "-n", "-i", "-C", "3", "warn", str(world.log))
    assert world.regatta("logs", world.id, "--grep", "warn", "-i", "-C", "3").stdout == expected
    nothing = world.regatta("logs", world.id, "--grep", "no such words")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, b"", b"no line matches\n")


def a_bad_pattern_is_named(world):
    for bad in ("(", "a**", "[", "(?=a)", r"(a)\1", "x{2000}", "((a{100}){100}){100}", ""):
        assert world.get("/logs/search", 400, grep=bad)["parameter"] == "grep", bad
    for bad in ("x", "1", "1.2", "-1.2.3", "1.2.3.4", "9" * 40 + ".1.1"):
        assert world.get("/logs/search", 400, grep="a", **{"from": bad})["parameter"] == "from", bad
    assert world.get("/logs/search", 400)["parameter"] == "grep"
    assert world.get("/logs/search", 400, grep="a", context=21)["parameter"] == "context"


def a_hostile_log_costs_little(world):
    with open(world.log, "wb") as file:  # a line of 100 MB, in which (a*)*b would take for ever
        for _ in range(100):
            file.write(b"a" * 10**6)
        file.write(b"\nlast\n")
    begin = time.monotonic()
    lines, pages = world.search(grep="(a*)*b|last")
    assert [(line["line"], line["text"]) for line in lines] == [(2, "last")] and pages > 3, (lines, pages)
    assert time.monotonic() - begin < 60
    part = world.get("/logs", tail=2)
    assert len(part["text"]) == 262144 and part["begins_in_line"] and part["text"].endswith("a\nlast\n")
    page = world.get("/logs/search", grep="a", limit=1000, context=20)
    assert sum(len(line["text"]) for line in page["lines"]) < 2**20 and page["next"]
    world.log.write_bytes(b"bad \xff\xfe bytes\nnul \0 here\n\xc3\n\x1b[31mred\n")
    assert [line["text"] for line in world.search(grep="bad|nul|red")[0]] == [
        "bad \ufffd\ufffd bytes", "nul \0 here", "\x1b[31mred"]
    assert world.get("/logs", tail=4)["text"].startswith("bad \ufffd\ufffd bytes\nnul \0 here\n")
    shown = world.regatta("logs", world.id).stdout
    assert b"\x1b" not in shown and b"\0" not in shown and b"nul \\x00 here" in shown, shown
    world.log.write_bytes(b"short\n")  # it was longer
    part = world.get("/logs", offset=100)
    assert (part["text"], part["size"], part["next"]) == ("", 6, 100)


def no_name_leads_elsewhere(world):
    folder = next((world.directory / "attempts").iterdir()) / "logs"
    secret = world.data / "token"
    (folder / "rank-3.out").write_text("third\n")
    (folder / "link.out").symlink_to(secret)
    os.mkfifo(folder / "pipe.out")
    (folder / "folder.out").mkdir()
    (folder / "new\nline").write_text("x")
    (world.directory / "launches" / "2.log").symlink_to(secret)  # of a launch that there is not
    kept = world.log.read_bytes()
    try:
        listed = world.get("/logs/files")
        names = [file["name"] for file in listed["files"]]
        assert names == ["launches/1.log", f"attempts/{folder.parent.name}/logs/rank-3.out"], names
        assert [file["attempt"] for file in listed["files"]] == [1, 1] and not listed["more"]
        assert [file["bytes"] for file in listed["files"]] == [len(kept), 6]
        os.utime(world.log, (1.7e9, 1.7e9 + 0.25))
        os.utime(folder / "link.out", (1.8e9, 1.8e9), follow_symlinks=False)
        times = [file["modified_at"] for file in world.get("/logs/files")["files"]]
        assert times[0] == "2023-11-14T22:13:20.250Z" and times[1][:2] == "20", times
        assert world.get("/logs", rank=3)["text"] == "third\n" == world.get("/logs", file=names[1])["text"]
        assert world.regatta("logs", world.id, "--rank", "3").stdout == b"third\n"
        assert world.regatta("logs", world.id, "--attempt", "1", "--rank", "3").stdout == b"third\n"
        table = world.regatta("logs", world.id, "--list").stdout.decode()
        assert all(name in table for name in names), table
        assert world.get("/logs", file="launches/1.log")["text"].encode() == kept
        for bad in ("../token", "launches/../../../token", "/etc/passwd", str(secret), "launches/2.log", "run.json", "",
                    "launches/./1.log", "launches/1.log\0", f"attempts/{folder.parent.name}/logs/../journal.jsonl"):
            assert world.get("/logs", 404, file=bad)["code"] == "not_found", bad
        for name in ("link.out", "pipe.out", "folder.out"):
            status, _ = world.ask("GET", f"/{world.id}/logs?file=attempts/{folder.parent.name}/logs/{name}")
            assert status >= 400, (name, status)
        for query in ({"rank": 4}, {"attempt": 9}, {"attempt": 9, "rank": 3}):
            assert world.get("/logs", 404, **query)["code"] == "not_found", query
        assert world.get("/logs", 400, file="launches/1.log", rank=3)["parameter"] == "file"
        world.log.unlink()
        world.log.symlink_to(secret)
        status, answer = world.ask("GET", f"/{world.id}/logs")
        assert status >= 400 and secret.read_text().strip() not in json.dumps(answer), answer
    finally:
        world.log.unlink()
        world.log.write_bytes(kept)


def following_tells_of_training(world):
    """Evaluations and checkpoints all, steps every few seconds, the log's own lines; over a resume, too."""
    run = world.submit("followed", 4000, 1000)
    told = subprocess.Popen([REGATTA, "logs", "--server", server_of(world.data), run, "-f", "--every", "1"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    begin = time.monotonic()
    output, errors = told.communicate(timeout=120)
    seconds = time.monotonic() - begin
    lines = output.decode().splitlines()
    assert told.returncode == 0 and errors == b"", errors
    journal = [json.loads(line) for path in (world.data / "runs" / run / "attempts").glob("*/journal.jsonl")
               for line in path.read_text().splitlines()]
    evaluations = [line for line in lines if ": evaluation" in line]
    assert [line.split()[2] for line in evaluations] == [f"{record['step']}:" for record in journal if record["type"] == "eval"]
    written = [record for record in journal if record["type"] == "checkpoint" and record["status"] == "written"]
    assert sum("checkpoint" in line and line.endswith("written") for line in lines) == len(written) > 0, lines
    steps = [line for line in lines if line.startswith("-- step ") and "/4000" in line]
    assert 1 <= len(steps) <= seconds + 2 and steps[-1].startswith("-- step 4000/4000, loss "), steps
    assert all(len(line) <= 80 for line in steps), steps
    log = (world.data / "runs" / run / "launches" / "1.log").read_text().splitlines()
    assert [line for line in lines if not line.startswith("-- ")] == log and "\x1b" not in output.decode()
    full = world.regatta("logs", run)
    assert full.stdout.decode().splitlines() == log
    refused = world.regatta("logs", run, "--grep", "a", "-f")
    assert refused.returncode != 0 and b"--grep" in refused.stderr


def following_goes_on_with_the_next_attempt(world):
    run = world.submit("killed", 10**6, 10**5)
    told = Follower([REGATTA, "logs", "--server", server_of(world.data), run, "-f", "--every", "1"])

    def shown(which):
        deadline = time.monotonic() + 90
        while not which(run_now := world.ask("GET", "/" + run)[1]):
            assert time.monotonic() < deadline, run_now
            time.sleep(0.1)
        return run_now
    process = shown(lambda now: now["step"] > 10)["attempt"]["process"]
    told.until("training is told", lambda: "-- step " in told.output)
    os.kill(process, signal.SIGKILL)
    shown(lambda now: now["attempts"] == 2 and now["attempt"]["state"] == "running" and now["step"] > 10)
    first, second = ((world.data / "runs" / run / "launches" / f"{n}.log").read_text() for n in (1, 2))
    names = [file["name"] for file in world.ask("GET", f"/{run}/logs/files")[1]["files"]]
    assert names == ["launches/1.log", "launches/2.log"], names
    for attempt, log in ((1, first), (2, second)):
        assert world.ask("GET", f"/{run}/logs?attempt={attempt}")[1]["text"] == log
    told.until("the next attempt is told", lambda: "-- step " in told.output.partition("-- launches/2.log\n")[2])
    assert world.ask("POST", f"/{run}/cancel")[0] == 202
    told.end()
    lines = told.output.splitlines()
    second = (world.data / "runs" / run / "launches" / "2.log").read_text()
    assert [line for line in lines if not line.startswith("-- ")] == (first + second).splitlines(), lines
    assert lines.index("-- launches/2.log") >= len(first.splitlines()), lines


def following_goes_on_after_a_restart(world):
    """Of events, too; no line twice, none lost, and it is said once that nobody answers."""
    run = world.submit("outlasts", 10**6, 10**5)
    command = [REGATTA, "{}", "--server", server_of(world.data), run, "-f"]
    log, events = (Follower([word.format(name) if word == "{}" else word for word in map(str, command)]) for name in ("logs", "events"))
    deadline = time.monotonic() + 90
    while world.ask("GET", "/" + run)[1]["step"] <= 10:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for told in (log, events):
        told.until("it has begun", lambda told=told: told.output)
    world.process.kill()
    world.process.wait()
    for told in (log, events):
        told.until("the silence is told", lambda told=told: "; tries again\n" in told.errors)
        assert told.process.poll() is None
    world.start()
    deadline = time.monotonic() + 90
    while world.ask("POST", f"/{run}/cancel")[0] != 202:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert log.end() == 0 and log.errors.count("; tries again\n") in (1, 2), log.errors
    lines = [line for line in log.output.splitlines() if not line.startswith("-- ")]
    assert lines == (world.data / "runs" / run / "launches" / "1.log").read_text().splitlines(), lines

    def wanted():
        return [event["words"] for event in json.loads(world.regatta("events", run, "-o", "json").stdout)["events"]]
    events.until("all events are told", lambda: events.output.count("\n") >= len(wanted()) > 2)
    time.sleep(1)  # in which none is told twice
    events.end(signal.SIGTERM)
    assert events.errors.count("; tries again\n") in (1, 2), events.errors
    assert len(events.output.splitlines()) <= len(wanted()), (events.output, wanted())


def one_who_waits_for_news_notices_that_nobody_reads(world):
    run = world.submit("waited", 10**6, 10**5)
    for words in (["events", "-f", "--kind", "node"], ["logs", run, "-f", "--every", "3600"]):
        told = subprocess.Popen([REGATTA, words[0], "--server", server_of(world.data), *words[1:]],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.5)
        told.stdout.close()
        assert told.wait(timeout=120) == -signal.SIGPIPE, words
        assert told.stderr.read() == b"", words
    assert world.ask("POST", f"/{run}/cancel")[0] == 202


def a_run_whose_directory_is_gone_says_so(world):
    run = world.submit("gone", 5, 5)
    deadline = time.monotonic() + 60
    while world.ask("GET", "/" + run)[1]["state"] != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    directory = world.ask("GET", "/" + run)[1]["directory"]
    while pathlib.Path(directory).exists():  # the controller writes down the end at about this time
        assert time.monotonic() < deadline
        shutil.rmtree(directory, ignore_errors=True)
    gone = f"the run's directory {directory} is gone; `regatta rm {run}` forgets the run"
    for words in ([], ["--list"], ["--grep", "a"], ["-f"], ["--tail", "3"]):
        done = world.regatta("logs", run, *words)
        assert (done.returncode, done.stdout) == (3, b""), (words, done)
        assert gone in done.stderr.decode() and done.stderr.count(b"\n") == 1, (words, done)
    done = subprocess.run([REGATTA, "ckpt", "verify", "--server", server_of(world.data), run], timeout=120,
                          capture_output=True)
    assert done.returncode == 1 and gone in done.stderr.decode(), done


CASES = [a_range_is_the_bytes_of_the_file, a_tail_is_that_of_coreutils, a_pipe_that_closes_ends_it,
         a_download_tells_that_the_log_has_grown, a_search_is_that_of_grep, a_bad_pattern_is_named,
         a_hostile_log_costs_little, no_name_leads_elsewhere, following_tells_of_training,
         following_goes_on_with_the_next_attempt, following_goes_on_after_a_restart,
         one_who_waits_for_news_notices_that_nobody_reads,
         a_run_whose_directory_is_gone_says_so]


def main():
    with tempfile.TemporaryDirectory() as name:
        world = World(pathlib.Path(name))
        try:
            return conclude(run_cases("logs", CASES, world))
        finally:
            world.end()


if __name__ == "__main__":
    sys.exit(main())
