"""The rules of MLPerf Training's compliance checker for logs of BERT, round 4.1, closed division; in plain Python.

Written from the published rule files (mlcommons/logging, training_4.1.0: common, closed_common and closed_bert), of which
../shared/data/mlperf_logs has two; it shares nothing with what writes or reads logs in Regatta.

    mlperf_rules.py FILE…      prints what each breaks; 1 where one does
"""
import json
import sys

EXACTLY_ONE = """submission_org submission_platform submission_division submission_benchmark gradient_accumulation_steps
init_stop run_start run_stop train_samples eval_samples global_batch_size opt_base_learning_rate opt_lamb_epsilon
opt_learning_rate_training_steps opt_learning_rate_warmup_steps num_warmup_steps start_warmup_step opt_lamb_beta_1
opt_lamb_beta_2 opt_lamb_weight_decay_rate""".split()
AT_LEAST_ONE = ["cache_clear", "init_start", "eval_accuracy"]
ONE_OF = [("block_start", "epoch_start"), ("block_stop", "epoch_stop"), ("eval_start", "block_start"),
          ("eval_stop", "block_stop")]
FIELDS = ("namespace", "time_ms", "event_type", "key", "value", "metadata")
BENCHMARKS = ("resnet ssd stable_diffusion maskrcnn gpt3 dlrm_dcnv2 bert rnnt unet3d gnn llama2_70b_lora").split()
INIT_MINUTES = {"open": 240, "closed": 30}
TARGET = 0.720


def lines_of(text):
    """(number, object) of each line of the log; an object is None where the line is damaged."""
    for number, line in enumerate(text.splitlines(), 1):
        at = line.find(":::MLLOG")
        if at < 0:
            continue
        try:
            found = json.loads(line[at + len(":::MLLOG"):])
        except ValueError:
            found = None
        good = isinstance(found, dict) and all(field in found for field in FIELDS) \
            and isinstance(found["metadata"], dict) and isinstance(found["key"], str)
        yield number, found if good else None


def broken(text):
    """What a log breaks, one line each; none for a good one."""
    wrong, count = [], {}
    init_started = init_stopped = run_started = False
    first_init, minutes, best_is_enough = float("inf"), 0, False

    def check(number, rule, holds):
        if not holds:
            wrong.append(f"line {number}: {rule}")

    for number, line in lines_of(text):
        if line is None:
            wrong.append(f"line {number}: damaged")
            continue
        key, value, metadata, time = line["key"], line["value"], line["metadata"], line["time_ms"]
        count[key] = count.get(key, 0) + 1
        epoch_or_samples = "epoch_num" in metadata or "samples_count" in metadata
        if key in ("submission_org", "submission_platform", "train_samples", "eval_samples"):
            check(number, f"{key} is empty", value != "")
        elif key == "submission_division":
            check(number, "division is neither closed nor open", value in ("closed", "open"))
            minutes = INIT_MINUTES.get(value, 0)
        elif key == "submission_benchmark":
            check(number, "unknown benchmark", value in BENCHMARKS)
        elif key == "gradient_accumulation_steps":
            check(number, "gradient_accumulation_steps is not positive", value > 0)
        elif key == "init_start":
            check(number, "init_start after init_stop", not init_stopped)
            check(number, "init_start after run_start", not run_started)
            init_started, first_init = True, min(first_init, time)
        elif key == "init_stop":
            check(number, "init_stop before init_start", init_started)
            check(number, "init_stop after run_start", not run_started)
            check(number, "initialization took too long", time - first_init < minutes * 60000)
            init_stopped = True
        elif key == "run_start":
            check(number, "run_start before init_stop", init_stopped)
            run_started = True
        elif key == "run_stop":
            check(number, "run_stop before run_start", run_started)
            check(number, "run_stop without a status", "status" in metadata)
        elif key == "block_start":
            check(number, "block_start before run_start", run_started)
            check(number, "block_start without epoch_count or samples_count",
                  "epoch_count" in metadata or "samples_count" in metadata)
            if "epoch_count" in metadata:
                check(number, "block_start without first_epoch_num", "first_epoch_num" in metadata)
                check(number, "block_start without epochs", metadata["epoch_count"] > 0)
            check(number, "block_start of negative samples", metadata.get("samples_count", 0) >= 0)
        elif key == "block_stop":
            check(number, "block_stop without first_epoch_num or samples_count",
                  "first_epoch_num" in metadata or "samples_count" in metadata)
        elif key in ("epoch_start", "epoch_stop"):
            check(number, f"{key} without epoch_num", "epoch_num" in metadata)
        elif key in ("eval_start", "eval_stop"):
            check(number, f"{key} without epoch_num or samples_count", epoch_or_samples)
        elif key == "eval_accuracy":  # closed_bert's rule replaces the common one
            check(number, "eval_accuracy without epoch_num", "epoch_num" in metadata)
            best_is_enough = best_is_enough or TARGET <= value < 1
    for key in EXACTLY_ONE:
        if count.get(key, 0) != 1:
            wrong.append(f"{key} is there {count.get(key, 0)} times, not once")
    for key in AT_LEAST_ONE:
        if not count.get(key):
            wrong.append(f"{key} is missing")
    for either, other in ONE_OF:
        if not count.get(either) and not count.get(other):
            wrong.append(f"neither {either} nor {other} is there")
    if not best_is_enough:
        wrong.append("no eval_accuracy of at least 0.72 and below 1")
    return wrong


def status_of(text):
    """success, aborted, …; None without a run_stop."""
    stops = [line["metadata"].get("status") for _, line in lines_of(text) if line and line["key"] == "run_stop"]
    return stops[-1] if stops else None


def main():
    code = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8", errors="replace") as file:
            wrong = broken(file.read())
        for what in wrong:
            print(f"{name}: {what}")
        code = code or int(bool(wrong))
    return code


if __name__ == "__main__":
    sys.exit(main())
