// A database as a file of its own, for backup and restore.
#pragma once

#include "base/file_system.h"
#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

// Everything that `from` sees now, packed, into the new file `to`, mode 0600; on the disk when it
// returns, and sound. Where it throws there is no such file.
void write_copy(Database& from, const base::Path& to);

}  // namespace regatta::orchestrator::store
