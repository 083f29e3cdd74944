#include "tests/orchestrator/cli/regatta_process.h"

#include <nlohmann/json.hpp>

#include "orchestrator/cli/client.h"

namespace regatta::tests {

using Json = nlohmann::ordered_json;

Json RegattaProcess::show(const std::string& id) {
  namespace cli = orchestrator::cli;
  const Json run = cli::Client({socket()}, kDeadline).get("/runs/" + cli::path_part(id));
  const Json& attempt = run["attempt"];
  if (attempt.is_object() && attempt["process"].is_number()) {
    attempts_.push_back(attempt["process"].get<pid_t>());
  }
  return run;
}

bool RegattaProcess::reaches(const std::string& id, const std::string& state) {
  return eventually([&] { return show(id)["state"] == state; });
}

bool RegattaProcess::reaches_step(const std::string& id, std::int64_t step) {
  return eventually([&] { return show(id)["step"] >= step; });
}

std::vector<std::int64_t> RegattaProcess::steps(const std::string& id) {
  namespace cli = orchestrator::cli;
  std::vector<std::int64_t> out;
  const Json metrics =
      cli::Client({socket()}, kDeadline).get("/runs/" + cli::path_part(id) + "/metrics");
  for (const Json& row : metrics["steps"]) out.push_back(row[0]);
  return out;
}

}  // namespace regatta::tests
