// A controller with one run, whose checkpoints the test writes, and `regatta ckpt` for it.
#pragma once

#include <gmock/gmock.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/process.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/server.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {

class CkptTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;
  CkptTest();

  control::ControllerOptions options() const {
    control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }
  tests::RawAnswer get(const std::string& target) {
    return tests::send_raw(server_.port(), tests::request_text("GET", target));
  }
  tests::RawAnswer post(const std::string& target, const std::string& body = "") {
    return tests::send_raw(server_.port(), tests::request_text("POST", target, "", body));
  }
  std::string address() const { return "/api/v1/runs/" + id_ + "/checkpoints"; }
  Json got(const std::string& path);
  Json posted(const std::string& path, const std::string& body = "");

  base::Path checkpoints() const { return run_ / "checkpoints"; }
  std::string write(std::int64_t step, double value = 0.25) {
    tests::SampleCheckpoint sample(step, "aaaa");
    sample.contents.manifest.value = value;
    sample.contents.manifest.utc_seconds = clock_.utc_seconds() - 60;
    checkpoint::CheckpointStore store(base::posix_file_system(), checkpoints());
    return store.write(sample.contents, tests::always).name;
  }
  void flip_a_byte(const std::string& name) {
    std::fstream file(checkpoints() / name / checkpoint::kModelFile,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  static Json row(const Json& list, const std::string& name);

  // What regatta-train is, for the API and with --trainer.
  base::Path trainer() const { return folder_.path() / "trainer"; }
  void write_trainer(const std::string& script) const {
    tests::write_file(trainer(), "#!/bin/sh\n" + script);
    std::filesystem::permissions(trainer(), std::filesystem::perms::owner_all);
  }
  // An export that ends once the file `go` is there, and writes its arguments.
  void write_patient_trainer() const {
    write_trainer(
        "for a in \"$@\"; do case \"$a\" in --output=*) out=\"${a#--output=}\" ;; esac; done\n"
        "mkdir \"$out.partial-00\" && printf '%s\\n' \"$@\" > \"$out.partial-00/arguments\"\n"
        "while [ ! -e '" +
        (folder_.path() / "go").string() +
        "' ]; do sleep 0.02; done\n"
        "mv \"$out.partial-00\" \"$out\"\n");
  }
  // The status once it is no longer under way.
  Json exported(const std::string& name);

  // `regatta ckpt …`; the controller of this test unless another is named.
  base::Output ckpt(std::vector<std::string> arguments, const std::string& server = "") {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "ckpt"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment["REGATTA_SERVER"] = server.empty() ? server_.url() : server;
    command.directory = folder_.path();
    return base::run(command, 120);
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  store::Store store_;
  control::Controller controller_;
  api::Api api_;
  api::HttpServer server_;
  std::string id_;
  base::Path run_;
};

}  // namespace regatta::orchestrator
