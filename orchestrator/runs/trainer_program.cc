#include "orchestrator/runs/trainer_program.h"

#include <unistd.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {
namespace {

constexpr const char* kTrainer = "regatta-train";

bool is_program(const base::Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

base::Path find_trainer(const std::string& named, const base::Path& program,
                        const std::string& search_path) {
  if (!named.empty()) {
    if (is_program(named)) return std::filesystem::absolute(named);
    throw base::Error(base::Code::Operator, "the trainer " + base::printable(named) +
                                                " is not a program; check --trainer");
  }
  const base::Path here = program.parent_path();
  std::vector<base::Path> candidates{here / kTrainer, here.parent_path() / "trainer" / kTrainer};
  for (const std::string& folder : base::split(search_path, ':')) {
    if (!folder.empty()) candidates.push_back(base::Path(folder) / kTrainer);
  }
  for (const base::Path& candidate : candidates) {
    if (is_program(candidate)) return std::filesystem::absolute(candidate).lexically_normal();
  }
  throw base::Error(base::Code::Operator,
                    "cannot find regatta-train beside this program or in PATH; name it with "
                    "--trainer");
}

}  // namespace regatta::orchestrator::runs
