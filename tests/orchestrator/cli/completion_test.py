#!/usr/bin/env python3
"""`regatta completion`: real shells complete what the program's own help lists, and runs, and execute none of their names.

    completion_test.py BUILD CASE

Without zsh, fish or shellcheck a case is skipped, exit code 77; with `shells` or `lint` in REQUIRE it fails.
"""
import http.server
import json
import os
import socketserver
import subprocess
import sys
import threading
import time

import shells
from help_text import REGATTA, commands, main, need, run

# Names that would do harm, or break a line, were they expanded or shown; and two that are plain.
HOSTILE = ["$(touch pwned)", "`touch pwned`", "a b", "-rf", "--help", "x;touch pwned", "q'uote", 'd"quote', "../up", "*",
           "new\nline", "tab\tbed", "esc\x1b[31m", "${HOME}", "a&b", "~", "ü", "a\\b", "x|y", "#", ""]
PLAIN = ["demo-01ab23", "ok_2.x"]


def compare(offers, missing_is_fine=()):
    """`offers` takes a list of lines, each a list of words; gives what a shell offers for the last word of each."""
    lines, wanted = [], []
    for path, told in commands().items():
        if told.parts:
            lines.append([*path, ""])
            wanted.append(set(told.parts))
        if path == ("sbatch",):
            continue
        for dashes in ("-", "--"):
            lines.append([*path, dashes])
            wanted.append({name for name in told.choices if name.startswith(dashes)})
        for name, choices in told.choices.items():
            if choices and name.startswith("--"):
                lines.append([*path, name, ""])
                wanted.append(set(choices))
    lines += [["completion", ""], ["ckpt", "export", "--for", ""], ["ls", "--state", "s"]]
    wanted += [{"bash", "zsh", "fish"}, {"pretraining", "encoder", "question-answering", "sequence-classification"},
               {"starting", "stopping", "succeeded", "stopped"}]
    for line, want, offered in zip(lines, wanted, offers(lines), strict=True):
        found = {word.rstrip("=") for word in offered}
        assert want - found <= set(missing_is_fine), f"{line}: {sorted(want - found)} is not offered, but {sorted(found)}"
        assert found - want == set(), f"{line}: {sorted(found - want)} is offered, and is not in the help"


def compare_runs(place, offers):
    """Runs are offered where one is taken, however they are called, and nothing is executed."""
    lines = [["show", ""], ["ckpt", "verify", ""], ["rm", "demo", ""], ["submit", "x.yaml", "--after", ""], ["logs", "-f", ""],
             ["show", "demo-"], ["diff", "--timeout", "3", ""]]
    place.answer("\n".join(HOSTILE + PLAIN).encode() + b"\n\xff\xfe\n\0x\n", 0)
    harmless = {"new", "line"}  # of the name with a line break
    for line, offered in zip(lines, offers(lines), strict=True):
        want = {word for word in PLAIN if word.startswith(line[-1])}
        assert set(offered) - harmless - {"x"} == want, (line, offered)
    others = [["sweep", "show", ""], ["sweep", "stop", "sw"], ["experiment", "show", ""],
              ["experiment", "parallel", "x.yaml", "--id", ""]]
    assert [list(offered) for offered in offers(others)] == [["sweeps-1"], ["sweeps-1"], ["experiments-1"], ["experiments-1"]]
    place.answer(b"demo-01ab23\n", 6)
    assert offers([["show", "--", ""]]) in ([["demo-01ab23"]], [[]])
    place.answer(b"", 6)
    assert not [word for word in offers([["show", "x"]])[0]], "no controller: nothing is offered"
    left = sorted(path.name for path in (place.folder / "work").iterdir())
    assert "pwned" not in left, left


def compare_files(place, offers):
    for name in ("a.yaml", "b.json", "c.txt", "$(touch pwned).yaml"):
        (place.folder / "work" / name).write_text("")
    (place.folder / "work" / "folder").mkdir()
    runs, files, directories = offers([["submit", ""], ["plan", "--cluster", ""], ["serve", "--data", ""]])
    plain = {word.rstrip("/") for word in runs}
    assert {"a.yaml", "b.json", "folder"} <= plain, runs
    for found in (files, directories):
        assert not found or "folder" in {word.rstrip("/") for word in found}, found
    assert not (place.folder / "work" / "pwned").exists()


def bash_completes_what_help_lists(place):
    compare(place.bash)


def bash_completes_runs_and_executes_none(place):
    compare_runs(place, place.bash)


def bash_completes_values_wherever_they_stand(place):
    place.answer(b"demo-1\n", 0)
    cases = {("ls", "--output", "=", "js"): ["json"], ("ls", "--output", "="): ["text", "json", "yaml", "csv", "name"],
             ("ls", "--output=j",): ["--output=json"], ("ls", "-o", "c"): ["csv"], ("ls", "--limit", ""): [],
             ("show", "--server", "unix", ":", "/x", ""): ["demo-1"], ("show", "--server", "unix", ":"): [],
             ("ls", "--state", "ckpt", "--rev"): ["--reverse"], ("show", "a", ""): [], ("show", "--", "de"): ["demo-1"],
             ("ckpt", "show", "demo-1", ""): [], ("man", "ck"): ["ckpt"], ("nothing", ""): list(commands()[()].parts),
             ("sbatch", "--free"): []}
    for line, offered in zip(cases, place.bash(list(cases)), strict=True):
        assert offered == cases[line], (line, offered)
    (place.folder / "work" / "x.txt").write_text("")
    compare_files(place, place.bash)


def bash_completes_on_a_terminal(place):
    place.answer("\n".join(HOSTILE + PLAIN).encode(), 0)
    (place.folder / "work" / "run file.yaml").write_text("")
    (place.folder / "work" / "note.txt").write_text("")
    terminal = shells.Terminal(["bash", "--norc", "-i"], place)
    terminal.type(f"source {place.script('bash')}; bind 'set enable-bracketed-paste off'; echo re''ady\n")
    terminal.wait_for("ready")
    # What is typed, and the arguments that then come to a function of the program's name.
    terminal.type("regatta() { printf '<%s>' \"$@\"; echo; }\n")
    for typed, shown in (("regatta simu\t--study=ml\t", "<simulate><--study=mlperf>"), ("regatta show dem\t", "<show><demo-01ab23>"),
                         ("regatta submit run\t", "<submit><run file.yaml>"), ("regatta topo no\t", "<topo><note.txt>"),
                         ("regatta ls --since 3d --arch\t", "<ls><--since><3d><--archived>"),
                         ("regatta show --server unix:/x --sec\t", "<show><--server><unix:/x><--secrets>")):
        terminal.type(typed + "\n")
        terminal.wait_for(shown)
    terminal.close()
    assert not (place.folder / "work" / "pwned").exists()


def bash_script_is_clean(place):
    assert place.run(["bash", "-n", place.script("bash")], "") == ""
    need("shellcheck", "lint")
    done = subprocess.run(["shellcheck", place.script("bash")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[:3000]


def zsh_completes_what_help_lists(place):
    need("zsh")
    assert place.run(["zsh", "-n", place.script("zsh")], "") == ""
    compare(place.zsh)


def zsh_completes_runs_and_files_and_executes_none(place):
    need("zsh")
    compare_runs(place, place.zsh)
    compare_files(place, place.zsh)


def fish_completes_what_help_lists(place):
    need("fish")
    assert place.run(["fish", "-n", place.script("fish")], "") == ""
    compare(place.fish)


def fish_completes_runs_and_files_and_executes_none(place):
    need("fish")
    compare_runs(place, place.fish)
    compare_files(place, place.fish)


class Controller(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers as a controller would: `body` to every request, after `seconds`."""
    daemon_threads = True

    def __init__(self, path, body, seconds=0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(seconds)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self):
                return "unix"

            def log_message(self, *_):
                pass

        super().__init__(str(path), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def hidden_mode(server, what="runs"):
    began = time.monotonic()
    done = subprocess.run([REGATTA, "completion", f"--{what}"], capture_output=True, timeout=60,
                          env={**os.environ, "REGATTA_SERVER": server})
    assert done.returncode == 0 and done.stderr == b"", done
    return done.stdout.decode().split("\n")[:-1], time.monotonic() - began


def runs_are_plain_words_or_nothing(place):
    rows = [{"id": "demo-01ab23", "name": "demo"}, {"id": "twin-1", "name": "twin"}, {"id": "twin-2", "name": "twin"}]
    rows += [{"id": name, "name": name + "n"} for name in HOSTILE]
    Controller(place.folder / "good", json.dumps({"runs": rows, "next": None}).encode())
    words = []
    for _ in range(10):  # on a busy machine a second can be too short
        words = words or hidden_mode(f"unix:{place.folder}/good")[0]
    # Names of the hostile ids that are plain themselves.
    assert set(words) - {"n"} == {"demo", "demo-01ab23", "twin-1", "twin-2"}, words
    rows += [{"id": "unnamed-1", "name": None}]
    for what, wanted in (("sweeps", {"demo", "demo-01ab23"}), ("experiments", {"demo-01ab23", "twin-1", "twin-2", "unnamed-1"})):
        Controller(place.folder / what, json.dumps({what: rows[:2] if what == "sweeps" else rows, "total": 9, "next": None}).encode())
        words = []
        for _ in range(10):
            words = words or hidden_mode(f"unix:{place.folder}/{what}", what)[0]
        assert wanted <= set(words) and ("twin" in words) == (what == "sweeps"), (what, words)
    for name, body in (("text", b"nonsense"), ("list", b"[1]"), ("rows", b'{"runs": [1, null, {"id": 3}]}'), ("none", b"{}"),
                       ("empty", b"")):
        Controller(place.folder / name, body)
        assert hidden_mode(f"unix:{place.folder}/{name}")[0] == [], name
    for server in (f"unix:{place.folder}/nothing", "http://127.0.0.1:1", "what is this", "unix:"):
        assert hidden_mode(server)[0] == [], server
    Controller(place.folder / "slow", b"{}", 100)
    words, seconds = hidden_mode(f"unix:{place.folder}/slow")
    assert words == [] and seconds < 30, seconds
    for option in ("--runs", "--sweeps", "--experiments"):
        assert option not in run("completion", "--help")


CASES = (bash_completes_what_help_lists, bash_completes_runs_and_executes_none,
         bash_completes_values_wherever_they_stand, bash_completes_on_a_terminal, bash_script_is_clean,
         zsh_completes_what_help_lists, zsh_completes_runs_and_files_and_executes_none,
         fish_completes_what_help_lists, fish_completes_runs_and_files_and_executes_none,
         runs_are_plain_words_or_nothing)

if __name__ == "__main__":
    sys.exit(main(CASES, lambda folder: shells.Place(folder, REGATTA)))
