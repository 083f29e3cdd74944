#!/usr/bin/env python3
"""BERT in plain Python, written from the paper and config.json alone (Devlin et al., arXiv 1810.04805;
Vaswani et al., arXiv 1706.03762; Hendrycks and Gimpel, arXiv 1606.08415): an oracle that shares
nothing with the trainer, not even a library.

    bert.py DIRECTORY SAMPLES.json
    bert.py DIRECTORY

SAMPLES.json is a list of {"ids": […], "types": […], "masked_positions": […]}. Prints a JSON object with
"double" and "single", each a list of {"mlm": [positions][vocabulary], "nsp": [2]} for a BertForPreTraining,
{"span": [tokens][2]} for a BertForQuestionAnswering, {"classes": [labels]} for a
BertForSequenceClassification: logits computed in float64, and as the simplest float32
program would, rounding after every single operation. Either way names and shapes of all tensors must be
exactly those that `transformers` expects; without samples it prints them.
"""
import array
import json
import math
import pathlib
import struct
import sys


def read_safetensors(path):
    """{name: (shape, array of values)} of a .safetensors file whose tensors are all F32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__")["format"] == "pt", "transformers refuse a file without format"
    body = memoryview(data)[8 + length :]
    tensors, end_of_last = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(tensor) == {"dtype", "shape", "data_offsets"} and tensor["dtype"] == "F32", name
        begin, end = tensor["data_offsets"]
        assert begin == end_of_last and end - begin == 4 * math.prod(tensor["shape"]), name
        values = array.array("f")
        values.frombytes(body[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name] = (tensor["shape"], values)
        end_of_last = end
    assert end_of_last == len(body), "bytes beyond the tensors"
    return tensors


def expected_tensors(config):
    """{name: shape} as transformers' modeling_bert.py names them, tied copies left out."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    (model,) = config["architectures"]
    tensors = {}

    def linear(name, outputs, inputs):
        tensors[name + ".weight"], tensors[name + ".bias"] = [outputs, inputs], [outputs]

    def layer_norm(name):
        tensors[name + ".weight"], tensors[name + ".bias"] = [hidden], [hidden]

    prefix = "" if model == "BertModel" else "bert."
    for name, rows in (("word", "vocab_size"), ("position", "max_position_embeddings"), ("token_type", "type_vocab_size")):
        tensors[f"{prefix}embeddings.{name}_embeddings.weight"] = [config[rows], hidden]
    layer_norm(prefix + "embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        of_layer = f"{prefix}encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(of_layer + "attention.self." + part, hidden, hidden)
        linear(of_layer + "attention.output.dense", hidden, hidden)
        layer_norm(of_layer + "attention.output.LayerNorm")
        linear(of_layer + "intermediate.dense", wide, hidden)
        linear(of_layer + "output.dense", hidden, wide)
        layer_norm(of_layer + "output.LayerNorm")
    if model != "BertForQuestionAnswering":
        linear(prefix + "pooler.dense", hidden, hidden)
    if model == "BertForQuestionAnswering":
        linear("qa_outputs", 2, hidden)
    elif model == "BertForSequenceClassification":
        # PretrainedConfig.num_labels: as many as id2label names; without it 2.
        linear("classifier", len(config.get("id2label", "01")), hidden)
    elif model == "BertForPreTraining":
        tensors["cls.predictions.bias"] = [config["vocab_size"]]
        linear("cls.predictions.transform.dense", hidden, hidden)
        layer_norm("cls.predictions.transform.LayerNorm")
        linear("cls.seq_relationship", 2, hidden)
    else:
        assert model == "BertModel", model
    return tensors


def read_model(directory):
    """config.json and the tensors of an exported directory, checked against each other."""
    config = json.loads((directory / "config.json").read_text())
    tensors = read_safetensors(directory / "model.safetensors")
    assert config["model_type"] == "bert" and config["tie_word_embeddings"]
    expected = expected_tensors(config)
    missing, unexpected = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    assert not missing and not unexpected, f"missing {missing}, unexpected {unexpected}"
    for name, (shape, _) in tensors.items():
        assert shape == expected[name], f"{name}: {shape}, not {expected[name]}"
    pieces = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert len(pieces) == config["vocab_size"] and pieces[config["pad_token_id"]] == "[PAD]"
    return config, tensors


class Double:
    """Arithmetic in float64."""

    @staticmethod
    def round(value):
        return value

    @staticmethod
    def dot(a, b):
        return math.fsum(map(float.__mul__, a, b))

    @staticmethod
    def sum(values):
        return math.fsum(values)


class Single:
    """Arithmetic in float32: one operation in float64, then rounded, is the float32 operation."""

    _one = struct.Struct("f")

    @classmethod
    def round(cls, value):
        return cls._one.unpack(cls._one.pack(value))[0]

    @classmethod
    def dot(cls, a, b):
        return cls.sum(array.array("f", map(float.__mul__, a, b)))

    @classmethod
    def sum(cls, values):
        pack, unpack, total = cls._one.pack, cls._one.unpack, 0.0
        for value in values:
            (total,) = unpack(pack(total + value))
        return total


class Bert:
    def __init__(self, config, tensors, arithmetic):
        self.config, self.a = config, arithmetic
        self.tensors = tensors
        self.heads = config["num_attention_heads"]
        self.gelu = {"gelu": self.gelu_erf, "gelu_new": self.gelu_tanh}[config["hidden_act"]]

    def vector(self, name):
        return list(self.tensors[name][1])

    def rows(self, name):
        (count, width), values = self.tensors[name]
        return [list(values[i * width : (i + 1) * width]) for i in range(count)]

    def gelu_erf(self, x):
        r = self.a.round
        inner = r(1 + r(math.erf(r(x * r(1 / math.sqrt(2))))))
        return r(r(0.5 * x) * inner)

    def gelu_tanh(self, x):
        r = self.a.round
        cube = r(r(x * x) * x)
        inner = r(r(math.sqrt(2 / math.pi)) * r(x + r(r(0.044715) * cube)))
        return r(r(0.5 * x) * r(1 + r(math.tanh(inner))))

    def linear(self, name, inputs):
        """inputs [n][in] → [n][out] with weight [out][in]."""
        weight, bias = self.rows(name + ".weight"), self.vector(name + ".bias")
        return self.product(inputs, weight, bias)

    def product(self, inputs, weight, bias):
        r, dot = self.a.round, self.a.dot
        return [[r(dot(x, w) + b) for w, b in zip(weight, bias)] for x in inputs]

    def add(self, a, b):
        r = self.a.round
        return [[r(x + y) for x, y in zip(p, q)] for p, q in zip(a, b)]

    def layer_norm(self, name, inputs):
        r = self.a.round
        gamma, beta = self.vector(name + ".weight"), self.vector(name + ".bias")
        epsilon = r(self.config["layer_norm_eps"])
        outputs = []
        for x in inputs:
            mean = r(self.a.sum(x) / len(x))
            centred = [r(v - mean) for v in x]
            variance = r(self.a.sum(r(v * v) for v in centred) / len(x))
            scale = r(1 / r(math.sqrt(r(variance + epsilon))))
            outputs.append([r(r(r(v * scale) * g) + b) for v, g, b in zip(centred, gamma, beta)])
        return outputs

    def softmax(self, scores):
        r, most = self.a.round, max(scores)
        powers = [r(math.exp(r(score - most))) for score in scores]
        total = self.a.sum(powers)
        return [r(power / total) for power in powers]

    def attention(self, prefix, inputs):
        r, dot = self.a.round, self.a.dot
        query, key, value = (self.linear(prefix + part, inputs) for part in ("query", "key", "value"))
        size = self.config["hidden_size"] // self.heads
        outputs = [[] for _ in inputs]
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            q, k = [x[part] for x in query], [x[part] for x in key]
            columns = list(zip(*(x[part] for x in value)))
            for position, vector in enumerate(q):
                weights = self.softmax([r(dot(vector, other) / r(math.sqrt(size))) for other in k])
                outputs[position] += [dot(weights, column) for column in columns]
        return outputs

    def encode(self, ids, types):
        words = self.rows("bert.embeddings.word_embeddings.weight")
        places = self.rows("bert.embeddings.position_embeddings.weight")
        kinds = self.rows("bert.embeddings.token_type_embeddings.weight")
        hidden = self.add([words[i] for i in ids], places[: len(ids)])
        hidden = self.add(hidden, [kinds[t] for t in types])
        hidden = self.layer_norm("bert.embeddings.LayerNorm", hidden)
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"bert.encoder.layer.{layer}."
            mixed = self.attention(prefix + "attention.self.", hidden)
            mixed = self.linear(prefix + "attention.output.dense", mixed)
            hidden = self.layer_norm(prefix + "attention.output.LayerNorm", self.add(mixed, hidden))
            wide = self.linear(prefix + "intermediate.dense", hidden)
            wide = [[self.gelu(x) for x in row] for row in wide]
            narrow = self.linear(prefix + "output.dense", wide)
            hidden = self.layer_norm(prefix + "output.LayerNorm", self.add(narrow, hidden))
        return hidden

    def logits(self, sample):
        r = self.a.round
        hidden = self.encode(sample["ids"], sample["types"])
        if "qa_outputs.weight" in self.tensors:
            return {"span": self.linear("qa_outputs", hidden)}
        pooled = self.linear("bert.pooler.dense", hidden[:1])
        pooled = [[r(math.tanh(x)) for x in row] for row in pooled]
        if "classifier.weight" in self.tensors:
            return {"classes": self.linear("classifier", pooled)[0]}
        masked = [hidden[position] for position in sample["masked_positions"]]
        masked = self.linear("cls.predictions.transform.dense", masked)
        masked = [[self.gelu(x) for x in row] for row in masked]
        masked = self.layer_norm("cls.predictions.transform.LayerNorm", masked)
        words = self.rows("bert.embeddings.word_embeddings.weight")
        return {
            "mlm": self.product(masked, words, self.vector("cls.predictions.bias")),
            "nsp": self.linear("cls.seq_relationship", pooled)[0],
        }


def main():
    config, tensors = read_model(pathlib.Path(sys.argv[1]))
    if len(sys.argv) == 2:
        json.dump({name: shape for name, (shape, _) in tensors.items()}, sys.stdout)
        return
    samples = json.loads(pathlib.Path(sys.argv[2]).read_text())
    result = {
        name: [Bert(config, tensors, arithmetic).logits(sample) for sample in samples]
        for name, arithmetic in (("double", Double), ("single", Single))
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
