#!/usr/bin/env python3
"""`regatta-train prepare` of the same documents as text and as JSON Lines; one JSON on stdout.

    tests/bench/prepare_formats.py TEXT VOCAB [--megabytes 50] [--rounds 3] [--threads 2]

TEXT has a paragraph a line and blank lines between documents. It is repeated until it is long enough; a repeated document
has its paragraphs in another order and a first line of its own. Rates are of the documents' bytes, so that what JSON adds
counts against it. Both must make the same dataset.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build" / "release"))
TRAINER = BUILD / "trainer" / "regatta-train"
FORMATS = {"text": "documents.txt", "jsonl": "documents.jsonl"}


def documents(text, size):
    originals = [document.split("\n") for document in text.strip("\n").split("\n\n") if document.strip()]
    made = copy = 0
    while made < size:
        for number, paragraphs in enumerate(originals):
            if copy > 0:
                turn = (copy + number) % len(paragraphs)
                paragraphs = [f"Edition {copy} of text {number}.", *paragraphs[turn:], *paragraphs[:turn]]
            document = "\n".join(paragraphs)
            made += len(document.encode())
            yield document
            if made >= size:
                return
        copy += 1


def write(all_documents, work):
    with open(work / FORMATS["text"], "w") as text, open(work / FORMATS["jsonl"], "w") as lines:
        for number, document in enumerate(all_documents):
            text.write(document + "\n\n")
            lines.write(json.dumps({"id": number, "text": document}, ensure_ascii=False) + "\n")


def prepare(options, work, name):
    output = work / f"{name}-dataset"
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([TRAINER, "prepare", work / FORMATS[name], "--vocab", options.vocab, "--output", output, "--threads",
                    str(options.threads), "--force"], stdout=subprocess.DEVNULL, check=True)
    taken, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return taken, cpu, json.loads((output / "dataset.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("vocab", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=50, help="of documents, 10^6 bytes each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for file in (options.text, options.vocab, TRAINER):
        if not file.exists():
            sys.exit(f"{file} is not there; name an existing one, or build the target regatta-train")
    seconds, cpu_seconds = ({name: [] for name in FORMATS} for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="regatta-formats-") as folder:
        work = pathlib.Path(folder)
        all_documents = list(documents(options.text.read_text(), options.megabytes * 1e6))
        size = sum(len(document.encode()) for document in all_documents)
        write(all_documents, work)
        file_bytes = {name: (work / file).stat().st_size for name, file in FORMATS.items()}
        for file in FORMATS.values():
            (work / file).read_bytes()  # into the cache of both
        fingerprints = {}
        for _ in range(options.rounds):  # in turn, so that both see the same machine
            for name in FORMATS:
                taken, cpu, manifest = prepare(options, work, name)
                seconds[name].append(taken)
                cpu_seconds[name].append(cpu)
                fingerprints[name] = manifest["fingerprint"]
    assert fingerprints["text"] == fingerprints["jsonl"], "the formats make different datasets of the same documents"
    ratios, cpu_ratios = ([text / lines for text, lines in zip(times["text"], times["jsonl"])]
                          for times in (seconds, cpu_seconds))
    print(json.dumps({
        "benchmark": "prepare formats", "documents": len(all_documents), "bytes": size, "file_bytes": file_bytes,
        "threads": options.threads, "rounds": options.rounds, "speed": "best round", "ratios": "median of rounds",
        "mb_per_second": {name: size / min(taken) / 1e6 for name, taken in seconds.items()}, "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "ratio_of_jsonl_to_text": statistics.median(ratios), "ratio_per_cpu_second": statistics.median(cpu_ratios),
        "ratios_of_rounds": ratios}, indent=2))


if __name__ == "__main__":
    main()
