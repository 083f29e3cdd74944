#!/usr/bin/env python3
"""Loads a run's newest checkpoint with transformers and lets that compute the loss. Prints one JSON.

    interop.py RUN_DIRECTORY DATA_DIRECTORY     the latter holds held_out.txt and dataset/vocab.txt

The checkpoint must load without a missing or unexpected name, and the loss on text of its own must be
near that of the run's last evaluation (same kind of text, not the same samples) and, for a run long
enough to learn, below that of an untrained model.
"""
import json
import pathlib
import random
import shutil
import sys
import tempfile

import torch
from transformers import BertConfig, BertForPreTraining

SAMPLES, LENGTH = 256, 96
ENOUGH_STEPS = 100
NEAR = 0.12  # relative: other samples, and masked positions all become [MASK]
# Names that transformers makes from others.
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"}


def pieces_of(text, vocabulary):
    """WordPiece of plain English: lower case, words and single punctuation marks, longest piece first."""
    words, word = [], ""
    for character in text.lower() + " ":
        if character.isalnum():
            word += character
            continue
        words += [word] if word else []
        word = ""
        words += [character] if not character.isspace() else []
    found = []
    for word in words:
        begin, pieces = 0, []
        while begin < len(word):
            for end in range(len(word), begin, -1):
                piece = ("##" if begin else "") + word[begin:end]
                if piece in vocabulary:
                    break
            else:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[piece])
            begin = end
        found += pieces
    return found


def batch_of(text, vocabulary):
    pieces = pieces_of(text, vocabulary)
    size = LENGTH - 3
    generator = random.Random(5)
    ids, types, labels = [], [], []
    for sample in range(min(SAMPLES, len(pieces) // size)):
        body = pieces[sample * size:(sample + 1) * size]
        half = size // 2
        row = [vocabulary["[CLS]"], *body[:half], vocabulary["[SEP]"], *body[half:], vocabulary["[SEP]"]]
        label = [-100] * LENGTH
        places = [i for i in range(LENGTH) if i not in (0, half + 1, LENGTH - 1)]
        for place in generator.sample(places, round(0.15 * LENGTH)):
            label[place], row[place] = row[place], vocabulary["[MASK]"]
        ids.append(row)
        types.append([0] * (half + 2) + [1] * (LENGTH - half - 2))
        labels.append(label)
    return torch.tensor(ids), torch.tensor(types), torch.tensor(labels)


def mlm_loss(model, ids, types, labels):
    model.eval()
    total = count = 0
    with torch.no_grad():
        for begin in range(0, len(ids), 32):
            part = slice(begin, begin + 32)
            logits = model(input_ids=ids[part], token_type_ids=types[part]).prediction_logits
            chosen = labels[part] >= 0
            total += torch.nn.functional.cross_entropy(logits[chosen].double(), labels[part][chosen], reduction="sum").item()
            count += int(chosen.sum())
    return total / count


def load(directory, run, vocabulary, work):
    """transformers' model from the checkpoint, and what its loading said."""
    model = run["model"]
    config = BertConfig(
        vocab_size=model["vocabulary"] or len(vocabulary), hidden_size=model["hidden"], num_hidden_layers=model["layers"],
        num_attention_heads=model["heads"], intermediate_size=model["feed_forward"], max_position_embeddings=model["max_positions"],
        hidden_act="gelu" if model["gelu"] == "erf" else "gelu_pytorch_tanh", layer_norm_eps=1e-12, type_vocab_size=2)
    config.save_pretrained(work)
    shutil.copy(directory / "model.safetensors", work)
    loaded, info = BertForPreTraining.from_pretrained(work, output_loading_info=True)
    torch.manual_seed(1)
    return loaded, BertForPreTraining(config), info


def main():
    run_directory, data = map(pathlib.Path, sys.argv[1:3])
    run = json.loads((run_directory / "run.json").read_text())
    lines = (data / "dataset" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    (journal,) = run_directory.glob("attempts/*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    evaluation = [record for record in records if record["type"] == "eval"][-1]
    newest = sorted((run_directory / "checkpoints").glob("step-*"))[-1]
    with tempfile.TemporaryDirectory() as work:
        model, untrained, info = load(newest, run, vocabulary, work)
    batch = batch_of((data / "held_out.txt").read_text(encoding="utf-8"), vocabulary)
    loss, before = mlm_loss(model, *batch), mlm_loss(untrained, *batch)
    missing = sorted(set(info["missing_keys"]) - TIED)
    unexpected = sorted(info["unexpected_keys"])
    problems = []
    if missing or unexpected or info.get("mismatched_keys"):
        problems.append(f"missing {missing}, unexpected {unexpected}, mismatched {sorted(map(str, info.get('mismatched_keys', [])))}")
    if not abs(loss - evaluation["mlm_loss"]) <= NEAR * evaluation["mlm_loss"]:
        problems.append(f"transformers' MLM loss is {loss:.4f}, the run's last evaluation {evaluation['mlm_loss']:.4f}")
    if run["steps"] >= ENOUGH_STEPS and not loss < 0.95 * before:
        problems.append(f"the trained model's loss {loss:.4f} is no better than an untrained one's {before:.4f}")
    print(json.dumps({"benchmark": "interop", "checkpoint": newest.name, "samples": len(batch[0]), "mlm_loss_transformers": loss,
                      "mlm_loss_evaluation": evaluation["mlm_loss"], "mlm_loss_untrained": before, "missing": missing,
                      "unexpected": unexpected, "problems": problems}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
