#include "trainer/contract/run_directory.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

constexpr std::uint64_t kMaxRunJson = std::uint64_t{1} << 20U;
// Every lost race means that another attempt got its turn, so this many in a row is a broken disk.
constexpr int kMaxRaces = 10000;

// "1", "2", … without sign or leading zeros, so that one number has one name.
std::optional<std::int64_t> parse_ordinal(std::string_view text) {
  if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
  return base::parse_integer(text);
}

}  // namespace

std::string AttemptName::text() const { return std::to_string(number) + "-" + execution; }

std::optional<AttemptName> parse_attempt_name(const std::string& text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto number = parse_ordinal(std::string_view(text).substr(0, dash));
  if (!number || *number > std::numeric_limits<int>::max()) return std::nullopt;
  std::string execution = text.substr(dash + 1);
  if (execution.size() != 16 ||
      execution.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return AttemptName{static_cast<int>(*number), std::move(execution)};
}

RunDirectory RunDirectory::create(base::FileSystem& files, const base::Path& path,
                                  const std::string& run_json,
                                  const std::map<std::string, std::string>& beside,
                                  const std::function<void(const base::Path& directory)>& fill) {
  const base::Path target =
      path.has_filename() ? path : path.parent_path();  // "runs/a/" is "runs/a"
  const base::Error taken(base::Code::Conflict, "the run directory " + target.string() +
                                                    " exists already; choose another name");
  if (files.exists(target)) throw taken;
  const base::Path temporary = target.string() + ".tmp-" + base::random_hex(4);
  try {
    files.create_directory(temporary);
    for (const char* name : {"attempts", "checkpoints", "epoch"}) {
      files.create_directory(temporary / name);
    }
    std::map<std::string, std::string> texts = beside;
    texts["run.json"] = run_json;
    for (const auto& [name, text] : texts) {
      const auto file = files.open(temporary / name, base::FileSystem::Open::CreateNew);
      file->append(text);
      file->sync();
    }
    if (fill) fill(temporary);
    files.sync_directory(temporary);
    files.rename(temporary, target);
  } catch (const base::Error&) {
    try {
      files.remove_tree(temporary);
      if (files.exists(target / "run.json")) throw taken;
    } catch (const base::Error& error) {
      if (error.code() == base::Code::Conflict)
        throw;  // else the first failure is the one to report
    }
    throw;
  }
  files.sync_directory(target.has_parent_path() ? target.parent_path() : base::Path("."));
  return {files, target};
}

RunDirectory RunDirectory::open(base::FileSystem& files, const base::Path& path) {
  if (!files.exists(path / "run.json")) {
    throw base::Error(base::Code::NotFound, "no run in " + base::printable(path.string()) +
                                                ": run.json is missing; check the name");
  }
  return {files, path};
}

base::Path RunDirectory::attempt_path(const AttemptName& attempt) const {
  return path_ / "attempts" / attempt.text();
}

base::Path RunDirectory::journal_path(const AttemptName& attempt) const {
  return attempt_path(attempt) / "journal.jsonl";
}

std::string RunDirectory::run_json() const { return files_->read(path_ / "run.json", kMaxRunJson); }

std::vector<AttemptName> RunDirectory::attempts() const {
  std::vector<AttemptName> found;
  for (const std::string& name : files_->list(path_ / "attempts")) {
    if (auto attempt = parse_attempt_name(name)) found.push_back(std::move(*attempt));
  }
  std::sort(found.begin(), found.end(), [](const AttemptName& a, const AttemptName& b) {
    return a.number != b.number ? a.number < b.number : a.execution < b.execution;
  });
  return found;
}

AttemptName RunDirectory::create_attempt() {
  files_->create_directory(path_ / "attempts");
  const std::vector<AttemptName> before = attempts();
  AttemptName attempt;
  attempt.number = before.empty() ? 1 : before.back().number + 1;
  do {
    attempt.execution = base::random_hex(8);
  } while (!files_->create_directory(attempt_path(attempt)));
  files_->create_directory(attempt_path(attempt) / "logs");
  files_->sync_directory(attempt_path(attempt));
  files_->sync_directory(path_ / "attempts");
  return attempt;
}

std::int64_t RunDirectory::take_epoch() {
  const base::Path folder = path_ / "epoch";
  files_->create_directory(folder);
  for (int race = 0; race < kMaxRaces; ++race) {
    const std::int64_t epoch = newest_epoch() + 1;
    try {
      const auto file =
          files_->open(folder / std::to_string(epoch), base::FileSystem::Open::CreateNew);
      file->sync();
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Conflict) throw;
      continue;
    }
    files_->sync_directory(folder);
    return epoch;
  }
  throw base::Error(base::Code::Retry,
                    "cannot take an epoch in " + folder.string() + ": always taken; try again");
}

std::int64_t RunDirectory::newest_epoch() const {
  std::int64_t newest = 0;
  for (const std::string& name : files_->list(path_ / "epoch")) {
    if (const auto epoch = parse_ordinal(name)) newest = std::max(newest, *epoch);
  }
  return newest;
}

}  // namespace regatta::trainer::contract
