#include "tests/orchestrator/checkpoints/ckpt_fixture.h"

#include <nlohmann/json.hpp>

namespace regatta::orchestrator {

CkptTest::CkptTest()
    : store_(folder_.path() / "state"),
      controller_(base::posix_file_system(), clock_, store_, scheduler_, options()),
      api_(controller_, base::posix_file_system(), clock_,
           {{},
            api::CheckpointApiOptions{
                checkpoints::ExportSettings{folder_.path() / "trainer",
                                            3600,
                                            {{"PATH", "/usr/bin:/bin"}, {"ALLOWED", "yes"}}}}}),
      server_({"127.0.0.1", 0},
              [this](const api::Request& request) { return api_.handle(request); }) {
  server_.start();
  const std::string file = tests::run_file() +
                           "target: {value: 0.5}\n"
                           "checkpoint: {keep_last: 2, keep_best: 1, keep_every: 10}\n";
  id_ = Json::parse(post("/api/v1/runs", file).body).value("id", "");
  run_ = store_.run(id_)->directory;
}

nlohmann::ordered_json CkptTest::got(const std::string& path) {
  const tests::RawAnswer answer = get(address() + path);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body, nullptr, false);
}

nlohmann::ordered_json CkptTest::posted(const std::string& path, const std::string& body) {
  const tests::RawAnswer answer = post(address() + path, body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body, nullptr, false);
}

nlohmann::ordered_json CkptTest::row(const Json& list, const std::string& name) {
  for (const Json& one : list["checkpoints"]) {
    if (one["name"] == name) return one;
  }
  return {};
}

nlohmann::ordered_json CkptTest::exported(const std::string& name) {
  Json status;
  EXPECT_TRUE(tests::eventually([&] {
    status = got("/" + name + "/export");
    return status["state"] != "running";
  }));
  return status;
}

}  // namespace regatta::orchestrator
