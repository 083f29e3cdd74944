#include "orchestrator/api/environment_api.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/log_api.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::api {
namespace {

namespace contract = trainer::contract;

struct FoundEnvironment {
  int attempt = 0;  // 0: there is none
  base::Path path;
  std::optional<std::string> text;
};

// Two attempts that began at once may share a number; one of them at most trains, and so writes.
FoundEnvironment find_environment(base::FileSystem& files, const base::Path& attempts,
                                  std::optional<std::int64_t> wanted) {
  FoundEnvironment found;
  for (const std::string& folder : files.list(attempts)) {
    const auto name = contract::parse_attempt_name(folder);
    if (!name || (wanted && name->number != *wanted) || name->number < found.attempt) continue;
    const base::Path path = attempts / folder / contract::kEnvironmentFile;
    const bool is_there = files.exists(path);
    if (name->number == found.attempt && !is_there) continue;
    found = {name->number, path, std::nullopt};
    if (is_there) found.text = files.read_at(path, 0, contract::kMostEnvironmentBytes + 1);
  }
  return found;
}

}  // namespace

Response answer_environment(base::FileSystem& files, files::SharedFiles* shared,
                            const runs::Run& run, std::optional<std::int64_t> attempt) {
  const base::Path attempts = base::Path(run.directory) / "attempts";
  const FoundEnvironment found = files::call_if(
      shared, run.directory, kRunFileSeconds,
      [files = &files, attempts, attempt] { return find_environment(*files, attempts, attempt); });
  if (found.attempt == 0) {
    throw base::Error(base::Code::NotFound,
                      "run " + run.id + " has no attempt" +
                          (attempt ? " " + std::to_string(*attempt) : std::string(" yet")));
  }
  if (!found.text) {
    throw base::Error(base::Code::NotFound,
                      "attempt " + std::to_string(found.attempt) + " of run " + run.id +
                          " has no environment.json: it has not begun to train; ask for another "
                          "attempt with attempt=N");
  }
  return json_response(200, contract::parse_environment(*found.text, found.path.string()));
}

}  // namespace regatta::orchestrator::api
