"""The build's compile_commands.json, by source file: a unity source stands for the files that it includes."""
import dataclasses
import json
import os
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Unit:
    """What one call of the compiler compiles: a source file, or several that a unity source includes."""
    source: str     # whole path
    members: tuple  # whole paths; of a plain source, itself
    command: str
    directory: str

    @property
    def is_unity(self):
        return self.members != (self.source,)


def units(database):
    """Of a file compile_commands.json, in its order."""
    found = []
    for entry in json.loads(pathlib.Path(database).read_text()):
        source = os.path.join(entry["directory"], entry["file"])
        members = (source,)
        if "/Unity/unity_" in source:
            members = tuple(re.findall(r'^#include "([^"]+)"', pathlib.Path(source).read_text(), re.M))
        found.append(Unit(source, members, entry["command"], entry["directory"]))
    return found


def write_plain(database, folder):
    """The same commands with each file by itself, in folder/compile_commands.json, for tools that read one file."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [{"directory": unit.directory, "file": member, "command": unit.command.replace(unit.source, member)}
               for unit in units(database) for member in unit.members]
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    return entries
