"""BERT for pre-training in plain PyTorch, as fast as its user can make it without writing kernels:
query, key and value in one product, the MLM head on masked positions only, decoder tied to the word
embedding, any of torch's attention kernels, padded or packed. The tests' own; it shares no code with
the trainer."""
import math

import torch
import torch.nn.functional as functional
from torch import nn

SIZES = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768), "large": (24, 1024)}


class Packing:
    """Where samples lie in the rows: [samples, length] with a mask, or one after another."""

    def __init__(self, samples, length, mask=None, offsets=None):
        self.samples, self.length, self.mask, self.offsets = samples, length, mask, offsets


def padded_attention(query, key, value, mask, probability):
    """[samples, heads, length, d]; mask is True where a key may be read, or None."""
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=probability)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return functional.dropout(torch.softmax(scores, dim=-1), probability) @ value


def packed_attention(query, key, value, offsets, longest, probability):
    """[tokens, heads, d] each; torch's own FlashAttention with dropout on a GPU, a loop elsewhere."""
    if query.is_cuda:
        return torch.ops.aten._flash_attention_forward(query, key, value, offsets, offsets, longest, longest,
                                                       probability, False, return_debug_mask=False)[0]
    bounds = offsets.tolist()
    parts = [padded_attention(*(x[begin:end].transpose(0, 1)[None] for x in (query, key, value)), None, probability)[0].transpose(0, 1)
             for begin, end in zip(bounds, bounds[1:])]
    return torch.cat(parts)


class Layer(nn.Module):
    def __init__(self, hidden, heads, dropout, gelu):
        super().__init__()
        self.heads, self.dropout, self.gelu = heads, dropout, gelu
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-12), nn.LayerNorm(hidden, eps=1e-12)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, packing):
        rows, hidden = x.shape
        probability = self.dropout if self.training else 0.0
        qkv = self.qkv(x)
        if packing.offsets is not None:
            query, key, value = qkv.view(rows, 3, self.heads, hidden // self.heads).unbind(1)
            mixed = packed_attention(query, key, value, packing.offsets, packing.length, probability).reshape(rows, hidden)
        else:
            samples, _, _, length = packing.mask.shape  # of a tensor, so that a compiler need not know them
            parts = qkv.view(samples, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
            mixed = padded_attention(parts[0], parts[1], parts[2], packing.mask, probability).transpose(1, 2).reshape(rows, hidden)
        x = self.norm1(x + functional.dropout(self.out(mixed), probability))
        inner = functional.gelu(self.fc1(x), approximate=self.gelu)
        return self.norm2(x + functional.dropout(self.fc2(inner), probability))


class Embedding(nn.Module):
    def __init__(self, vocabulary, hidden, dropout, positions=512):
        super().__init__()
        self.dropout = dropout
        self.word, self.position, self.segment = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, ids, positions, types):
        x = self.norm(self.word(ids) + self.position(positions) + self.segment(types))
        return functional.dropout(x, self.dropout, self.training)


class Head(nn.Module):
    """Mean MLM loss over labelled rows plus mean next-sentence loss."""

    def __init__(self, vocabulary, hidden, gelu):
        super().__init__()
        self.gelu = gelu
        self.transform, self.norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.pooler, self.next = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)

    def forward(self, x, word, batch):
        masked = self.norm(functional.gelu(self.transform(x[batch["masked"]]), approximate=self.gelu))
        logits = functional.linear(masked, word, self.bias)
        pooled = torch.tanh(self.pooler(x[batch["first"]]))
        return (functional.cross_entropy(logits.float(), batch["labels"], ignore_index=-100)
                + functional.cross_entropy(self.next(pooled).float(), batch["next"]))


class Bert(nn.Module):
    def __init__(self, model, vocabulary, dropout, gelu):
        super().__init__()
        layers, hidden = SIZES[model]
        self.embedding = Embedding(vocabulary, hidden, dropout)
        self.layers = nn.ModuleList(Layer(hidden, max(1, hidden // 64), dropout, gelu) for _ in range(layers))
        self.head = Head(vocabulary, hidden, gelu)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, batch):
        x = self.embedding(batch["ids"], batch["positions"], batch["types"])
        for layer in self.layers:
            x = layer(x, batch["packing"])
        return self.head(x, self.embedding.word.weight, batch)


def from_hugging_face(state):
    """The state of a Bert from that of transformers' BertForPreTraining."""
    made = {}
    names = {"bert.embeddings.word_embeddings": "embedding.word", "bert.embeddings.position_embeddings": "embedding.position",
             "bert.embeddings.token_type_embeddings": "embedding.segment", "bert.embeddings.LayerNorm": "embedding.norm",
             "bert.pooler.dense": "head.pooler", "cls.seq_relationship": "head.next",
             "cls.predictions.transform.dense": "head.transform", "cls.predictions.transform.LayerNorm": "head.norm"}
    for name, value in state.items():
        stem, _, kind = name.rpartition(".")
        if stem in names:
            made[f"{names[stem]}.{kind}"] = value
        elif name == "cls.predictions.bias":
            made["head.bias"] = value
    layers = 1 + max(int(name.split(".")[3]) for name in state if name.startswith("bert.encoder.layer."))
    inner = {"attention.output.dense": "out", "attention.output.LayerNorm": "norm1", "intermediate.dense": "fc1",
             "output.dense": "fc2", "output.LayerNorm": "norm2"}
    for layer in range(layers):
        prefix = f"bert.encoder.layer.{layer}."
        for kind in ("weight", "bias"):
            made[f"layers.{layer}.qkv.{kind}"] = torch.cat([state[f"{prefix}attention.self.{part}.{kind}"] for part in ("query", "key", "value")])
            for theirs, ours in inner.items():
                made[f"layers.{layer}.{ours}.{kind}"] = state[f"{prefix}{theirs}.{kind}"]
    return made
