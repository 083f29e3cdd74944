#!/usr/bin/env python3
"""Fine-tuning steps of PyTorch: BERT with a head for questions, of torch.nn's modules. fine_tuning_step.py calls

    fine_tuning_peer.py <SPEC.json

with layers, hidden, heads, feed_forward, vocabulary, positions, dropout, threads, warmup (steps that do not count),
steps (a list of lists: the lengths of each step's samples) and one of CONFIGURATIONS. Prints one JSON.
"""
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

# How samples are put together and the layers computed:
#   padded        as they come, each step padded to its longest sample
#   grouped       sorted by length over all steps, so that next to nothing is padded
#   encoder       torch.nn.TransformerEncoder, grouped
#   bfloat16      grouped, products in bfloat16 (autocast)
CONFIGURATIONS = ("padded", "grouped", "encoder", "bfloat16")


class Layer(nn.Module):
    def __init__(self, hidden, heads, feed_forward, dropout):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.wide = nn.Linear(hidden, feed_forward)
        self.narrow = nn.Linear(feed_forward, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-12) for _ in range(2))
        self.dropout = dropout

    def forward(self, x, src_key_padding_mask):
        samples, length, hidden = x.shape
        query, key, value = self.query_key_value(x).reshape(samples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(hidden // self.heads)
        if src_key_padding_mask is not None:
            scores = scores.masked_fill(src_key_padding_mask[:, None, None, :], float("-inf"))
        weights = functional.dropout(torch.softmax(scores, dim=-1), self.dropout)
        mixed = self.output((weights @ value).transpose(1, 2).reshape(x.shape))
        x = self.norms[0](x + functional.dropout(mixed, self.dropout))
        wide = functional.gelu(self.wide(x))
        return self.norms[1](x + functional.dropout(self.narrow(wide), self.dropout))


class Layers(nn.ModuleList):
    def forward(self, x, src_key_padding_mask):
        for layer in self:
            x = layer(x, src_key_padding_mask)
        return x


class QuestionAnswering(nn.Module):
    def __init__(self, spec):
        super().__init__()
        hidden, dropout = spec["hidden"], spec["dropout"]
        self.pieces = nn.Embedding(spec["vocabulary"], hidden)
        self.places = nn.Embedding(spec["positions"], hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        sizes = (hidden, spec["heads"], spec["feed_forward"], dropout)
        if spec["configuration"] == "encoder":
            layer = nn.TransformerEncoderLayer(*sizes, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, spec["layers"])
        else:
            self.layers = Layers(Layer(*sizes) for _ in range(spec["layers"]))
        self.head = nn.Linear(hidden, 2)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, segments, padding):
        x = self.pieces(ids) + self.places.weight[:ids.shape[1]] + self.segments(segments)
        x = self.layers(self.dropout(self.norm(x)), src_key_padding_mask=padding)
        return self.head(x).float()


def batch_of(lengths, vocabulary):
    """Random pieces, a question of a dozen pieces in front; random answers."""
    longest = max(lengths)
    ids = torch.randint(1000, vocabulary, (len(lengths), longest))
    place = torch.arange(longest)[None, :]
    padding = place >= torch.tensor(lengths)[:, None]
    ids[padding] = 0
    segments = ((place > 12) & ~padding).long()
    ends = torch.tensor([[length // 2, length // 2 + 1] for length in lengths])
    return ids, segments, padding if bool(padding.any()) else None, ends


def loss_of(logits, padding, ends):
    if padding is not None:
        logits = logits.masked_fill(padding[:, :, None], float("-inf"))
    return functional.cross_entropy(logits.transpose(1, 2).reshape(-1, logits.shape[1]), ends.reshape(-1))


def main():
    spec = json.load(sys.stdin)
    assert spec["configuration"] in CONFIGURATIONS, spec["configuration"]
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(1)
    model = QuestionAnswering(spec)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, foreach=True)
    steps, warmup = spec["steps"], spec["warmup"]
    counted = steps[warmup:]
    if spec["configuration"] != "padded":
        samples = len(counted[0])
        ordered = sorted(length for step in counted for length in step)
        counted = [ordered[i:i + samples] for i in range(0, len(ordered), samples)]
    seconds = []
    # The longest step is among those that warm up, so that memory is there.
    for lengths in [max(counted, key=max)] * (warmup > 0) + steps[:max(0, warmup - 1)] + counted:
        ids, segments, padding, ends = batch_of(lengths, spec["vocabulary"])
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=spec["configuration"] == "bfloat16"):
            logits = model(ids, segments, padding)
        loss = loss_of(logits, padding, ends)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    seconds = seconds[warmup:]
    assert math.isfinite(loss.item())
    tokens = sum(map(sum, counted))
    with open("/proc/self/maps") as maps:
        blas = sorted({line.split()[-1] for line in maps if "blas" in line})
    print(json.dumps({
        "configuration": spec["configuration"], "torch": torch.__version__, "blas": blas,
        "capability": torch.__config__.show().split("CPU capability usage: ")[-1].split("\n")[0],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "padded_share": 1 - tokens / sum(max(step) * len(step) for step in counted),
        "tokens": tokens, "seconds": sum(seconds), "tokens_per_second": tokens / sum(seconds)}))


if __name__ == "__main__":
    main()
