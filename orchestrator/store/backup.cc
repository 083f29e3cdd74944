#include "orchestrator/store/backup.h"

#include <fcntl.h>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/files/directory_lock.h"
#include "orchestrator/store/copy.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/integrity.h"
#include "orchestrator/store/migration.h"

namespace regatta::orchestrator::store {
namespace {

constexpr int kSuffixBytes = 4;

// The file and its log of writes are of one store: no restore puts another one in its place between
// the opening of both. After that it may.
Database open_whole(const base::Path& data, const base::Path& file) {
  const base::UniqueFd lock = files::open_lock_file(data / "lock", O_CREAT);
  // A controller that has it keeps others out.
  if (files::try_flock(lock, data / "lock", {})) settle_restore(data);
  Database database(file, Database::Access::ReadOnly);
  (void)version_of(database);
  return database;
}

}  // namespace

Backup back_up(const base::Path& data, const base::Path& file) {
  base::FileSystem& files = base::posix_file_system();
  const base::Path from = data / "store.sqlite";
  if (!files.exists(from)) {
    throw base::Error(base::Code::NotFound,
                      "there is no store in " + base::printable(data.string()) +
                          "; name the directory of `regatta serve` with --data");
  }
  if (file.filename().empty()) {
    throw base::Error(base::Code::User, "'" + base::printable(file.string()) +
                                            "' names no file; name one that is not there yet");
  }
  if (files.exists(file)) {
    throw base::Error(base::Code::Conflict, base::printable(file.string()) +
                                                " exists already; name a file that is not there");
  }
  Database database = open_whole(data, from);
  const std::int64_t version = version_of(database);
  check_version(version, "make the backup with that one");
  if (version == 0) {
    throw base::Error(base::Code::NotFound, "the store in " + base::printable(data.string()) +
                                                " is empty; there is nothing to back up");
  }
  const base::Path staged = file.string() + ".tmp-" + base::random_hex(kSuffixBytes);
  write_copy(database, staged);
  Backup backup;
  {
    Database copy(staged, Database::Access::ReadOnly);
    Statement count = copy.prepare("SELECT count(*) FROM runs");
    if (count.step()) backup.runs = count.integer(0);
  }
  backup.bytes = files.size(staged);
  files.rename(staged, file);
  files.sync_directory(file.has_parent_path() ? file.parent_path() : ".");
  return backup;
}

}  // namespace regatta::orchestrator::store
