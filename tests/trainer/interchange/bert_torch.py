#!/usr/bin/env python3
"""BERT on PyTorch's bare operations, written from the papers and config.json as bert.py is, whose output it
has; of that it shares the reader of safetensors only. "single" is PyTorch's own float32 on one thread.

    bert_torch.py DIRECTORY SAMPLES.json
"""
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional

sys.dont_write_bytecode = True
import bert  # noqa: E402


class Bert:
    def __init__(self, config, tensors, dtype):
        self.config = config
        self.weights = {name: torch.tensor(values.tolist(), dtype=torch.float32).reshape(shape).to(dtype)
                        for name, (shape, values) in tensors.items()}

    def gelu(self, x):
        if self.config["hidden_act"] == "gelu":
            return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        assert self.config["hidden_act"] == "gelu_new"
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def linear(self, name, x):
        return functional.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def layer_norm(self, name, x):
        return functional.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"], self.weights[name + ".bias"],
                                     self.config["layer_norm_eps"])

    def attention(self, prefix, x):
        heads = self.config["num_attention_heads"]
        query, key, value = (self.linear(prefix + part, x).reshape(len(x), heads, -1).transpose(0, 1)
                             for part in ("query", "key", "value"))
        weights = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]), dim=-1)
        return (weights @ value).transpose(0, 1).reshape(x.shape)

    def encode(self, sample):
        table = "bert.embeddings.{}_embeddings.weight"
        length = len(sample["ids"])
        x = (self.weights[table.format("word")][sample["ids"]] + self.weights[table.format("position")][:length]
             + self.weights[table.format("token_type")][sample["types"]])
        x = self.layer_norm("bert.embeddings.LayerNorm", x)
        for layer in range(self.config["num_hidden_layers"]):
            of_layer = f"bert.encoder.layer.{layer}."
            mixed = self.linear(of_layer + "attention.output.dense", self.attention(of_layer + "attention.self.", x))
            x = self.layer_norm(of_layer + "attention.output.LayerNorm", x + mixed)
            wide = self.gelu(self.linear(of_layer + "intermediate.dense", x))
            x = self.layer_norm(of_layer + "output.LayerNorm", x + self.linear(of_layer + "output.dense", wide))
        return x

    def logits(self, sample):
        hidden = self.encode(sample)
        if "qa_outputs.weight" in self.weights:
            return {"span": self.linear("qa_outputs", hidden).tolist()}
        masked = self.gelu(self.linear("cls.predictions.transform.dense", hidden[sample["masked_positions"]]))
        masked = self.layer_norm("cls.predictions.transform.LayerNorm", masked)
        words = self.weights["bert.embeddings.word_embeddings.weight"]
        return {
            "mlm": functional.linear(masked, words, self.weights["cls.predictions.bias"]).tolist(),
            "nsp": self.linear("cls.seq_relationship", torch.tanh(self.linear("bert.pooler.dense", hidden[0]))).tolist(),
        }


def main():
    torch.set_num_threads(1)
    config, tensors = bert.read_model(pathlib.Path(sys.argv[1]))
    samples = json.loads(pathlib.Path(sys.argv[2]).read_text())
    with torch.no_grad():
        json.dump({name: [Bert(config, tensors, dtype).logits(sample) for sample in samples]
                   for name, dtype in (("double", torch.float64), ("single", torch.float32))}, sys.stdout)


if __name__ == "__main__":
    main()
