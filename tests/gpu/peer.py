#!/usr/bin/env python3
"""The peer of `regatta-train bench step`: the same work in PyTorch. Prints one JSON.

    peer.py step --implementation plain --model large --mode bucketed --precision autocast --compile
    peer.py attention      torch's variable-length attention by itself, forward and backward
    peer.py check          the peer's own variants agree with each other, and with transformers

`peer.py --help` tells the options (peer_cases.py).
"""
import contextlib
import json
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_cases  # noqa: E402
import peer_data  # noqa: E402
from peer_model import SIZES, Bert, from_hugging_face  # noqa: E402

DROPOUT = 0.1


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def hugging_face(model, dropout):
    from transformers import BertConfig, BertForPreTraining
    layers, hidden = SIZES[model]
    config = BertConfig(vocab_size=30522, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=max(1, hidden // 64),
                        intermediate_size=4 * hidden, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
                        hidden_act="gelu_pytorch_tanh", attn_implementation="sdpa")
    return BertForPreTraining(config)


def make_model(options):
    torch.manual_seed(1)
    if options.implementation == "hf":
        model = hugging_face(options.model, DROPOUT)
    else:
        model = Bert(options.model, options.vocabulary, DROPOUT, "tanh")
    model = model.to(options.device).train()
    if options.precision == "pure":
        model = model.to(torch.bfloat16)
    if options.compile:
        from torch import _dynamo
        _dynamo.config.cache_size_limit = 64
        dynamic = False if options.mode == "padded" else True
        layers = model.bert.encoder.layer if options.implementation == "hf" else model.layers
        for layer in layers:
            layer.compile(dynamic=dynamic)
        if options.implementation == "plain":
            model.embedding.compile(dynamic=dynamic)
            model.head.compile(dynamic=True)
    return model


def loss_of(options, model, batch):
    autocast = torch.autocast(options.device, dtype=torch.bfloat16) if options.precision == "autocast" else contextlib.nullcontext()
    with autocast:
        if options.implementation == "hf":
            return model(**peer_data.hugging_face_inputs(batch)).loss
        return model(batch)


def attention_kernels(options):
    if not options.cudnn:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION])


class Training:
    """A model, its optimizer and its batches; micro-batches split a step where memory is short."""

    def __init__(self, options, micro):
        self.options, self.micro = options, micro
        ranges = peer_data.read_lengths(options.lengths)
        self.lengths = peer_data.draw_lengths(ranges, options.samples, options.steps, 512)
        if options.mode == "bucketed":
            self.lengths = peer_data.in_buckets(self.lengths)
        self.model = make_model(options)
        fused = {"fused": True} if options.device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, **fused)
        vocabulary = 30522 if options.implementation == "hf" else min(30522, options.vocabulary)
        size = -(-options.samples // micro)
        self.batches = [[peer_data.make_batch(step[i:i + size], options.mode, vocabulary, options.device, 1000 * number + i)
                         for i in range(0, len(step), size)] for number, step in enumerate(self.lengths)]

    def step(self, number):
        for batch in self.batches[number]:
            loss = loss_of(self.options, self.model, batch) / len(self.batches[number])
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def rows(self):
        return sum(batch["ids"].numel() for step in self.batches for batch in step)


def measure(options, micro):
    training = Training(options, micro)
    device = options.device
    with attention_kernels(options):
        first = None
        for number in range(options.warmup):  # the longest first: memory and shapes are found here
            order = sorted(range(options.steps), key=lambda i: -training.batches[i][0]["ids"].numel())
            loss = training.step(order[number % len(order)])
            first = first if first is not None else loss.item()
        for number in range(options.steps):  # every shape once before the clock starts
            training.step(number)
        seconds = []
        synchronize(device)
        begin = time.monotonic()
        for number in range(options.steps):
            loss = training.step(number)
        synchronize(device)
        total = time.monotonic() - begin
        for number in range(min(options.steps, 6)):  # single steps for their spread, apart from the rate
            start = time.monotonic()
            training.step(number)
            synchronize(device)
            seconds.append(time.monotonic() - start)
    layers, hidden = SIZES[options.model]
    tokens = sum(map(sum, training.lengths))
    samples = options.samples * options.steps
    return {
        "benchmark": "peer", "implementation": options.implementation, "model": options.model, "mode": options.mode,
        "precision": options.precision, "compile": options.compile, "cudnn_attention": options.cudnn, "optimizer": "adamw",
        "dropout": DROPOUT, "gelu": "tanh", "vocabulary": 30522 if options.implementation == "hf" else options.vocabulary,
        "parameters": sum(p.numel() for p in training.model.parameters()), "lengths": pathlib.Path(options.lengths).name,
        "mean_length": tokens / samples, "padding_share": 1 - tokens / training.rows(), "samples_per_step": options.samples,
        "micro_batches": micro, "steps": options.steps, "samples_per_second": samples / total, "tokens_per_second": tokens / total,
        "gflop_per_second": peer_data.training_flops(layers, hidden, 30522, training.lengths) / total / 1e9,
        "step_seconds": {"mean": total / options.steps, "median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)},
        "loss_first": first, "loss_last": loss.item() * micro, "torch": torch.__version__,
        "peak_device_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
    }


def run_step(options):
    micro = 1
    while True:
        try:
            return measure(options, micro)
        except torch.cuda.OutOfMemoryError:
            if micro >= options.samples:
                raise
        micro *= 2
        torch.cuda.empty_cache()


def median_seconds(call, repetitions=15, calls=10):
    """Of one call, by events around batches of calls."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000 / calls)
    return statistics.median(times)


def run_attention(options):
    """TFLOP/s by the rule of `bench kernels`: 4·hidden·Σs² forward, 2.5 times that backward."""
    if options.device != "cuda":
        raise SystemExit("peer.py attention: needs a GPU")
    from peer_model import packed_attention
    _, hidden = SIZES[options.model]
    (lengths,) = peer_data.draw_lengths(peer_data.read_lengths(options.lengths), options.samples, 1, 512)
    offsets = torch.cumsum(torch.tensor([0, *lengths]), 0).int().cuda()
    work = 4.0 * hidden * sum(length**2 for length in lengths)
    results = []
    for probability in (DROPOUT, 0.0):
        qkv = [torch.randn(sum(lengths), hidden // 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        with torch.no_grad():
            forward = median_seconds(lambda: packed_attention(*qkv, offsets, 512, probability))
        out = packed_attention(*qkv, offsets, 512, probability)
        gradient = torch.randn_like(out)
        backward = median_seconds(lambda: torch.autograd.grad(out, qkv, gradient, retain_graph=True))
        results.append({"dropout": probability, "forward_seconds": forward, "backward_seconds": backward,
                        "forward_tflop_per_second": work / forward / 1e12, "backward_tflop_per_second": 2.5 * work / backward / 1e12,
                        "both_tflop_per_second": 3.5 * work / (forward + backward) / 1e12})
    side = 8192
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * side**3 / median_seconds(lambda: a @ b.t()) / 1e12
    return {"benchmark": "peer attention", "model": options.model, "samples": options.samples, "tokens": sum(lengths),
            "flop_forward": work, "cases": results, "product_tflop_per_second": product, "torch": torch.__version__}


def run_check(options):
    """Without dropout, the same samples give the same loss however they are laid out."""
    problems, losses = [], {}
    layers, _ = SIZES[options.model]
    torch.manual_seed(3)
    model = Bert(options.model, 30522, 0.0, "tanh").to(options.device).eval()
    reference = None
    try:
        reference = hugging_face(options.model, 0.0).to(options.device).eval()
        missing = model.load_state_dict(from_hugging_face(reference.state_dict()), strict=True)
        problems += [f"loading transformers' weights: {missing}"] if missing.missing_keys else []
    except ImportError:
        losses["transformers"] = "absent"
    precision = torch.autocast(options.device, dtype=torch.bfloat16) if options.device == "cuda" else contextlib.nullcontext()
    with torch.no_grad(), precision:
        for mode in peer_cases.MODES:
            batch = peer_data.make_batch([70, 33, 5, 64], mode, 30522, options.device, 7)
            losses[mode] = model(batch).item()
            if mode == "longest" and reference is not None:
                losses["transformers"] = reference(**peer_data.hugging_face_inputs(batch)).loss.item()
    allowed = 2e-3 if options.device == "cuda" else 1e-5  # bfloat16 products; float32
    values = [value for value in losses.values() if isinstance(value, float)]
    if not all(abs(value - values[0]) <= allowed * abs(values[0]) for value in values):
        problems.append(f"the losses differ: {losses}")
    if len(values) < len(peer_cases.MODES) or layers < 1:
        problems.append(f"some layouts gave no loss: {losses}")
    if problems:
        raise SystemExit("peer.py check: " + "; ".join(problems))
    return {"benchmark": "peer check", "model": options.model, "losses": losses, "torch": torch.__version__}


def main():
    options = peer_cases.parse(sys.argv[1:])
    torch.set_float32_matmul_precision("high")
    result = {"step": run_step, "attention": run_attention, "check": run_check}[options.what](options)
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
