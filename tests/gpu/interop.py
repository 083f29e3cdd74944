#!/usr/bin/env python3
"""Exports a run with regatta-train and loads that with transformers. Prints one JSON.

    interop.py TRAINER RUN_DIRECTORY DATA_DIRECTORY     the last holds held_out.txt and dataset/vocab.txt

- BertForPreTraining, BertModel and BertForQuestionAnswering load their directories without a missing or
  unexpected name, and the decoder is the word embedding.
- Logits: in float64 those of tests/trainer/interchange/bert_torch.py, which interchange_test compares with
  Regatta's own, in float32 within twice that program's float32 error.
- The tokenizers built from vocab.txt and tokenizer_config.json give the ids that `prepare` writes.
- The loss on text of its own is near that of the run's last evaluation (same kind of text, not the same
  samples) and, for a run long enough to learn, below that of an untrained model.
"""
import array
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trainer" / "interchange")]
import machine  # noqa: E402

SAMPLES, LENGTH = 256, 96
ENOUGH_STEPS = 100
NEAR = 0.12  # relative: other samples, and masked positions all become [MASK]
SAME = 1e-3  # of the error of float32: two float64 computations differ by less
MOST_LINES = 400  # of held-out text, that are tokenized
# Names that transformers makes from others.
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids", "embeddings.position_ids"}
HARD_LINES = [
    "Ünïcödé, naïve café — déjà vu.", "Don't stop: it's 3.14 (or 22/7)!", "北京 and 東京 are cities.", "a\u00a0b\u2003c\td", "e\u0301 is é",
    "UPPER lower MiXeD", "[brackets] {braces} <angles> #hash @at", "supercalifragilisticexpialidocious", "☃ ♞ 😀 €5", "...!!!???",
    "x" * 90, "http://example.org/a_b?c=d&e=%20", "ﬁ ligature and ß sharp", "Привет, мир", "\u200bzero\u200dwidth\u00adsoft",
]


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
    import torch
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
    import torch
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


def run_trainer(trainer, *arguments):
    done = subprocess.run([str(trainer), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env=machine.program_environment(trainer.parent.parent))
    if done.returncode != 0:
        raise RuntimeError(f"regatta-train {arguments[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout


def read_numbers(path, kind, code):
    """The numbers of a file of a dataset directory (trainer/data/README.md)."""
    data = path.read_bytes()
    assert data[:8] == b"REGATTAD" and struct.unpack("<II", data[8:16]) == (1, kind), path
    numbers = array.array(code)
    numbers.frombytes(data[16:])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def prepared_ids(trainer, lines, vocabulary, cased, work):
    """The set of id tuples that `prepare` makes of these lines, each a document."""
    text = work / "lines.txt"
    text.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    run_trainer(trainer, "prepare", text, "--output", work / "lines", "--vocab", vocabulary, "--threads", "1",
                *(["--cased"] if cased else []))
    found = set()
    for split in ("training", "held_out"):
        tokens = array.array("i")
        for shard in sorted((work / "lines").glob(f"{split}.tokens-*")):
            tokens += read_numbers(shard, 1, "i")
        sentences = read_numbers(work / "lines" / f"{split}.sentences", 2, "q")
        documents = read_numbers(work / "lines" / f"{split}.documents", 3, "q")
        for begin, end in zip(documents, documents[1:]):
            found.add(tuple(tokens[sentences[begin]:sentences[end]]))
    return found


def lines_of(text):
    """Distinct lines, as `prepare` reads them: trimmed, not empty; some plain, some hard."""
    lines = [line.strip() for line in text.splitlines()[:MOST_LINES]] + HARD_LINES
    return list(dict.fromkeys(line for line in lines if line and max(map(len, line.split())) <= 100))


def compare_tokenizers(trainer, directory, text, work):
    """Problems of the tokenizers that transformers build from an exported directory."""
    import transformers
    rules = json.loads((directory / "tokenizer_config.json").read_text())
    vocabulary = {piece: i for i, piece in enumerate((directory / "vocab.txt").read_text(encoding="utf-8").splitlines())}
    lines = lines_of(text)
    expected = prepared_ids(trainer, lines, directory / "vocab.txt", not rules["do_lower_case"], work)
    problems, compared = [], {}
    for name in ("AutoTokenizer", "BertTokenizer", "BertTokenizerFast"):
        loader = getattr(transformers, name, None)
        if loader is None:  # versions differ in what they have beside the first
            continue
        tokenizer = loader.from_pretrained(str(directory))
        ids = {tuple(tokenizer(line, add_special_tokens=False)["input_ids"]) for line in lines} - {()}
        compared[f"{name} ({type(tokenizer).__name__})"] = len(ids)
        if ids != expected:
            odd = sorted(ids ^ expected)[:2]
            problems.append(f"{name}: {len(ids ^ expected)} of {len(expected)} lines have other ids, such as {odd}")
        special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
        wrong = [key for key, piece in special.items() if getattr(tokenizer, key + "_id") != vocabulary[piece]]
        if wrong or tokenizer.model_max_length != rules["model_max_length"]:
            problems.append(f"{name}: wrong {wrong}, model_max_length {tokenizer.model_max_length}")
        pair = tokenizer("boat", "lake", add_special_tokens=True)["input_ids"]
        if pair[0] != vocabulary["[CLS]"] or pair[-1] != vocabulary["[SEP]"] or pair.count(vocabulary["[SEP]"]) != 2:
            problems.append(f"{name}: a pair becomes {pair}")
    return problems, compared


def load(name, directory):
    """transformers' model of that class, and what its loading found wrong."""
    import transformers
    model, info = getattr(transformers, name).from_pretrained(str(directory), output_loading_info=True)
    missing, unexpected = sorted(set(info["missing_keys"]) - TIED), sorted(info["unexpected_keys"])
    mismatched = sorted(map(str, info.get("mismatched_keys", [])))
    wrong = f"{name}: missing {missing}, unexpected {unexpected}, mismatched {mismatched}"
    problems = [wrong] if missing or unexpected or mismatched else []
    if name == "BertForPreTraining":
        decoder, words = model.cls.predictions.decoder, model.bert.embeddings.word_embeddings
        if decoder.weight.data_ptr() != words.weight.data_ptr():
            problems.append("the decoder is not the word embedding")
    return model.eval(), problems


def samples_for(config):
    generator = random.Random(4)
    most = config["max_position_embeddings"]
    return [{"ids": [generator.randrange(config["vocab_size"]) for _ in range(length)],
             "types": [int(i > length // 2) for i in range(length)], "masked_positions": [0, length - 1, length // 3]}
            for length in (2, 13, most)]


def flat(values):
    if isinstance(values, dict):
        values = list(values.values())
    return [number for value in values for number in flat(value)] if isinstance(values, list) else [values]


def error_of(ours, exact):
    return max(abs(a - b) for a, b in zip(ours, exact))


def their_logits(model, samples, dtype):
    import torch
    model = model.to(dtype)
    found = []
    with torch.no_grad():
        for sample in samples:
            answer = model(input_ids=torch.tensor([sample["ids"]]), token_type_ids=torch.tensor([sample["types"]]))
            if hasattr(answer, "start_logits"):
                found.append({"span": torch.stack([answer.start_logits[0], answer.end_logits[0]], dim=1).tolist()})
            else:
                found.append({"mlm": answer.prediction_logits[0, sample["masked_positions"]].tolist(),
                              "nsp": answer.seq_relationship_logits[0].tolist()})
    return flat(found)


def compare_logits(name, model, directory):
    """Problems, and the errors found."""
    import bert
    import bert_torch
    import torch
    config, tensors = bert.read_model(directory)
    samples = samples_for(config)
    with torch.no_grad():
        exact, naive = (flat([bert_torch.Bert(config, tensors, dtype).logits(sample) for sample in samples])
                        for dtype in (torch.float64, torch.float32))
    single = their_logits(model, samples, torch.float32)  # before the model is widened
    double = their_logits(model, samples, torch.float64)
    if not len(exact) == len(naive) == len(single) == len(double):
        return [f"{name}: {len(double)} logits, not {len(exact)}"], {}
    allowed = error_of(naive, exact)
    facts = {"logits": len(exact), "float64_difference": error_of(double, exact), "float32_error": error_of(single, exact),
             "float32_error_allowed": 2 * allowed, "hidden_act": config["hidden_act"]}
    problems = []
    if not facts["float64_difference"] <= SAME * allowed:
        problems.append(f"{name}: logits in float64 differ by {facts['float64_difference']}")
    if not facts["float32_error"] <= 2 * allowed:
        problems.append(f"{name}: logits in float32 are off by {facts['float32_error']}, twice a float32 program's error is {2 * allowed}")
    return problems, facts


def compare_losses(model, run_directory, run, vocabulary, text):
    """Problems, and the losses."""
    import torch
    import transformers
    (journal,) = run_directory.glob("attempts/*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    evaluated = [record for record in records if record["type"] == "eval"][-1]["mlm_loss"]
    torch.manual_seed(1)
    untrained = transformers.BertForPreTraining(model.config)
    batch = batch_of(text, vocabulary)
    loss, before = mlm_loss(model.to(torch.float32), *batch), mlm_loss(untrained, *batch)
    problems = []
    if not abs(loss - evaluated) <= NEAR * evaluated:
        problems.append(f"transformers' MLM loss is {loss:.4f}, the run's last evaluation {evaluated:.4f}")
    if run["steps"] >= ENOUGH_STEPS and not loss < 0.95 * before:
        problems.append(f"the trained model's loss {loss:.4f} is no better than an untrained one's {before:.4f}")
    return problems, {"samples": len(batch[0]), "mlm_loss_transformers": loss, "mlm_loss_evaluation": evaluated, "mlm_loss_untrained": before}


def main():
    trainer, run_directory, data = map(pathlib.Path, sys.argv[1:4])
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is to be looked for elsewhere
    run = json.loads((run_directory / "run.json").read_text())
    text = (data / "held_out.txt").read_text(encoding="utf-8")
    problems, result = [], {"benchmark": "interop"}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        models = {}
        for kind, model in (("pretraining", "BertForPreTraining"), ("encoder", "BertModel"), ("question-answering", "BertForQuestionAnswering")):
            result["export " + kind] = run_trainer(trainer, "export", "--checkpoint", run_directory, "--output", work / kind, "--for", kind)
            models[kind], found = load(model, work / kind)
            problems += found
        for kind in ("pretraining", "question-answering"):
            found, result["logits " + kind] = compare_logits(kind, models[kind], work / kind)
            problems += found
        found, result["tokenizers"] = compare_tokenizers(trainer, work / "pretraining", text, work)
        problems += found
        lines = (work / "pretraining" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    found, losses = compare_losses(models["pretraining"], run_directory, run, {piece: i for i, piece in enumerate(lines)}, text)
    print(json.dumps({**result, **losses, "problems": problems + found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
