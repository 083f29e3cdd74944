#!/usr/bin/env python3
"""What commands print for programs, and `ls --watch`, against a controller with runs.

    output_test.py BUILD    a build folder with regatta and the tests

The last line is `N passed, N failed, N skipped`.
"""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, Follower, make_data, serve_here, server_of  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
REGATTA = BUILD / "orchestrator" / "regatta"
ENVIRONMENT = {**os.environ, **NO_DEFAULTS}
TRAINER = BUILD / "trainer" / "regatta-train"
RUN = """name: {name}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 8}}
threads: 1
steps: 40
evaluate: {{every: 5, samples: 16}}
checkpoint: {{every: 10}}
"""


class World:
    def __init__(self, folder):
        self.folder = folder
        self.data = folder / "controller"
        make_data(folder, TRAINER)
        self.serve()
        self.first = self.submit("base", "--tag", "good", "--tag", "old")
        self.second = self.submit("next")
        for run in (self.first, self.second):
            self.regatta("watch", run)
        self.regatta("label", self.first, "--note", "half, \"the\" rate")

    def serve(self):
        self.process = serve_here(BUILD, self.data)

    def submit(self, name, *words):
        file = self.folder / f"{name}.yaml"
        file.write_text(RUN.format(name=name, data=self.folder / "data"))
        return self.regatta("submit", file, *words, "-o", "name").stdout.strip()

    def command(self, *words):
        return [REGATTA, *words, "--server", server_of(self.data)]

    def regatta(self, *words, code=0):
        done = subprocess.run(self.command(*words), timeout=120, capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def scalar(text):
    return json.loads(re.sub(r"^(-?\d+)\.0e", r"\1e", text))


def yaml_value(lines, indent):
    """The block YAML that the program writes, read without a word of its code: keys and texts are quoted."""
    if not lines or not lines[0].startswith(" " * indent):
        raise AssertionError(lines[:2])
    text = lines[0][indent:]
    if text == "-" or text.startswith("- "):
        items = []
        while lines and lines[0].startswith(" " * indent + "-"):
            rest = lines.pop(0)[indent + 1:].strip()
            items.append(scalar(rest) if rest else yaml_value(lines, indent + 2))
        return items
    if not re.match(r'"(\\.|[^"\\])*":', text):
        return scalar(lines.pop(0).strip())
    record = {}
    while lines and lines[0].startswith(" " * indent + '"'):
        line = lines.pop(0)[indent:]
        key = re.match(r'"(\\.|[^"\\])*"', line).group()
        rest = line[len(key) + 1:].strip()
        record[json.loads(key)] = scalar(rest) if rest else yaml_value(lines, indent + 2)
    return record


def read_yaml(text):
    lines = text.splitlines()
    value = yaml_value(lines, 0)
    assert not lines, lines
    return value


# Of each: where its rows are (None: it is no table), and what a row is called by.
PRINTERS = {
    ("ls",): ("runs", "id"),
    ("ls", "--all", "--sort", "name"): ("runs", "id"),
    ("show", "FIRST"): (None, "id"),
    ("explain", "FIRST"): (None, "id"),
    ("label", "FIRST"): (None, "id"),
    ("events",): ("events", "number"),
    ("nodes",): ("nodes", "name"),
    ("ckpt", "ls", "FIRST"): ("checkpoints", "name"),
    ("ckpt", "verify", "FIRST"): ("checkpoints", "name"),
    ("ckpt", "show", "FIRST", "latest"): (None, "name"),
    ("ckpt", "gc", "FIRST", "--dry-run"): (None, None),
    ("logs", "FIRST", "--list"): ("files", "name"),
    ("references", "ls"): ("references", "name"),
    ("rm", "FIRST", "SECOND", "--dry-run"): ("", "id"),
    ("archive", "FIRST", "--dry-run"): ("", "id"),
    ("compare", "FIRST", "SECOND"): (None, None),
    ("version",): (None, None),
    ("config", "show"): ("", "key"),
    ("doctor", "--list"): (None, None),
}
CHANGING = {"age_seconds", "since_submission_seconds", "seconds", "taken_at", "uptime_seconds", "at_seconds",
            "memory_free_bytes"}


def steady(value):
    """Without what differs between two calls."""
    if isinstance(value, dict):
        return {key: steady(each) for key, each in value.items() if key not in CHANGING}
    return [steady(each) for each in value] if isinstance(value, list) else value


def every_output_says_what_json_says(world):
    reference = {"name": "ref", "threshold": 0.72, "evaluations": [[60.5, 1500, 0.41]]}
    subprocess.run(["curl", "-sf", "--unix-socket", world.data / "controller.sock", "-d", json.dumps(reference),
                    "http://localhost/api/v1/references"], check=True, capture_output=True)
    for words, (rows_key, id_key) in PRINTERS.items():
        command = [{"FIRST": world.first, "SECOND": world.second}.get(word, word) for word in words]
        if command[:2] == ["config", "show"] or command[0] == "doctor":
            def call(*more, code=0, command=command):
                done = subprocess.run([REGATTA, *command, *more], capture_output=True, text=True, env=ENVIRONMENT)
                assert done.returncode == code, (command, done)
                return done
        else:
            def call(*more, code=0, command=command):
                return world.regatta(*command, *more, code=code)
        whole = json.loads(call("-o", "json").stdout)
        said = steady(read_yaml(call("-o", "yaml").stdout))
        assert said == steady(whole), (command, said, whole)
        rows = [whole] if rows_key is None else whole if rows_key == "" else whole[rows_key]
        if rows_key is None:
            assert "--output is 'csv'" in call("-o", "csv", code=2).stderr, command
        else:
            table = list(csv.DictReader(io.StringIO(call("-o", "csv").stdout, newline="")))
            assert len(table) == len(rows), command
            for cells, row in zip(table, rows):
                for key, cell in cells.items():
                    if key in row and isinstance(row[key], str):
                        assert cell.lstrip("'") == row[key], (command, key)
        if id_key is None:
            assert "--output is 'name'" in call("-o", "name", code=2).stderr, command
        else:
            assert call("-o", "name").stdout.splitlines() == [str(row[id_key]) for row in rows], command


def a_table_without_rows_has_its_head(world):
    """A reader of CSV that finds no head takes the file for a broken one."""
    def head(*words):
        return world.regatta(*words, "-o", "csv").stdout
    some, empty = head("ls"), head("ls", "--text", "no such text")
    assert empty == some[:some.index("\n") + 1], empty
    events = head("events", "--node", "no-such-node")
    assert events.startswith("number,") and events.count("\n") == 1, events
    assert head("ls", "--text", "no such text", "--columns", "id,note") == "id,note\n"
    assert head("webhooks").startswith("name,")


def answers_that_follow_each_other_are_lines_or_documents(world):
    lines = world.regatta("watch", world.first, "-o", "json").stdout.splitlines()
    assert json.loads(lines[-1])["state"] == "succeeded"
    documents = world.regatta("watch", world.first, "-o", "yaml").stdout.split("---\n")
    assert documents[0] == "" and read_yaml(documents[-1])["state"] == "succeeded"
    told = len(json.loads(world.regatta("events", world.first, "-o", "json").stdout)["events"])
    follower = Follower(world.command("events", world.first, "-f", "-o", "csv"), env=ENVIRONMENT)
    follower.until("what was before is told", lambda: follower.output.count("\n") > told)
    world.regatta("label", world.first, "--tag", "later")
    follower.until("the label is told", lambda: follower.output.count("\n") > told + 1)
    follower.end(signal.SIGKILL)
    table = follower.output.splitlines()
    assert table[0].startswith("number,") and sum(line.startswith("number,") for line in table) == 1
    assert "run.labelled" in table[-1], table
    world.regatta("label", world.first, "--untag", "later")


def columns_are_chosen(world):
    text = world.regatta("ls", "--columns", "id,tags,note,created_at,steps").stdout.splitlines()
    assert text[0].split() == ["ID", "TAGS", "NOTE", "CREATED", "STEPS"]
    first = next(line for line in text if line.startswith(world.first))
    assert 'good old' in first and 'half, "the" rate' in first and first.endswith("40")
    table = list(csv.DictReader(io.StringIO(world.regatta("ls", "--columns", "id,note,step", "-o", "csv").stdout)))
    assert list(table[0]) == ["id", "note", "step"]
    assert {row["id"]: row["note"] for row in table} == {world.first: 'half, "the" rate', world.second: ""}
    refused = world.regatta("ls", "--columns", "id,stat", code=2).stderr
    assert "'stat'" in refused and "did you mean 'state'?" in refused, refused
    assert "--columns is for" in world.regatta("ls", "--columns", "id", "-o", "json", code=2).stderr


class Terminal:
    """A program on a terminal of some size, and what stands on its screen."""

    def __init__(self, command, rows, columns):
        self.seen = b""
        self.process, self.end = pty.fork()
        if self.process == 0:
            os.execve(command[0], [str(word) for word in command], ENVIRONMENT)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.end, 65536)
                except OSError:
                    break

    def screen(self):
        """The lines of the last drawing that is whole."""
        drawn = self.seen.decode().split("\x1b[H")[-1]
        assert drawn.endswith("\x1b[J"), drawn
        return drawn[:-len("\x1b[J")].replace("\x1b[K", "").split("\r\n")[:-1]

    def until(self, holds, seconds=90):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read(0.3)
            if b"\x1b[J" in self.seen and self.seen.endswith(b"\x1b[J") and holds(self.screen()):
                return self.screen()
        raise AssertionError(self.seen[-2000:])

    def interrupt(self):
        os.write(self.end, b"\x03")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.read(0.1)
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                os.close(self.end)
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("Ctrl-C did not end it")


def a_watched_list_is_redrawn_in_place(world):
    terminal = Terminal(world.command("ls", "--watch", "--every", "0.3"), 24, 80)
    screen = terminal.until(lambda lines: any(world.first in line for line in lines))
    assert all(len(line) <= 80 for line in screen) and screen[0].startswith("RUN"), screen
    third = world.submit("third")
    screen = terminal.until(lambda lines: any(third in line and "succeeded" in line for line in lines))
    assert sum(line.startswith("RUN") for line in screen) == 1, "one table, in its place"
    terminal.resize(4, 40)
    screen = terminal.until(lambda lines: len(lines) == 3)
    assert screen[-1] == "and 2 more" and all(len(line) <= 40 for line in screen), screen
    terminal.resize(24, 100)
    world.end()
    screen = terminal.until(lambda lines: "tries again" in lines[-1])
    assert any(third in line for line in screen), "what was known stays"
    world.serve()
    terminal.until(lambda lines: "tries again" not in lines[-1])
    assert terminal.interrupt() == 130
    world.regatta("rm", third, "--yes")


def a_watched_list_on_a_pipe_is_printed_when_it_changes(world):
    watcher = Follower(world.command("ls", "--watch", "--every", "0.2"), env=ENVIRONMENT)
    watcher.until("the first table is there", lambda: world.first in watcher.output and world.second in watcher.output)
    third = world.submit("third")
    watcher.until("its end is shown", lambda: any(third in line and "succeeded" in line for line in watcher.output.splitlines()))
    world.end()
    watcher.until("the silence is told", lambda: "tries again" in watcher.errors)
    world.serve()
    time.sleep(1)  # in which nothing new is to be told
    code = watcher.end(signal.SIGINT)
    text, errors = watcher.output, watcher.errors
    assert code == 130, code
    tables = text.split("\n\n")
    assert third not in tables[0] and third in tables[-1] and "succeeded" in tables[-1].splitlines()[1]
    assert all(one != other for one, other in zip(tables, tables[1:])), "only what has changed"
    assert "\x1b" not in text
    assert errors.count("tries again") == 1, errors
    world.regatta("rm", third, "--yes")
    watcher = Follower(world.command("ls", "--watch", "--every", "0.2", "-o", "json"), env=ENVIRONMENT)
    watcher.until("it is printed", lambda: "\n" in watcher.output)
    watcher.end(signal.SIGINT)
    for line in watcher.output.splitlines():
        assert len(json.loads(line)["runs"]) == 2


def the_controller_exports_a_checkpoint(world):
    refused = world.regatta("ckpt", "export", world.first, code=2).stderr
    assert "give RUN and CHECKPOINT" in refused, refused
    refused = world.regatta("ckpt", "export", world.first, "latest", "--force", code=2).stderr
    assert "--force is for exports that are made here" in refused, refused
    world.regatta("ckpt", "export", world.first, "latest", "--for", "encoder")
    exports = list((world.data / "runs" / world.first / "exports").iterdir())
    assert [path.name for path in exports] == [world.regatta("ckpt", "show", world.first, "latest", "-o", "name").stdout.strip()]
    refused = world.regatta("ckpt", "export", world.first, "latest", code=5).stderr
    assert "exists already" in refused, refused
    told = world.regatta("events", world.first, "--kind", "checkpoint", "-o", "json").stdout
    assert "checkpoint.exported" in told, told


def a_restore_says_who_must_act(world):
    backup = world.folder / "backup.sqlite"

    def run(*words, code):
        done = subprocess.run([REGATTA, *words], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
        assert done.returncode == code and done.stderr.count("\n") == (1 if code else 0), (words, done)
        return done.stderr if code else done.stdout

    run("backup", backup, "--data", world.data, code=0)
    assert "in use by another controller" in run("restore", backup, "--data", world.data, code=5)
    damaged = world.folder / "damaged.sqlite"
    damaged.write_bytes(backup.read_bytes()[:10000])
    elsewhere = world.folder / "elsewhere"
    runs = ("--runs", world.data / "runs")
    assert "damaged" in run("restore", damaged, "--data", elsewhere, *runs, code=7)
    assert not elsewhere.exists(), "nothing is left of it"
    lost = world.folder / "typo" / "state"
    assert "there is no directory" in run("restore", backup, "--data", lost, *runs, code=3)
    assert not lost.parent.exists()
    assert "there is no directory" in run("restore", backup, "--data", elsewhere, "--runs", lost, code=3)
    assert not elsewhere.exists()
    assert f"made {elsewhere}\n" in run("restore", backup, "--data", elsewhere, *runs, code=0)


def a_reader_that_leaves_ends_it_quietly(world):
    """As `| head` does: of SIGPIPE, without a word; what follows notices it though nothing new is printed."""
    for words in (("ls",), ("events",), ("completion", "bash"), ("help",)):
        gone, output = os.pipe()
        os.close(gone)
        server = ("--server", server_of(world.data)) if words[0] in ("ls", "events") else ()
        done = subprocess.run([REGATTA, *words, *server], stdout=output, stderr=subprocess.PIPE, timeout=60, env=ENVIRONMENT)
        os.close(output)
        assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b""), (words, done)
    for words in (("events", world.first, "-f"), ("ls", "--watch", "--every", "0.2")):
        told = subprocess.Popen(world.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        assert told.stdout.readline()
        told.stdout.close()
        assert told.wait(60) == -signal.SIGPIPE and told.stderr.read() == b"", words


def names_are_looked_up_before_anything_is_done(world):
    for words in (("archive",), ("rm", "--yes")):
        refused = world.regatta(*words, world.first, world.second, "no-such-run", code=3)
        assert refused.stdout == "" and "no-such-run" in refused.stderr and refused.stderr.count("\n") == 1, refused
        listed = world.regatta("ls", "-o", "name").stdout.split()
        assert {world.first, world.second} <= set(listed), (words, listed)
    third = world.submit("third")
    world.regatta("watch", third)
    done = world.regatta("rm", "--yes", third, "third")
    assert done.stdout.count("freed") == 1, "named twice, it goes once"


CASES = [every_output_says_what_json_says, a_table_without_rows_has_its_head,
         answers_that_follow_each_other_are_lines_or_documents, columns_are_chosen,
         a_watched_list_is_redrawn_in_place, a_watched_list_on_a_pipe_is_printed_when_it_changes,
         the_controller_exports_a_checkpoint, a_restore_says_who_must_act,
         a_reader_that_leaves_ends_it_quietly, names_are_looked_up_before_anything_is_done]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            for case in CASES:
                if len(sys.argv) > 2 and case.__name__ not in sys.argv[2:]:
                    continue
                try:
                    case(world)
                    print("passed", case.__name__, flush=True)
                except Exception as error:  # pylint: disable=broad-except
                    failed += 1
                    print("FAILED", case.__name__, repr(error), "line",
                          error.__traceback__.tb_next.tb_lineno, flush=True)
        finally:
            world.end()
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
