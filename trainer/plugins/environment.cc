#include "trainer/plugins/environment.h"

#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::trainer::plugins {
namespace {

constexpr std::uint64_t kMaxProgramBytes = std::uint64_t{1} << 30U;

// The value of the first "name : value" line of /proc/cpuinfo or /proc/meminfo; empty if absent.
std::string proc_value(base::FileSystem& files, const std::string& path, const std::string& name) {
  try {
    for (const std::string& line : base::split(files.read(path, 16U << 20U), '\n')) {
      const std::size_t colon = line.find(':');
      if (line.rfind(name, 0) != 0 || colon == std::string::npos) continue;
      const std::size_t start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string::npos ? "" : line.substr(start);
    }
  } catch (const base::Error&) {  // described as unknown, nothing worse
  }
  return "";
}

}  // namespace

std::string digest_of_file(base::FileSystem& files, const base::Path& path) {
  try {
    return base::digest_of(files.read(path, kMaxProgramBytes));
  } catch (const base::Error&) {
    return "";
  }
}

void write_environment(base::FileSystem& files, const base::Path& path,
                       const Environment& environment) {
  utsname system{};
  uname(&system);
  nlohmann::ordered_json json;
  json["version"] = REGATTA_VERSION;
  json["program"] = environment.program;
  json["program_xxh3_128"] = digest_of_file(files, environment.program);
  json["host"] = system.nodename;
  json["kernel"] = std::string(system.sysname) + " " + system.release;
  json["processor"] = proc_value(files, "/proc/cpuinfo", "model name");
  json["memory"] = proc_value(files, "/proc/meminfo", "MemTotal");
  json["compiler"] = __VERSION__;
  json["device"] = environment.device;
  json["threads"] = environment.threads;
  json["precision"] = environment.precision;
  json["ranks"] = environment.ranks;
  json["random_numbers"] = "Philox4x32-10, counter = (block, ordinal, step, site)";
  json["data_fingerprint"] = environment.data_fingerprint;
  json["model_fingerprint"] = environment.model_fingerprint;
  if (!environment.slurm_job.empty()) json["slurm_job"] = environment.slurm_job;
  json["started"] = base::iso8601(base::system_clock().utc_seconds());
  base::replace_file(files, path, base::json_text(json, 2) + "\n");
}

}  // namespace regatta::trainer::plugins
