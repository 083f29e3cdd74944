#include "checkpoint/copy.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {
namespace {

constexpr double kLeastCopySeconds = 60, kSlowestCopy = 20e6;  // bytes per second
constexpr std::size_t kCopyBlock = std::size_t{8} << 20U;

void copy_file(base::FileSystem& files, const base::Path& from, const ManifestFile& facts,
               const base::Path& to) {
  const auto file = files.open(to, base::FileSystem::Open::CreateNewDirect);
  std::vector<std::byte> block(
      static_cast<std::size_t>(std::min<std::uint64_t>(kCopyBlock, facts.bytes)));
  base::Digest digest;
  std::uint64_t done = 0;
  while (done < facts.bytes) {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), facts.bytes - done));
    const std::size_t read = files.read_into(from, done, std::span(block).first(wanted));
    if (read == 0) break;
    digest.update(std::span<const std::byte>(block).first(read));
    file->append(std::span<const std::byte>(block).first(read));
    done += read;
  }
  if (done != facts.bytes || digest.hex() != facts.digest) {
    throw base::Error(base::Code::User,
                      from.string() + " is damaged; name another checkpoint of the run");
  }
  file->sync();
}

}  // namespace

void copy_checkpoint(base::FileSystem& files, const base::Path& from, const Manifest& manifest,
                     const base::Path& to) {
  files.create_directory(to);
  for (const auto& [name, facts] : manifest.files) {
    copy_file(files, from / name, facts, to / name);
  }
  const auto file = files.open(to / kManifestFile, base::FileSystem::Open::CreateNew);
  file->append(to_json(manifest));
  file->sync();
  files.sync_directory(to);
}

double copy_seconds(const Manifest& manifest) {
  double bytes = 0;
  for (const auto& [name, facts] : manifest.files) bytes += static_cast<double>(facts.bytes);
  return kLeastCopySeconds + bytes / kSlowestCopy;
}

}  // namespace regatta::checkpoint
