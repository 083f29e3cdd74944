#include "orchestrator/cli/sbatch_freeze.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/site/data_directory.h"
#include "orchestrator/site/site_defaults.h"

namespace regatta::orchestrator::cli {
namespace {

using View = std::string_view;

constexpr std::size_t kShownCommit = 12;
constexpr std::size_t kMostNamed = 5;  // of what is linked

// "5G": powers of 1024, as Slurm's memory.
std::uint64_t size_of(const std::string& text) {
  constexpr View kUnits = "KMGT";
  std::string digits = text;
  unsigned shift = 0;
  if (const auto unit = digits.empty() ? View::npos : kUnits.find(digits.back());
      unit != View::npos) {
    shift = 10 * (static_cast<unsigned>(unit) + 1);
    digits.pop_back();
  }
  const auto number = base::parse_integer(digits);
  if (!number || *number < 1 || *number > (std::int64_t{1} << 50U) >> shift) {
    throw base::Error(base::Code::User, "--freeze-limit is '" + base::printable(text) +
                                            "'; use a size such as 500M or 5G");
  }
  return static_cast<std::uint64_t>(*number) << shift;
}

bool is_within(const base::Path& path, const base::Path& root) {
  const base::Path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

base::Path absolute(const base::Path& directory, const base::Path& path) {
  return (directory / path).lexically_normal();
}

// Slurm takes % in a name for a pattern.
std::string without_patterns(const std::string& folder) {
  std::string out;
  for (const char c : folder) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

// Where the job begins, in the frozen tree where it can be.
std::string job_folder(const base::Path& wanted, const frozen::Frozen& tree,
                       std::vector<std::string>* notes) {
  if (!is_within(wanted, tree.job.root)) {
    notes->push_back("the job runs in " + base::printable(wanted.string()) + ", which is not in " +
                     base::printable(tree.job.root.string()) +
                     ": files that it reads there are not frozen");
    return wanted.string();
  }
  const base::Path there = tree.folder / "tree" / wanted.lexically_relative(tree.job.root);
  std::error_code error;
  std::filesystem::create_directories(there, error);  // git keeps no empty folder
  return there.lexically_normal().string();
}

}  // namespace

base::Path frozen_store(const site::ProgramEnvironment& environment) {
  const auto set = environment.whole.find("REGATTA_FROZEN");
  if (set != environment.whole.end() && !set->second.empty()) {
    return std::filesystem::absolute(set->second);
  }
  if (const auto runs = site::default_runs_directory(environment)) {
    return std::filesystem::absolute(*runs) / ".frozen";
  }
  const auto data = site::default_data_directory(environment);
  if (!data) {
    throw base::Error(base::Code::Operator,
                      "there is no HOME and no REGATTA_RUNS; set REGATTA_FROZEN to a folder that "
                      "the nodes see, to freeze into");
  }
  return *data / "runs" / ".frozen";
}

std::optional<frozen::FreezeRequest> freeze_request(const sbatch::SbatchCommand& asked,
                                                    const std::vector<std::string>& arguments,
                                                    const std::optional<base::Path>& script,
                                                    const site::ProgramEnvironment& environment) {
  const sbatch::GivenOption* const freeze = sbatch::find_option(asked.options, "freeze");
  if (freeze == nullptr) {
    if (sbatch::find_option(asked.options, "freeze-limit") == nullptr) return std::nullopt;
    throw base::Error(
        base::Code::User,
        "--freeze-limit has no effect without --freeze; add --freeze, or leave it out");
  }
  if (asked.heterogeneous) {
    throw base::Error(
        base::Code::User,
        "--freeze is for single jobs, and this is a heterogeneous one (':' between its parts); "
        "leave --freeze out");
  }
  frozen::FreezeRequest request;
  request.store = frozen_store(environment);
  request.directory = std::filesystem::current_path();
  if (!freeze->value.empty()) request.commit = freeze->value;
  request.script = script;
  request.command = arguments;
  if (const sbatch::GivenOption* const limit = sbatch::find_option(asked.options, "freeze-limit")) {
    request.most_bytes = size_of(limit->value);
  }
  return request;
}

std::string frozen_script(const std::string& word, const base::Path& script,
                          const frozen::Frozen& tree) {
  if (!is_within(script, tree.job.root)) return script.string();
  const base::Path relative = script.lexically_relative(tree.job.root);
  const base::Path there = tree.folder / "tree" / relative;
  std::error_code error;
  if (!std::filesystem::exists(there, error)) {
    throw base::Error(base::Code::User, base::printable(relative.string()) + " is not in " +
                                            tree.job.commit.value_or("the tree") +
                                            "; name a script that is, or freeze another commit");
  }
  return base::Path(word).is_absolute() ? there.string() : word;
}

std::vector<std::string> frozen_options(const std::vector<sbatch::GivenOption>& options,
                                        const base::Path& directory, const frozen::Frozen& tree,
                                        std::vector<std::string>* notes) {
  std::vector<std::string> words;
  const sbatch::GivenOption* const chdir = sbatch::find_option(options, "chdir");
  const base::Path wanted = chdir == nullptr ? directory : absolute(directory, chdir->value);
  if (chdir != nullptr) words.push_back("--chdir=" + job_folder(wanted, tree, notes));
  const bool is_array = sbatch::find_option(options, "array") != nullptr;
  const sbatch::GivenOption usual{"output", is_array ? "slurm-%A_%a.out" : "slurm-%j.out", 0};
  for (const char* const name : {"output", "error", "input"}) {
    const sbatch::GivenOption* option = sbatch::find_option(options, name);
    if (option == nullptr && View(name) == "output") option = &usual;
    if (option == nullptr || option->value.empty()) continue;
    if (base::Path(option->value).is_absolute()) continue;
    words.push_back("--" + std::string(name) + "=" + without_patterns(wanted.string()) + "/" +
                    option->value);
  }
  return words;
}

std::vector<std::string> frozen_notes(const frozen::Frozen& tree) {
  const frozen::FrozenJob& job = tree.job;
  std::uint64_t bytes = 0;
  for (const frozen::FrozenFile& file : job.files) bytes += file.bytes;
  std::string text = "froze " + std::to_string(job.files.size()) + " files (" +
                     base::human_bytes(bytes) + ") of " + base::printable(job.root.string());
  if (job.commit) {
    text += (job.at_commit ? " of commit " : " as they are, beside commit ") +
            job.commit->substr(0, kShownCommit);
  }
  std::vector<std::string> notes{text + ", as " + job.name};
  if (!job.linked.empty()) {
    std::vector<std::string> named = job.linked;
    if (named.size() > kMostNamed) {
      named.resize(kMostNamed);
      named.push_back("and " + std::to_string(job.linked.size() - kMostNamed) + " more");
    }
    notes.push_back("not frozen, since git ignores it: " +
                    base::printable(base::join(named, ", ")));
  }
  if (!tree.left_out.empty()) {
    notes.push_back("left out, as no regular files: " +
                    base::printable(base::join(tree.left_out, ", ")));
  }
  return notes;
}

}  // namespace regatta::orchestrator::cli
