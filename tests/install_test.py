#!/usr/bin/env python3
"""`cmake --install` gives a prefix that works from anywhere.

    tests/install_test.py BUILD_DIRECTORY
"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from served import bearer, server_of


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    with tempfile.TemporaryDirectory() as name:
        prefix = pathlib.Path(name) / "prefix"
        output("cmake", "--install", sys.argv[1], "--prefix", str(prefix))
        regatta, trainer = prefix / "bin" / "regatta", prefix / "bin" / "regatta-train"
        assert output(trainer, "--version").strip(), "the trainer does not tell its version"
        plugins = list(prefix.glob("lib*/**/libnccl-tuner-regatta.so"))
        assert len(plugins) == 1, f"the tuner plug-in is not installed: {plugins}"
        for shell, script in (("bash", "bash-completion/completions/regatta"), ("zsh", "zsh/site-functions/_regatta"),
                              ("fish", "fish/vendor_completions.d/regatta.fish")):
            assert (prefix / "share" / script).read_text() == output(regatta, "completion", shell), script
        pages = prefix / "share" / "man" / "man1"
        names = {path.name for path in pages.iterdir()}
        assert {"regatta.1", "regatta-ckpt.1", "regatta-submit.1"} <= names and len(names) > 20, names
        assert (pages / "regatta-submit.1").read_text() == output(regatta, "man", "submit")
        examples = sorted((prefix / "share" / "regatta" / "topology").glob("*.yaml"))
        assert len(examples) == 5, examples
        for example in examples:
            output(regatta, "doctor", example)
        # From another folder than the checkout's, so that nothing but the prefix can have the length table.
        for command in (("step", "--samples", "2", "--steps", "1", "--warmup", "0", "--threads", "1"),
                        ("balance", "--ranks", "2", "--ranks-per-node", "2", "--batch", "8", "--steps", "2")):
            told = json.loads(output(trainer, "bench", *command, cwd=name))
            assert "lengths_wikipedia_512.csv" in json.dumps(told), told
        corpus = pathlib.Path(name) / "text"
        corpus.write_text("\n\n".join(f"Boat {i} sails on the river.\nThe wind is {i} knots." for i in range(40)))
        data = pathlib.Path(name) / "data"
        output(trainer, "prepare", corpus, "--output", data, "--train-vocab", "256")
        run_file = pathlib.Path(name) / "run.yaml"
        run_file.write_text("model: {preset: tiny, max_positions: 32}\ndata: {path: data, max_length: 32}\n"
                            "steps: 3\nbatch: {size: 4}\nthreads: 1\n")
        address = f"http://127.0.0.1:{(port := free_port())}"
        server = server_of(f"{name}/store")
        controller = subprocess.Popen([regatta, "serve", "--port", str(port), "--data", f"{name}/store", "--allow-privileged"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 180
            while subprocess.run([regatta, "ls", "--server", server], capture_output=True).returncode != 0:
                assert time.monotonic() < deadline and controller.poll() is None, "the controller does not answer"
                time.sleep(0.1)
            run = json.loads(output(regatta, "submit", run_file, "--server", server, "-o", "json"))
            output(regatta, "watch", run["id"], "--server", server)
            state = json.loads(output(regatta, "show", run["id"], "--server", server, "-o", "json"))["state"]
            assert state == "succeeded", state
            exported = pathlib.Path(name) / "model"
            output(regatta, "ckpt", "export", run["id"], "latest", "--output", exported, "--server", server)
            address += f"/api/v1/runs/{run['id']}/checkpoints/latest/export"
            headers = bearer(f"{name}/store")
            urllib.request.urlopen(urllib.request.Request(address, b"", headers, method="POST"), timeout=60).close()
            deadline = time.monotonic() + 120
            while True:
                with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
                    status = json.load(answer)
                if status["state"] != "running":
                    break
                assert time.monotonic() < deadline, status
                time.sleep(0.1)
            assert status["state"] == "done", status
            for file in exported.iterdir():
                assert file.read_bytes() == (pathlib.Path(status["path"]) / file.name).read_bytes(), file.name
        finally:
            controller.terminate()
            controller.wait(120)
    print("the installed programs prepare, serve, train and export")


main()
