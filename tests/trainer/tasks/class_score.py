#!/usr/bin/env python3
"""Scores of classes and values in exact arithmetic, straight from the definitions.

    class_score.py CASES

CASES: a JSON list of {"classes": K or 0 for values, "truth": […], "predicted": […]}. Prints a list of their scores, each
the double next to the exact result; null where there is none. Slow: ranks and sums over all pairs and triples.
"""
import decimal
import json
import pathlib
import sys
from fractions import Fraction

decimal.getcontext().prec = 60


def ratio_to_root(numerator, square):
    """numerator / √square, or None for 0 / 0."""
    if square == 0:
        return None

    def decimal_of(fraction):
        return decimal.Decimal(fraction.numerator) / decimal.Decimal(fraction.denominator)

    return float(decimal_of(Fraction(numerator)) / decimal_of(Fraction(square)).sqrt())


def f1(pairs, of):
    true_positives = sum(1 for truth, predicted in pairs if truth == of and predicted == of)
    predicted_as = sum(1 for _, predicted in pairs if predicted == of)
    are = sum(1 for truth, _ in pairs if truth == of)
    if true_positives == 0:
        return Fraction(0)
    precision, recall = Fraction(true_positives, predicted_as), Fraction(true_positives, are)
    return 2 * precision * recall / (precision + recall)


def matthews(pairs, classes):
    """Gorodkin's R_K, from the table of confusion C as the triple sums of his equation."""
    table = [[0] * classes for _ in range(classes)]
    for truth, predicted in pairs:
        table[truth][predicted] += 1
    every = range(classes)
    covariance = sum(table[k][k] * table[m][n] - table[n][k] * table[k][m] for k in every for n in every for m in every)
    rows = [sum(table[k]) for k in every]
    columns = [sum(table[m][k] for m in every) for k in every]
    square = (sum(rows[k] * sum(rows[m] for m in every if m != k) for k in every)
              * sum(columns[k] * sum(columns[m] for m in every if m != k) for k in every))
    return ratio_to_root(covariance, square) or 0.0


def score_classes(pairs, classes):
    present = sorted({label for pair in pairs for label in pair})
    f1s = [f1(pairs, label) for label in present]
    correct = sum(1 for truth, predicted in pairs if truth == predicted)
    return {
        "correct": correct,
        "accuracy": float(Fraction(correct, len(pairs))),
        "f1": float(f1(pairs, 1) if classes == 2 else sum(f1s) / len(f1s)),
        "matthews": matthews(pairs, classes),
    }


def pearson(xs, ys):
    n = len(xs)
    covariance = n * sum(x * y for x, y in zip(xs, ys)) - sum(xs) * sum(ys)
    of_x, of_y = (n * sum(v * v for v in values) - sum(values) ** 2 for values in (xs, ys))
    return ratio_to_root(covariance, of_x * of_y)


def rank(values, value):
    return Fraction(2 * sum(1 for v in values if v < value) + sum(1 for v in values if v == value) + 1, 2)


def score_values(pairs):
    xs, ys = ([Fraction(pair[side]) for pair in pairs] for side in (0, 1))
    return {
        "mean_squared_error": float(sum((x - y) ** 2 for x, y in zip(xs, ys)) / len(xs)),
        "pearson": pearson(xs, ys),
        "spearman": pearson([rank(xs, x) for x in xs], [rank(ys, y) for y in ys]),
    }


def main():
    cases = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    scores = []
    for case in cases:
        pairs = list(zip(case["truth"], case["predicted"]))
        scores.append(score_classes(pairs, case["classes"]) if case["classes"] else score_values(pairs))
    print(json.dumps(scores))


if __name__ == "__main__":
    main()
