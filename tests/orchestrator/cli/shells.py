"""Real shells that complete a command line, for completion_test.py. Each loads the script that the program prints."""
import os
import pathlib
import pty
import select
import subprocess
import time


class Place:
    """A folder with the scripts, a home, and a `regatta` that answers for runs with the lines of `answer`."""

    def __init__(self, folder, regatta):
        self.folder, self.regatta = pathlib.Path(folder), regatta
        for name in ("bin", "home", "work"):
            (self.folder / name).mkdir()
        for shell in ("bash", "zsh", "fish"):
            script = subprocess.run([regatta, "completion", shell], capture_output=True, text=True, check=True).stdout
            self.script(shell).write_text(script)
        self.answer(b"", 0)

    def script(self, shell):
        return self.folder / f"script.{shell}"

    def answer(self, lines, code):
        """What `regatta completion --runs` prints from now on, and its exit code; there is one sweep and one experiment."""
        (self.folder / "answer").write_bytes(lines)
        program = self.folder / "bin" / "regatta"
        program.write_text(f'#!/bin/sh\ncase "$*" in\n"completion --runs") cat {self.folder}/answer; exit {code} ;;\n'
                           '"completion --sweeps" | "completion --experiments") echo "${2#--}-1" ;;\n*) exit 99 ;;\nesac\n')
        program.chmod(0o755)

    def environment(self):
        return {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": f"{self.folder}/home", "TERM": "xterm",
                "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": f"{self.folder}/home", "XDG_DATA_HOME": f"{self.folder}/home",
                "PS1": "$ "}

    def run(self, command, text):
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, cwd=self.folder / "work",
                              env=self.environment())
        assert done.returncode == 0 and done.stderr == "", done
        return done.stdout

    # Each takes lists of words, the last of which is at the cursor, and gives what is offered for each.

    def bash(self, lines):
        quoted = ["'" + "' '".join(word.replace("'", "'\\''") for word in line) + "'" for line in lines]
        text = f"source {self.script('bash')}\n" + "".join(
            f"COMP_WORDS=(regatta {line}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _regatta\n"
            "printf '%s\\n' \"${COMPREPLY[@]}\" ====\n" for line in quoted)
        return groups(self.run(["bash", "--norc"], text))

    def fish(self, lines):
        text = f"source {self.script('fish')}\n" + "".join(
            f"complete -C '{line}'\necho ====\n" for line in ("regatta " + " ".join(words) for words in lines))
        return [[word.split("\t")[0] for word in group] for group in groups(self.run(["fish", "--no-config"], text))]

    def zsh(self, lines):
        """What compadd gets, of a zsh on a terminal."""
        out = self.folder / "offered"
        out.write_text("")
        terminal = Terminal(["zsh", "-f", "-i"], self)
        terminal.type("PS1=\n")
        terminal.type(f"autoload -U compinit; compinit -u -D; source {self.script('zsh')}; unsetopt automenu listbeep\n"
                      "compadd() {\n"
                      "  if [[ \"$*\" != *' -'[OAD]' '* && $1 != -[OAD] ]]; then\n"
                      f"    local -a hits; builtin compadd -A hits \"$@\"; print -rl -- $hits >>{out}\n"
                      "  fi\n"
                      "  builtin compadd \"$@\"\n"
                      "}\n"
                      f"finish() {{ print '====' >>{out}; zle kill-whole-line }}\n"
                      "zle -N finish; bindkey '^T' finish; zstyle ':completion:*' verbose no; LISTMAX=100000\n"
                      "echo re''ady\n")
        terminal.wait_for("ready")
        for number, words in enumerate(lines):
            terminal.type("regatta " + " ".join(words) + "\t\x14")
            deadline = time.monotonic() + 90
            while out.read_text().count("====\n") <= number:
                assert time.monotonic() < deadline, f"zsh does not answer: {words}: {terminal.seen[-500:]}"
                terminal.read(0.01)
        terminal.close()
        return groups(out.read_text())


def groups(text):
    return [[line for line in group.split("\n") if line] for group in text.split("====\n")[:-1]]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, place):
        self.seen = ""
        self.child, self.handle = pty.fork()
        if self.child == 0:
            os.chdir(place.folder / "work")
            os.execvpe(command[0], command, place.environment())

    def type(self, text):
        os.write(self.handle, text.encode())

    def read(self, seconds):
        if select.select([self.handle], [], [], seconds)[0]:
            self.seen += os.read(self.handle, 65536).decode(errors="replace")

    def wait_for(self, text):
        deadline = time.monotonic() + 90
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} is not shown: {self.seen[-500:]!r}"
            self.read(0.1)

    def close(self):
        os.close(self.handle)
        os.waitpid(self.child, 0)
