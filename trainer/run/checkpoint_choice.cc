#include "trainer/run/checkpoint_choice.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace regatta::trainer::run {
namespace {

using base::Code;
using base::Error;
using base::Path;

}  // namespace

std::string shown(const Path& path) { return base::printable(path.string()); }

CheckpointPlace checkpoint_place(base::FileSystem& files, const Path& given) {
  Path path = std::filesystem::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (!files.exists(path)) {
    throw Error(Code::NotFound, "no checkpoint at " + shown(given) + "; check the name");
  }
  if (files.exists(path / "run.json")) return {path, ""};
  const Path run = path.parent_path().parent_path();
  const std::string name = path.filename().string();
  if (!checkpoint::parse_checkpoint_name(name) || !files.exists(run / "run.json")) {
    throw Error(Code::User, shown(given) + " is neither a run directory nor a checkpoint in one; " +
                                "name RUN or RUN/checkpoints/step-…");
  }
  return {run, name};
}

ChosenCheckpoint choose_checkpoint(base::FileSystem& files, const base::Clock& clock,
                                   const checkpoint::CheckpointStore& store,
                                   const std::string& name, const std::string& reader,
                                   const std::function<void(const checkpoint::Entry&)>& check_fit) {
  std::optional<Error> first;
  std::vector<std::string> skipped;
  for (const checkpoint::Entry& entry : store.list()) {
    if (!name.empty() && entry.name != name) continue;
    try {
      if (entry.status != checkpoint::Status::Valid) {
        throw Error(Code::User, entry.name + " is not whole: " + entry.reason);
      }
      check_fit(entry);
      const Path path = store.directory() / entry.name;
      auto mark = checkpoint::hold_mark(files, clock, path, reader);
      if (const auto reason = store.verify(entry.name)) {
        throw Error(Code::User, entry.name + " is damaged: " + *reason);
      }
      return {*entry.manifest, path, std::move(mark), std::move(skipped)};
    } catch (const Error& error) {
      if (!name.empty()) throw;
      skipped.push_back(std::string("skipped: ") + error.what());
      base::log(base::LogLevel::Warning, skipped.back());
      if (!first) first = error;
    }
  }
  if (first) throw *first;
  throw Error(Code::NotFound,
              "no checkpoint in " + shown(store.directory()) + "; train until one is written");
}

}  // namespace regatta::trainer::run
