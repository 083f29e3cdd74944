#include "orchestrator/cli/remove_command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/text/terminal.h"

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
         " in " + std::to_string(bytes_of(removal, "files")) + " files";
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
         std::to_string(archival.value("removed", Json::array()).size()) +
         " checkpoints, exports " + base::human_bytes(bytes_of(archival, "exports")) +
         "); checkpoints kept: " + names_of(kept) +
         (kept.empty() ? " (resumed, it would begin at step 0)" : "");
}

std::string id_of(const Json& answer) { return base::printable(answer.value("id", "")); }

void print(const Json& answers) {
  std::cout << text::json_text(answers, 2, text::reader_of_stdout()) << "\n" << std::flush;
}

bool confirmed(std::size_t count) {
  std::cerr << "remove " << (count == 1 ? "this run" : "these " + std::to_string(count) + " runs")
            << " for good? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Client client_of(const ClientOptions& options) {
  return {options.server, std::max(options.timeout_seconds, kLeastTimeout)};
}

}  // namespace

int remove_runs(const ClientOptions& options, const RemoveCommandOptions& removal) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  if (!removal.dry_run && !removal.yes && !terminal) {
    throw base::Error(base::Code::User,
                      "nothing was removed: there is no terminal to ask on; add --yes, or "
                      "--dry-run to see what would be freed");
  }
  const Client client = client_of(options);
  const std::string pinned = removal.pinned_too ? "pinned_too=true" : "pinned_too=false";
  // What is refused is refused before anything goes.
  Json answers = Json::array();
  for (const std::string& run : removal.runs) {
    answers.push_back(client.remove("/runs/" + path_part(run) + "?dry_run=true&" + pinned));
    if (options.format == Format::Json || (removal.yes && !removal.dry_run)) continue;
    const Json& answer = answers.back();
    (removal.dry_run ? std::cout : std::cerr)
        << id_of(answer) << ": would free " << freed_text(answer) << pinned_text(answer) << "\n";
  }
  if (removal.dry_run) {
    if (options.format == Format::Json) print(answers);
    return 0;
  }
  if (!removal.yes && !confirmed(answers.size())) {
    std::cerr << "nothing was removed\n";
    return 1;
  }
  int code = 0;
  for (Json& answer : answers) {
    answer = client.remove("/runs/" + path_part(answer.value("id", "")) + "?" + pinned);
    if (options.format == Format::Text) {
      std::cout << id_of(answer) << ": freed " << freed_text(answer) << "\n" << std::flush;
    }
    if (answer.contains("left") && answer["left"].is_string()) {
      std::cerr << "regatta: run " << id_of(answer) << " is gone, but "
                << base::printable(answer["left"].get<std::string>()) << "\n";
      code = 1;
    }
  }
  if (options.format == Format::Json) print(answers);
  return code;
}

int archive_runs(const ClientOptions& options, const RemoveCommandOptions& archive) {
  const Client client = client_of(options);
  Json answers = Json::array();
  for (const std::string& run : archive.runs) {
    answers.push_back(client.post(
        "/runs/" + path_part(run) + "/archive" + (archive.dry_run ? "?dry_run=true" : ""), "", {}));
    if (options.format == Format::Json) continue;
    const Json& answer = answers.back();
    std::cout << id_of(answer) << (archive.dry_run ? ": would free " : ": archived, freed ")
              << archived_text(answer) << "\n"
              << std::flush;
  }
  if (options.format == Format::Json) print(answers);
  return 0;
}

}  // namespace regatta::orchestrator::cli
