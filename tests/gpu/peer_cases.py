"""The peer's options, and which configurations are run, the most telling first: the stage may be cut
off. Imports nothing of PyTorch."""
import argparse

MODELS = ("tiny", "mini", "small", "medium", "base", "large")
MODES = ("padded", "longest", "bucketed", "packed")

HANDICAPS = [
    "regatta: products in bfloat16 with float32 master weights; the peer's autocast keeps float32 weights and residuals, its pure "
    "bfloat16 keeps no float32 copy at all (faster, and less exact than either)",
    "the peer draws dropout masks anew and keeps them; regatta draws them again in backward",
    "neither side's input pipeline is timed; the peer's batches lie on the GPU before the clock starts, regatta's are copied within the step",
    "plain is this repository's own model (MLM head on masked positions, vocabulary padded to 30528); hf is transformers' "
    "BertForPreTraining as it comes (head on all positions, vocabulary 30522)",
    "bucketed sorts the samples of the whole measurement by length, the best that bucketing can do; it changes which samples share a batch",
    "torch.compile is per layer and for the head, with dynamic shapes but for padded; no CUDA graphs, no FlashAttention 3 package",
    "packed runs torch's own FlashAttention 2 operator on cumulative lengths, which torch does not document for training with dropout",
]


def gpu_cases():
    def step(implementation, model, mode, precision, *more, samples="96", steps="12"):
        return ["step", "--implementation", implementation, "--model", model, "--mode", mode, "--precision", precision,
                "--samples", samples, "--steps", steps, *more]
    return [
        ["check", "--model", "mini"],
        step("plain", "large", "packed", "autocast", "--compile"),
        step("plain", "large", "bucketed", "autocast", "--compile"),
        step("plain", "large", "padded", "autocast", "--compile"),
        step("hf", "large", "padded", "autocast"),
        step("plain", "large", "packed", "pure", "--compile"),
        step("plain", "base", "packed", "autocast", "--compile"),
        ["attention", "--model", "large", "--samples", "96"],
        step("hf", "base", "padded", "autocast"),
        step("plain", "large", "packed", "autocast"),
        step("plain", "large", "bucketed", "pure", "--compile"),
        step("plain", "base", "bucketed", "autocast", "--compile"),
        step("plain", "large", "padded", "autocast", "--compile", "--cudnn"),
        step("plain", "large", "longest", "autocast"),
        step("hf", "large", "bucketed", "autocast"),
        step("hf", "large", "padded", "autocast", "--compile"),
        step("plain", "base", "packed", "pure", "--compile"),
        step("plain", "large", "padded", "pure", "--compile"),
        ["attention", "--model", "base", "--samples", "96"],
    ]


def cpu_cases():
    return [["check", "--model", "tiny"],
            *(["step", "--implementation", "plain", "--model", "tiny", "--mode", mode, "--precision", "float32", "--samples", "2",
               "--steps", "1", "--warmup", "1"] for mode in ("bucketed", "packed"))]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="peer.py", description="the same training step in PyTorch; prints one JSON")
    parser.add_argument("what", choices=["step", "attention", "check"])
    parser.add_argument("--implementation", choices=["plain", "hf"], default="plain")
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--mode", choices=MODES, default="padded")
    parser.add_argument("--precision", choices=["float32", "autocast", "pure"], default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cudnn", action="store_true", help="cuDNN's attention only")
    parser.add_argument("--lengths", required=True, help="length table (low,high,fraction lines)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--samples", type=int, default=16, help="per step")
    parser.add_argument("--steps", type=int, default=10, help="measured")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=30528, help="of plain: 30522 rounded up")
    options = parser.parse_args(arguments)
    if options.implementation == "hf" and options.mode == "packed":
        parser.error("transformers' model is not packed")
    return options
