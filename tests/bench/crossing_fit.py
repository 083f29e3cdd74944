#!/usr/bin/env python3
"""Fits the constants of orchestrator/runs/crossing_constants.h and measures how good they are.

    tests/bench/crossing_fit.py ../shared/data/mlperf_logs/curves.jsonl [--check]

Only Python's own library is needed. Two models are fitted:

- "mlperf": ln(T / t) = a(g) + b(g) ln n, where t is the time of the newest evaluation, T that of the
  first one that meets the target, n the number of evaluations so far and g = 1 - best / target the
  gap that is left. a and b are piecewise linear in ln g (least squares over all evaluations before
  the crossing); the 10 % and 90 % quantiles of what remains, by gap, make the 80 % interval.
- "own curve": x is how far away in ln t a straight line over ln t, through the newest third of the
  evaluations, meets the target; the 7, 50 and 93 % quantiles of ln(T / t) by ln x come from random
  curves of known shapes, and MLPerf's curves with other targets.

Errors and coverage of "mlperf" are cross-validated: each system is predicted by constants fitted
without any run of that system (ten folds of systems), or without any run of its round.
Runs that were resubmitted unchanged in a later round count once.
"""
import argparse
import bisect
import json
import math
import os
import pathlib
import random
import sys

GAPS = [0.0005, 0.002, 0.004, 0.007, 0.012, 0.02, 0.05, 0.2, 0.35, 0.42, 0.45, 0.47, 0.5]
KNOTS = [math.log(gap) for gap in GAPS]
DISTANCES = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 10]
FARS = [math.log(far) for far in DISTANCES]
NEAR, FAR = FARS[0], FARS[-1]
SHARES = (0.05, 0.2, 0.5)
FOLDS = 10
RIDGE = 1e-3  # keeps a knot that no row is near of from being undefined


def quantile(values, share):
    """Linear between the two nearest values."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def read_curves(path):
    """Runs that met the target, cut after the evaluation that did; each distinct curve once."""
    curves, seen = [], set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            points = [(evaluation[0], evaluation[2]) for evaluation in run["evaluations"]]
            met = next((i for i, point in enumerate(points) if point[1] >= run["target"]), None)
            if run["status"] != "success" or met is None or tuple(points) in seen:
                continue
            seen.add(tuple(points))
            curves.append({"round": run["round"], "system": (run["submitter"], run["system"]),
                           "target": run["target"], "points": points[:met + 1]})
    return curves


def rows_of(curve):
    """One row for each evaluation before the crossing: (ln gap, ln n, ln(T / t), t / T)."""
    crossing, best, rows = curve["points"][-1][0], -math.inf, []
    for number, (seconds, value) in enumerate(curve["points"][:-1], 1):
        best = max(best, value)
        gap = math.log(1 - best / curve["target"])
        rows.append((min(max(gap, KNOTS[0]), KNOTS[-1]), math.log(number),
                     math.log(crossing / seconds), seconds / crossing))
    return rows


def hats(x):
    """The two knots around x and their weights in a piecewise linear function."""
    k = min(max(bisect.bisect_right(KNOTS, x) - 1, 0), len(KNOTS) - 2)
    weight = (x - KNOTS[k]) / (KNOTS[k + 1] - KNOTS[k])
    return ((k, 1 - weight), (k + 1, weight))


def between(table, x):
    return sum(weight * table[k] for k, weight in hats(x))


def solve(matrix, right):
    size = len(right)
    rows = [matrix[i][:] + [right[i]] for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            if factor:
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    x = [0.0] * size
    for i in reversed(range(size)):
        x[i] = (rows[i][size] - sum(rows[i][j] * x[j] for j in range(i + 1, size))) / rows[i][i]
    return x


def fit(curves):
    """The model "mlperf": a, b, the quantiles and the range of n, each by knot."""
    knots = len(KNOTS)
    matrix = [[RIDGE * (i == j) for j in range(2 * knots)] for i in range(2 * knots)]
    right = [0.0] * (2 * knots)
    rows = [row for curve in curves for row in curve["rows"]]
    for gap, count, y, _ in rows:
        terms = [(k, w) for k, w in hats(gap)] + [(knots + k, w * count) for k, w in hats(gap)]
        for i, p in terms:
            right[i] += p * y
            for j, q in terms:
                matrix[i][j] += p * q
    x = solve(matrix, right)
    a, b = x[:knots], x[knots:]
    near = [[] for _ in KNOTS]  # what remains, by the nearer knot
    counts = [[] for _ in KNOTS]
    for gap, count, y, _ in rows:
        k = max(hats(gap), key=lambda hat: hat[1])[0]
        near[k].append(y - between(a, gap) - between(b, gap) * count)
        counts[k].append(math.exp(count))
    return {"a": a, "b": b, "low": [quantile(e, 0.1) for e in near],
            "high": [quantile(e, 0.9) for e in near],
            "fewest": [round(min(c)) for c in counts], "most": [round(max(c)) for c in counts]}


def predict(model, row):
    """(low, centre, high) of ln(T / t)."""
    gap, count = row[0], row[1]
    centre = between(model["a"], gap) + between(model["b"], gap) * count
    return (max(0, centre + between(model["low"], gap)), max(0, centre),
            max(0, centre + between(model["high"], gap)))


def standing(curve, share):
    """The row of the prediction that stood at this share of the run, else the first one."""
    before = [row for row in curve["rows"] if row[3] <= share]
    return before[-1] if before else curve["rows"][0]


def line_of(points, shortest):
    """Least squares of the value over ln t: mean of ln t, of the value, spread, slope, residual."""
    x = [math.log(point[0]) for point in points]
    y = [point[1] for point in points]
    n = len(points)
    mx, my = sum(x) / n, sum(y) / n
    spread = sum((v - mx) ** 2 for v in x)
    if n < shortest or spread <= 0:
        return None
    slope = sum((p - mx) * (q - my) for p, q in zip(x, y)) / spread
    squares = sum((q - my - slope * (p - mx)) ** 2 for p, q in zip(x, y))
    return mx, my, spread, slope, math.sqrt(squares / (n - 2))


def newest(points, part):
    return points[-min(len(points), 32, max(3, (len(points) + part - 1) // part)):]


def old_model(points, target):
    """What was predicted before: a line through the newer half, two standard errors."""
    used = newest(points, 2)
    line = line_of(used, 3)
    if line is None or line[3] <= 0:
        return None
    mx, my, spread, slope, residual = line
    ahead = (target - my) / slope
    error = residual / slope * math.sqrt(1 / len(used) + ahead * ahead / spread)
    now, most = math.log(points[-1][0]), math.log(100)
    if mx + ahead - now > most:
        return None
    return tuple(min(max(0, mx + ahead - now + by * error), most) for by in (-2, 0, 2))


def distance(points, target):
    """ln of how far away a line through the newest third is from the target, or nothing."""
    line = line_of(newest(points, 3), 3)
    if line is None:
        return None
    mx, my, spread, slope, residual = line
    if slope <= 0 or slope < 2 * residual / math.sqrt(spread):
        return None
    ahead = mx + (target - my) / slope - math.log(points[-1][0])
    return min(max(math.log(max(ahead, 1e-9)), NEAR), FAR) if ahead < DISTANCES[-1] else None


SHAPES = {
    "logistic": lambda r, n: (lambda k, t0: lambda t: 1 / (1 + (t / t0) ** -k))(
        r.uniform(1, 4), r.uniform(0.2, 0.7) * n),
    "power": lambda r, n: (lambda a: lambda t: 1 - (1 + t) ** -a)(r.uniform(0.3, 1.5)),
    "linear": lambda r, n: lambda t: t / n,
    "exponential": lambda r, n: (lambda tau: lambda t: 1 - math.exp(-t / tau))(
        r.uniform(0.2, 1) * n),
    "logarithm": lambda r, n: lambda t: 0.2 + 0.1 * math.log(t),
    "delayed": lambda r, n: (lambda tau, t0: lambda t: 1 - math.exp(-max(0, t - t0) / tau))(
        r.uniform(0.2, 0.6) * n, r.uniform(0.1, 0.4) * n),
}
NOISES = (0, 0.003, 0.01, 0.03)  # of the way from the first evaluation to the target


def random_curve(r, shape):
    """Points up to the first that meets the target, and the target; at least 7 points."""
    while True:
        n = r.randint(8, 60)
        value = SHAPES[shape](r, n)
        target = value(n)
        noise = r.choice(NOISES) * (target - value(1))
        points = []
        for t in range(1, 4 * n + 1):
            points.append((t, value(t) + noise * r.gauss(0, 1)))
            if points[-1][1] >= target:
                break
        if points[-1][1] >= target and len(points) >= 7:
            return points, target


def real_part(r, curves):
    """A real curve up to one of these values instead of its target."""
    while True:
        points, target = r.choice(curves)["points"], r.choice((0.5, 0.6, 0.69, 0.705, 0.71, 0.715))
        met = next(i for i, point in enumerate(points) if point[1] >= target)
        if met >= 5:
            return points[:met + 1], target


def own_rows(curves, each, seed):
    """By shape: (ln distance, ln(T / t)) at moments anywhere in curves."""
    r = random.Random(seed)
    rows = {}
    for shape in [*SHAPES, "MLPerf, other targets"]:
        rows[shape] = []
        for _ in range(each):
            points, target = random_curve(r, shape) if shape in SHAPES else real_part(r, curves)
            for _ in range(2):
                number = max(3, int(r.uniform(0.05, 0.97) * len(points)))
                if number >= len(points):
                    continue
                x = distance(points[:number], target)
                if x is not None:
                    rows[shape].append((x, math.log(points[-1][0] / points[number - 1][0])))
    return rows


def nearest(knots, x):
    return min(range(len(knots)), key=lambda k: abs(knots[k] - x))


def interpolate(knots, values, x):
    k = min(max(bisect.bisect_right(knots, x) - 1, 0), len(knots) - 2)
    weight = (x - knots[k]) / (knots[k + 1] - knots[k])
    return values[k] * (1 - weight) + values[k + 1] * weight


def fit_own(rows):
    """Quantiles of ln(T / t) near each knot. 7 and 93 %, so that every shape keeps 70 %."""
    near = [[] for _ in DISTANCES]
    for shape in rows.values():
        for x, y in shape:
            near[nearest(FARS, x)].append(y)
    return [[quantile(e, share) for e in near] for share in (0.07, 0.5, 0.93)]


def array(name, values, digits=4):
    body = ", ".join(f"{value:.{digits}f}" if digits else str(value) for value in values)
    lines, line = [], "   "
    for word in (body + "};").split(" "):
        if len(line) + 1 + len(word) > 100:
            lines.append(line)
            line = "   "
        line += " " + word
    return (f"inline constexpr std::array<double, {len(values)}> {name} = {{\n"
            + "\n".join([*lines, line]))


def constants(model, own):
    arrays = [array("kGapKnots", KNOTS)]
    for name, key in (("kLevel", "a"), ("kPerCount", "b"), ("kLowRest", "low"), ("kHighRest", "high")):
        arrays.append(array(name, model[key]))
    arrays.append(array("kFewestEvaluations", model["fewest"], 0))
    arrays.append(array("kMostEvaluations", model["most"], 0))
    arrays.append(array("kDistanceKnots", FARS))
    for name, values in zip(("kDistanceLow", "kDistanceCentre", "kDistanceHigh"), own):
        arrays.append(array(name, values))
    return arrays


def table(title, curves, model_of):
    """Error is the median of |ln(predicted / true)|. Gives what was held of all, by share."""
    all_held = []
    print(f"\n{title}\n")
    print("| at | curves | there | error | held | held, there "
          "| high / low | old: there | error | held |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for share in SHARES:
        for group in ["all", *sorted({curve["round"] for curve in curves})]:
            chosen = [curve for curve in curves if group in ("all", curve["round"])]
            new, old = [], []
            for curve in chosen:
                row = standing(curve, share)
                number = round(math.exp(row[1]))
                new.append((row[2], predict(model_of(curve), row)))
                guess = old_model(curve["points"][:number], curve["target"])
                if guess:
                    old.append((row[2], guess))
            if group == "all":
                all_held.append(held(new))
            there = [pair for curve, pair in zip(chosen, new) if curve["rows"][0][3] <= share]
            print(f"| {share:.0%} {group} | {len(chosen)} | {len(there) / len(chosen):.0%} "
                  f"| {figures(new)} | {held(there):.1%} "
                  f"| {quantile([math.exp(p[2] - p[0]) for _, p in new], 0.5):.2f} "
                  f"| {len(old) / len(chosen):.0%} | {figures(old) if old else '- | -'} |")
    return all_held


def held(pairs):
    return sum(p[0] - 1e-9 <= y <= p[2] + 1e-9 for y, p in pairs) / len(pairs)


def figures(pairs):
    return f"{quantile([abs(y - p[1]) for y, p in pairs], 0.5):.3f} | {held(pairs):.1%}"


def own_table(rows, own):
    print("\nOwn curve, on other random curves (seed 2)\n")
    print("| shape | moments | error | held |\n|---|---|---|---|")
    for shape, pairs in rows.items():
        predicted = []
        for x, y in pairs:
            low, centre, high = (interpolate(FARS, values, x) for values in own)
            predicted.append((y, (min(low, 0.5 * math.exp(x)), centre, high)))
        print(f"| {shape} | {len(pairs)} | {figures(predicted)} |")


def check(arrays, coverages):
    """What is wrong: constants that differ from the fit, held-out coverage out of 75 to 85 %."""
    header = pathlib.Path(__file__).resolve().parents[2] / "orchestrator/runs/crossing_constants.h"
    text = "".join(header.read_text(encoding="utf-8").split())
    wrong = [f"{header.name} does not have: {each}" for each in arrays
             if "".join(each.split()) not in text]
    return wrong + [f"held-out coverage {share:.1%} is not within 75 and 85 %"
                    for share in coverages if not 0.75 <= share <= 0.85]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("curves", help="curves.jsonl of MLPerf's BERT results")
    parser.add_argument("--check", action="store_true",
                        help="exit 1 unless the header has these constants and the intervals hold; "
                             "77 without the curves")
    arguments = parser.parse_args()
    if arguments.check and not pathlib.Path(arguments.curves).exists():
        print(f"SKIPPED: needs the public data {arguments.curves} beside the checkout")
        return 1 if "shared" in os.environ.get("REQUIRE", "").split(",") else 77
    curves = read_curves(arguments.curves)
    for curve in curves:
        curve["rows"] = rows_of(curve)
    own = fit_own(own_rows(curves, 600, 1))
    arrays = constants(fit(curves), own)
    print("\n".join(arrays))
    systems = sorted({curve["system"] for curve in curves})
    random.Random(0).shuffle(systems)
    fold = {system: i % FOLDS for i, system in enumerate(systems)}
    folds = [fit([c for c in curves if fold[c["system"]] != k]) for k in range(FOLDS)]
    rounds = {r: fit([c for c in curves if c["round"] != r]) for r in {c["round"] for c in curves}}
    coverages = table("Held out: systems, in ten folds", curves,
                      lambda curve: folds[fold[curve["system"]]])
    coverages += table("Held out: rounds", curves, lambda curve: rounds[curve["round"]])
    own_table(own_rows(curves, 300, 2), own)
    wrong = check(arrays, coverages) if arguments.check else []
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
