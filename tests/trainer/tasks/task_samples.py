#!/usr/bin/env python3
"""What task_samples_test.cc compares with: plain Python, standard library only.

    task_samples.py questions SQUAD VOCAB [--max-length 384] [--doc-stride 128] [--max-question 64] [--max-answer 30]

prints {"windows": [[id, tokens, first token of segment 1, begin, end, reachable], …], "predictions": {id: text}, "exact": …,
"f1": …, "loss": …, "answerable": …, "reachable": …, "reachable_exact": …}. begin and end: a window's label, −1 where it
is not known. A question is reachable if one of its windows has the whole of an answer, short enough, of whose first
piece it shows most context. The predictions and scores (shares of 1; the mean over windows) are those of logits that are 10
where a label is and 0 elsewhere; of unreachable questions, 10 at [CLS].

    task_samples.py pairs SEED      texts of letters and how pairs of them are cut
    task_samples.py scores SEED     logits, labels and their scores
"""
import argparse
import collections
import json
import math
import random
import re
import string
import struct
import sys

import squad_windows as windows

RIGHT = 10.0


def normalise(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def text_scores(prediction, golds, second_version):
    if second_version:
        golds = [gold for gold in golds if normalise(gold)] or [""]
    exact = f1 = 0.0
    for gold in golds:
        ours, theirs = normalise(prediction), normalise(gold)
        exact = max(exact, float(ours == theirs))
        same = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
        if second_version and not (ours and theirs):
            f1 = max(f1, float(ours == theirs))
        elif same:
            f1 = max(f1, 2 * same / (len(ours) + len(theirs)))
    return exact, f1


def span_text(context, first, last, tokenizer):
    """Of the words of pieces first to last what the pieces have."""
    word = [sum(begin <= piece for begin in context.first_piece[:-1]) - 1 for piece in (first, last)]
    # A word without pieces begins where the next one does.
    words = " ".join(context.words[word[0]:word[1] + 1])
    pieces = " ".join(context.pieces[first:last + 1]).replace(" ##", "").replace("##", "")
    tokens = " ".join(tokenizer.words(words))
    at = tokens.find(pieces)
    if at < 0 or len(tokens.replace(" ", "")) != len(words.replace(" ", "")):
        return words
    before, length = len(tokens[:at].replace(" ", "")), len(pieces.replace(" ", ""))
    places = [place for place, c in enumerate(words) if c != " "][before:before + length]
    return words[places[0]:places[-1] + 1]


class Windows:
    """Of a question: where they are, and their labels."""

    def __init__(self, question, context, tokenizer, options):
        self.context = context
        self.query = tokenizer.tokenize(question["question"])[:options.max_question]
        self.spans = windows.spans_of(len(context.pieces), options.max_length - len(self.query) - 3, options.doc_stride)
        answers = [] if question.get("is_impossible") else question["answers"]
        found = [windows.answer_span(context, answer, tokenizer) for answer in answers]
        found = [span for span in found if span]
        self.labels, self.reached = [], None
        for index, (begin, length) in enumerate(self.spans):
            inside = [span for span in found if span[0] >= begin and span[1] < begin + length]
            if inside:
                first, last = inside[0]
                self.labels.append((first - begin + len(self.query) + 2, last - begin + len(self.query) + 2))
                short = last - first < options.max_answer
                if not self.reached and short and windows.most_context(self.spans, first) == index:
                    self.reached = first, last
            else:
                self.labels.append((-1, -1) if answers and not found else (0, 0))

    def prediction(self, tokenizer, may_be_null):
        if self.reached:
            return span_text(self.context, *self.reached, tokenizer)
        # All of the text is alike: the first token is the best, if it is one of the 20 best of the window.
        if may_be_null or not self.spans or len(self.query) + 2 >= 20:
            return ""
        return span_text(self.context, 0, 0, tokenizer)

    def losses(self):
        for (_, length), label in zip(self.spans, self.labels):
            if label[0] >= 0:
                tokens = len(self.query) + length + 3
                right = RIGHT if self.reached or label == (0, 0) else 0
                yield math.log(math.exp(RIGHT) + tokens - 1) - right


def questions(options):
    tokenizer = windows.Tokenizer(options.vocabulary, True)
    with open(options.squad, encoding="utf-8-sig") as file:
        squad = json.load(file)
    paragraphs = [paragraph for article in squad["data"] for paragraph in article["paragraphs"]]
    second_version = any(q.get("is_impossible") for p in paragraphs for q in p["qas"])
    out = {"windows": [], "predictions": {}, "answerable": 0, "reachable": 0, "reachable_exact": 0}
    scores, losses = [], []
    for paragraph in paragraphs:
        context = windows.Context(paragraph["context"], tokenizer)
        for question in paragraph["qas"]:
            cut = Windows(question, context, tokenizer, options)
            for (_, length), label in zip(cut.spans, cut.labels):
                out["windows"].append([question["id"], len(cut.query) + length + 3, len(cut.query) + 2, *label,
                                       cut.reached is not None])
            text = cut.prediction(tokenizer, second_version)
            score = text_scores(text, [answer["text"] for answer in question["answers"]], second_version)
            out["predictions"][question["id"]] = text
            out["answerable"] += bool(question["answers"])
            out["reachable"] += cut.reached is not None
            out["reachable_exact"] += cut.reached is not None and score[0] == 1
            scores.append(score)
            losses += cut.losses()
    out["exact"], out["f1"] = (math.fsum(column) / len(scores) for column in zip(*scores))
    out["loss"] = math.fsum(losses) / len(losses)
    return out


def cut_pair(first, second, room):
    """Longest first, piece by piece."""
    while len(first) + len(second or []) > room:
        longer = first if second is None or len(first) > len(second) else second
        longer.pop()
    return first, second


def pairs(seed):
    draw = random.Random(seed)
    cases = []
    for number in range(600):
        texts = [[draw.choice(string.ascii_lowercase) for _ in range(draw.randrange(draw.choice([2, 12, 40])))]
                 for _ in range(2)]
        if number % 3 == 0:
            texts[1] = None
        elif number % 3 == 1:
            texts[1] = [draw.choice(string.ascii_lowercase) for _ in texts[0]]
        most = draw.choice([3, 4, 5, 6, 9, 16, 17, 48, 512])
        case = {"text": " ".join(texts[0]), "second": None if texts[1] is None else " ".join(texts[1]), "most": most}
        first, second = cut_pair(*texts, most - (2 if texts[1] is None else 3))
        tokens = ["[CLS]", *first, "[SEP]"]
        case["types"] = [0] * len(tokens)
        if second is not None:
            tokens += [*second, "[SEP]"]
            case["types"] += [1] * (len(second) + 1)
        case["tokens"] = tokens
        cases.append(case)
    return cases


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def correlation(xs, ys):
    """Of what has n numbers each; 0 with a constant."""
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    of_x, of_y = math.fsum((x - mean_x) ** 2 for x in xs), math.fsum((y - mean_y) ** 2 for y in ys)
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        return 0.0
    return math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / math.sqrt(of_x) / math.sqrt(of_y)


def ranks(values):
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def class_scores(truth, logits, classes):
    predicted = [row.index(max(row)) for row in logits]
    f1s = []
    for label in range(classes):
        both = sum(t == p == label for t, p in zip(truth, predicted))
        sides = truth.count(label) + predicted.count(label)
        if sides:
            f1s.append((label, 2 * both / sides))
    f1 = dict(f1s).get(1, 0.0) if classes == 2 else math.fsum(f1 for _, f1 in f1s) / len(f1s)
    # Gorodkin's: the correlation of indicator vectors.
    indicators = [[[float(label == one) for label in side] for one in range(classes)] for side in (truth, predicted)]

    def covariance(a, b):
        return math.fsum((x - math.fsum(p) / len(p)) * (y - math.fsum(q) / len(q))
                         for p, q in zip(indicators[a], indicators[b]) for x, y in zip(p, q))

    constant = len(set(truth)) == 1 or len(set(predicted)) == 1
    matthews = 0.0 if constant else covariance(0, 1) / math.sqrt(covariance(0, 0) * covariance(1, 1))
    losses = [math.log(math.fsum(math.exp(x - max(row)) for x in row)) + max(row) - row[t] for t, row in zip(truth, logits)]
    best = [truth.count(label) / len(truth) for label in range(classes)]
    constants = [2 * share / (1 + share) for share in best]  # F1 of the class that is always guessed
    guess = best.index(max(best))
    base_f1 = constants[1] if classes == 2 else constants[guess] / sum(1 for share in best if share)
    return {"accuracy": sum(t == p for t, p in zip(truth, predicted)) / len(truth), "f1": f1, "matthews": matthews,
            "loss": math.fsum(losses) / len(losses)}, {"accuracy": max(best), "f1": base_f1, "matthews": 0.0}


def value_scores(truth, predicted):
    return {"pearson": correlation(truth, predicted), "spearman": correlation(ranks(truth), ranks(predicted)),
            "loss": math.fsum((t - p) ** 2 for t, p in zip(truth, predicted)) / len(truth)}, \
        {"pearson": 0.0, "spearman": 0.0}


def scores(seed):
    draw = random.Random(seed)
    cases = []
    for number in range(300):
        count = draw.randrange(1, 30)
        coarse = number % 4 == 0  # equal logits, constant predictions
        scale = draw.choice([1, 10, 1e4])

        def logit():
            return float(draw.randrange(2)) if coarse else float32(scale * draw.gauss(0, 1))

        if number % 2:
            truth = [draw.randrange(26) / 5 for _ in range(count)]
            logits = [[logit() if draw.random() < 0.5 else float32(value)] for value in truth]
            classes, (want, baseline) = 0, value_scores(truth, [row[0] for row in logits])
        else:
            classes = draw.choice([2, 2, 3, 7])
            truth = [draw.randrange(classes) for _ in range(count)]
            logits = [[logit() for _ in range(classes)] for _ in range(count)]
            want, baseline = class_scores(truth, logits, classes)
        cases.append({"classes": classes, "truth": truth, "logits": logits, "want": want, "baseline": baseline})
    return cases


def main():
    parser = argparse.ArgumentParser()
    modes = parser.add_subparsers(dest="mode", required=True)
    of_questions = modes.add_parser("questions")
    of_questions.add_argument("squad")
    of_questions.add_argument("vocabulary")
    of_questions.add_argument("--max-length", type=int, default=384)
    of_questions.add_argument("--doc-stride", type=int, default=128)
    of_questions.add_argument("--max-question", type=int, default=64)
    of_questions.add_argument("--max-answer", type=int, default=30)
    for name in ("pairs", "scores"):
        modes.add_parser(name).add_argument("seed", type=int)
    options = parser.parse_args()
    if options.mode == "questions":
        result = questions(options)
    else:
        result = {"pairs": pairs, "scores": scores}[options.mode](options.seed)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
