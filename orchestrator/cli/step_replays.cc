#include "orchestrator/cli/step_replays.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/compare/facts.h"
#include "orchestrator/files/trusted_path.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostProbeBytes = std::size_t{256} << 20U;
constexpr std::uint64_t kMostProgramBytes = std::uint64_t{1} << 30U;
constexpr const char* kIsa = "REGATTA_ISA";
constexpr const char* kPlugins = "REGATTA_PLUGIN_DIR";
constexpr std::array<std::string_view, 11> kSettings = {
    "OMP_",    "GOMP_",   "KMP_",  "MKL_",    "OPENBLAS_",     "DNNL_",
    "ONEDNN_", "CUBLAS_", "CUDA_", "MALLOC_", "GLIBC_TUNABLES"};
// In a name: it tells what to load, to write or to print.
constexpr std::array<std::string_view, 9> kHarmful = {
    "INJECTION", "PATH", "DIR", "PLUGIN", "LIBRAR", "FILE", "DUMP", "VERBOSE", "LOG"};

bool is_plugin_directory(const base::Path& path) {
  if (!files::is_trusted_path(path)) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator each(path, error), end; each != end;
       each.increment(error)) {
    if (!files::is_trusted_path(each->path())) return false;
  }
  return !error;
}

std::string fact_text(const Json& environment, const char* pointer) {
  const Json value = compare::fact_at(environment, pointer);
  return value.is_string() ? value.get<std::string>() : "";
}

// Its last line, without the program's name in front.
std::string reason_of(const base::Output& output, double seconds) {
  if (output.timed_out) {
    return "not done within " + base::human_seconds(seconds) +
           ", the time left; give more with --replay-seconds";
  }
  std::string last;
  for (const std::string& line : base::split(output.errors, '\n')) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "regatta-train ended without a message" : base::printable(last);
}

}  // namespace

bool is_trusted_program(const base::Path& program) {
  return program.filename() == "regatta-train" && files::is_trusted_path(program);
}

bool is_harmless_variable(const std::string& name, const std::string& value) {
  if (name == kPlugins) return is_plugin_directory(value);
  const bool is_setting = std::any_of(kSettings.begin(), kSettings.end(),
                                      [&](auto prefix) { return name.rfind(prefix, 0) == 0; });
  const bool may_harm = std::any_of(kHarmful.begin(), kHarmful.end(), [&](auto word) {
    return name.find(word) != std::string::npos;
  });
  return is_setting && !may_harm && value.find('/') == std::string::npos;
}

StepReplays::StepReplays(ReplayedRun a, ReplayedRun b, ReplayOptions options,
                         const site::ProgramEnvironment& environment)
    : a_(std::move(a)),
      b_(std::move(b)),
      options_(std::move(options)),
      whole_(environment.whole),
      begin_(std::chrono::steady_clock::now()) {}

double StepReplays::seconds_left() const {
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
  return options_.seconds - gone.count();
}

base::Path StepReplays::program_of(const ReplayedRun& run) {
  const base::Path program = fact_text(*run.environment, "/attempt/program");
  const std::string digest = fact_text(*run.environment, "/build/program_xxh3_128");
  base::FileSystem& files = base::posix_file_system();
  try {
    const bool is_same = !program.empty() && files.exists(program) &&
                         base::digest_of(files.read(program, kMostProgramBytes)) == digest;
    if (is_same && (program == options_.trainer || is_trusted_program(program))) return program;
    if (is_same && untrusted_.insert(program).second) {
      std::cerr << "regatta: " << base::printable(program.string())
                << " is not run for a replay, as others than you and root could have put it "
                   "there; --trainer names the program that is\n";
    }
  } catch (const base::Error&) {  // as if it was not there
  }
  return options_.trainer;
}

// Of what either attempt had set, as this run had it; what could do harm stays as it is here.
std::map<std::string, std::string> StepReplays::variables_of(
    const ReplayedRun& run, const compare::ReplayChange& change) const {
  std::map<std::string, std::string> variables = whole_;
  const auto set = [&](const std::string& name, const std::string& value) {
    if (is_harmless_variable(name, value)) variables[name] = value;
  };
  const auto unset = [&](const std::string& name) {
    if (name == kPlugins || is_harmless_variable(name, "")) variables.erase(name);
  };
  for (const ReplayedRun* each : {&a_, &b_}) {
    const Json all = compare::fact_at(*each->environment, "/variables");
    if (!all.is_object()) continue;
    for (const auto& item : all.items()) unset(item.key());
  }
  const Json own = compare::fact_at(*run.environment, "/variables");
  if (own.is_object()) {
    for (const auto& item : own.items()) {
      if (item.value().is_string()) set(item.key(), item.value().get<std::string>());
    }
  }
  for (const auto& [name, value] : change.variables) {
    unset(name);
    if (value) set(name, *value);
  }
  std::string instructions = fact_text(*run.environment, "/numerics/instruction_set");
  if (change.instruction_set) instructions = *change.instruction_set;
  variables.erase(kIsa);
  if (!instructions.empty()) variables[kIsa] = instructions;
  return variables;
}

compare::ReplayAnswer StepReplays::take(const compare::ReplayRequest& request) {
  const ReplayedRun& run = request.is_b ? b_ : a_;
  const double seconds = seconds_left();
  std::cerr << "regatta: replay " << ++taken_ << " of at most " << compare::kMostReplays << ": "
            << base::printable(request.what) << "\n";
  if (seconds <= 0) return "no time left; give more with --replay-seconds";
  base::Command command;
  command.arguments = {program_of(request.change.program ? a_ : run).string(),
                       "debug",
                       "probe",
                       run.directory.string(),
                       "--step",
                       std::to_string(request.step)};
  for (const auto& [key, value] : request.change.keys) {
    command.arguments.push_back("--set");
    command.arguments.push_back(key + "=" + value);
  }
  command.environment = variables_of(run, request.change);
  command.environment["REGATTA_ENDS_WITH"] =
      std::to_string(::getpid());  // no step without a reader
  command.bare_environment = true;
  command.most_text = kMostProbeBytes;
  const base::Output output = base::run(command, seconds);
  if (output.exit.code != 0) return reason_of(output, seconds);
  try {
    return compare::parse_step_probe(output.text, "what regatta-train debug probe wrote");
  } catch (const base::Error& error) {
    return error.what();
  }
}

}  // namespace regatta::orchestrator::cli
