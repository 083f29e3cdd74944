#!/usr/bin/env python3
"""The API as its document says: every operation is asked through real HTTP, and every answer held against its schema.

    openapi_test.py BUILD      a build folder with regatta and regatta-train

The document's own examples are sent as they are. The last line is `N passed, N failed, N skipped`.
"""
import csv
import gzip
import http.client
import io
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

try:
    import jsonschema
except ImportError:  # Debian's package belongs to Debian's interpreter
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        sys.exit("openapi_test: no jsonschema; deploy/install.sh test installs python3-jsonschema")
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import event_file  # noqa: E402
from served import NO_DEFAULTS, OverSocket, conclude, make_data, run_cases  # noqa: E402

EXAMPLE = ROOT / "topology" / "examples" / "dgx-h100.yaml"
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
OVER = ("succeeded", "failed", "stopped", "cancelled")
RUN = """name: {name}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 8}}
threads: 1
steps: {steps}
evaluate: {{every: 5, samples: 16}}
checkpoint: {{every: 5, keep_last: 2}}
target: {{value: 0.9}}
"""


class Controller:
    def __init__(self, folder):
        self.data = folder / "controller"
        self.log = open(folder / "log", "wb")
        secret = folder / "secret"
        secret.write_text("0123456789abcdef")
        secret.chmod(0o600)
        self.process = subprocess.Popen(
            [BUILD / "orchestrator" / "regatta", "serve", "--allow-privileged", "--port", "0", "--data", self.data,
             "--scheduler", "local", "--trainer", BUILD / "trainer" / "regatta-train", "--webhook",
             "http://127.0.0.1:9/hook", "--webhook-private", "--webhook-secret", secret, "--webhook-kinds", "reference", "--cluster", EXAMPLE], stdout=subprocess.PIPE,
            stderr=self.log, text=True, env={**os.environ, **NO_DEFAULTS})
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        self.token = (self.data / "token").read_text().strip()

    def ask(self, method, path, body=None, headers=None, way="tcp"):
        """(status, headers, bytes)"""
        connection = http.client.HTTPConnection(self.address, timeout=60) if way == "tcp" \
            else OverSocket(self.data / "controller.sock")
        try:
            sent = {"Authorization": f"Bearer {self.token}"} if way == "tcp" else {}
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        self.log.close()


class Document:
    def __init__(self, json_document):
        self.json = json_document
        self.asked = set()  # (path, method, status)

    def validator(self, schema):
        # "#/components/schemas/X" is looked up in the document that the schema is put into.
        return jsonschema.Draft202012Validator({"components": self.json["components"], **schema},
                                               format_checker=jsonschema.FormatChecker())

    def check(self, schema, instance, what):
        errors = sorted(self.validator(schema).iter_errors(instance), key=lambda error: list(error.path))
        assert not errors, f"{what}: {'/'.join(map(str, errors[0].absolute_path))}: {errors[0].message[:300]}"

    def operation(self, method, template):
        return self.json["paths"][template][method.lower()]

    def answered(self, method, template, status, headers, text):
        answers = self.operation(method, template)["responses"]
        answer = answers.get(str(status), answers["default"])
        assert status < 400 or status == 416 or str(status) not in answers, f"{method} {template}: {status}"
        (kind, content), = answer["content"].items()
        assert headers["Content-Type"] == kind, f"{method} {template}: {headers['Content-Type']}, not {kind}"
        if kind.endswith("json"):
            self.check(content["schema"], json.loads(text), f"{method} {template} ({status})")
        assert headers["X-Request-Id"] and (status < 400 or json.loads(text)["request_id"] == headers["X-Request-Id"])
        assert str(status) in answers or status >= 400, f"{method} {template} does not document {status}"
        self.asked.add((template, method.lower(), status))


class Api:
    """Asks by the document's paths, and holds what comes against it."""

    def __init__(self, controller, document):
        self.controller, self.document = controller, document

    def __call__(self, method, template, body=None, query="", way="tcp", headers=None, **names):
        path = "/api/v1" + template.format(**names) + (f"?{query}" if query else "")
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        status, answered, text = self.controller.ask(method, path, body, headers, way)
        self.document.answered(method, template, status, answered, text)
        return status, json.loads(text) if answered["Content-Type"].endswith("json") else text

    def bytes(self, template, headers=None, **names):
        """(status, headers, bytes) of a file that is sent."""
        answer = self.controller.ask("GET", "/api/v1" + template.format(**names), headers=headers)
        self.document.answered("GET", template, *answer)
        return answer

    def wait(self, run, states, seconds=120):
        deadline = time.monotonic() + seconds
        while True:
            shown = self("GET", "/runs/{id}", id=run)[1]
            self("GET", "/runs", query="full=true&archived=all&total=true")
            self("GET", "/runs/{id}/explain", id=run)
            self("GET", "/runs/{id}/metrics", id=run)
            if shown["state"] in states:
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


def the_document_is_served_and_is_the_one_in_the_docs(api, _):
    status, served = api("GET", "/openapi.json")
    assert status == 200 and served == json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert served["openapi"] == "3.1.0"
    jsonschema.Draft202012Validator.check_schema({"$defs": served["components"]["schemas"]})


def agreed_answers_are_as_it_says(api, _):
    """Of records that have a value in every field, and in none (golden/)."""
    for name, schema in (("run", "Run"), ("new_run", "Run"), ("starting_run", "Run"), ("explain", "Explanation"),
                         ("explain_new", "Explanation"), ("explain_starting", "Explanation"), ("metrics", "Metrics"),
                         ("checkpoints", "CheckpointList")):
        instance = json.loads((GOLDEN / f"{name}.json").read_text())
        api.document.check({"$ref": f"#/components/schemas/{schema}"}, instance, name)


def a_run_is_submitted_watched_and_kept(api, data):
    assert api("GET", "/version")[1]["scheduler"] == "local"
    assert api("GET", "/health")[1]["status"] == "ok"
    assert len(api("GET", "/nodes")[1]["nodes"]) == 1
    machine, = api("GET", "/nodes", query="full=true")[1]["nodes"]
    assert list(machine) == list(api.document.json["components"]["schemas"]["Node"]["properties"]), machine
    assert api("GET", "/runs")[1]["runs"] == []
    file = RUN.format(name="kept", data=data, steps=20)
    key = {"Idempotency-Key": "one", "Content-Type": "application/yaml"}
    status, preview = api("POST", "/runs", file, headers=key, query="dry_run=true")
    assert status == 200 and preview["dry_run"] and preview["command"][1] == "run", preview
    assert [check["good"] for check in preview["checks"]] == [True, True, True], preview["checks"]
    assert api("GET", "/runs")[1]["runs"] == [], "a dry run makes nothing"
    status, run = api("POST", "/runs", file, headers=key, query="tags=two,one")
    assert status == 201
    assert run["tags"] == ["one", "two"] and run["owner"] == "token" and run["note"] is None, run
    labels = {"remove_tags": ["two"], "add_tags": ["three"], "note": "why\nso"}
    for _ in range(2):
        labelled = api("POST", "/runs/{id}/labels", labels, id=run["id"])[1]
        assert labelled["tags"] == ["one", "three"] and labelled["note"] == "why\nso", labelled
    assert api("POST", "/runs/{id}/labels", {"tags": ["a b"]}, id=run["id"])[0] == 422
    assert api("POST", "/runs", file, headers=key, query="dry_run=true&tags=a%20b")[0] == 422
    for bad in ("tag=", "owner=", "node="):
        assert api("GET", "/runs", query=bad)[0] == 400, bad
    for query, count in (("tag=one,three", 1), ("tag=two", 0), ("owner=token", 1), ("owner=uid%201", 0), ("node=none", 0)):
        assert len(api("GET", "/runs", query=query)[1]["runs"]) == count, query
    shown = regatta(api, "ls", "--tag", "one", "--tag", "three")
    assert "#one #three" in shown.stdout and run["id"] in shown.stdout, shown
    shown = regatta(api, "label", run["id"], "--untag", "three", "--tag", "four", "--note", "")
    assert shown.stdout == "four\none\n", shown
    again, same = api("POST", "/runs", file, headers=key)
    assert again == 200 and same["id"] == run["id"]
    kept = run["id"]
    shown = api.wait(kept, OVER)
    assert shown["state"] == "succeeded", shown
    assert api("GET", "/runs/{id}", id=kept, query="secrets=true", way="unix")[0] == 200
    assert api("GET", "/runs/{id}", id=kept, query="secrets=true")[0] == 403
    told = api("GET", "/runs/{id}/time_to_accuracy", id=kept, query="thresholds=0,0.99")[1]
    rows, cursor, more = [], 0, True
    while more:
        page = api("GET", "/runs/{id}/history", id=kept, query=f"since={cursor}&limit=7")[1]
        rows, cursor, more = rows + page["rows"], page["cursor"], page["more"]
    journal = [json.loads(line) for path in (api.controller.data / "runs" / kept / "attempts").glob("*/journal.jsonl")
               for line in path.read_text().splitlines()]
    for kind, name in (("step", "step"), ("evaluation", "eval"), ("checkpoint", "checkpoint")):
        have = [row["step"] for row in rows if row["type"] == kind]
        assert have == [record["step"] for record in journal if record["type"] == name], (kind, have)
    parts = told["time"]
    whole = parts.pop("whole_seconds")
    assert abs(sum(parts.values()) - whole) < 1e-6 and parts["training_seconds"] > 0, told["time"]
    assert told["reached"][0]["step"] == 0 and told["reached"][1]["step"] is None, told["reached"]
    for bad in ("0.1,x", "nan", "inf", "", "0.1,,0.2", ",".join(["0.1"] * 51)):
        assert api("GET", "/runs/{id}/time_to_accuracy", id=kept, query=f"thresholds={bad}")[0] == 400, bad
    assert api("GET", "/runs/{id}/logs", id=kept)[1]["launch"] == 1
    assert api("GET", "/runs/{id}/logs/files", id=kept)[1]["files"][0]["name"] == "launches/1.log"
    log = (api.controller.data / "runs" / kept / "launches" / "1.log").read_bytes()
    whole = api.controller.ask("GET", f"/api/v1/runs/{kept}/logs/download?file=launches%2F1.log")
    assert whole[0] == 200 and whole[2] == log and len(log) > 100, whole
    api.document.answered("GET", "/runs/{id}/logs/download", *whole)
    assert api.bytes("/runs/{id}/logs/download", {"Range": "bytes=-50"}, id=kept)[::2] == (206, log[-50:])
    assert api("GET", "/runs/{id}/logs/download", id=kept, query="rank=7")[0] == 404
    assert api("GET", "/runs/{id}/logs/download", id=kept, query="file=..%2Fkept%2Frun.json")[0] == 404
    assert api("GET", "/runs/{id}/logs/search", id=kept, query="grep=training&context=1")[1]["lines"]
    assert api("GET", "/runs/{id}/plan", id=kept)[0] == 404
    told = api("GET", "/runs/{id}/environment", id=kept, query="attempt=1")[1]
    assert told["attempt"]["number"] == 1 and told["configuration"]["steps"] and told["training"], told
    assert api("GET", "/runs/{id}/environment", id=kept)[0] == 200
    assert api("GET", "/runs/{id}/environment", id=kept, query="attempt=99")[0] == 404
    assert api("GET", "/runs/{id}/environment", id=kept, query="attempt=0")[0] == 400
    assert api("GET", "/runs/{id}/speed", id=kept, query=f"against={kept}")[0] in (200, 422)  # of as many steps as it has
    assert api("GET", "/runs/{id}/speed", id=kept, query="against=nobody")[0] == 404
    assert api("GET", "/runs/{id}/speed", id=kept)[0] == 400
    assert api("GET", "/runs/{id}/learning", id=kept, query=f"against={kept}")[1]["equal"]
    assert api("GET", "/runs/{id}/learning", id=kept, query="against=nobody")[0] == 404
    assert api("GET", "/runs/{id}/learning", id=kept)[0] == 400
    assert api("POST", "/runs/{id}/cancel", id=kept)[0] == 200
    assert api("POST", "/runs/{id}/resume", id=kept)[0] == 409
    rows = api("GET", "/runs/{id}/checkpoints", id=kept)[1]["checkpoints"]
    assert any(row.get("condition") == "valid" for row in rows), rows
    at = {"id": kept, "name": "latest"}
    one = "/runs/{id}/checkpoints/{name}"
    assert api("GET", one, **at)[1]["manifest"]
    assert api("POST", one + "/verify", **at)[1]["good"]
    status, problem = api("POST", one + "/pin", {"reason": "x" * 501}, **at)
    assert status == 422 and problem["key"] == "reason", problem
    assert api("POST", one + "/pin", {"reason": "the best so far"}, **at)[1]["pinned"]["reason"] == "the best so far"
    assert api("DELETE", "/runs/{id}", id=kept)[0] == 409, "its checkpoint is pinned"
    assert api("POST", one + "/unpin", **at)[1]["pinned"] is None
    assert api("POST", "/runs/{id}/checkpoints/gc", id=kept, query="dry_run=true")[1]["dry_run"]
    assert api("POST", "/runs/{id}/checkpoints/gc", id=kept)[0] == 200
    assert api("GET", one + "/export", **at)[0] == 404
    assert api("POST", one + "/export", {"for": "encoder"}, **at)[0] == 202
    deadline = time.monotonic() + 60
    while (export := api("GET", one + "/export", **at)[1])["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert export["state"] == "done" and export["files"], export
    files_are_sent_as_they_are(api, kept)
    assert api("DELETE", one + "/export", **at)[1]["bytes"] == sum(file["bytes"] for file in export["files"])
    assert api("DELETE", one + "/export", **at)[0] == 404
    assert api("POST", "/runs/{id}/archive", id=kept, query="dry_run=true")[0] == 200
    assert api("POST", "/runs/{id}/archive", id=kept)[1]["archived"]
    assert api("GET", "/runs")[1]["runs"] == []
    assert api("DELETE", "/runs/{id}", id=kept, query="dry_run=true")[1]["bytes"] > 0
    assert api("DELETE", "/runs/{id}", id=kept)[0] == 200
    assert api("DELETE", "/runs/{id}", id=kept)[0] == 404


def files_are_sent_as_they_are(api, run):
    """Held against the files in the run's directory."""
    one, at = "/runs/{id}/checkpoints/{name}", {"id": run, "name": "latest"}
    shown = api("GET", one, **at)[1]
    folder = pathlib.Path(shown["path"])
    names = sorted([*shown["manifest"]["files"], "manifest.json"])
    for name in names:
        whole = (folder / name).read_bytes()
        status, headers, sent = api.bytes(one + "/files/{file}", **at, file=name)
        assert status == 200 and sent == whole and headers["Accept-Ranges"] == "bytes", name
        half = len(whole) // 2
        status, part, rest = api.bytes(one + "/files/{file}", {"Range": f"bytes={half}-"}, **at, file=name)
        assert status == 206 and rest == whole[half:] and part["Content-Range"] == f"bytes {half}-{len(whole) - 1}/{len(whole)}"
        assert api.bytes(one + "/files/{file}", {"Range": f"bytes={len(whole)}-"}, **at, file=name)[0] == 416
        if name != "manifest.json":
            digest = shown["manifest"]["files"][name]["digest"]
            assert headers["X-Digest-XXH3-128"] == digest and headers["ETag"] == f'"{digest}"'
        assert api.controller.ask("GET", f"/api/v1/runs/{run}/checkpoints/latest/files/{name}",
                                  headers={"If-None-Match": headers["ETag"]})[0] == 304
    assert api.bytes(one + "/files/{file}", **at, file="..%2Frun.json")[0] == 404
    assert api.bytes(one + "/files/{file}", **at, file="config.json")[0] == 404
    status, headers, packed = api.bytes(one + "/archive", **at)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = archive.getmembers()
        assert [member.name.split("/") for member in members][-1] == [folder.name, "manifest.json"]
        assert sorted(member.name.split("/")[1] for member in members) == names
        for member in members:
            assert archive.extractfile(member).read() == (folder / member.name.split("/")[1]).read_bytes()
    file, of = next(name for name in names if name != "manifest.json"), {"id": run, "name": folder.name}
    broken, elsewhere = folder / file, folder.parent.parent / "elsewhere"
    whole = broken.read_bytes()
    for breaks in (lambda: broken.write_bytes(whole[:-1]), lambda: (broken.rename(elsewhere), broken.symlink_to(elsewhere))):
        breaks()
        assert api.bytes(one + "/files/{file}", **of, file=file)[0] == 409, "before a head promises more"
        assert api.bytes(one + "/archive", **of)[0] == 409
    broken.unlink()
    elsewhere.rename(broken)
    broken.write_bytes(whole)
    assert api.bytes(one + "/archive", {"Range": "bytes=700-2000", "If-Range": headers["ETag"]}, **at)[2] == packed[700:2001]
    export = api("GET", one + "/export", **at)[1]
    for file in export["files"]:
        status, headers, sent = api.bytes(one + "/export/files/{file}", **at, file=file["name"])
        assert status == 200 and sent == (pathlib.Path(export["path"]) / file["name"]).read_bytes()
        assert file["digest"] and headers["X-Digest-XXH3-128"] == file["digest"] and headers["ETag"] == f'"{file["digest"]}"'
        if sent:
            assert api.bytes(one + "/export/files/{file}", {"Range": "bytes=0-0"}, **at, file=file["name"])[2] == sent[:1]
    packed = api.bytes(one + "/export/archive", **at)[2]
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert len(archive.getmembers()) == len(export["files"])
    assert api.bytes(one + "/export/archive", {"Range": "bytes=-512"}, **at)[2] == b"\0" * 512
    the_command_line_downloads(api, run, shown)


def regatta(api, *words, **options):
    return subprocess.run([BUILD / "orchestrator" / "regatta", *words, "--server", f"unix:{api.controller.data}/controller.sock"],
                          capture_output=True, text=True, timeout=60, **options)


def the_command_line_downloads(api, run, shown):
    """`regatta ckpt download`: all files, from where an earlier try ended, and nothing damaged, lost or mixed up."""
    source = pathlib.Path(shown["path"])
    files = shown["manifest"]["files"]
    largest = max(files, key=lambda each: files[each]["bytes"])
    part = f"{largest}.{files[largest]['digest'][:8]}.part"

    def download(target, *options):
        return regatta(api, "ckpt", "download", run, "latest", "-o", str(target), *options)
    with tempfile.TemporaryDirectory() as name:
        target = pathlib.Path(name) / "there"
        target.mkdir()
        (target / part).write_bytes((source / largest).read_bytes()[:1000])
        done = download(target)
        assert done.returncode == 0 and done.stdout == f"{target}\n", done
        assert f"{largest}  " in done.stderr and ", from 1.0 kB on" in done.stderr, done.stderr
        for file in source.iterdir():
            if file.name in files or file.name == "manifest.json":
                assert (target / file.name).read_bytes() == file.read_bytes(), file
        assert not list(target.glob("*.part"))
        again = download(target)
        assert again.returncode == 0 and again.stderr == "", "what is there is not fetched again"
        (target / largest).unlink()
        (target / part).write_bytes(b"x" * 1000)
        damaged = download(target)
        assert damaged.returncode == 1 and "damaged" in damaged.stderr and not (target / largest).exists(), damaged
        assert download(target).returncode == 0

        # Cut short under its own name, as another program leaves it.
        whole = (source / largest).read_bytes()
        (target / largest).write_bytes(whole[:-1000])
        (target / "manifest.json").write_bytes((source / "manifest.json").read_bytes()[:10])
        mended = download(target)
        assert mended.returncode == 0 and mended.stderr.count(", from ") == 2, mended
        assert (target / largest).read_bytes() == whole and not list(target.glob("*.part"))
        assert (target / "manifest.json").read_bytes() == (source / "manifest.json").read_bytes()
        others = next(each for each in files if each != largest)
        (target / others).unlink()
        (target / largest).write_bytes(b"x" + whole[1:-1000])
        refused = download(target)
        assert refused.returncode == 5 and "is another file" in refused.stderr, refused
        assert (target / largest).read_bytes() == b"x" + whole[1:-1000] and not (target / others).exists()
        (target / part).write_bytes(whole)  # which is whole, and does not begin as that file
        assert download(target).returncode == 5 and (target / largest).read_bytes()[:1] == b"x"
        assert download(target, "--force").returncode == 0 and (target / largest).read_bytes() == whole

        # Of another checkpoint, or somebody's own.
        (target / "manifest.json").write_text("mine")
        refused = download(target)
        assert refused.returncode == 5 and "--force" in refused.stderr, refused
        assert (target / "manifest.json").read_text() == "mine"
        assert download(target, "--force").returncode == 0
        assert (target / "manifest.json").read_bytes() == (source / "manifest.json").read_bytes()
        victim = pathlib.Path(name) / "victim"
        victim.write_text("precious")
        (target / largest).unlink()
        (target / part).symlink_to(victim)
        assert download(target).returncode == 5 and victim.read_text() == "precious"

        the_command_line_downloads_an_export(api, run, pathlib.Path(name) / "model")
        assert regatta(api, "ckpt", "download", run, "77").returncode == 3


def the_command_line_downloads_an_export(api, run, model):
    """Each file is checked, and all get their names together; without digests their sizes must do."""
    source = pathlib.Path(api("GET", "/runs/{id}/checkpoints/{name}/export", id=run, name="latest")[1]["path"])
    whole = {file.name: file.read_bytes() for file in source.iterdir() if not file.name.startswith(".")}
    largest = max(whole, key=lambda file: len(whole[file]))
    half = len(whole[largest]) // 2

    def download(*options, **more):
        return regatta(api, "ckpt", "download", run, "latest", "--export", "-o", str(model), *options, **more)

    def there():
        return {file.name: file.read_bytes() for file in model.iterdir()}
    broken = download(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (half, half)))
    assert broken.returncode != 0 and all(name.endswith(".part") for name in there()), (broken, there().keys())
    (model / f"{largest}.00000000.part").write_bytes(b"of another export")
    done = download()
    assert done.returncode == 0 and ", from " in done.stderr, done
    (model / f"{largest}.00000000.part").unlink()
    assert there() == whole, there().keys()
    again = download()
    assert again.returncode == 0 and again.stderr == "", "what is there is not fetched again"
    (model / largest).write_bytes(b"of another export")
    refused = download()
    assert refused.returncode == 5 and "is another file" in refused.stderr and "--force" in refused.stderr, refused
    assert download("--force").returncode == 0 and there() == whole

    # Changed at the same size after it was made.
    (source / largest).write_bytes(whole[largest][:-1] + bytes([whole[largest][-1] ^ 1]))
    (model / largest).unlink()
    damaged = download()
    assert damaged.returncode == 1 and "damaged" in damaged.stderr and "make it again" in damaged.stderr, damaged
    assert largest not in there()
    (source / largest).write_bytes(whole[largest])
    assert download().returncode == 0 and there() == whole

    # As an earlier version made it.
    (source / ".digests.json").unlink()
    older = download()
    assert older.returncode == 5 and "may be another export's" in older.stderr and "--force" in older.stderr, older
    (model / largest).write_bytes(b"of another export")
    assert download("--force").returncode == 0 and there() == whole


def what_happened_is_told(api, _):
    """The life of the runs above, in order, with who asked for it; as pages, as a stream and in a terminal."""
    gone = [event["run"] for event in api("GET", "/events", query="kind=run.removed")[1]["events"]][0]
    told = api("GET", "/events", query=f"run={gone}&limit=1000")[1]["events"]
    kinds = [event["kind"] for event in told]
    order = ["run.submitted", "launch.submitted", "attempt.started", "checkpoint.written", "attempt.ended", "run.succeeded",
             "checkpoint.pinned", "checkpoint.unpinned", "checkpoint.collected", "checkpoint.exported",
             "checkpoint.export_removed", "run.archived", "run.removed"]
    assert [kind for kind in dict.fromkeys(kinds) if kind in order] == order, kinds
    assert kinds.count("checkpoint.written") == 4 and kinds.count("checkpoint.collected") == 1, "a dry run is no event"
    assert told[0]["by"] == "token" and all(event["by"] is None for event in told if event["kind"] == "attempt.ended")
    assert [event["number"] for event in told] == sorted(event["number"] for event in told)
    whole, since, more = [], 0, True
    while more:
        page = api("GET", "/events", query=f"since={since}&limit=7")[1]
        whole, since, more = whole + page["events"], page["next"], page["more"]
    assert page["oldest"] == whole[0]["number"] and whole[0]["kind"] == "controller.started"
    back, before = [], ""
    while True:
        page = api("GET", "/events", query=f"limit=9{before}")[1]
        back = page["events"] + back
        if not page["more"]:
            break
        before = f"&before={page['events'][0]['number']}"
    assert back == whole
    failed = api("GET", "/events", query="kind=run.cancelled,controller")[1]["events"]
    assert failed == [event for event in whole if event["kind"] in ("run.cancelled", "controller.started")]
    assert api("GET", "/events", query="by=token&node=none")[1]["events"] == []
    assert api("GET", "/events", query="run=nobody")[0] == 404
    for bad in ("kind=running", "kind=run.faile", "since=1&before=2", "kind=", "run=", "node=", "by="):
        assert api("GET", "/events", query=bad)[0] == 400, bad

    with Stream(api, f"since={whole[2]['number']}&kind=run,launch") as stream:
        expected = [event for event in whole[3:] if event["kind"].split(".")[0] in ("run", "launch")]
        seen = [stream.next() for _ in expected]
        assert seen == expected
        for event in seen:
            api.document.check({"$ref": "#/components/schemas/Event"}, event, "a streamed event")
        run = api("GET", "/runs", query="name=long")[1]["runs"][0]["id"]
        follower = subprocess.Popen([BUILD / "orchestrator" / "regatta", "events", "-f", "--limit", "1", "-o", "json", "--server",
                                     f"unix:{api.controller.data}/controller.sock"], stdout=subprocess.PIPE, text=True)
        assert json.loads(follower.stdout.readline()) == whole[-1]
        assert api("POST", "/runs/{id}/resume", id=run, way="unix")[0] == 202
        asked = stream.next()
        assert asked["kind"] == "run.resume_asked" and asked["run"] == run and asked["by"] == f"uid {os.getuid()}", asked
        assert json.loads(follower.stdout.readline()) == asked
        follower.terminate()
        follower.wait()
        api("POST", "/runs/{id}/cancel", id=run)
        api.wait(run, OVER)
    with Stream(api, "", {"Last-Event-ID": str(whole[-1]["number"])}) as stream:
        assert stream.next() == asked, "it goes on where another broke off"
    assert api.controller.ask("GET", "/api/v1/events/stream", headers={"Last-Event-ID": "x"})[0] == 400
    lines = regatta(api, "events", run, "--kind", "run.resume_asked").stdout.splitlines()
    assert f"by uid {os.getuid()}" in lines[-1] and run in lines[-1], lines


class Stream:
    """Server-sent events, read as they come."""

    def __init__(self, api, query, headers=None):
        host, port = api.controller.address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.sendall((f"GET /api/v1/events/stream?{query} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer "
                             f"{api.controller.token}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items()) +
                             "\r\n").encode())
        self.file = self.socket.makefile("rb")
        assert self.file.readline().startswith(b"HTTP/1.1 200")
        head = dict(line.decode().strip().split(": ", 1) for line in iter(self.file.readline, b"\r\n"))
        assert head["Content-Type"] == "text/event-stream" and head["Cache-Control"] == "no-store"
        api.document.answered("GET", "/events/stream", 200, head, b"")

    def next(self):
        fields = {}
        while "data" not in fields:
            fields = {}
            for line in iter(self.file.readline, b"\n"):
                assert line, "the stream has ended"
                name, _, value = line.decode().rstrip("\n").partition(":")
                fields[name] = value.removeprefix(" ")
        event = json.loads(fields["data"])
        assert fields["id"] == str(event["number"]) and fields["event"] == event["kind"]
        return event

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()


def a_run_is_cancelled_and_resumed(api, data):
    long = api("POST", "/runs", RUN.format(name="long", data=data, steps=10**6))[1]["id"]
    after = api("POST", "/runs", RUN.format(name="after", data=data, steps=5), query=f"after={long}")[1]["id"]
    api.wait(long, ("running",))
    assert api("POST", "/runs/{id}/cancel", id=after)[0] == 202
    assert api("POST", "/runs/{id}/cancel", id=long)[0] == 202
    assert api.wait(long, OVER)["state"] == "cancelled"
    assert api("POST", "/runs/{id}/resume", id=long)[0] == 202
    api.wait(long, ("running",))
    assert api("POST", "/runs/{id}/resume", id=long)[0] == 200
    deadline = time.monotonic() + 60
    while api("GET", "/runs/{id}", id=long)[1]["step"] == 0:  # of step 0 there is no checkpoint
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = api("GET", "/runs/{id}", id=long)[1]["attempts"]
    key = {"Idempotency-Key": "elsewhere"}
    assert api("POST", "/runs/{id}/requeue", headers=key, id=long)[0] == 202
    deadline = time.monotonic() + 60
    while (shown := api("GET", "/runs/{id}", id=long)[1])["attempts"] != before + 1 or shown["state"] != "running":
        assert time.monotonic() < deadline and shown["state"] not in OVER, shown
        time.sleep(0.05)
    while api("GET", "/runs/{id}/attempts", id=long)[1]["attempts"][-1]["first_step"] == 0:  # it comes with a later record
        assert time.monotonic() < deadline, "from a checkpoint"
        time.sleep(0.05)
    assert api("POST", "/runs/{id}/requeue", headers=key, id=long)[0] == 200, "once"
    assert api("POST", "/runs/{id}/cancel", id=long)[0] == 202
    api.wait(long, OVER)
    assert api("POST", "/runs/{id}/requeue", id=long)[0] == 409


def a_run_is_extended_changed_and_forked(api, data):
    run = api("POST", "/runs", RUN.format(name="further", data=data, steps=5))[1]["id"]
    api.wait(run, OVER)
    key = {"Idempotency-Key": "further"}
    answers = [api("POST", "/runs/{id}/extend", {"steps": 10}, headers=key, id=run)[0] for _ in range(2)]
    assert answers == [202, 200], answers
    assert api.wait(run, OVER)["step"] == 10
    answers = [api("POST", "/runs/{id}/change", {"checkpoint": {"keep_last": 3}}, id=run)[0] for _ in range(2)]
    assert answers == [202, 200], answers
    fork = {"name": "forked", "changes": {"steps": 15}}
    assert api("POST", "/runs/{id}/fork", fork, headers=key, id=run)[0] == 409, "a key is of one operation"
    key = {"Idempotency-Key": "forked"}
    forks = [api("POST", "/runs/{id}/fork", fork, headers=key, id=run) for _ in range(2)]
    assert api("POST", "/runs/{id}/cancel", headers=key, id=run)[0] == 409, "a key is of one operation"
    assert [status for status, _ in forks] == [201, 200] and forks[0][1]["id"] == forks[1][1]["id"] != run, forks
    shown = api.wait(forks[0][1]["id"], OVER)
    assert shown["step"] == 15 and shown["forked_from"] == run and shown["forked_checkpoint"].startswith("step-"), shown
    for address, body, status in (("extend", {"steps": 1}, 409), ("change", {"seed": 7}, 422), ("fork", {"checkpoint": "999"}, 404),
                                  ("fork", {"steps": 20}, 422)):
        assert api("POST", "/runs/{id}/" + address, body, id=run)[0] == status, (address, body)


# As the journals have them. samples_per_second: over the step's own time.
STEP_SERIES = {"loss": lambda r: r["loss"], "learning_rate": lambda r: r["learning_rate"], "samples": lambda r: r["samples"], "step_seconds": lambda r: r["step_seconds"],
               "samples_per_second": lambda r: r["samples"] / r["step_seconds"]}
EVALUATION_SERIES = {"mlm_accuracy": lambda r: r["mlm_accuracy"], "evaluation_loss": lambda r: r["mlm_loss"], "metric": lambda r: r["mlm_accuracy"]}


def journals_of(directory):
    """[(attempt's number, its records)]"""
    paths = sorted((directory / "attempts").glob("*/journal.jsonl"), key=lambda path: int(path.parent.name.split("-")[0]))
    return [(int(path.parent.name.split("-")[0]), [json.loads(line) for line in path.read_text().splitlines()])
            for path in paths]


def start_of(records):
    return next(record for record in records if record["type"] == "start")


def points_of(journals, kind, x, created):
    """[(attempt, step, x, record, abandoned)]: the axis and what was trained again, from the journals alone."""
    points, trained, hours, end, first, zero = [], [], 0.0, 0.0, None, None
    for number, records in journals:
        start = start_of(records)
        begins = records[0]["utc_seconds"] - records[0]["seconds"]
        zero = begins if zero is None else zero
        offset = max(begins - zero, end)
        last = max(record["seconds"] for record in records)
        end = offset + last
        steps = [record for record in records if record["type"] == "step"]
        trains = steps[0]["seconds"] - steps[0]["step_seconds"] if steps else last
        first = offset + trains if first is None and steps else first
        for record in records:
            if record["type"] == "step":
                trained.append(record["step"])
            if record["type"] == kind:
                wall = offset + record["seconds"] - (first or 0)
                points.append((number, record["step"], {
                    "step": record["step"], "samples": record["step"] * start["batch_size"], "wall": max(0, wall),
                    "wall_since_submission": max(0, wall) + zero + (first or 0) - created,
                    "device_hours": hours + max(0, record["seconds"] - trains) * max(1, start.get("ranks", 1)) / 3600}[x], record, len(trained)))
        hours += max(0, last - trains) * max(1, start.get("ranks", 1)) / 3600
    return [(*point[:4], any(later <= point[1] for later in trained[point[4]:])) for point in points]


def buckets_of(points, series, count, sizes):
    """Points in groups of these sizes, which have to be such as the document says."""
    size = max(1, -(-len(points) // count))
    assert sum(sizes) == len(points), (sum(sizes), len(points))
    buckets, at = [], 0
    for rows in sizes:
        b, at = points[at:at + rows], at + rows
        assert len({(point[0], point[4]) for point in b}) == 1, b
        cut = at == len(points) or (points[at][0], points[at][4]) != (b[0][0], b[0][4])
        assert rows <= size + max(1, size // 2) and (rows >= size or cut), (rows, size)
        buckets.append(b)
    return [({"attempt": b[0][0], "abandoned": b[0][4], "rows": len(b), "from_step": b[0][1], "to_step": b[-1][1]},
             (b[0][2], b[-1][2]), {name: [min(v), max(v), v[-1], len(v)] for name, value in series.items()
                                   for v in [[value(point[3]) for point in b]]}) for b in buckets]


def charts_are_what_the_journals_say(api, data):
    """Every bucket on every axis against a plain reading of the files, with a branch that a kill made."""
    file = RUN.format(name="chart", data=data, steps=10**6).replace("checkpoint: {every: 5,", "checkpoint: {every: 150,")
    run = api("POST", "/runs", file)[1]
    chart = run["id"]
    for attempt, enough in ((1, 220), (2, 330)):
        deadline = time.monotonic() + 90
        while (shown := api("GET", "/runs/{id}", id=chart)[1])["attempts"] != attempt or shown["step"] < enough:
            assert time.monotonic() < deadline, shown
            time.sleep(0.02)
        if attempt == 1:
            os.kill(shown["attempt"]["process"], signal.SIGKILL)
    assert api("POST", "/runs/{id}/cancel", id=chart)[0] == 202
    api.wait(chart, OVER)
    journals = journals_of(api.controller.data / "runs" / chart)
    created = json.loads((api.controller.data / "runs" / chart / "submission.json").read_text())["created_utc"]
    names = ",".join([*STEP_SERIES, *EVALUATION_SERIES])
    for x in ("step", "samples", "wall", "wall_since_submission", "device_hours"):
        for count, within in ((7, None), (100, (0.2, 0.7)), (2000, None)):
            whole = {kind: points_of(journals, kind, x, created) for kind in ("step", "eval")}
            query, (low, high) = f"runs={chart},long&x={x}&buckets={count}&series={names}", (-1e300, 1e300)
            if within:
                at = [int(len(whole["step"]) * share) for share in within]
                # Between two points: UTC as a double is exact to 2e-7 s only.
                low, high = ((whole["step"][i][2] + whole["step"][i + 1][2]) / 2 for i in at)
                query += f"&from={low!r}&to={high!r}"
            answer = api("GET", "/metrics", query=query)[1]
            assert answer["x"] == x and len(answer["runs"]) == 2 and answer["runs"][1]["id"].startswith("long")
            for kind, key, series in (("step", "steps", STEP_SERIES), ("eval", "evaluations", EVALUATION_SERIES)):
                points = [point for point in whole[kind] if low <= point[2] <= high]
                told = answer["runs"][0][key]
                assert told["rows"] == len(points), (x, count, kind)
                expected = buckets_of(points, series, count, [bucket["rows"] for bucket in told["buckets"]])
                for i, (bucket, ends, figures) in enumerate(expected):
                    have = told["buckets"][i]
                    assert {name: have[name] for name in bucket} == bucket, (x, count, kind, i, have, bucket)
                    assert all(abs(have[end] - want) < 1e-5 + 1e-9 * abs(want) for end, want in zip(("from", "to"), ends)), (
                        x, have, ends)
                    for name, figure in figures.items():
                        assert all(abs(a - b) <= 1e-12 * abs(b) for a, b in zip(told["series"][name][i], figure)), (
                            x, name, i, told["series"][name][i], figure)
    branch = [bucket for bucket in answer["runs"][0]["steps"]["buckets"] if bucket["abandoned"]]
    assert branch and {bucket["attempt"] for bucket in branch} == {1}, branch
    for bad, culprit in (("", "runs"), ("runs=", "runs"), ("runs=a,,b", "runs"), ("runs=" + ",".join("abcdefghijklmnopq"), "runs"),
                         (f"runs={chart}&series=loss,loss", "series"), (f"runs={chart}&from=x", "from"),
                         (f"runs={chart}&to=nan", "to"),
                         (f"runs={','.join([chart] * 16)}&buckets=2000&series=loss,samples,tokens,mfu", "buckets")):
        status, problem = api("GET", "/metrics", query=bad)
        assert status == 400 and problem["parameter"] == culprit, (bad, status, problem)
    assert api("GET", "/metrics", query="runs=nobody")[0] == 404


def attempts_and_evaluations_are_what_the_journals_say(api, _):
    chart = api("GET", "/runs", query="name=chart&archived=all")[1]["runs"][0]["id"]
    journals = journals_of(api.controller.data / "runs" / chart)
    told = api("GET", "/runs/{id}/attempts", id=chart)[1]
    assert [(attempt["attempt"], attempt["first_step"], attempt["ranks"]) for attempt in told["attempts"]] == [
        (number, start_of(records)["first_step"], start_of(records).get("ranks", 1)) for number, records in journals]
    assert told["attempts"][0]["exit_code"] is None and told["attempts"][1]["exit_code"] == journals[1][1][-1]["exit_code"]
    launches = {launch["launch"]: launch for launch in told["launches"]}
    assert launches[told["attempts"][0]["launch"]]["signal"] == 9 and all(launch["over"] for launch in told["launches"]), told
    rows, cursor, more = [], 0, True
    while more:
        page = api("GET", "/runs/{id}/evaluations", id=chart, query=f"since={cursor}&limit=3")[1]
        rows, cursor, more = rows + page["evaluations"], page["cursor"], page["more"]
        assert len(page["evaluations"]) <= 3
    evaluations = points_of(journals, "eval", "step", 0)
    assert [(row["attempt"], row["step"], row["mlm_accuracy"], row["mlm_loss"], row["value"], row["metrics"], row["abandoned"]) for row in rows] == [
        (number, step, record["mlm_accuracy"], record["mlm_loss"], record["mlm_accuracy"], {}, abandoned)
        for number, step, _, record, abandoned in evaluations]
    points = points_of(journals, "step", "step", 0)
    abandoned = [point[4] for point in points]
    assert any(abandoned) and not all(abandoned), "attempt 1 was killed after its last checkpoint"
    table = csv.DictReader(io.StringIO(regatta(api, "export", chart).stdout))
    assert [(int(row["attempt"]), int(row["step"]), row["abandoned"]) for row in table] == [
        (number, step, str(mark).lower()) for number, step, _, _, mark in points]
    table = list(csv.DictReader(io.StringIO(regatta(api, "export", chart, "--series", "evaluations").stdout)))
    assert "metrics" not in table[0] and [float(row["value"]) for row in table] == [row["value"] for row in rows], table[0]
    lines = [json.loads(line) for line in regatta(api, "export", chart, "--series", "all", "-o", "jsonl").stdout.splitlines()]
    assert [line["abandoned"] for line in lines if line["type"] == "step"] == abandoned
    assert [line["abandoned"] for line in lines if line["type"] == "evaluation"] == [point[4] for point in evaluations]
    shown = api("GET", "/runs/{id}/metrics", id=chart)[1]
    assert [row[4] for row in shown["evaluations"]] == [point[4] for point in evaluations]
    assert [(row[0], row[9]) for row in shown["steps"]] == [(point[1], point[4]) for point in points]


def the_schema_of_run_files_is_that_of_their_reader(api, data):
    """What the reader takes fits the schema, and what does not fit is refused: for every key, around its limits."""
    schema = api("GET", "/run_file_schema")[1]
    printed = regatta_offline("config", "schema")
    documented = json.loads(json.dumps(api.document.json["components"]["schemas"]["RunFile"]))
    documented["properties"].pop("plan")
    assert json.loads(printed.stdout) == schema == documented, printed
    fits = jsonschema.Draft202012Validator(schema).is_valid
    whole = {"name": "schema", "data": {"path": str(data), "max_length": 48}, "steps": 5, "batch": {"size": 8},
             "target": {"value": 0.5}, "model": {"preset": "tiny"}}

    def refused(file):
        """The key that is told to be at fault."""
        status, answer = api("POST", "/runs", file, query="dry_run=true")
        assert status in (200, 422), answer
        assert status == 200 or f"{answer['key']}:" in answer["detail"], answer
        return answer["key"] if status == 422 else None
    for run in api("GET", "/runs", query="archived=all")[1]["runs"]:  # every key, as the controller writes it
        config = api("GET", "/runs/{id}", id=run["id"])[1]["config"]
        assert fits(config), config
    assert fits(whole) and not refused(whole)
    tried = 0
    for path, key in leaves(schema):
        for value in wrong_values(key):
            file = json.loads(json.dumps(whole))
            place = file
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
            if path[0] == "mllog":
                file["mllog"] = {"file": "f", "submitter": "s", **file["mllog"]}
            tried += 1
            assert not fits(file) and refused(file) == ".".join(path), (path, value, fits(file), refused(file))
        file = json.loads(json.dumps(whole))
        place = file
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place["no_such_key"] = 1
        if path[0] == "mllog":
            file["mllog"] = {"file": "f", "submitter": "s", **file["mllog"]}
        assert not fits(file) and refused(file) == ".".join((*path[:-1], "no_such_key")), (path, refused(file))
    assert tried > 100, tried
    without_data = {key: value for key, value in whole.items() if key != "data"}
    assert not fits(without_data) and refused(without_data) == "data.path"
    page = (ROOT / "docs" / "formats" / "run_file.md").read_text()
    for path, _ in leaves(schema):
        assert path[-1] in page, f"{path} is not in docs/formats/run_file.md"


def leaves(schema, path=()):
    for name, key in schema.get("properties", {}).items():
        if key.get("type") == "object" or name == "data":  # which may be a list, too
            yield from leaves(key, (*path, name))
        else:
            yield (*path, name), key


def wrong_values(key):
    if "enum" in key:
        return ["no such choice"]
    wrong = [] if isinstance(key["type"], list) else ["no such value"]
    for bound, beyond in (("minimum", -1), ("exclusiveMinimum", 0), ("maximum", 1), ("exclusiveMaximum", 0)):
        if bound in key:
            wrong.append(key[bound] + beyond)
    return wrong


def the_schemas_of_sections_are_those_of_their_readers(api, data):
    """`regatta schema sweep` and `experiment`: what fits is taken, and what does not is refused."""
    run = {"name": "many", "data": {"path": str(data), "max_length": 48}, "steps": 5, "batch": {"size": 8, "micro": 2},
           "model": {"preset": "tiny"}}

    def fault_of_sweep(file):
        return api("POST", "/sweeps", file, query="dry_run=true")[0] == 422

    def fault_of_experiment(file):
        path = data.parent / "many.json"
        path.write_text(json.dumps(file))
        done = regatta(api, "experiment", "parallel", str(path), "--dry-run")
        assert done.returncode in (0, 7), done
        return done.returncode == 7
    seed, rate = {"kind": "integer", "low": 1, "high": 9}, {"kind": "log_uniform", "low": 1e-5, "high": 1e-2}
    sweep = {"method": "random", "trials": 4, "objective": {"direction": "maximize"}, "parameters": {"seed": seed}}
    asha = {**sweep, "method": "asha", "budget": {"min": 2, "max": 4, "factor": 2}}
    choice = {"kind": "choice", "values": ["adamw", "lamb"]}
    experiment = {"layouts": [{"data": 1}], "seeds": [1, 2]}
    cases = {
        "sweep": (fault_of_sweep, [
            sweep, asha, {**sweep, "method": "tpe", "concurrency": 2, "seed": 7}, {**sweep, "budget": {"unit": "samples", "max": 80}},
            {"method": "grid", "objective": sweep["objective"], "parameters": {"seed": {"kind": "choice", "values": 5}}},
            {**sweep, "objective": {"kind": "goodput"}},
            {**sweep, "parameters": {"optimizer.name": choice, "optimizer.learning_rate": {**rate, "when": {"optimizer.name": ["lamb"]}}}},
        ], [
            {key: value for key, value in sweep.items() if key != "method"}, {**sweep, "method": "none"}, {**sweep, "trials": 0},
            {key: value for key, value in sweep.items() if key != "trials"}, {**sweep, "trials": 100_001}, {**sweep, "trials": "many"},
            {**sweep, "concurrency": 0}, {**sweep, "concurrency": 10_001}, {**sweep, "seed": -1}, {**sweep, "other": 1},
            {**sweep, "objective": {"direction": "up"}}, {**sweep, "objective": {"direction": "maximize", "kind": "none"}},
            {**sweep, "objective": {"direction": "maximize", "other": 1}}, {**sweep, "budget": {"unit": "hours"}},
            {**sweep, "budget": {"max": 0}}, {**asha, "budget": {"min": 2, "max": 4, "factor": 1}}, {**asha, "budget": {"max": 4}},
            {**sweep, "parameters": {}}, {**sweep, "parameters": {"sed": seed}}, {**sweep, "parameters": {"seed": 5}},
            {**sweep, "parameters": {"seed": {"low": 1, "high": 9}}}, {**sweep, "parameters": {"seed": {"kind": "integer", "low": 1}}},
            {**sweep, "parameters": {"seed": {**seed, "points": 1}}}, {**sweep, "parameters": {"seed": {**seed, "other": 1}}},
            {**sweep, "parameters": {"optimizer.name": {"kind": "choice"}}}, {**sweep, "parameters": {"seed": {**seed, "kind": "none"}}},
        ]),
        "experiment": (fault_of_experiment, [
            experiment, {**experiment, "seeds": 3}, {**experiment, "seeds": ["4", 5]}, {**experiment, "order": "listed"},
            {**experiment, "layouts": [{"data": 1}, {"pipeline": 2, "schedule": "gpipe", "name": "Two.2_x-y"}]},
        ], [
            {**experiment, "layouts": []}, {**experiment, "layouts": [{}]}, {**experiment, "layouts": [{"data": 0}]},
            {**experiment, "layouts": [{"data": "many"}]}, {**experiment, "layouts": [{"pipeline": 1025}]},
            {**experiment, "layouts": [{"pipeline": 2, "schedule": "none"}]}, {**experiment, "layouts": [{"data": 1, "name": "a b"}]},
            {**experiment, "layouts": [{"data": 1, "name": "x" * 25}]}, {**experiment, "layouts": [{"data": 1, "other": 1}]},
            {**experiment, "layouts": [{"data": 1 + i} for i in range(17)]}, {**experiment, "order": "none"},
            {**experiment, "seeds": []}, {**experiment, "seeds": [-1]}, {**experiment, "seeds": [1, 1]}, {**experiment, "seeds": ["x"]},
            {**experiment, "seeds": list(range(101))}, {**experiment, "other": 1}, {"layouts": experiment["layouts"]},
        ])}
    for section, (fault, good, bad) in cases.items():
        schema = json.loads(regatta_offline("schema", section).stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        fits = jsonschema.Draft202012Validator(schema).is_valid
        assert not fits(run) and not fits({**run, section: good[0], "no_such_key": 1})
        for value, is_good in [(value, True) for value in good] + [(value, False) for value in bad]:
            file = {**run, section: value}
            assert fits(file) == is_good and fault(file) == (not is_good), (section, value, fits(file), fault(file))
    beside = {**run, "experiment": experiment, "parallel": {"data": 1}}
    assert fault_of_experiment(beside) and not fits(beside)
    assert regatta_offline("schema").stdout == regatta_offline("schema", "run").stdout == regatta_offline("config", "schema").stdout


def regatta_offline(*words):
    return subprocess.run([BUILD / "orchestrator" / "regatta", *words], capture_output=True, text=True, timeout=60, check=True)


def sweep_is_stopped(api, sweep):
    api("POST", "/sweeps/{id}/stop", id=sweep)
    deadline = time.monotonic() + 60
    while api("GET", "/sweeps/{id}", id=sweep)[1]["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.2)


def the_examples_in_it_are_taken(api, data):
    """Each body of an example is sent to its address; none is refused for what it says."""
    names = {"id": api("GET", "/runs", query="name=long")[1]["runs"][0]["id"], "name": "latest", "node": "node01"}
    over = api("POST", "/runs", RUN.format(name="extended", data=data, steps=5))[1]["id"]
    api.wait(over, OVER)
    sent = 0
    for template, methods in api.document.json["paths"].items():
        for method, operation in methods.items():
            example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if example is None:
                continue
            sent += 1
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            api.document.check(schema, example, f"the example of {method} {template}")
            extends = template == "/runs/{id}/extend"  # what is over, which the other one is no longer
            status, answer = api(method.upper(), template, example, **{**names, **({"id": over} if extends else {})})
            assert str(status) in operation["responses"], (method, template, status, answer)
            if template in ("/runs", "/runs/{id}/extend", "/runs/{id}/fork"):
                api("POST", "/runs/{id}/cancel", id=answer["id"])
            if template == "/sweeps":  # whose runs others would wait for
                sweep_is_stopped(api, answer["id"])
    assert sent >= 9, sent
    each_example_of_a_parameter_is_taken(api, names)
    api("POST", "/runs/{id}/cancel", id=names["id"])
    api.wait(names["id"], OVER)


def each_example_of_a_parameter_is_taken(api, names):
    """Each alone, where asking changes nothing; what is not there (a file, a rank) is 404."""
    taken = 0
    for template, methods in api.document.json["paths"].items():
        for method, operation in methods.items():
            for parameter in operation["parameters"] if template not in ("/tickets", "/session") else []:
                if parameter["in"] != "query":
                    continue
                example = parameter["example"]
                api.document.check(parameter["schema"], example, f"the example of {parameter['name']} of {template}")
                if method != "get" or template.endswith("/stream"):
                    continue
                text = ",".join(example) if isinstance(example, list) else json.dumps(example).strip('"')
                query = f"{parameter['name']}={urllib.parse.quote(text.replace('bert-1b2c3d', names['id']))}"
                needed = {"/metrics": f"&runs={names['id']}", "/runs/{id}/logs/search": "&grep=x"}.get(template, "")
                query += needed if needed[1:].split("=")[0] != parameter["name"] else ""
                way = "unix" if parameter.get("x-scope") == "owner" else "tcp"
                status, answer = api("GET", template, query=query, way=way, **names, file="config.json")
                assert status in (200, 404), (template, query, status, answer)
                taken += status == 200
    assert taken >= 45, taken


def each_parameter_is_checked(api, _):
    """A value that its schema does not allow is 400 and named; and so is a parameter that is not there."""
    names = {"id": "nobody", "name": "latest", "file": "config.json", "node": "node01", "bench": "0123456789ab"}
    for template, methods in api.document.json["paths"].items():
        for method, operation in methods.items():
            if template in ("/tickets", "/session"):
                continue
            for query, culprit in ((f"{parameter['name']}={bad}", parameter["name"]) for parameter in operation["parameters"]
                                   if parameter["in"] == "query" for bad in bad_values(parameter["schema"])):
                status, problem = api(method.upper(), template, query=query, **names)
                assert status == 400 and problem["parameter"] == culprit, (method, template, query, status, problem)
            status, problem = api(method.upper(), template, query="no_such=1", **names)
            assert status == 400 and problem["parameter"] == "no_such", (method, template, problem)


def bad_values(schema):
    if schema["type"] == "integer":
        return [str(schema["minimum"] - 1), str(schema["maximum"] + 1), "x", "1.5", ""]
    if schema["type"] == "boolean" or "enum" in schema:
        return ["perhaps", ""]
    if schema["type"] == "array":
        return ["perhaps", "", schema["items"]["enum"][0] + ","]
    return ["tomorrow", ""] if schema.get("format") == "date-time" else []


def access_is_as_it_says(api, _):
    status, ticket = api("POST", "/tickets", way="unix")
    assert status == 201
    assert api("POST", "/tickets")[0] == 403
    status, session = api("POST", "/session", {"ticket": ticket["ticket"]})
    assert status == 201 and session["token"]
    assert api("POST", "/session", {"ticket": ticket["ticket"]})[0] == 401
    for path, key in (("/healthz", "alive"), ("/readyz", "ready")):
        status, _, text = api.controller.ask("GET", path, headers={"Authorization": "none"})
        assert (status, json.loads(text)) == (200, {key: True}), (path, status, text)
    status, headers, text = api.controller.ask("GET", "/api/v1/runs", headers={"Authorization": "Bearer wrong"})
    api.document.answered("GET", "/runs", status, headers, text)
    assert status == 401


def answers_are_tagged_and_compressed(api, _):
    ask = api.controller.ask
    status, headers, plain = ask("GET", "/api/v1/openapi.json")
    assert status == 200 and len(plain) > 20000
    status, packed, small = ask("GET", "/api/v1/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and gzip.decompress(small) == plain and len(small) < len(plain) / 5
    status, _, nothing = ask("GET", "/api/v1/openapi.json", headers={"If-None-Match": packed["ETag"]})
    assert status == 304 and nothing == b"" and packed["ETag"] == headers["ETag"]
    status, headers, _ = ask("GET", "/api/v1/runs/nobody", headers={"X-Request-Id": "mine-1"})
    assert status == 404 and headers["X-Request-Id"] == "mine-1"


def the_command_line_lists_what_the_api_does(api, _):
    """`regatta ls`: filters, pages, and each form as another program reads it."""
    def ls(*words):
        done = subprocess.run([BUILD / "orchestrator" / "regatta", "ls", "--server", f"unix:{api.controller.data}/controller.sock",
                               *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout
    whole = api("GET", "/runs", query="archived=all&full=true")[1]["runs"]
    assert len(whole) >= 3
    assert [run["id"] for run in json.loads(ls("--all", "-o", "json"))["runs"]] == [run["id"] for run in whole]
    assert ls("--all", "-o", "name").split() == [run["id"] for run in whole]
    assert ls("--all", "-o", "name", "--reverse").split() == [run["id"] for run in reversed(whole)]
    assert ls("--all", "-o", "name", "--limit", "2").split() == [run["id"] for run in whole[:2]]
    assert ls("--all", "-o", "name", "--name", "lon").split() == [run["id"] for run in whole if run["name"].startswith("lon")]
    assert ls("--all", "-o", "name", "--text", "LONG").split() == [run["id"] for run in whole if "long" in run["id"]]
    assert ls("--all", "-o", "name", "--since", "1h").split() == [run["id"] for run in whole]
    assert ls("--all", "-o", "name", "--until", "2020-01-01") == ""
    rows = list(csv.DictReader(io.StringIO(ls("--all", "-o", "csv"))))
    assert [row["id"] for row in rows] == [run["id"] for run in whole]
    assert [row["state"] for row in rows] == [run["state"] for run in whole]

    done = subprocess.run([BUILD / "orchestrator" / "regatta", "compare", "--server",
                           f"unix:{api.controller.data}/controller.sock", "long", "after", "-o", "json"], capture_output=True,
                          text=True, timeout=60, check=True)
    told = json.loads(done.stdout)
    assert told["differences"]["steps"] == [10**6, 5], told

    def export(*words):
        return subprocess.run([BUILD / "orchestrator" / "regatta", "export", "--server",
                               f"unix:{api.controller.data}/controller.sock", "long", *words], capture_output=True, text=True,
                              timeout=60, check=True).stdout
    steps = list(csv.DictReader(io.StringIO(export())))
    lines = [json.loads(line) for line in export("--series", "all", "-o", "jsonl").splitlines()]
    assert steps and [int(row["step"]) for row in steps] == [row["step"] for row in lines if row["type"] == "step"]
    assert [float(row["loss"]) for row in steps] == [row["loss"] for row in lines if row["type"] == "step"]
    assert {row["type"] for row in lines} == {"step", "evaluation", "checkpoint"}


def sweeps_are_tried_and_stopped(api, data):
    """The routes below /sweeps, held against the document; a sweep of two short runs, and one that is stopped."""
    begin = RUN.format(name="swept", data=data, steps=2)
    body = begin + """
sweep:
  method: grid
  objective: {direction: maximize}
  parameters:
    seed: {kind: choice, values: [5, 6]}
"""
    yaml = {"Content-Type": "application/yaml"}
    status, dry = api("POST", "/sweeps", body, query="dry_run=true", headers=yaml)
    assert status == 200 and dry["id"] is None and len(dry["trials"]) == 1 and dry["counts"]["planned"] == 2, dry
    before = {sweep["id"] for sweep in api("GET", "/sweeps")[1]["sweeps"]}
    keyed = {**yaml, "Idempotency-Key": "swept-once"}
    status, sweep = api("POST", "/sweeps", body, headers=keyed)
    assert status == 201 and sweep["state"] == "running" and sweep["config"]["name"] == "swept", sweep
    status, again = api("POST", "/sweeps", body, headers=keyed)
    assert status == 200 and again["id"] == sweep["id"], again
    assert api("POST", "/sweeps", body.replace("[5, 6]", "[5, 7]"), headers=keyed)[0] == 409
    status, refused = api("POST", "/runs", body[:body.index("sweep:")], headers=keyed)
    assert status == 409 and sweep["id"] in json.dumps(refused), refused  # of both a key is one
    assert api("DELETE", "/sweeps/{id}", id=sweep["id"])[0] == 409
    deadline = time.monotonic() + 120
    while (shown := api("GET", "/sweeps/{id}", id="swept")[1])["state"] == "running":
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert shown["state"] == "done" and shown["counts"]["finished"] == 2, shown
    objectives = {}
    for trial in shown["trials"]:
        run = api("GET", "/runs/{id}", id=trial["run"])[1]
        assert run["config"]["seed"] == trial["values"]["seed"] and run["tags"] == [f"sweep-{sweep['id']}"]
        assert run["value"] == trial["objective"] and trial["run_state"] == "succeeded" and trial["ended"] >= trial["started"]
        objectives[trial["objective"]] = trial["rank"]
    assert objectives[max(objectives)] == 1 and shown["best"]["objective"] == max(objectives), shown
    rows = list(csv.DictReader(io.StringIO(api("GET", "/sweeps/{id}/trials.csv", id=sweep["id"])[1].decode())))
    assert [row["seed"] for row in rows] == ["5", "6"] and [float(row["objective"]) for row in rows] == [
        trial["objective"] for trial in shown["trials"]], rows
    assert api("POST", "/sweeps/{id}/stop", id=sweep["id"])[0] == 200
    long = api("POST", "/sweeps", body.replace("steps: 2", "steps: 1000000"), headers=yaml)[1]["id"]
    assert api("POST", "/sweeps/{id}/stop", id=long)[0] == 202
    sweep_is_stopped(api, long)
    shown = api("GET", "/sweeps/{id}", id=long)[1]
    assert shown["state"] == "stopped", shown
    listed = api("GET", "/sweeps", query="limit=1")[1]
    assert listed["next"] == listed["sweeps"][0]["id"] == long and listed["total"] == len(before) + 2, listed
    following = api("GET", "/sweeps", query=f"limit=1000&after={long}")[1]
    assert following["next"] is None and following["sweeps"][0]["id"] == sweep["id"], following
    stopped = api("GET", "/sweeps", query="state=stopped")[1]["sweeps"]
    assert stopped[0]["id"] == long and {each["state"] for each in stopped} == {"stopped"}, stopped
    status, problem = api("GET", "/sweeps", query="after=nobody")
    assert status == 404 and problem["parameter"] == "after", problem
    for bad, key in ((body.replace("seed: {", "sed: {"), "sweep.parameters.sed"), (begin, "sweep"), ("", None), ("[1]", None),
                     (body.replace("maximize", "minimize"), "sweep.objective.direction")):
        status, problem = api("POST", "/sweeps", bad, headers=yaml)
        assert status == 422 and problem.get("key") == key, (bad, problem)
    assert api("GET", "/sweeps/{id}", id="nobody")[0] == 404
    # A run file alone does not take what makes many.
    status, problem = api("POST", "/runs", body, headers=yaml)
    assert status == 422 and problem["key"] == "sweep" and "regatta sweep submit" in problem["detail"], problem
    for each in (sweep["id"], long):
        assert api("DELETE", "/sweeps/{id}", id=each) == (200, {"id": each})
    assert api("DELETE", "/sweeps/{id}", id=long)[0] == 404


def experiments_are_tables_of_their_runs(api, data):
    """The routes below /experiments; that figures are those of the journals, tests/orchestrator/cli/experiment_test.py looks at."""
    assert api("GET", "/experiments")[1] == {"experiments": [], "total": 0, "next": None}
    runs = {}
    for place, (experiment, seed) in enumerate((("one", 7), ("one", 8), ("two", 7)), 1):
        tags = f"experiment-{experiment},layout-1-data1,run-{min(place, 2)}-of-2"
        body = RUN.format(name=f"laid-data1-s{seed}", data=data, steps=5) + f"seed: {seed}\n"
        runs[experiment, seed] = api("POST", "/runs", body, query="tags=" + urllib.parse.quote(tags))[1]["id"]
    while any(api("GET", "/runs/{id}", id=run)[1]["state"] not in OVER for run in runs.values()):
        api("GET", "/experiments")
        api("GET", "/experiments/{id}", id="one")
        time.sleep(0.1)
    table = api("GET", "/experiments/{id}", id="one")[1]
    told = {run["seed"]: run for run in table["runs"]}
    assert {seed: run["id"] for seed, run in told.items()} == {7: runs["one", 7], 8: runs["one", 8]}, table
    mean = table["layouts"][0]["figures"]["validation_loss"]
    losses = [run["figures"]["validation_loss"] for run in told.values()]
    assert mean["runs"] == 2 and mean["mean"] == statistics.fmean(losses) > 0, table
    assert abs(mean["deviation"] - statistics.stdev(losses)) < 1e-12, table
    markdown = api("GET", "/experiments/{id}/table.md", id="one")[1].decode()
    assert markdown == regatta(api, "experiment", "show", "one", "-o", "markdown").stdout and "| samples/s |" in markdown, markdown
    shown = regatta(api, "experiment", "show", "one", "-o", "json")
    assert json.loads(shown.stdout) == table, shown
    first = api("GET", "/experiments", query="limit=1")[1]
    assert first["next"] == "two" and first["total"] == 2 and first["experiments"][0]["runs"] == 1, first
    second = api("GET", "/experiments", query="after=two")[1]
    row, = second["experiments"]
    assert second["next"] is None and (row["id"], row["name"], row["planned"], row["finished"]) == ("one", "laid", 2, 2), second
    assert row["states"] == {"succeeded": 2} and row["layouts"] == ["data1"] and row["begun"] < row["changed"], row
    status, problem = api("GET", "/experiments", query="after=nobody")
    assert status == 404 and problem["parameter"] == "after", problem
    for template in ("/experiments/{id}", "/experiments/{id}/table.md"):
        assert api("GET", template, id="nobody")[0] == 404
    for run in runs.values():
        assert api("DELETE", "/runs/{id}", id=run)[0] == 200
    assert api("GET", "/experiments/{id}", id="one")[0] == 404


def curves_of_others_are_kept(api, data):
    """`regatta import mlperf` of a log that the trainer wrote, against the journal of its run; and the routes."""
    api("DELETE", "/references/{name}", name="example")  # of the document's examples
    file = RUN.format(name="own", data=data, steps=20) + "mllog: {file: result_0.txt, submitter: Example}\n"
    own = api("POST", "/runs", file, headers={"Content-Type": "application/yaml"})[1]["id"]
    api.wait(own, OVER)
    run = api.controller.data / "runs" / own
    log = data.parent / "own" / "result_0.txt"
    log.parent.mkdir()
    log.write_bytes((run / "result_0.txt").read_bytes())
    journal = [json.loads(line) for path in run.glob("attempts/*/journal.jsonl") for line in path.read_text().splitlines()]
    evaluations = [record for record in journal if record["type"] == "eval"]
    begun = next(record for record in journal if record["type"] == "start")

    def regatta(*words, code=0):
        done = subprocess.run([BUILD / "orchestrator" / "regatta", *words, "--server",
                               f"unix:{api.controller.data}/controller.sock"], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr
    told = regatta("import", "mlperf", log, "--name", "ours", "--round", "v9.9", "--chips", "3")
    assert told == f"ours: {len(evaluations)} evaluations, 0.9 after -\n", told
    status, reference = api("GET", "/references/{name}", name="ours")
    assert status == 200 and reference["round"] == "v9.9" and reference["submitter"] == "Example" and reference["chips"] == 3 and reference["global_batch"] == 8
    assert reference["status"] == "aborted" and reference["threshold"] == 0.9 and reference["time_to_accuracy_seconds"] is None
    for point, record in zip(reference["evaluations"], evaluations, strict=True):
        assert point[1:] == [8 * record["step"], record["mlm_accuracy"]], (point, record)
        assert abs(point[0] - (record["utc_seconds"] - begun["utc_seconds"])) < 0.002, (point, record)
    assert regatta("import", "mlperf", log, "--name", "ours", "--round", "v9.9", "--chips", "3") == told
    assert api("GET", "/references/{name}", name="ours")[1] == reference, "the same twice is one"
    told = regatta("import", "mlperf", log, "--name", "ours", "--threshold", "0", code=5)
    assert "another reference has the name ours" in told and told.count("\n") == 1, told
    regatta("import", "mlperf", log, "--name", "reached", "--threshold", "0")
    assert api("GET", "/references/{name}", name="reached")[1]["time_to_accuracy_seconds"] == reference["evaluations"][0][0]
    # One bad file, and none of the others is kept.
    (log.parent / "good.txt").write_text(log.read_text())
    with open(log.parent / "long.txt", "wb") as file:
        file.write(b":::MLLOG " + b"x" * 100_000_000)
    for bad, why in ((b"", "no line of MLPerf's"), (os.urandom(1000), "no line of MLPerf's"),
                     (log.read_bytes()[:-20], "damaged")):
        (log.parent / "bad.txt").write_bytes(bad)
        told = regatta("import", "mlperf", log.parent / "good.txt", log.parent / "bad.txt", code=7)
        assert why in told and told.count("\n") == 1, told
    for bad in ("long.txt", "absent.txt"):
        told = regatta("import", "mlperf", log.parent / "good.txt", log.parent / bad, code=7 if bad == "long.txt" else 3)
        assert told.count("\n") == 1 and bad in told, told
    for body in ("", "x", "[]", '{"name": "n"}', "[" * 100_000, '{"name": "n", "threshold": 0.5, "evaluations": [[1e999, 1, 0.5]]}'):
        status, problem = api("POST", "/references", body)
        assert status == 422 and problem["detail"], (body[:50], status, problem)
    body = {key: reference[key] for key in ("name", "threshold", "chips", "evaluations")}
    for expected in (201, 200):
        assert api("POST", "/references", {**body, "name": "by-hand"})[0] == expected
    assert api("DELETE", "/references/{name}", name="by-hand") == (200, {"name": "by-hand"})
    listed = api("GET", "/references", query="limit=1")[1]
    assert [row["name"] for row in listed["references"]] == ["ours"] and listed["next"] == "ours", listed
    listed = api("GET", "/references", query="limit=1&after=ours")[1]
    assert [row["name"] for row in listed["references"]] == ["reached"] and listed["next"] is None, listed
    assert [row["name"] for row in json.loads(regatta("references", "ls", "-o", "json"))["references"]] == ["ours", "reached"]
    assert regatta("references", "ls").splitlines()[1].split()[:2] == ["ours", "v9.9"]
    told = json.loads(regatta("compare", "long", "ours", "after", "-o", "json"))
    assert told["runs"][1] == "ours" and told["figures"]["target"][1] == 0.9 and told["figures"]["ranks"][1] == 3, told
    assert told["figures"]["value"][1] == evaluations[-1]["mlm_accuracy"], told
    alone = json.loads(regatta("compare", "long", "after", "-o", "json"))
    assert set(told["differences"]) == set(alone["differences"]), "a reference has no configuration that could differ"
    assert "no run" in regatta("compare", "long", "nobody", code=3)
    assert regatta("references", "rm", "ours", "reached") == "ours: removed\nreached: removed\n"
    assert api("GET", "/references/{name}", name="ours")[0] == 404
    assert api("DELETE", "/references/{name}", name="ours")[0] == 404
    assert api("GET", "/references")[1]["references"] == []


def benches_of_nodes_are_kept(api, data):
    """`regatta platform` against the routes: four machines of which one copies at half the rate."""
    def regatta(*words, code=0):
        done = subprocess.run([BUILD / "orchestrator" / "regatta", *words, "--server",
                               f"unix:{api.controller.data}/controller.sock"], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    def bench(host, rate, utc=1767225600):
        return {"format": 1, "workload": 1, "host": host, "at": "2026-01-01T00:00:00.000Z", "utc": utc, "seconds": 5, "version": "0.1.0",
                "machine": {"processor": "P", "threads": 2, "memory_bytes": 1, "load_average": 0.0}, "absent": [],
                "figures": [{"name": "memory.cpu.copy", "unit": "B/s", "value": rate, "spread": rate / 100, "repeats": 7,
                             "better": "higher", "work": "8 B"}]}
    machine, = (node["name"] for node in api("GET", "/nodes")[1]["nodes"])
    folder = data.parent / "benches"
    folder.mkdir()
    for name, rate in (("a", 1e9), ("b", 1.01e9), ("c", 0.99e9), ("here", 5e8)):
        (folder / f"{name}.json").write_text(json.dumps(bench(f"{name}-host", rate)))
    told = regatta("platform", "keep", *(folder / f"{name}.json" for name in "abc"))
    assert [line.split(":")[0] for line in told.splitlines()] == ["a-host", "b-host", "c-host"], told
    regatta("platform", "keep", folder / "here.json", "--node", machine)
    kept, = api("GET", "/nodes/{node}/benches", node=machine)[1]["benches"]
    assert kept["bench"] == json.loads((folder / "here.json").read_text()) and kept["machine_kind"] == "P, 2 threads", kept
    assert api("POST", "/nodes/{node}/benches", bench("here-host", 5e8), node=machine) == (200, kept)
    full = api("GET", "/nodes", query="full=true")[1]["nodes"][0]
    assert full["bench"]["id"] == kept["id"] and full["bench"]["fleet_nodes"] == 4, full
    change, = full["bench"]["against_fleet"]
    assert change["part"] == "memory" and change["slower"] and abs(change["change"] + 1 - 5e8 / 0.995e9) < 1e-3, change  # the middle of four
    assert 0.4 < full["suspicion"] <= 0.5 and "slow in its bench" in full["suspicion_why"], full
    assert api("GET", "/nodes")[1]["nodes"][0]["bench_slow"] == full["bench_slow"] == full["bench"]["slow"], full
    assert "slower than the median of 4 nodes of its kind in memory" in regatta("nodes")
    assert regatta("platform", "ls", machine).splitlines()[1].split()[0] == kept["id"]
    assert [row["id"] for row in json.loads(regatta("platform", "ls", machine, "-o", "json"))["benches"]] == [kept["id"]]
    (folder / "bad.json").write_text("{}")
    (folder / "long.json").write_text(" " * 300_000)
    for name, why in (("bad", "'format' is missing"), ("long", "larger than")):
        told = regatta("platform", "keep", folder / "a.json", folder / f"{name}.json", code=7)
        assert why in told and told.count("\n") == 1, told
    for body in ("", "x", "[" * 100_000, bench("x", -1), bench("x", 1e9, 4e9)):
        assert api("POST", "/nodes/{node}/benches", body, node="x")[0] == 422, body
    assert api("POST", "/nodes/{node}/benches", bench("x", 1e9), node="a b".replace(" ", "%20"))[0] == 422
    assert regatta("platform", "rm", machine, kept["id"]) == f"{machine}: bench {kept['id']} removed\n"
    assert api("DELETE", "/nodes/{node}/benches/{bench}", node=machine, bench=kept["id"])[0] == 404
    other, = api("GET", "/nodes/{node}/benches", node="a-host")[1]["benches"]
    assert api("DELETE", "/nodes/{node}/benches/{bench}", node="a-host", bench=other["id"]) == (200, {"node": "a-host", "id": other["id"]})
    assert "no bench of" in regatta("platform", "ls", machine)
    kinds = [event["kind"] for event in api("GET", "/events", query=f"node={machine}")[1]["events"]]
    assert kinds[-3:] == ["node.benched", "node.blamed", "node.bench_removed"], kinds


def tensorboard_reads_what_is_exported(api, data):
    """Another reader of the event file, against the journals."""
    runs = api("GET", "/runs", query="name=long")[1]["runs"]
    run, folder = runs[0]["id"], data.parent / "board"

    def export(*words, code=0, **more):
        done = subprocess.run([BUILD / "orchestrator" / "regatta", "export", "--server",
                               f"unix:{api.controller.data}/controller.sock", run, *words], capture_output=True, text=True,
                              timeout=60, **more)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr
    path = pathlib.Path(export("-o", "tensorboard", "--directory", str(folder)).strip())
    assert path.parent == folder and "tfevents" in path.name, path
    written = path.read_bytes()
    events = list(event_file.events(written))
    assert events[0]["version"] == "brain.Event:2" and all("version" not in event for event in events[1:])
    attempts = sorted((api.controller.data / "runs" / run / "attempts").iterdir())
    records = [[json.loads(line) for line in (attempt / "journal.jsonl").read_text().splitlines()] for attempt in attempts]
    kinds = ("step", "eval")
    expected = [record for attempt in records for record in attempt if record["type"] in kinds]
    found = [event for event in events if "scalars" in event]
    assert len(found) == len(expected) > 0, (len(found), len(expected))

    def float32(value):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    for event, record in zip(found, expected):
        assert event["step"] == record["step"] and abs(event["wall_time"] - record["utc_seconds"]) < 0.01, (event, record)
        scalars = event["scalars"]
        if record["type"] == "step":
            assert scalars["train/loss"] == float32(record["loss"]), (event, record)
            assert scalars["train/learning_rate"] == float32(record["learning_rate"]) > 0, (event, record)
            assert abs(scalars["train/samples_per_second"] / (record["samples"] / record["step_seconds"]) - 1) < 1e-6, (event, record)
        else:
            assert scalars["eval/mlm_accuracy"] == float32(record["mlm_accuracy"]), (event, record)
    starts = [event["step"] for event in events if event.get("start")]
    firsts = [next(record["step"] for record in attempt if record["type"] in kinds) for attempt in records[1:]
              if any(record["type"] in kinds for record in attempt)]
    assert starts == firsts and len(starts) >= 1, (starts, firsts)
    assert export("-o", "tensorboard", "--directory", str(folder)).strip() == str(path) and path.read_bytes() == written
    assert [each.name for each in folder.iterdir()] == [path.name], "nothing half-written is left"
    for on_limit in (signal.SIG_DFL, signal.SIG_IGN):  # it is killed; its write fails

        def limit():
            signal.signal(signal.SIGXFSZ, on_limit)
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(written) // 2, len(written) // 2))
        export("-o", "tensorboard", "--directory", str(folder), preexec_fn=limit,
               code=-signal.SIGXFSZ if on_limit == signal.SIG_DFL else 1)
        left = [each.name for each in folder.iterdir() if each != path]
        assert path.read_bytes() == written and not any("tfevents" in name for name in left), left
    assert not left, "what failed has removed it"
    assert "--directory" in export("-o", "tensorboard", code=2) and "--directory" in export("--directory", "x", code=2)
    try:
        from tensorboard.backend.event_processing import event_file_loader
    except ImportError:
        print("skipped  no tensorboard to read the file with as well")
    else:
        assert len(list(event_file_loader.EventFileLoader(str(path)).Load())) == len(events)


def an_extended_run_is_one_curve(api, _):
    """The last evaluation is made again by the attempt that goes on, and nothing is trained again."""
    run = api("GET", "/runs", query="name=own&archived=all")[1]["runs"][0]["id"]
    last = api("GET", "/runs/{id}", id=run)[1]["steps"]
    assert api("POST", "/runs/{id}/extend", json.dumps({"steps": last + 5}), id=run)[0] == 202
    deadline = time.monotonic() + 60
    while (shown := api("GET", "/runs/{id}", id=run)[1])["attempts"] != 2 or shown["state"] != "succeeded":
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    chart = api("GET", "/metrics", query=f"runs={run}&series=loss,mlm_accuracy")[1]["runs"][0]
    buckets = chart["evaluations"]["buckets"]
    assert {bucket["attempt"] for bucket in buckets} == {1, 2} and not any(bucket["abandoned"] for bucket in buckets), buckets
    assert not any(bucket["abandoned"] for bucket in chart["steps"]["buckets"]), chart["steps"]["buckets"]


def machines_are_those_of_the_file(api, _):
    told = api("GET", "/topology")[1]
    assert (told["nodes"], [(kind["nodes"], kind["gpus"]) for kind in told["kinds"]]) == (32, [(32, 8)]), told
    assert told["sources"][0]["place"] == str(EXAMPLE) and told["measured"] == [] and "graph" not in told, told
    graph = api("GET", "/topology", query="graph=true")[1]["graph"]
    assert graph == json.loads(regatta_offline("topo", EXAMPLE, "-o", "json").stdout)
    found = api("GET", "/topology/findings")[1]
    doctor = json.loads(regatta_offline("doctor", EXAMPLE, "-o", "json").stdout)["findings"]
    assert [{key: value for key, value in each.items() if key != "node"} for each in found["findings"]] == doctor, found
    assert found["total"] == len(doctor), found


def receivers_are_told_of(api, _):
    hook = api("GET", "/webhooks")[1]["webhooks"][0]
    assert (hook["url"], hook["kinds"]) == ("http://127.0.0.1:9", ["reference"]), hook
    assert api("POST", "/webhooks/{name}/redeliver", name=hook["name"])[1]["name"] == hook["name"]
    assert api("POST", "/webhooks/{name}/redeliver", name="nobody")[0] == 404


def nothing_in_it_was_left_out(api, _):
    """After all that: every answer that is documented was seen."""
    documented = {(template, method, int(status)) for template, methods in api.document.json["paths"].items()
                  for method, operation in methods.items() for status in operation["responses"] if status not in ("default", "304", "416")}
    # 304 and 416 are asked for once, for all that are alike. A plan needs several ranks; a removal that leaves files a disk that fails.
    unseen = {("/runs/{id}/plan", "get", 200), ("/runs/{id}", "delete", 202)}
    assert documented - api.document.asked == unseen, documented - api.document.asked


CASES = [the_document_is_served_and_is_the_one_in_the_docs, agreed_answers_are_as_it_says,
         a_run_is_submitted_watched_and_kept, a_run_is_cancelled_and_resumed, a_run_is_extended_changed_and_forked, charts_are_what_the_journals_say,
         attempts_and_evaluations_are_what_the_journals_say, the_schema_of_run_files_is_that_of_their_reader,
         the_schemas_of_sections_are_those_of_their_readers,
         the_examples_in_it_are_taken, what_happened_is_told, each_parameter_is_checked, access_is_as_it_says,
         answers_are_tagged_and_compressed, the_command_line_lists_what_the_api_does, curves_of_others_are_kept, benches_of_nodes_are_kept, sweeps_are_tried_and_stopped,
         experiments_are_tables_of_their_runs, tensorboard_reads_what_is_exported,
         an_extended_run_is_one_curve, machines_are_those_of_the_file, receivers_are_told_of, nothing_in_it_was_left_out]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = make_data(folder, BUILD / "trainer" / "regatta-train")
        controller = Controller(folder)
        try:
            document = Document(json.loads(controller.ask("GET", "/api/v1/openapi.json")[2]))
            results = run_cases("openapi", CASES, Api(controller, document), data)
        finally:
            controller.end()
        if results["failed"]:
            print((folder / "log").read_text()[-3000:])
        return conclude(results)


if __name__ == "__main__":
    sys.exit(main())
