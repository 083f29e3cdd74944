#!/usr/bin/env python3
"""Prints what a SQuAD file holds, for a comparison with a preparation's report: questions, those without an answer,
contexts, all tokens, unknown ones, then mean, 95 % and most tokens of the questions and of the contexts.

    squad_lengths.py SQUAD VOCAB [--cased]
"""
import argparse
import json
import math
import statistics

import squad_windows


def lengths(counts):
    ranked = sorted(counts)
    return f"{statistics.mean(counts):.6f} {ranked[math.floor(0.95 * (len(ranked) - 1) + 0.5)]} {ranked[-1]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("squad")
    parser.add_argument("vocabulary")
    parser.add_argument("--cased", action="store_true")
    options = parser.parse_args()
    tokenizer = squad_windows.Tokenizer(options.vocabulary, not options.cased)
    with open(options.squad, encoding="utf-8") as file:
        paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
    questions = [q for paragraph in paragraphs for q in paragraph["qas"]]
    asked = [tokenizer.tokenize(question["question"]) for question in questions]
    contexts = [tokenizer.tokenize(paragraph["context"]) for paragraph in paragraphs]
    pieces = [piece for text in asked + contexts for piece in text]
    print(len(questions), sum(question.get("is_impossible", False) for question in questions), len(contexts),
          len(pieces), pieces.count("[UNK]"), lengths([len(text) for text in asked]),
          lengths([len(text) for text in contexts]))


if __name__ == "__main__":
    main()
