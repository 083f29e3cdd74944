#!/usr/bin/env python3
"""`regatta man`: the pages show what the program's own help lists, and troff has nothing to say of them.

    man_test.py BUILD CASE

Without groff a case is skipped, exit code 77; with `shells` in REQUIRE it fails.
"""
import pathlib
import re
import shutil
import subprocess
import sys

from help_text import REGATTA, commands, main, need, run

ROOT = pathlib.Path(__file__).resolve().parents[3]


def plain(roff):
    """A line of roff as it is read."""
    text = re.sub(r"\\f[BIR]", "", roff).replace("\\-", "-").replace("\\&", "")
    for escape, letter in (("aq", "'"), ("dq", '"'), ("ga", "`"), ("ha", "^"), ("ti", "~"), ("rs", "\\")):
        text = text.replace(f"\\({escape}", letter)
    return text


def pages_have_every_command_and_option(folder):
    texts = {path: plain(run("man", *path)) for path in commands() if len(path) < 2}
    for path, told in commands().items():
        page = texts[path[:1]]
        if len(path) == 2:
            page = page.split(f'\n.SS "regatta {" ".join(path)}"\n')[1].split("\n.SS ")[0].split("\n.SH EXIT")[0]
        tags = {}
        for tag in re.findall(r"^\.TP\n(.*)$", page, re.M):
            for name in tag.split(", "):
                tags[name.split(" ")[0]] = tag
        for name, choices in told.choices.items():
            assert name in tags and "|".join(choices) in tags[name], (path, name, tags)
            assert (name in told.takes_value) == (" " in tags[name].split(", ")[-1]), (path, name, tags[name])
        assert len([name for name in tags if name.startswith("-")]) == len(told.choices) or told.parts, (path, tags)
        for example in re.findall(r"^  (regatta .*)$", told.text, re.M):
            assert f"\n{example}\n" in page, (path, example)
        assert told.text.split("\n")[0].replace("`", "") in page or path == (), path
    for name in commands()[()].parts:
        assert f".TP\nregatta-{name}(1)\n" in texts[()], name
    everything = folder / "pages"
    run("man", "--directory", everything)
    assert {path.name for path in everything.iterdir()} == {
        "regatta.1", *(f"regatta-{name}.1" for name in commands()[()].parts)}
    assert subprocess.run([REGATTA, "man", "../x"], capture_output=True).returncode == 3


def pages_have_exit_codes_and_variables(folder):
    page = plain(run("man"))
    guide = (ROOT / "docs" / "guide.md").read_text().split("## Exit codes")[1].split("\n## ")[0]
    codes = re.findall(r"^\| (\d+) \| ", guide, re.M)
    status = page.split("\n.SH EXIT STATUS\n")[1].split("\n.SH")[0]
    assert re.findall(r"^\.TP\n(\d+)$", status, re.M) == codes and len(codes) > 7, codes
    read = set()
    for path in (ROOT / "orchestrator").rglob("*.cc"):
        read |= set(re.findall(r'(?:variable\(|whole\.find\(|named_by\(environment, )"(\w+)"', path.read_text()))
    assert "REGATTA_CONFIG" in read and "REGATTA_SERVER" in read, read
    known = set(re.findall(r"^\.TP\n(\w+)$", page.split("\n.SH ENVIRONMENT\n")[1].split("\n.SH")[0], re.M))
    assert read - {"HOME", "PATH"} == known, read ^ known


def pages_are_clean_roff(folder):
    need("groff")
    pages = folder / "pages"
    run("man", "--directory", pages)
    for path in sorted(pages.iterdir()):
        for device in ("ascii", "utf8", "ps"):
            done = subprocess.run(["groff", "-ww", "-man", "-z", f"-T{device}", path], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and done.stderr == "", (path.name, device, done.stderr)
        if shutil.which("mandoc"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", path], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout
    shown = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", pages / "regatta-ls.1"], capture_output=True, text=True).stdout
    assert "--sort created|ended|time_to_accuracy|name" in shown and "\n       regatta ls --all -o csv\n" in shown.replace(
        "           regatta", "       regatta"), shown


CASES = (pages_have_every_command_and_option, pages_have_exit_codes_and_variables, pages_are_clean_roff)

if __name__ == "__main__":
    sys.exit(main(CASES, lambda folder: folder))
