"""Batches for the peer: lengths from the same table as `regatta-train bench step`, each as often as
the table says over the measured steps, random pieces, 15 % of the positions masked."""
import random

import torch
from peer_model import Packing


def read_lengths(path):
    """(low, high, share) of each line."""
    ranges = []
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            low, high, share = line.split(",")
            ranges.append((int(low), int(high), float(share)))
    total = sum(share for _, _, share in ranges)
    return [(low, high, share / total) for low, high, share in ranges]


def quantile(ranges, u):
    """The length below which a share u of the samples lies."""
    below = 0.0
    for low, high, share in ranges:
        if u < below + share:
            return low + min(high - low, int((u - below) / share * (high - low + 1)))
        below += share
    return ranges[-1][1]


def draw_lengths(ranges, samples, steps, longest):
    """Lists of lengths, one per step."""
    total = samples * steps
    lengths = [min(longest, quantile(ranges, (i + 0.5) / total)) for i in range(total)]
    random.Random(1).shuffle(lengths)
    return [lengths[i * samples:(i + 1) * samples] for i in range(steps)]


def in_buckets(steps):
    """The same samples in steps of similar lengths, the steps in random order: the whole run is the
    bucketing window, which is the best that bucketing can do."""
    samples = len(steps[0])
    lengths = sorted(length for step in steps for length in step)
    chunks = [lengths[i:i + samples] for i in range(0, len(lengths), samples)]
    random.Random(2).shuffle(chunks)
    return chunks


def make_batch(lengths, mode, vocabulary, device, seed, unit=64):
    """One step's tensors. unit: what rows of padded modes are rounded up to."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    width = 512 if mode == "padded" else min(512, -(-longest // unit) * unit)
    ids, positions, types, masked, labels, first = [], [], [], [], [], []
    rows = 0
    for length in lengths:
        start = rows if mode == "packed" else len(first) * width
        padding = 0 if mode == "packed" else width - length
        pieces = torch.randint(0, vocabulary, (length,), generator=generator)
        ids.append(torch.cat([pieces, torch.zeros(padding, dtype=torch.long)]))
        positions.append(torch.cat([torch.arange(length), torch.zeros(padding, dtype=torch.long)]))
        types.append(torch.cat([(torch.arange(length) >= length // 2).long(), torch.zeros(padding, dtype=torch.long)]))
        count = max(1, round(0.15 * length))
        masked.append(start + torch.arange(count) * length // count)
        labels.append(torch.randint(0, vocabulary, (count,), generator=generator))
        first.append(start)
        rows += length + padding
    masked, labels = torch.cat(masked), torch.cat(labels)
    spare = -len(masked) % 256  # few shapes, and none that a product likes less
    lengths_tensor = torch.tensor(lengths)
    if mode == "packed":
        offsets = torch.cat([torch.zeros(1, dtype=torch.int32), torch.cumsum(lengths_tensor, 0).int()]).to(device)
        packing = Packing(len(lengths), 512, offsets=offsets)
    else:
        mask = torch.arange(width)[None, :] < lengths_tensor[:, None]
        packing = Packing(len(lengths), width, mask=mask[:, None, None, :].to(device))
    batch = {"ids": torch.cat(ids), "positions": torch.cat(positions), "types": torch.cat(types),
             "masked": torch.cat([masked, torch.zeros(spare, dtype=torch.long)]),
             "labels": torch.cat([labels, torch.full((spare,), -100)]), "first": torch.tensor(first),
             "next": torch.randint(0, 2, (len(lengths),), generator=generator)}
    batch = {name: value.to(device) for name, value in batch.items()}
    batch["packing"] = packing
    return batch


def hugging_face_inputs(batch):
    """A padded batch as BertForPreTraining takes it: labels everywhere, −100 where none."""
    packing = batch["packing"]
    shape = (packing.samples, packing.length)
    labels = torch.full((packing.samples * packing.length,), -100, device=batch["ids"].device)
    real = batch["labels"] >= 0
    labels[batch["masked"][real]] = batch["labels"][real]
    return {"input_ids": batch["ids"].view(shape), "token_type_ids": batch["types"].view(shape),
            "attention_mask": packing.mask[:, 0, 0, :].long(), "labels": labels.view(shape), "next_sentence_label": batch["next"]}


def training_flops(layers, hidden, vocabulary, steps):
    """Model FLOPs of forward and backward as the trainer counts them (trainer/contract)."""
    total = 0.0
    for lengths in steps:
        masked = sum(max(1, round(0.15 * length)) for length in lengths)
        linear = 2 * (4 * hidden**2 + 8 * hidden**2) * sum(lengths) + 4 * hidden * sum(length**2 for length in lengths)
        total += 3 * (layers * linear + masked * (2 * hidden**2 + 2 * hidden * vocabulary) + len(lengths) * (2 * hidden**2 + 4 * hidden))
    return total
