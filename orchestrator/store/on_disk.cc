#include "orchestrator/store/on_disk.h"

#include "base/error.h"

namespace regatta::orchestrator::store {

OnDisk::OnDisk(Database& database) : database_(database) {
  database_.execute("PRAGMA synchronous = FULL");
}

OnDisk::~OnDisk() {
  try {
    database_.execute("PRAGMA synchronous = NORMAL");
  } catch (const base::Error&) {  // slower from here on
  }
}

}  // namespace regatta::orchestrator::store
