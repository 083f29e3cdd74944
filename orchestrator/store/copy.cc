#include "orchestrator/store/copy.h"

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/store/integrity.h"

namespace regatta::orchestrator::store {

void write_copy(Database& from, const base::Path& to) {
  base::FileSystem& files = base::posix_file_system();
  (void)files.open(to, base::FileSystem::Open::CreateNew);  // SQLite would let others read it
  try {
    const std::string place = to.string();
    from.prepare("VACUUM INTO ?1").bind(place).run();
    files.open(to, base::FileSystem::Open::Append)->sync();
    Database copy(to, Database::Access::ReadOnly);
    if (const std::string damage = damage_of(copy, Thoroughness::Quick); !damage.empty()) {
      throw base::Error(base::Code::Operator, "what was written to " + base::printable(place) +
                                                  " is not what is read there (" + damage +
                                                  "); try another disk");
    }
  } catch (const DiskFull&) {
    files.remove_file(to);
    throw DiskFull(base::Code::Operator,
                   "cannot write " + base::printable(to.string()) +
                       ": its disk is full; free some space, or name a file on another one");
  } catch (const base::Error&) {
    files.remove_file(to);
    throw;
  }
}

}  // namespace regatta::orchestrator::store
