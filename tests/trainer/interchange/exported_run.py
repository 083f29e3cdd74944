#!/usr/bin/env python3
"""An exported directory beside the checkpoint that it was made of, read with the standard library alone.

    exported_run.py DIRECTORY CHECKPOINT

Names and shapes must be those of the class in `transformers` (bert.py), every tensor bit for bit the
checkpoint's, and none of the checkpoint left out. Prints config.json and tokenizer_config.json as one object.
"""
import json
import pathlib
import struct
import sys

import bert


def raw_tensors(path):
    """{name: (shape, bytes)} of a .safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    header.pop("__metadata__", None)
    return {name: (one["shape"], body[slice(*one["data_offsets"])]) for name, one in header.items()}


def main():
    exported, checkpoint = map(pathlib.Path, sys.argv[1:])
    config, _ = bert.read_model(exported)
    ours, theirs = raw_tensors(exported / "model.safetensors"), raw_tensors(checkpoint / "model.safetensors")
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    for name, (shape, values) in theirs.items():
        assert ours[name] == (shape, values), name
    tokenizer = json.loads((exported / "tokenizer_config.json").read_text())
    json.dump({"config": config, "tokenizer": tokenizer}, sys.stdout)


if __name__ == "__main__":
    main()
