#include "trainer/probe/reading_file_system.h"

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::probe {
namespace {

[[noreturn]] void refuse(const base::Path& path) {
  throw base::Error(base::Code::Operator,
                    base::printable(path.string()) + " is only read here, and stays as it is");
}

}  // namespace

std::unique_ptr<base::WritableFile> ReadingFileSystem::open(const base::Path& path, Open) {
  refuse(path);
}
bool ReadingFileSystem::create_directory(const base::Path& path) { refuse(path); }
void ReadingFileSystem::rename(const base::Path& from, const base::Path&) { refuse(from); }
void ReadingFileSystem::sync_directory(const base::Path& path) { refuse(path); }
void ReadingFileSystem::remove_file(const base::Path& path) { refuse(path); }
void ReadingFileSystem::remove_tree(const base::Path& path) { refuse(path); }

}  // namespace regatta::trainer::probe
