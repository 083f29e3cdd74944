#include "orchestrator/cli/compared_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::kMostBenchBytes;
using trainer::contract::kMostEnvironmentBytes;

}  // namespace

bool names_file(const std::string& argument) {
  constexpr std::string_view kEnding = ".json";
  return argument.find('/') != std::string::npos ||
         (argument.size() > kEnding.size() &&
          argument.compare(argument.size() - kEnding.size(), kEnding.size(), kEnding) == 0);
}

ComparedFile read_compared_file(const base::Path& path) {
  const std::uint64_t most = std::max<std::uint64_t>(kMostBenchBytes, kMostEnvironmentBytes);
  const std::string text = base::posix_file_system().read_at(path, 0, most + 1);
  const std::string source = base::printable(path.string());
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("figures")) {
    return trainer::contract::parse_platform_bench(std::string_view(text), source);
  }
  if (json.is_object() && json.contains("fingerprint")) {
    return trainer::contract::parse_environment(text, source);
  }
  throw base::Error(base::Code::User,
                    source +
                        " is neither an environment.json of an attempt nor a bench of a machine"
                        " (regatta platform bench --out FILE)");
}

}  // namespace regatta::orchestrator::cli
