#!/usr/bin/env python3
"""Every route of the API has a seed in the corpora of requests and of queries, and one with a body has one there."""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
METHODS = ("get", "post", "put", "patch", "delete")


def routes():
    document = json.loads((HERE.parent.parent / "docs" / "openapi.json").read_text())
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, "requestBody" in item[method]


def matches(target, path):
    pattern = "/".join("[^/]+" if part.startswith("{") else re.escape(part) for part in path.strip("/").split("/"))
    return re.fullmatch(pattern, target.split("?")[0]) is not None


def seeds_of(corpus):
    """[(method, target, body)]"""
    seeds = []
    for path in sorted((HERE / "corpus" / corpus).iterdir()):
        head, _, body = path.read_bytes().decode(errors="replace").partition("\n\n")
        method, _, target = head.split("\n")[0].partition(" ")
        seeds.append((method, target, body))
    return seeds


def main():
    faults, known = [], list(routes())
    assert len(known) > 40, "the document has all routes"
    for corpus in ("api_request", "api_query"):
        seeds = seeds_of(corpus)
        for method, path, takes_body in known:
            found = [body for verb, target, body in seeds if verb == method and matches(target, path)]
            if not found:
                faults.append(f"tests/fuzz/corpus/{corpus}: no seed of {method} {path}; add one named after it")
            elif corpus == "api_request" and takes_body and not any(body.strip() for body in found):
                faults.append(f"tests/fuzz/corpus/{corpus}: no seed of {method} {path} has a body; add one")
    print("\n".join(faults) or f"{len(known)} routes have seeds")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
