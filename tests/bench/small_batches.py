#!/usr/bin/env python3
"""What is left to even out when ranks have few samples, and when presorting all of a step pays.

    tests/bench/small_batches.py [--regatta-train PROGRAM] [--steps N] [OUT.json [FIGURE.svg]]

Runs `regatta-train bench balance` for every number of ranks and of samples a rank, writes one JSON file of
all and a figure, and prints the tables of docs/small_batches.md. No training: lengths are drawn and dealt by
the functions that training uses. The whole takes some 15 minutes on a core.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = [8, 32, 128, 512, 1024, 4096]
SAMPLES = [2, 4, 8, 16, 32, 64]
WAYS = ["none", "stratified", "stratified, node longest-first", "stratified, all longest-first",
        "global longest-first"]
COLOURS = ["#7a7a7a", "#c65d00", "#9a6700", "#6f42c1", "#0b6bcb"]
KEPT = ["tokens", "cost", "idle_share", "bytes_per_step"]


def measure(program, steps):
    points = []
    for ranks in RANKS:
        for samples in SAMPLES:
            command = [program, "bench", "balance", "--ranks", str(ranks), "--batch", str(ranks * samples),
                       "--steps", str(steps), "--lengths", str(ROOT / "tests/data/lengths_wikipedia_512.csv")]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            ways = {way["way"]: {key: way[key] for key in KEPT} for way in found["ways"] if way["way"] in WAYS}
            points.append({"ranks": ranks, "samples": samples, "ways": ways})
            print(f"{ranks} × {samples}", file=sys.stderr, flush=True)
            shared = {key: found[key] for key in ("lengths", "mean_length", "strata", "cost_of", "seed")}
    return {"benchmark": "small batches", "steps": steps, **shared, "points": points}


def idle(point, way):
    return point["ways"][way]["idle_share"]


def point_of(result, ranks, samples):
    return next(p for p in result["points"] if (p["ranks"], p["samples"]) == (ranks, samples))


def table(result):
    lines = ["| ranks | way | " + " | ".join(str(s) for s in SAMPLES) + " |", "|---" * (len(SAMPLES) + 2) + "|"]
    for ranks in RANKS:
        for way in WAYS:
            cells = [f"{100 * idle(point_of(result, ranks, s), way):.2f} %" for s in SAMPLES]
            lines.append(f"| {ranks:,} | {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def break_even(result):
    """What stratified presorting without exchange loses against dealing all, of a step's computing: as long
    an exchange that nothing hides may take, before it costs more than it brings."""
    lines = ["| ranks | " + " | ".join(str(s) for s in SAMPLES) + " |", "|---" * (len(SAMPLES) + 1) + "|"]
    for ranks in RANKS:
        cells = []
        for samples in SAMPLES:
            ways = point_of(result, ranks, samples)["ways"]
            gain = ways["stratified"]["cost"]["mean"] - ways["global longest-first"]["cost"]["mean"]
            cells.append(f"{100 * gain:.1f} %")
        lines.append(f"| {ranks:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(result):
    """One panel for each number of ranks: idle share by samples a rank, both axes logarithmic."""
    width, height, left, top, gap = 250, 200, 46, 30, 18
    columns, rows = 3, (len(RANKS) + 2) // 3
    total = left + columns * (width + gap), top + rows * (height + 44) + 40
    lowest, decades = 1e-4, 4

    def place(i, share):
        return (width * i / (len(SAMPLES) - 1),
                height * (1 - max(0, min(1, 1 + math.log10(max(share, lowest)) / decades))))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total[0]} {total[1]}" font-family="sans-serif" '
             'font-size="11" role="img" aria-label="Idle share by samples a rank, for 8 to 4,096 ranks">',
             '<rect width="100%" height="100%" fill="#fff"/>']
    for n, ranks in enumerate(RANKS):
        x, y = left + (n % columns) * (width + gap), top + (n // columns) * (height + 44)
        parts.append(f'<g transform="translate({x} {y})"><text y="-8" font-weight="bold">{ranks:,} ranks</text>')
        for decade in range(decades + 1):
            at = height * (1 - decade / decades)
            parts.append(f'<path d="M0 {at:.1f}H{width}" stroke="#ddd"/>')
            if n % columns == 0:
                parts.append(f'<text x="-6" y="{at + 4:.1f}" text-anchor="end">{100 * lowest * 10 ** decade:g} %</text>')
        for i, samples in enumerate(SAMPLES):
            parts.append(f'<text x="{place(i, 1)[0]:.1f}" y="{height + 15}" text-anchor="middle">{samples}</text>')
        for way, colour in zip(WAYS, COLOURS):
            points = [place(i, idle(point_of(result, ranks, s), way)) for i, s in enumerate(SAMPLES)]
            line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            dash = ' stroke-dasharray="5 3"' if way == "stratified, all longest-first" else ""
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>' for a, b in points]
        parts.append("</g>")
    parts.append(f'<text x="{total[0] / 2:.0f}" y="{total[1] - 42}" text-anchor="middle">samples a rank; up: idle share</text>')
    x, y = left, total[1] - 18
    for way, colour in zip(WAYS, COLOURS):
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="3"/><text x="{x + 23}" y="{y}">{way}</text>')
        x += 45 + 6.2 * len(way)
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", nargs="?", default="small-batches.json")
    parser.add_argument("figure", nargs="?")
    parser.add_argument("--regatta-train", default=str(ROOT / "build/release/trainer/regatta-train"))
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--again", action="store_true", help="tables and figure of the file, nothing measured")
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    if arguments.again:
        result = json.loads(out.read_text())
    else:
        result = measure(arguments.regatta_train, arguments.steps)
        out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result), break_even(result), sep="\n\n")
    if arguments.figure:
        pathlib.Path(arguments.figure).write_text(figure(result))


if __name__ == "__main__":
    main()
