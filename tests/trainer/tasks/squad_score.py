#!/usr/bin/env python3
"""SQuAD's scores in plain Python: what answer_score_test.cc compares with.

    squad_score.py SEED

Prints one JSON object: texts and how they are normalised, facts of every code point, and small sets
of questions, predictions and null scores with their scores.
"""
import collections
import json
import random
import re
import string
import sys
import unicodedata

ARTICLE = re.compile(r"\b(?:a|an|the)\b")
WORDS = ["a", "A", "an", "the", "The", "THE", "than", "cat", "Cat", "dog", "dog's", "a.", "(the)",
         "the-", "U.S.A", "a\u0301", "\u00e1", "\u0130stanbul", "istanbul", "I", "\u0131",
         "\u039f\u03a3", "\u03bf\u03c2", "\u03bf\u03c3", "\u03a3", "\u03a3A", "A\u03a3.", "A\u03a3.B",
         "\uff21", "\uff41", "\uff0e", "a\uff0e", "the\u2019s", "\u00c9t\u00e9", "e\u0301te\u0301",
         "\u00df", "\u1e9e", "\u4e2d\u6587", "a\u4e2d", "10", "a1", "\u00bd", "a\u00bd", "\u2160",
         "a_b", "_a_", "$", "%", "\u20ac", "\u2014", "a\u2014the", "\u200b", "a\u200b", "\U0001d400",
         "\U0001f600", "a\U0001f600", "\u0e01", "\u093e", "a\u093e", "\u0345\u03a3", "A\u0345\u03a3"]
SPACES = [" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u2009", "\x1c", "\x85", "\u2028", "-", "", "."]


def normalise(text):
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(ARTICLE.sub(" ", kept).split())


def exact(prediction, gold):
    return 1.0 if normalise(prediction) == normalise(gold) else 0.0


def f1(prediction, gold, version):
    ours, theirs = normalise(prediction).split(), normalise(gold).split()
    if version == 2 and not (ours and theirs):
        return 1.0 if ours == theirs else 0.0
    common = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
    if not common:
        return 0.0
    # In the published order of operations: the last bit decides between sums of the sweep.
    precision, recall = common / len(ours), common / len(theirs)
    return (2 * precision * recall) / (precision + recall)


def percent(values):
    return 100.0 * sum(values) / len(values) if values else 0.0


def sweep(case, scores):
    """From no answers at all; each question in the order of its null score gets its prediction."""
    predicted = [q for q in case["questions"] if q["id"] in case["predictions"]]
    answers = {q["id"]: q["answers"] for q in predicted}
    steps = [(0.0, float(sum(1 for q in predicted if not q["answers"])))]
    for id, value in sorted(case["null_scores"].items(), key=lambda item: item[1]):
        if id not in answers:
            continue
        gain = scores[id] if answers[id] else -float(case["predictions"][id] != "")
        steps.append((value, steps[-1][1] + gain))
    best = max(total for _, total in steps)
    threshold = next(value for value, total in steps if total == best)
    return 100.0 * best / len(case["questions"]), threshold


def score(case):
    version, predictions, nulls = case["version"], case["predictions"], case["null_scores"]
    raw_exact, raw_f1, final = {}, {}, {}
    for question in case["questions"]:
        id, gold = question["id"], question["answers"]
        if version == 2:
            gold = [g for g in gold if normalise(g)] or [""]
        if id not in predictions:
            final[id] = (0.0, 0.0)
            continue
        raw_exact[id] = max(exact(predictions[id], g) for g in gold)
        raw_f1[id] = max(f1(predictions[id], g, version) for g in gold)
        final[id] = (raw_exact[id], raw_f1[id])
        if nulls is not None and nulls[id] > case["threshold"]:
            final[id] = (0.0, 0.0) if question["answers"] else (1.0, 1.0)
    out = {}
    for name, chosen in (("", lambda q: True), ("has_answer_", lambda q: q["answers"]),
                         ("no_answer_", lambda q: not q["answers"])):
        ids = [q["id"] for q in case["questions"] if chosen(q)]
        out[name + "exact"] = percent([final[id][0] for id in ids])
        out[name + "f1"] = percent([final[id][1] for id in ids])
        out[name + "total"] = len(ids)
    out["missing_predictions"] = len(case["questions"]) - len(predictions)
    if nulls is not None:
        out["best_exact"], out["best_exact_threshold"] = sweep(case, raw_exact)
        out["best_f1"], out["best_f1_threshold"] = sweep(case, raw_f1)
    return out


def some_text(draw, most):
    return "".join(draw.choice(WORDS) + draw.choice(SPACES) for _ in range(draw.randrange(most + 1)))


def make_case(draw, number):
    version = 1 if number % 4 == 0 else 2
    impossible = {1: 1.0, 2: 0.0}.get(number % 8, 0.5) if version == 2 else 0.0
    case = {"version": version, "questions": [], "predictions": {}, "null_scores": None,
            "threshold": draw.choice([-1, 0, 0.5, 1])}
    # Some are long: short ones are sorted stably by any sort.
    for i in range(draw.randrange(1, 60 if number % 5 == 0 else 13)):
        answers = []
        if draw.random() >= impossible:
            answers = [some_text(draw, 3) for _ in range(draw.randrange(1, 4))]
        case["questions"].append({"id": f"q{i}", "answers": answers})
        prediction = draw.choice(["", "the", some_text(draw, 3)] + 3 * (answers or [""]))
        if draw.random() < 0.95:
            case["predictions"][f"q{i}"] = prediction
    if number % 3:
        ids = [q["id"] for q in case["questions"]]
        draw.shuffle(ids)  # the order of the file decides between equal scores
        few = [-1, 0, 0.5, 1, -0.0, 1e-300, 12.25]
        case["null_scores"] = {id: draw.choice(few) if number % 2 else draw.uniform(-5, 5)
                               for id in ids}
    case["want"] = score(case)
    return case


def runs(flags):
    out = []
    for code, flag in enumerate(flags):
        if flag and out and out[-1][1] == code - 1:
            out[-1][1] = code
        elif flag:
            out.append([code, code])
    return out


def main():
    draw = random.Random(int(sys.argv[1]))
    texts = WORDS + [a + s + b for a in ("a", "The", "\u039f\u03a3") for s in SPACES for b in WORDS]
    texts += [some_text(draw, 6) for _ in range(2000)]
    every = ["" if 0xD800 <= code < 0xE000 else chr(code) for code in range(0x110000)]
    json.dump({
        "unicode": unicodedata.unidata_version,
        "normalised": [[text, normalise(text)] for text in texts],
        "keeps_article": runs(normalise("a" + c).startswith("a") for c in every),
        "separates": runs(" " in normalise("b" + c + "b") for c in every),
        "cases": [make_case(draw, number) for number in range(600)],
    }, sys.stdout)


main()
