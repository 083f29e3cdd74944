"""What BERT-large should reach on one H200, and what the stages' results say of it. Each goal has up to three
steps: first, next, aim. Rates are of bfloat16, dropout 0.1 and the Wikipedia lengths."""

DROPOUT = 0.1


def results_of(outcomes, stage):
    """Of the stage itself, and of `first` what that one would measure."""
    own = [entry["result"] for entry in outcomes.get(stage, {}).get("results", []) if "result" in entry]
    others = [entry["result"] for entry in outcomes.get("first", {}).get("results", []) if isinstance(entry.get("result"), dict)]
    return own + [result for result in others if result.get("benchmark") == stage]


def matches(result, **wanted):
    return all(result.get(key) == value for key, value in wanted.items())


def best(values):
    """The largest (value, from) or None."""
    return max(values, key=lambda pair: pair[0], default=None)


def step_rate(outcomes, samples):
    return best([(result["samples_per_second"], f"attention {result['attention']}")
                 for result in results_of(outcomes, "step")
                 if matches(result, model="large", dtype="bfloat16", optimizer="lamb", samples_per_step=samples, dropout=DROPOUT)])


def padded_peer(outcomes):
    return best([(result["samples_per_second"], f"{result['implementation']} {result['mode']} {result['precision']}"
                  + (" compiled" if result["compile"] else ""))
                 for result in results_of(outcomes, "peer")
                 if result.get("benchmark") == "peer" and result["model"] == "large" and result["mode"] in ("padded", "longest")])


def kernel_runs(outcomes):
    return [result for result in results_of(outcomes, "kernels")
            if matches(result, model="large", dtype="bfloat16", samples=96, dropout=DROPOUT)]


def kernel(result, name):
    return next(entry for entry in result["kernels"] if entry["name"] == name)


def attention_rate(outcomes):
    """TFLOP/s of forward and backward together: 14·hidden·Σs² FLOP over the sum of their times."""
    def rate(result):
        both = [kernel(result, f"attention.{way}") for way in ("forward", "backward")]
        return sum(entry["flop"] for entry in both) / sum(entry["seconds"] for entry in both) / 1e12
    return best([(rate(result), f"attention {result['attention']}") for result in kernel_runs(outcomes)
                 if result["attention"] != "reference"])


def torch_attention(outcomes):
    return best([(case["both_tflop_per_second"], "torch's variable-length attention")
                 for result in results_of(outcomes, "peer") if matches(result, benchmark="peer attention", model="large")
                 for case in result["cases"] if case["dropout"] > 0])


def percent(outcomes, names):
    """The least of the kernels' shares of the copy's bandwidth, in the run where that is largest."""
    return best([min((kernel(result, name)["percent_of_ceiling"], name) for name in names) for result in kernel_runs(outcomes)])


def idle_percent(outcomes):
    shares = [(100 * result["idle_share"], f"{result['samples_per_step']} samples") for result in results_of(outcomes, "step")
              if "idle_share" in result and matches(result, model="large", dtype="bfloat16", samples_per_step=96, optimizer="lamb", graphs=True)]
    return min(shares, default=None)


def ratio(one, other):
    return (one[0] / other[0], f"{one[1]} / {other[1]}") if one and other else None


def goals(outcomes):
    """A list of {goal, asked, measured, from, reached}; asked is [first, next, aim], reached how many of them."""
    rate, attention = step_rate(outcomes, 96), attention_rate(outcomes)
    table = [
        ("samples/s, 96 a step, LAMB", [850, 1000, 1100], rate),
        ("samples/s, 256 a step, LAMB", [], step_rate(outcomes, 256)),
        ("samples/s to the peer's best padded", [1.9, 2.5], ratio(rate, padded_peer(outcomes))),
        ("attention forward and backward, TFLOP/s", [200, 240, 280], attention),
        ("attention to torch's variable-length one", [1.2], ratio(attention, torch_attention(outcomes))),
        ("LayerNorm, % of the copy's bandwidth", [80], percent(outcomes, ["layer_norm.forward", "layer_norm.backward"])),
        ("optimizer, % of the copy's bandwidth", [85], percent(outcomes, ["update.lamb", "update.adamw"])),
    ]
    lines = [{"goal": goal, "asked": asked, "measured": found[0] if found else None, "from": found[1] if found else "not measured",
              "reached": sum(found is not None and found[0] >= step for step in asked)} for goal, asked, found in table]
    idle = idle_percent(outcomes)
    lines.append({"goal": "GPU idle between steps, % (less is better)", "asked": [2], "measured": idle[0] if idle else None,
                  "from": idle[1] if idle else "not measured", "reached": int(idle is not None and idle[0] < 2)})
    return lines


def text_of(line):
    asked = ", ".join(f"{step:g}" for step in line["asked"])
    if line["measured"] is None:
        return f"{line['goal']}: not measured (asked {asked or 'nothing'})"
    reached = f"; reached {line['reached']} of {len(line['asked'])} (asked {asked})" if asked else ""
    return f"{line['goal']}: {line['measured']:.4g} ({line['from']}){reached}"
