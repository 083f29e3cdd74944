#!/usr/bin/env python3
"""Prints the windows of a SQuAD file for training: the rules of Google's run_squad and tokenization,
plainly, to compare with. Standard library only; unicodedata of Python 3.11 has Unicode 14.

    squad_windows.py SQUAD VOCAB [--max-sequence 384] [--doc-stride 128] [--max-query 64] [--every 1] [--cased]

A line is a window: id of the question, first piece of the context, number of its pieces, digest of
all token ids (comma-separated), first token of the segment 1, start and end of the answer, digest of
the max-context bits ("0110..."). Digests are the first 16 digits of SHA-256. A question that is left
out is "ID left out". --every N takes the questions 0, N, 2N, ...
"""
import argparse
import functools
import hashlib
import json
import re
import unicodedata

IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
BLANKS = " \t\r\n\u202f"


class Tokenizer:
    def __init__(self, vocabulary, lower):
        self.lower = lower
        with open(vocabulary, encoding="utf-8", newline="\n") as file:
            self.ids = {line.rstrip("\r\n"): number for number, line in enumerate(file)}
        self.pieces = functools.lru_cache(maxsize=None)(self.pieces_of)

    def tokenize(self, text):
        return [piece for word in self.words(text) for piece in self.pieces(word)]

    def words(self, text):
        kept = []
        for c in text:
            category = unicodedata.category(c)
            if c in "\t\n\r" or category == "Zs":
                kept.append(" ")
            elif c in "\0\ufffd" or category in ("Cc", "Cf"):
                continue
            elif any(first <= ord(c) <= last for first, last in IDEOGRAPHS):
                kept.append(f" {c} ")
            else:
                kept.append(c)
        for word in "".join(kept).split():
            if self.lower:
                decomposed = unicodedata.normalize("NFD", word.lower())
                word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
            part = ""
            for c in word:
                if unicodedata.category(c).startswith("P") or (c.isascii() and c.isprintable() and not c.isalnum()):
                    if part:
                        yield part
                    yield c
                    part = ""
                else:
                    part += c
            if part:
                yield part

    def pieces_of(self, word):
        if len(word) > 200:
            return ["[UNK]"]
        pieces, begin = [], 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(len(word), begin, -1):
                if prefix + word[begin:end] in self.ids:
                    break
            else:
                return ["[UNK]"]
            pieces.append(prefix + word[begin:end])
            begin = end
        return pieces


class Context:
    def __init__(self, text, tokenizer):
        self.words, self.word_of_character = [], []
        was_blank = True
        for c in text:
            if c in BLANKS:
                was_blank = True
            elif was_blank:
                self.words.append(c)
                was_blank = False
            else:
                self.words[-1] += c
            self.word_of_character.append(max(0, len(self.words) - 1))
        self.pieces, self.first_piece = [], []
        for word in self.words:
            self.first_piece.append(len(self.pieces))
            self.pieces += tokenizer.tokenize(word)
        self.first_piece.append(len(self.pieces))


def answer_span(context, answer, tokenizer):
    """First and last piece, or None."""
    start = context.word_of_character[answer["answer_start"]]
    end = context.word_of_character[answer["answer_start"] + len(answer["text"]) - 1]
    if " ".join(answer["text"].split()) not in " ".join(context.words[start:end + 1]):
        return None
    first, last = context.first_piece[start], context.first_piece[end + 1] - 1
    if first > last:
        return None
    wanted = tokenizer.tokenize(answer["text"])
    for new_first in range(first, last + 1):
        for new_last in range(last, new_first - 1, -1):
            if new_last - new_first + 1 == len(wanted) and context.pieces[new_first:new_last + 1] == wanted:
                return new_first, new_last
    return first, last


def spans_of(count, room, stride):
    spans, start = [], 0
    while start < count:
        length = min(room, count - start)
        spans.append((start, length))
        if start + length == count:
            break
        start += min(length, stride)
    return spans


def most_context(spans, piece):
    """Index of the span that shows the piece best."""
    best, best_score = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if start <= piece <= end:
            score = min(piece - start, end - piece) + 0.01 * length
            if best is None or score > best_score:
                best, best_score = index, score
    return best


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def windows_of(question, context, tokenizer, options):
    query = tokenizer.tokenize(question["question"])[:options.max_query]
    answer = None
    if question.get("answers") and not question.get("is_impossible", False):
        answer = answer_span(context, question["answers"][0], tokenizer)
        if answer is None:
            yield "left out"
            return
    spans = spans_of(len(context.pieces), options.max_sequence - len(query) - 3, options.doc_stride)
    best = [0] * len(context.pieces)
    if len(spans) > 1:
        best = [most_context(spans, piece) for piece in range(len(context.pieces))]
    for index, (first, length) in enumerate(spans):
        tokens = ["[CLS]"] + query + ["[SEP]"] + context.pieces[first:first + length] + ["[SEP]"]
        ids = ",".join(str(tokenizer.ids[token]) for token in tokens)
        bits = "".join("1" if best[piece] == index else "0" for piece in range(first, first + length))
        start = end = 0
        if answer and answer[0] >= first and answer[1] < first + length:
            start, end = (len(query) + 2 + piece - first for piece in answer)
        yield f"{first} {length} {digest(ids)} {len(query) + 2} {start} {end} {digest(bits)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("squad")
    parser.add_argument("vocabulary")
    parser.add_argument("--max-sequence", type=int, default=384)
    parser.add_argument("--doc-stride", type=int, default=128)
    parser.add_argument("--max-query", type=int, default=64)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--cased", action="store_true")
    options = parser.parse_args()
    tokenizer = Tokenizer(options.vocabulary, not options.cased)
    with open(options.squad, encoding="utf-8-sig") as file:
        squad = json.load(file)
    number = 0
    for article in squad["data"]:
        for paragraph in article["paragraphs"]:
            context = Context(paragraph["context"], tokenizer)
            for question in paragraph["qas"]:
                if number % options.every == 0:
                    for line in windows_of(question, context, tokenizer, options):
                        print(question["id"], line)
                number += 1


if __name__ == "__main__":
    main()
