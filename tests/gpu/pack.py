#!/usr/bin/env python3
"""Builds what tests/gpu.sh runs on a machine with a GPU, and bundles it into .gpu/.

    tests/gpu.sh --pack [--output DIRECTORY] [--text FILE] [--jobs N] [--build DIRECTORY]

Needs the CUDA Toolkit, but no GPU. The bundle holds programs for x86-64 Linux, the shared libraries
they need but for the C and C++ run time and CUDA's (which the other machine brings), the length
table, a small dataset, these scripts, and a manifest with sizes, digests and the commit.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import machine  # noqa: E402

PROGRAMS = {"regatta-train": "trainer/regatta-train", "libregatta-cuda.so": "trainer/libregatta-cuda.so",
            "libnccl-tuner-regatta.so": "trainer/libnccl-tuner-regatta.so", "cuda_ops_test": "tests/gpu/cuda_ops_test", "cuda_model_test": "tests/gpu/cuda_model_test",
            "gpu_preflight": "tests/gpu/gpu_preflight"}
TARGETS = ["regatta-train", "regatta-cuda", "nccl-tuner-regatta", "cuda_ops_test", "cuda_model_test", "gpu_preflight"]
ORACLES = ["bert.py", "bert_torch.py"]  # of what an exported model computes
# Every Linux has the first; the GPU machine brings the second, whose versions are its own.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)[.-]")
CUDA = re.compile(r"^(libcublas|libcublasLt|libcudart|libcuda|libnccl|libnvrtc|libnvJitLink)[.]")
LIMIT = 52_000_000  # with the tree (9 MB) in what a machine may take: 64 MiB
TEXT_BYTES = 2_000_000
VOCABULARY = 4096


def needed_libraries(ldd_output):
    """{name: path} of what goes into a bundle; raises for a library that is not there and no one
    else's to bring."""
    found = {}
    for line in ldd_output.splitlines():
        match = re.match(r"\s*(\S+)\s*(?:=>\s*(not found|\S+))?", line)
        if not match or "(" not in line and match[2] != "not found":
            continue
        name = os.path.basename(match[1])
        if SYSTEM.match(name) or CUDA.match(name):
            continue
        if match[2] == "not found":
            raise RuntimeError(f"{name} is needed and not on this machine")
        if match[2]:
            found[name] = match[2]
    return found


def made_up_text(size):
    """Prose in which words follow one another by fixed habits, so that there is something to learn."""
    generator = random.Random(1)
    words = [a + b for a in ("bo", "ri", "sa", "ter", "la", "mo", "cre", "win", "ha", "sto") for b in
             ("at", "ver", "il", "ra", "ke", "on", "w", "d", "rbour", "rm", "ne", "lt", "ssel", "gue", "sh", "tide")]
    parts, length = [], 0
    while length < size:
        sentences = []
        for _ in range(generator.randrange(4, 14)):
            word = generator.randrange(len(words))
            sentence = []
            for _ in range(generator.randrange(6, 18)):
                sentence.append(words[word])
                word = (word * 5 + 3) % len(words) if generator.random() < 0.75 else generator.randrange(len(words))
            sentences.append("The " + " ".join(sentence) + f" number {generator.randrange(50)}.")
        parts.append("\n".join(sentences) + "\n")
        length += len(parts[-1])
    return "\n".join(parts)


def split_text(text):
    """(all documents but the last tenth, the last tenth); a blank line separates documents."""
    documents = [document for document in text.split("\n\n") if document.strip()]
    cut = max(1, len(documents) * 9 // 10)
    return "\n\n".join(documents[:cut]) + "\n", "\n\n".join(documents[cut:] or documents[-1:]) + "\n"


def build(directory, jobs):
    configure = ["cmake", "--preset", "cuda", "-B", str(directory), "-DWITH_CUDA=ON", "-DWITH_ONEDNN=OFF", "-DWITH_PAGE=OFF", "-DWITH_TESTS=ON"]
    subprocess.run(configure, cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", str(directory), "-j", str(jobs), "--target", *TARGETS], cwd=ROOT, check=True)


def bundle_programs(directory, bundle):
    (bundle / "bin").mkdir(parents=True)
    (bundle / "lib").mkdir()
    for name, path in PROGRAMS.items():
        target = bundle / "bin" / name
        shutil.copy2(directory / path, target)
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
        ldd = subprocess.run(["ldd", str(directory / path)], capture_output=True, text=True, check=True).stdout
        for library, where in needed_libraries(ldd).items():
            shutil.copy2(os.path.realpath(where), bundle / "lib" / library)


def bundle_data(bundle, text_file):
    data = bundle / "data"
    data.mkdir()
    shutil.copy2(ROOT / "tests" / "data" / "lengths_wikipedia_512.csv", data)
    if text_file:
        with open(text_file, "rb") as file:
            text = file.read(TEXT_BYTES).decode("utf-8", errors="ignore")
    else:
        text = made_up_text(TEXT_BYTES)
    training, held_out = split_text(text)
    (data / "training.txt").write_text(training, encoding="utf-8")
    (data / "held_out.txt").write_text(held_out[:200_000], encoding="utf-8")
    subprocess.run([str(bundle / "bin" / "regatta-train"), "prepare", str(data / "training.txt"), "-o", str(data / "dataset"),
                    "--train-vocab", str(VOCABULARY), "--held-out", "0.1", "--threads", "1"], check=True,
                   env=dict(os.environ, LD_LIBRARY_PATH=str(bundle / "lib")))
    (data / "training.txt").unlink()


def bundle_scripts(bundle):
    (bundle / "tests" / "gpu").mkdir(parents=True)
    shutil.copy2(ROOT / "tests" / "gpu.sh", bundle / "tests")
    for script in sorted(HERE.glob("*.py")):
        shutil.copy2(script, bundle / "tests" / "gpu")
    oracles = pathlib.Path("tests") / "trainer" / "interchange"
    (bundle / oracles).mkdir(parents=True)
    for script in ORACLES:
        shutil.copy2(ROOT / oracles / script, bundle / oracles)


def write_manifest(bundle):
    files = {}
    for path in sorted(bundle.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            files[str(path.relative_to(bundle))] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    total = sum(entry["bytes"] for entry in files.values())
    commit = machine.output_of(["git", "-C", str(ROOT), "rev-parse", "HEAD"]).strip() or "unknown"
    if machine.output_of(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]).strip():
        commit += " with changes"
    (bundle / "manifest.json").write_text(json.dumps({"commit": commit, "date": machine.now(), "bytes": total, "files": files}, indent=1) + "\n")
    return commit, files, total


def main():
    shared = ROOT.parent / "shared" / "data" / "corpus" / "wiki_en_docs.txt"
    parser = argparse.ArgumentParser(prog="tests/gpu.sh --pack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / ".gpu", help="the bundle; replaced if it is one (default: .gpu)")
    parser.add_argument("--text", default=str(shared) if shared.exists() else None, help="English text for the dataset (default: made up)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "cuda", help="build directory (default: build/cuda)")
    options = parser.parse_args()
    if options.output.exists() and any(options.output.iterdir()) and not (options.output / "manifest.json").exists():
        parser.error(f"{options.output} is there and no bundle; name another directory")
    build(options.build, options.jobs)
    scratch = options.output.with_name(options.output.name + ".new")
    shutil.rmtree(scratch, ignore_errors=True)
    bundle_programs(options.build, scratch)
    bundle_data(scratch, options.text)
    bundle_scripts(scratch)
    commit, files, total = write_manifest(scratch)
    for name, entry in sorted(files.items(), key=lambda item: -item[1]["bytes"])[:12]:
        print(f"{entry['bytes'] / 1e6:8.2f} MB  {name}")
    print(f"{total / 1e6:8.2f} MB in {len(files)} files, commit {commit}")
    if total > LIMIT:
        print(f"the bundle is larger than {LIMIT / 1e6:.0f} MB", file=sys.stderr)
        return 1
    shutil.rmtree(options.output, ignore_errors=True)
    scratch.rename(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
