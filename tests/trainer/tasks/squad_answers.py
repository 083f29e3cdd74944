#!/usr/bin/env python3
"""From logits to answers in plain Python: what answers_test.cc compares with.

    squad_answers.py SEED

Prints a JSON list of cases: a text, its words and windows of pieces, logits, options, and the
answers by the published rules of Google's run_squad. Offsets are bytes of UTF-8.
"""
import json
import math
import random
import struct
import sys
import unicodedata

CONTEXTS = [
    "The Panthers (1999), led by O'Neill-Smith, won 24\u201310 in Levi's\u00ae Stadium.",
    "a a a a the a\na  a\t\ta an  a",
    "Beyonc\u00e9 Giselle Knowles-Carter /bi\u02d0\u02c8j\u0252nse\u026a/ (born September 4, 1981) is \u00c9lan.",
    "Decomposed e\u0301te\u0301 na\u0131ve \u0130stanbul'da \u039f\u0394\u039f\u03a3 stra\u00dfe (STRASSE).",
    "\u9ed1\u8c79\u961f\u7684\u9632\u5b88 308\u5206\uff0c\u5728\u8054\u8d5b\u4e2d\u6392\u540d\u7b2c\u516d\u3002 NFL \u56db\u6b21",
    "no\u00a0break soft\u00adhyphen zero\u200bwidth \ufeffmark 10\u00a0km; $5.50 50% #hash## [UNK] [CLS]",
    "\ud55c\uad6d\uc5b4 \uc704\ud0a4 \U0001f600smile\U0001f600 \U0001d400\U0001d401 caf\u00e9\u2014bar\u2026 \"quoted\"",
    "banana an na ana \"banana\" ban-ana, (an)",
    "x",
    "one.two,three;four!five?six -- seven... (eight) [nine] {ten}",
]


def kind(c):
    if c in " \t\n\r" or unicodedata.category(c) in ("Zs", "Zl", "Zp"):
        return "space"
    if c in "\0\ufffd" or unicodedata.category(c) in ("Cc", "Cf"):
        return "removed"
    if ord(c) < 128 and not c.isalnum() or unicodedata.category(c)[0] == "P":
        return "punctuation"
    code = ord(c)
    if any(a <= code <= b for a, b in ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF),
                                       (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
                                       (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))):
        return "ideograph"
    return "letter"


def tokens(text, lower):
    """The words of BERT's basic tokenizer."""
    spaced = ""
    for c in text:
        k = kind(c)
        if k == "ideograph":
            spaced += " " + c + " "
        elif k != "removed":
            spaced += " " if k == "space" else c
    out = []
    for chunk in spaced.split():
        if lower:
            chunk = "".join(c for c in unicodedata.normalize("NFD", chunk.lower())
                            if unicodedata.category(c) != "Mn")
        marked = "".join(f" {c} " if kind(c) == "punctuation" else c for c in chunk)
        out += marked.split()
    return out


def final_text(pieces, words, lower):
    wanted = " ".join(pieces).replace(" ##", "").replace("##", "").strip()
    whole = " ".join(words)
    normalised = " ".join(tokens(whole, lower))
    if wanted not in normalised:
        return whole
    places = [i for i, c in enumerate(whole) if c != " "]
    normalised_places = [i for i, c in enumerate(normalised) if c != " "]
    if len(places) != len(normalised_places):
        return whole
    where = {place: nth for nth, place in enumerate(normalised_places)}
    begin = normalised.index(wanted)
    return whole[places[where[begin]]:places[where[begin + len(wanted) - 1]] + 1]


def top(values, n):
    return [i for i, _ in sorted(enumerate(values), key=lambda item: (-item[1], item[0]))][:n]


def answers(case, words):
    n, lower = case["best"], case["lower_case"]
    candidates, nulls = [], []
    for w in case["windows"]:
        first, starts, ends = w["first_piece"], w["start_logits"], w["end_logits"]
        nulls.append((starts[0] + ends[0], starts[0], ends[0]))
        for s in top(starts, n):
            for e in top(ends, n):
                inside = all(first <= i < first + len(w["pieces"]) for i in (s, e))
                if not inside or e < s or e - s + 1 > case["most_pieces"]:
                    continue
                if not w["pieces"][s - first]["max_context"]:
                    continue
                candidates.append((starts[s], ends[e], w["pieces"][s - first:e - first + 1]))
    null = min(nulls, key=lambda item: item[0])
    if case["may_be_null"]:
        candidates.append((null[1], null[2], None))
    candidates.sort(key=lambda c: c[0] + c[1], reverse=True)
    best = {}
    for start, end, pieces in candidates:
        if len(best) == n:
            break
        text = "" if pieces is None else final_text(
            [p["text"] for p in pieces], words[pieces[0]["word"]:pieces[-1]["word"] + 1], lower)
        best.setdefault(text, (start, end))
    if case["may_be_null"]:
        best.setdefault("", (null[1], null[2]))
    elif not best:
        best[""] = (0.0, 0.0)
    sums = [a + b for a, b in best.values()]
    total = math.fsum(math.exp(s - max(sums)) for s in sums)
    out = {"answers": [{"text": text, "probability": math.exp(a + b - max(sums)) / total,
                        "start_logit": a, "end_logit": b} for text, (a, b) in best.items()]}
    text, (a, b) = next(((t, v) for t, v in best.items() if t), ("", (0.0, 0.0)))
    if case["may_be_null"]:
        out["null_score"], out["null_odds"] = null[0], null[0] - a - b
        if out["null_odds"] > case["null_threshold"]:
            text = ""
    out["prediction"] = text
    return out


def cut_words(context):
    """Split at white space as run_squad does, with byte ranges."""
    words, begin = [], None
    for i, c in enumerate(context + " "):
        if c in " \t\r\n\u202f":
            if begin is not None:
                words.append((begin, i))
            begin = None
        elif begin is None:
            begin = i
    size = lambda i: len(context[:i].encode())
    return [context[a:b] for a, b in words], [[size(a), size(b)] for a, b in words]


def cut_pieces(draw, words, lower):
    pieces = []
    for index, word in enumerate(words):
        for token in tokens(word, lower):
            if draw.random() < 0.05:
                pieces.append((index, "[UNK]"))
                continue
            at = 0
            while at < len(token):
                end = at + draw.randrange(1, 6)
                pieces.append((index, ("##" if at else "") + token[at:end]))
                at = end
    return pieces


def cut_windows(draw, pieces):
    room, stride = draw.choice([(5, 2), (8, 3), (16, 7), (64, 64)])
    spans, at = [], 0
    while True:
        spans.append((at, min(at + room, len(pieces))))
        if at + room >= len(pieces):
            break
        at += stride
    windows = []
    for own, (begin, end) in enumerate(spans):
        listed = []
        for i in range(begin, end):
            score = lambda s: min(i - s[0], s[1] - 1 - i) + 0.01 * (s[1] - s[0])
            holding = [k for k, s in enumerate(spans) if s[0] <= i < s[1]]
            listed.append({"word": pieces[i][0], "text": pieces[i][1],
                           "max_context": own == max(holding, key=lambda k: score(spans[k]))})
        windows.append({"first_piece": draw.randrange(1, 9), "pieces": listed})
    return windows


def logits(draw, count, coarse):
    if coarse:  # many equal ones
        return [float(draw.randrange(-2, 3)) for _ in range(count)]
    return list(struct.unpack(f"{count}f", struct.pack(f"{count}f", *(
        draw.gauss(0, 4) for _ in range(count)))))


def make_case(draw, number):
    context = CONTEXTS[number % len(CONTEXTS)]
    words, ranges = cut_words(context)
    case = {"id": f"q{number}", "context": context, "words": ranges,
            "best": draw.choice([1, 3, 20]), "most_pieces": draw.choice([1, 4, 30]),
            "lower_case": draw.random() < 0.7, "may_be_null": draw.random() < 0.7,
            "null_threshold": draw.choice([0, -3, 2.5])}
    case["windows"] = cut_windows(draw, cut_pieces(draw, words, case["lower_case"]))
    coarse = draw.random() < 0.3
    for window in case["windows"]:
        count = window["first_piece"] + len(window["pieces"]) + 1
        window["start_logits"] = logits(draw, count, coarse)
        window["end_logits"] = logits(draw, count, coarse)
    case["want"] = answers(case, words)
    return case


def main():
    draw = random.Random(int(sys.argv[1]))
    json.dump([make_case(draw, number) for number in range(1000)], sys.stdout)


main()
