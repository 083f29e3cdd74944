#!/usr/bin/env python3
"""What a model puts for masked words, answers, and classifies, with the standard library alone: bert.py's logits,
a greedy WordPiece for ASCII, softmax in float64, and run_squad's rules for one window.

    try_model.py fill DIRECTORY TEXT
    try_model.py answer DIRECTORY QUESTION CONTEXT     (each word of the context one piece)
    try_model.py classify DIRECTORY TEXT…

Prints {"double": …, "single": …}, of logits in float64 and in the simplest float32:
fill: {"masks": [[probability of each piece]], "tokens": [of each mask]}; answer: {"answers": [[text, probability,
first character]], "null_odds": …}; classify: [[probability of each label]].
"""
import json
import math
import pathlib
import re
import sys

import bert

N_BEST, MOST_PIECES = 20, 30


def softmax(scores):
    most = max(scores)
    powers = [math.exp(score - most) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]


class Tokenizer:
    def __init__(self, directory):
        lines = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.ids = {piece: number for number, piece in enumerate(lines)}

    def word(self, word):
        pieces, begin = [], 0
        while begin < len(word):
            end = len(word)
            while end > begin and ("##" if begin else "") + word[begin:end] not in self.ids:
                end -= 1
            if end == begin:
                return [self.ids["[UNK]"]]
            pieces.append(self.ids[("##" if begin else "") + word[begin:end]])
            begin = end
        return pieces

    def text(self, text):
        ids = []
        for part in re.split(r"(\[MASK\])", text):
            if part == "[MASK]":
                ids.append(self.ids[part])
                continue
            for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", part.lower()):
                ids += self.word(word)
        return ids


def fill(model, tokenizer, text):
    ids = [tokenizer.ids["[CLS]"], *tokenizer.text(text), tokenizer.ids["[SEP]"]]
    masks = [place for place, number in enumerate(ids) if number == tokenizer.ids["[MASK]"]]
    logits = model.logits({"ids": ids, "types": [0] * len(ids), "masked_positions": masks})
    return {"masks": [softmax(position) for position in logits["mlm"]], "tokens": masks}


def answer(model, tokenizer, question, context):
    before = [tokenizer.ids["[CLS]"], *tokenizer.text(question), tokenizer.ids["[SEP]"]]
    words = [(word.start(), word.end()) for word in re.finditer(r"\S+", context)]
    pieces = tokenizer.text(context)
    assert len(pieces) == len(words), "each word one piece"
    ids = [*before, *pieces, tokenizer.ids["[SEP]"]]
    types = [0] * len(before) + [1] * (len(pieces) + 1)
    span = model.logits({"ids": ids, "types": types})["span"]
    first = len(before)

    def best(column):
        return sorted(range(len(ids)), key=lambda token: (-span[token][column], token))[:N_BEST]

    found = [(span[0][0] + span[0][1], "", 0)]
    for begin in best(0):
        for end in best(1):
            if first <= begin <= end < first + len(pieces) and end - begin < MOST_PIECES:
                part = words[begin - first : end - first + 1]
                text = " ".join(context[a:b] for a, b in part)
                found.append((span[begin][0] + span[end][1], text, part[0][0]))
    found.sort(key=lambda each: -each[0])
    kept, seen = [], set()
    for each in found:
        if len(kept) < N_BEST and each[1] not in seen:
            seen.add(each[1])
            kept.append(each)
    null = span[0][0] + span[0][1]
    if "" not in seen:
        kept.append((null, "", 0))
    odds = null - next(score for score, text, _ in kept if text)
    shares = softmax([score for score, _, _ in kept])
    return {"answers": [[text, share, begin] for (_, text, begin), share in zip(kept, shares)], "null_odds": odds}


def classify(model, tokenizer, *texts):
    shares = []
    for text in texts:
        ids = [tokenizer.ids["[CLS]"], *tokenizer.text(text), tokenizer.ids["[SEP]"]]
        shares.append(softmax(model.logits({"ids": ids, "types": [0] * len(ids)})["classes"]))
    return shares


def main():
    how = {"fill": fill, "answer": answer, "classify": classify}[sys.argv[1]]
    directory = pathlib.Path(sys.argv[2])
    config, tensors = bert.read_model(directory)
    json.dump({name: how(bert.Bert(config, tensors, arithmetic), Tokenizer(directory), *sys.argv[3:])
               for name, arithmetic in (("double", bert.Double), ("single", bert.Single))}, sys.stdout)


if __name__ == "__main__":
    main()
