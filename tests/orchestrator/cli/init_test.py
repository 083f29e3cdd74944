#!/usr/bin/env python3
"""What `regatta init` writes, against what `regatta schema` writes, as an editor compares them.

    init_test.py BUILD      a build folder with regatta

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:  # Debian's package belongs to Debian's interpreter
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        sys.exit("init_test: no jsonschema; deploy/install.sh test installs python3-jsonschema")
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, conclude, run_cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
REGATTA = BUILD / "orchestrator" / "regatta"
ENVIRONMENT = {**os.environ, **NO_DEFAULTS}
KINDS = ("pretrain", "continue", "squad", "classify")
OFF = re.compile(r"^#((?:  )*[a-z_]+:(?: .*)?)$", re.MULTILINE)


def regatta(*words, folder, code=0):
    done = subprocess.run([REGATTA, *words], cwd=folder, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == code, (words, done)
    return done


def switched_on(text):
    """With all keys that are off, which takes a GPU."""
    return OFF.sub(r"\1", text).replace("\ndevice: cpu ", "\ndevice: cuda ")


def tree_of(text):
    """Of the part of YAML that the files have: mappings by two spaces, and scalars on one line."""
    root = {}
    open_mappings = [root]
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not line:
            continue
        depth, odd = divmod(len(line) - len(line.lstrip()), 2)
        key, colon, value = line.strip().partition(":")
        assert colon and not odd and depth < len(open_mappings), line
        del open_mappings[depth + 1:]
        assert key not in open_mappings[-1], line
        if value:
            open_mappings[-1][key] = scalar_of(value.strip())
        else:
            open_mappings[-1][key] = {}
            open_mappings.append(open_mappings[-1][key])
    return root


def scalar_of(value):
    try:
        return json.loads(value)  # numbers, true and quoted texts
    except ValueError:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value), value
        return value


def leaves(tree, path=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def templates_fit_the_schema(folder):
    regatta("schema", "--output", "run.schema.json", folder=folder)
    schema = json.loads((folder / "run.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for kind in KINDS:
        text = regatta("init", kind, "--output", "-", folder=folder).stdout
        assert text.startswith("# yaml-language-server: $schema=run.schema.json\n"), text
        every = switched_on(text)
        assert every != text
        for each in (text, every):
            tree = tree_of(each)
            faults = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(tree)]
            assert not faults, (kind, faults)
            assert tree["name"] == kind and tree["data"]["path"]
        assert not jsonschema.Draft202012Validator(schema).is_valid({**tree, "no_such_key": 1})


def the_reader_has_the_same_values(folder):
    for kind in KINDS:
        text = switched_on(regatta("init", kind, "-o", "-", folder=folder).stdout)
        (folder / "every.yaml").write_text(text)
        read = json.loads(regatta("config", "show", "every.yaml", "-o", "json", folder=folder).stdout)
        values = {row["key"]: row["value"] for row in read}
        for key, value in leaves(tree_of(text)):
            if key not in ("model.preset", "slurm.time_limit"):  # written as sizes, and in minutes
                assert values[key] == value, (kind, key, values.get(key), value)


def a_file_is_written_once(folder):
    done = regatta("init", folder=folder)
    assert done.stdout == "" and "continue, squad, classify" in done.stderr, done
    written = (folder / "run.yaml").read_text()
    assert written == regatta("init", "pretrain", "-o", "-", folder=folder).stdout
    refused = regatta("init", "squad", folder=folder, code=5)
    assert "run.yaml is there already; --force replaces it" in refused.stderr, refused
    assert (folder / "run.yaml").read_text() == written
    regatta("init", "squad", "--force", folder=folder)
    assert "question-answering" in (folder / "run.yaml").read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(conclude(run_cases("init", (templates_fit_the_schema, the_reader_has_the_same_values, a_file_is_written_once),
                                    pathlib.Path(place))))
