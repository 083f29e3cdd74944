// A whole copy of a store in one file, made while a controller writes to it, and put back in the
// store's place when none does. Neither leaves a part of a file under a name that counts: what is
// written is checked and synced under a name of its own, and renamed then.
#pragma once

#include <cstdint>

#include "base/file_system.h"

namespace regatta::orchestrator::store {

struct Backup {
  std::int64_t runs = 0;
  std::uint64_t bytes = 0;
};
// Of the store in `data`, as of one moment, into `file`, mode 0600. It reads as any reader of
// SQLite does, whether or not a controller has the store open. Code::NotFound without a store,
// Code::Conflict where `file` is there, Code::Operator for a damaged store and for a full disk.
Backup back_up(const base::Path& data, const base::Path& file);

struct Restored {
  std::int64_t runs = 0;      // that the store has as the backup had them
  std::int64_t dropped = 0;   // that it had otherwise than their directories, which are read again
  std::int64_t given_up = 0;  // of `runs`: those that had not ended and have no directory any more
  // Where the store that was there is, or its log where that alone was left; empty: nothing was.
  base::Path kept;
  bool made_data = false;  // the directory was not there
};
// Puts the backup `file` in the place of the store in `data`, which is made when absent. Of what
// the backup has, only that goes in which cannot have become something else since: runs that had
// ended, as their directories in `runs` say, and as failed those whose directory is gone. All
// others are left to the controller, which takes in what it finds there; so nothing begins again
// that the backup did not know the end of. Nothing has changed where it throws: Code::User for a
// file that is no store or damaged, Code::Conflict for a store that a controller holds,
// Code::Operator for a file of a newer regatta, for a full disk, and where `runs` has no run of the
// backup. disk: of `data`.
Restored restore(const base::Path& file, const base::Path& data, base::FileSystem& files,
                 const base::Path& runs, base::FileSystem& disk = base::posix_file_system());

// Of a restore that was killed: ends it where it had decided, else removes what it left. Before
// anybody opens the store, with its lock held.
void settle_restore(const base::Path& data, base::FileSystem& disk = base::posix_file_system());

}  // namespace regatta::orchestrator::store
