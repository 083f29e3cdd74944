#!/usr/bin/env python3
"""`regatta completion`: real shells read the scripts, and offer what the program's own help lists.

    completion_test.py BUILD

The last line is `N passed, N failed, N skipped`.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REGATTA = pathlib.Path(sys.argv[1]) / "orchestrator" / "regatta"
HOSTILE = ["demo-01ab23", "a b", "$(touch pwned)", "`touch pwned`", "-rf", "x;y", "q'uote", 'd"quote', "../up", "ok_2.x"]


def run(*words, **options):
    return subprocess.run([REGATTA, *words], capture_output=True, text=True, timeout=60, check=True, **options).stdout


def script(shell):
    return run("completion", shell)


def listed(*words):
    """(names of commands, options) in a help text."""
    text = run(*words, "--help")
    options = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z0-9-]*)", text[text.find("\n"):]))
    return {name for name in re.findall(r"^  ([a-z]+)  ", text, re.M)}, options


def commands():
    top, _ = listed()
    for name in sorted(top):
        yield (name,)
        if name == "ckpt":
            for part in sorted(listed(name)[0]):
                yield (name, part)


def complete(folder, *words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(["bash", "-c", f'source script; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _regatta; '
                                         'printf "%s\\n" "${COMPREPLY[@]}"'],
                          capture_output=True, text=True, cwd=folder, timeout=60,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    assert done.returncode == 0 and done.stderr == "", done
    return [word for word in done.stdout.split("\n") if word]


def in_bash(folder):
    (folder / "script").write_text(script("bash"))
    (folder / "regatta").write_text("#!/bin/sh\nprintf '%s\\n' " + " ".join(
        "'" + name.replace("'", "'\\''") + "'" for name in HOSTILE) + "\n")
    (folder / "regatta").chmod(0o755)


def bash_offers_every_command_and_option(folder):
    in_bash(folder)
    top = {words[0] for words in commands()}
    assert {"ls", "submit", "ckpt", "completion"} <= top and len(top) > 20, top
    assert top <= set(complete(folder, "regatta", "")), top - set(complete(folder, "regatta", ""))
    assert complete(folder, "regatta", "sub") == ["submit"]
    seen = 0
    for words in commands():
        if words == ("sbatch",):  # its options are sbatch's
            continue
        options = listed(*words)[1] - {"--json"}
        offered = set(complete(folder, "regatta", *words, "-"))
        missing = {option for option in options if option not in offered and run(*words, "--help").count(f" {option} ") > 0}
        assert {"--help"} <= offered and not {m for m in missing if f"\n  {m}" in run(*words, "--help")}, (words, missing)
        seen += len(offered)
    assert seen > 100, seen


def bash_offers_values_and_parts(folder):
    in_bash(folder)
    assert complete(folder, "regatta", "ls", "-o", "") == ["text", "json", "csv", "yaml", "name"]
    assert complete(folder, "regatta", "ls", "--sort", "t") == ["time_to_accuracy"]
    assert complete(folder, "regatta", "ls", "--limit", "") == [], "a number is the reader's"
    assert "verify" in complete(folder, "regatta", "ckpt", "")
    assert {"bash", "zsh", "fish"} <= set(complete(folder, "regatta", "completion", ""))


def bash_offers_runs_and_runs_nothing(folder):
    in_bash(folder)
    for words in (("show",), ("ckpt", "verify"), ("cancel",)):
        offered = [word for word in complete(folder, "regatta", *words, "") if not word.startswith("-")]
        assert offered == ["demo-01ab23", "ok_2.x"], (words, offered)
    assert [word for word in complete(folder, "regatta", "show", "dem")] == ["demo-01ab23"]
    assert not (folder / "pwned").exists()
    (folder / "regatta").write_text("#!/bin/sh\nexit 6\n")
    assert all(word.startswith("-") for word in complete(folder, "regatta", "show", "")), "no controller: nothing is said"


def other_shells_read_theirs(folder):
    skipped = []
    for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
        if not shutil.which(check[0]):
            skipped.append(shell)
            continue
        path = folder / f"script.{shell}"
        path.write_text(script(shell))
        done = subprocess.run([*check, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stderr == "", done
    if skipped:
        print(f"SKIPPED: completion: not installed: {', '.join(skipped)}")


def fish_offers_the_same(folder):
    if not shutil.which("fish"):
        print("SKIPPED: completion: fish is not installed")
        return
    in_bash(folder)
    (folder / "script.fish").write_text(script("fish"))

    def offered(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source script.fish; complete -C 'regatta {line}'"],
                              capture_output=True, text=True, cwd=folder, timeout=60,
                              env={**os.environ, "HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"})
        assert done.returncode == 0 and done.stderr == "", done
        return [each.split("\t")[0] for each in done.stdout.splitlines()]
    assert {words[0] for words in commands()} <= set(offered("")), offered("")
    assert offered("sub") == ["submit"]
    assert sorted(offered("ls --sort ")) == ["created", "ended", "name", "time_to_accuracy"]
    assert "verify" in offered("ckpt ")
    assert {"demo-01ab23", "ok_2.x"} <= set(offered("show ")) and "-rf" not in offered("show ")
    assert not (folder / "pwned").exists()


def shellcheck_finds_nothing(folder):
    if not shutil.which("shellcheck"):
        print("SKIPPED: completion: shellcheck is not installed")
        return
    path = folder / "script.bash"
    path.write_text("#!/bin/bash\n" + script("bash"))
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[:3000]


def main():
    failed = 0
    cases = (bash_offers_every_command_and_option, bash_offers_values_and_parts, bash_offers_runs_and_runs_nothing,
             other_shells_read_theirs, fish_offers_the_same, shellcheck_finds_nothing)
    for case in cases:
        with tempfile.TemporaryDirectory() as name:
            try:
                case(pathlib.Path(name))
                print(f"passed  completion.{case.__name__}", flush=True)
            except Exception as error:  # every failure is counted, and the next case runs
                failed += 1
                print(f"failed  completion.{case.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
