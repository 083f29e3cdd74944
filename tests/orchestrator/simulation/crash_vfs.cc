#include "tests/orchestrator/simulation/crash_vfs.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace regatta::tests::simulation {

// The functions that SQLite calls.
struct Vfs {
  using File = CrashVfs::File;
  struct Handle : sqlite3_file {
    CrashVfs* disk;
    std::shared_ptr<File> file;
    std::string name;
    int level;                                 // SQLITE_LOCK_…
    std::array<int, CrashVfs::kLocks> memory;  // 0, 1 shared, -1 exclusive
    bool delete_on_close;
  };
  static CrashVfs& disk(sqlite3_vfs* vfs) { return *static_cast<CrashVfs*>(vfs->pAppData); }
  static Handle& of(sqlite3_file* file) { return *static_cast<Handle*>(file); }

  // Whether a write may not happen.
  static bool fails(CrashVfs& disk) {
    if (disk.life_.step()) return true;
    return disk.fail_one_in_ > 0 && disk.chance_.one_in(disk.fail_one_in_);
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    CrashVfs& self = disk(vfs);
    file->pMethods = nullptr;
    const std::string path = name == nullptr ? "" : name;
    std::shared_ptr<File> found;
    const auto known = self.files_.find(path);
    if (path.empty()) {
      found = std::make_shared<File>();
    } else if (known != self.files_.end()) {
      found = known->second;
    } else if ((flags & SQLITE_OPEN_CREATE) == 0 || self.life_.dead()) {
      return SQLITE_CANTOPEN;
    } else {
      found = self.files_[path] = std::make_shared<File>();
    }
    auto* const handle = new (file) Handle{};
    handle->disk = &self;
    handle->file = std::move(found);
    handle->name = path;
    handle->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    handle->pMethods = &methods;
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* vfs, const char* name, int) {
    if (fails(disk(vfs))) return SQLITE_IOERR_DELETE;
    return disk(vfs).files_.erase(name) > 0 ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
  }
  static int access(sqlite3_vfs* vfs, const char* name, int, int* out) {
    const auto known = disk(vfs).files_.find(name);
    *out = known != disk(vfs).files_.end() && !known->second->bytes.empty() ? 1 : 0;
    return SQLITE_OK;
  }
  static int full_path(sqlite3_vfs*, const char* name, int room, char* out) {
    sqlite3_snprintf(room, out, "%s", name);
    return SQLITE_OK;
  }
  // Asked for once a process, so it must not be the world's chance.
  static int randomness(sqlite3_vfs*, int count, char* out) {
    for (int i = 0; i < count; ++i) out[i] = static_cast<char>(37 * i + 11);
    return count;
  }
  static int sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
  static int time(sqlite3_vfs*, sqlite3_int64* out) {
    *out = 210866760000000;  // SQLite asks for it only where SQL does
    return SQLITE_OK;
  }
  static int last_error(sqlite3_vfs*, int, char*) { return 0; }

  static int close(sqlite3_file* file) {
    Handle& handle = of(file);
    unlock(file, SQLITE_LOCK_NONE);
    memory_unmap(file, 0);
    if (handle.delete_on_close) handle.disk->files_.erase(handle.name);
    handle.~Handle();
    return SQLITE_OK;
  }
  static int read(sqlite3_file* file, void* out, int count, sqlite3_int64 offset) {
    const std::string& bytes = of(file).file->bytes;
    const auto from = std::min(static_cast<std::size_t>(offset), bytes.size());
    const auto got = std::min(static_cast<std::size_t>(count), bytes.size() - from);
    std::memcpy(out, bytes.data() + from, got);
    if (got == static_cast<std::size_t>(count)) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + got, 0, static_cast<std::size_t>(count) - got);
    return SQLITE_IOERR_SHORT_READ;
  }
  static int change(sqlite3_file* file, CrashVfs::Write write, int error) {
    Handle& handle = of(file);
    if (fails(*handle.disk)) return error;
    CrashVfs::apply(write, &handle.file->bytes);
    handle.file->unsynced.push_back(std::move(write));
    return SQLITE_OK;
  }
  static int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
    return change(
        file,
        {offset, std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count)),
         false},
        SQLITE_IOERR_WRITE);
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    return change(file, {size, "", true}, SQLITE_IOERR_TRUNCATE);
  }
  static int sync(sqlite3_file* file, int) {
    Handle& handle = of(file);
    if (fails(*handle.disk)) return SQLITE_IOERR_FSYNC;
    for (const CrashVfs::Write& write : handle.file->unsynced) {
      CrashVfs::apply(write, &handle.file->synced);
    }
    handle.file->unsynced.clear();
    return SQLITE_OK;
  }
  static int size(sqlite3_file* file, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(of(file).file->bytes.size());
    return SQLITE_OK;
  }

  static int lock(sqlite3_file* file, int level) {
    Handle& handle = of(file);
    File& shared = *handle.file;
    if (handle.level >= level) return SQLITE_OK;
    if (handle.level == SQLITE_LOCK_NONE) {
      if (shared.exclusive) return SQLITE_BUSY;
      ++shared.shared;
      handle.level = SQLITE_LOCK_SHARED;
    }
    if (level >= SQLITE_LOCK_RESERVED && handle.level < SQLITE_LOCK_RESERVED) {
      if (shared.reserved) return SQLITE_BUSY;
      shared.reserved = true;
      handle.level = SQLITE_LOCK_RESERVED;
    }
    if (level == SQLITE_LOCK_EXCLUSIVE) {
      if (shared.shared > 1) return SQLITE_BUSY;
      shared.exclusive = true;
      handle.level = SQLITE_LOCK_EXCLUSIVE;
    }
    return SQLITE_OK;
  }
  static int unlock(sqlite3_file* file, int level) {
    Handle& handle = of(file);
    File& shared = *handle.file;
    if (handle.level <= level) return SQLITE_OK;
    if (handle.level >= SQLITE_LOCK_EXCLUSIVE) shared.exclusive = false;
    if (handle.level >= SQLITE_LOCK_RESERVED) shared.reserved = false;
    if (level == SQLITE_LOCK_NONE) --shared.shared;
    handle.level = level;
    return SQLITE_OK;
  }
  static int is_reserved(sqlite3_file* file, int* out) {
    *out = of(file).file->reserved ? 1 : 0;
    return SQLITE_OK;
  }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int sector_size(sqlite3_file*) { return 512; }
  static int characteristics(sqlite3_file*) { return 0; }

  static int memory_map(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    auto& memory = of(file).file->memory;
    *out = nullptr;
    const auto index = static_cast<std::size_t>(region);
    if (size != 32768) return SQLITE_IOERR_SHMMAP;
    while (memory.size() <= index) {
      if (extend == 0) return SQLITE_OK;
      memory.push_back(std::make_unique<std::array<char, 32768>>());
      memory.back()->fill(0);
    }
    *out = memory[index]->data();
    return SQLITE_OK;
  }
  static int memory_lock(sqlite3_file* file, int offset, int count, int flags) {
    Handle& handle = of(file);
    auto& locks = handle.file->memory_locks;
    const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
    for (int i = offset; i < offset + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if ((flags & SQLITE_SHM_LOCK) == 0) {
        if (handle.memory[at] == -1) locks[at] = 0;
        if (handle.memory[at] == 1) --locks[at];
        handle.memory[at] = 0;
      } else if (handle.memory[at] == 0) {
        if (exclusive ? locks[at] != 0 : locks[at] == -1) {
          memory_lock(file, offset, i - offset, SQLITE_SHM_UNLOCK);
          return SQLITE_BUSY;
        }
        locks[at] = exclusive ? -1 : locks[at] + 1;
        handle.memory[at] = exclusive ? -1 : 1;
      }
    }
    return SQLITE_OK;
  }
  static void memory_barrier(sqlite3_file*) {}
  static int memory_unmap(sqlite3_file* file, int) {
    return memory_lock(file, 0, CrashVfs::kLocks, SQLITE_SHM_UNLOCK);
  }

  static const sqlite3_io_methods methods;
};

const sqlite3_io_methods Vfs::methods = {2,
                                         Vfs::close,
                                         Vfs::read,
                                         Vfs::write,
                                         Vfs::truncate,
                                         Vfs::sync,
                                         Vfs::size,
                                         Vfs::lock,
                                         Vfs::unlock,
                                         Vfs::is_reserved,
                                         Vfs::control,
                                         Vfs::sector_size,
                                         Vfs::characteristics,
                                         Vfs::memory_map,
                                         Vfs::memory_lock,
                                         Vfs::memory_barrier,
                                         Vfs::memory_unmap,
                                         nullptr,
                                         nullptr};

CrashVfs::CrashVfs(Life& life, Chance& chance) : life_(life), chance_(chance) {
  static int count = 0;
  name_ = "crash-" + std::to_string(++count);
  vfs_.iVersion = 2;
  vfs_.szOsFile = sizeof(Vfs::Handle);
  vfs_.mxPathname = 1024;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = Vfs::open;
  vfs_.xDelete = Vfs::remove;
  vfs_.xAccess = Vfs::access;
  vfs_.xFullPathname = Vfs::full_path;
  vfs_.xRandomness = Vfs::randomness;
  vfs_.xSleep = Vfs::sleep;
  vfs_.xGetLastError = Vfs::last_error;
  vfs_.xCurrentTimeInt64 = Vfs::time;
  sqlite3_vfs_register(&vfs_, 0);
}

CrashVfs::~CrashVfs() { sqlite3_vfs_unregister(&vfs_); }

void CrashVfs::apply(const Write& write, std::string* bytes) {
  const auto offset = static_cast<std::size_t>(write.offset);
  if (write.truncates) {
    bytes->resize(offset);
    return;
  }
  if (bytes->size() < offset + write.bytes.size()) bytes->resize(offset + write.bytes.size());
  bytes->replace(offset, write.bytes.size(), write.bytes);
}

void CrashVfs::forget_locks() {
  for (auto& [name, file] : files_) {
    file->shared = 0;
    file->reserved = file->exclusive = false;
    file->memory.clear();
    file->memory_locks.fill(0);
  }
}

void CrashVfs::lose_power() {
  for (auto& [name, file] : files_) {
    const bool in_order = chance_.one_in(2);
    bool stopped = false;
    for (Write& write : file->unsynced) {
      if (stopped || chance_.one_in(3)) {
        stopped = in_order;
        if (write.truncates || chance_.one_in(2)) continue;
        write.bytes.resize(write.bytes.size() / 2);
      }
      apply(write, &file->synced);
    }
    file->unsynced.clear();
    file->bytes = file->synced;
  }
  forget_locks();
}

}  // namespace regatta::tests::simulation
