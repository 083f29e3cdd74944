// `regatta rm` and `regatta archive`: runs that are over.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastTimeout = 90;  // a request may read a whole checkpoint

std::uint64_t bytes_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}

// "412 MB (checkpoints 400 MB, logs 12 MB) in 31 files"
std::string freed_text(const Json& removal) {
  std::string parts;
  const Json freed = removal.value("freed", Json::object());
  for (const auto& [kind, bytes] : freed.items()) {
    const std::uint64_t count = bytes_of(freed, kind.c_str());
    if (count == 0) continue;
    parts += (parts.empty() ? "" : ", ") + base::printable(kind) + " " + base::human_bytes(count);
  }
  return base::human_bytes(bytes_of(removal, "bytes")) + (parts.empty() ? "" : " (" + parts + ")") +
         " in " + base::plural(bytes_of(removal, "files"), "file");
}

std::string pinned_text(const Json& removal) {
  const std::size_t count = removal.value("pinned", Json::array()).size();
  return count == 0 ? "" : ", " + std::to_string(count) + " pinned";
}

std::string names_of(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) names.push_back(row.value("name", ""));
  return names.empty() ? "none" : base::printable(base::join(names, ", "));
}

std::string archived_text(const Json& archival) {
  const Json kept = archival.value("kept", Json::array());
  return base::human_bytes(bytes_of(archival, "bytes")) + " (" +
         base::plural(archival.value("removed", Json::array()).size(), "checkpoint") +
         ", exports " + base::human_bytes(bytes_of(archival, "exports")) +
         "); checkpoints kept: " + names_of(kept) +
         (kept.empty() ? " (resumed, it would begin at step 0)" : "");
}

std::string id_of(const Json& answer) { return base::printable(answer.value("id", "")); }

bool confirmed(std::size_t count) {
  std::cerr << "remove " << (count == 1 ? "this run" : "these " + std::to_string(count) + " runs")
            << " for good? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// What both take.
class RemovalCommand : public Command {
 public:
  RemovalCommand(CommandText text, const Program& program)
      : Command(std::move(text)), client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& runs =
        options.add("runs", ValueKind::Run, &runs_, "ids, or names if only one run has them");
    runs.type = "RUN";
    runs.is_required = true;
    options.add("--dry-run", &dry_run_, "only say what would be freed");
    add_client_options(options, &client_, {"", "id"});
  }

 protected:
  // Their ids, each once. All are looked up before anything is done to one.
  [[nodiscard]] std::vector<std::string> ids(const Client& client) const {
    std::vector<std::string> ids;
    for (const std::string& run : runs_) {
      const std::string id = client.get("/runs/" + path_part(run)).value("id", "");
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    return ids;
  }
  [[nodiscard]] bool is_dry_run() const { return dry_run_; }
  [[nodiscard]] const Output& output() const { return client_.output; }
  [[nodiscard]] Client client() const {
    return {client_.server, std::max(client_.timeout_seconds, kLeastTimeout)};
  }

 private:
  ClientOptions client_;
  std::vector<std::string> runs_;
  bool dry_run_ = false;
};

class Remove : public RemovalCommand {
 public:
  explicit Remove(const Program& program)
      : RemovalCommand({"rm",
                        Group::Runs,
                        "remove runs that are over, with their directories",
                        {"rm demo --dry-run", "rm demo base --yes"}},
                       program) {}

  void add_options(OptionList& options) override {
    RemovalCommand::add_options(options);
    options.add("-y,--yes", &yes_, "do not ask");
    options.add("--pinned-too", &pinned_too_, "even runs with pinned checkpoints");
  }

  // Says what each would free, asks once where there is a terminal, and removes them in turn. 1
  // when files of one are still there.
  int run() override {
    const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
    if (!is_dry_run() && !yes_ && !terminal) {
      throw UsageError(
          "nothing was removed: there is no terminal to ask on; add --yes, or "
          "--dry-run to see what would be freed");
    }
    const Client client = this->client();
    Json answers = looked_at(client);
    if (!is_dry_run() && !yes_ && !confirmed(answers.size())) {
      std::cerr << "nothing was removed\n";
      return 1;
    }
    const int code = is_dry_run() ? 0 : remove(client, &answers);
    (void)output().print(answers);
    return code;
  }

 private:
  [[nodiscard]] std::string pinned() const {
    return pinned_too_ ? "pinned_too=true" : "pinned_too=false";
  }
  // What is refused is refused before anything goes.
  [[nodiscard]] Json looked_at(const Client& client) const {
    Json answers = Json::array();
    for (const std::string& run : ids(client)) {
      answers.push_back(client.remove("/runs/" + path_part(run) + "?dry_run=true&" + pinned()));
      if (!output().is_text() || (yes_ && !is_dry_run())) continue;
      const Json& answer = answers.back();
      (is_dry_run() ? std::cout : std::cerr)
          << id_of(answer) << ": would free " << freed_text(answer) << pinned_text(answer) << "\n";
    }
    return answers;
  }
  [[nodiscard]] int remove(const Client& client, Json* answers) const {
    int code = 0;
    for (Json& answer : *answers) {
      answer = client.remove("/runs/" + path_part(answer.value("id", "")) + "?" + pinned());
      if (output().is_text()) {
        std::cout << id_of(answer) << ": freed " << freed_text(answer) << "\n" << std::flush;
      }
      if (answer.contains("left") && answer["left"].is_string()) {
        std::cerr << "regatta: run " << id_of(answer) << " is gone, but "
                  << base::printable(answer["left"].get<std::string>()) << "\n";
        code = 1;
      }
    }
    return code;
  }

  bool yes_ = false;
  bool pinned_too_ = false;
};

class Archive : public RemovalCommand {
 public:
  explicit Archive(const Program& program)
      : RemovalCommand({"archive",
                        Group::Runs,
                        "hide runs that are over from `ls`, and keep only their newest and best "
                        "checkpoints",
                        {"archive demo --dry-run", "archive demo base"}},
                       program) {}

  int run() override {
    const Client client = this->client();
    Json answers = Json::array();
    for (const std::string& run : ids(client)) {
      answers.push_back(client.post(
          "/runs/" + path_part(run) + "/archive" + (is_dry_run() ? "?dry_run=true" : ""), "", {}));
      if (!output().is_text()) continue;
      const Json& answer = answers.back();
      std::cout << id_of(answer) << (is_dry_run() ? ": would free " : ": archived, freed ")
                << archived_text(answer) << "\n"
                << std::flush;
    }
    (void)output().print(answers);
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> rm_command(const Program& program) {
  return std::make_unique<Remove>(program);
}

std::unique_ptr<Command> archive_command(const Program& program) {
  return std::make_unique<Archive>(program);
}

}  // namespace regatta::orchestrator::cli
