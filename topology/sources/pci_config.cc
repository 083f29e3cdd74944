#include "topology/sources/pci_config.h"

#include <cstddef>

namespace regatta::topology::sources {
namespace {

constexpr std::size_t kConventionalBytes = 256;  // what a device without PCI Express has
constexpr std::size_t kExtendedBytes = 4096;
constexpr std::uint32_t kAccessControl = 0x000D;
constexpr std::size_t kControlOffset = 6;
constexpr std::uint16_t kRequestRedirect = 1U << 2, kCompletionRedirect = 1U << 3;

std::uint32_t little_endian(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

}  // namespace

std::optional<std::uint16_t> acs_control(std::string_view config) {
  if (config.size() == kConventionalBytes) return 0;
  if (config.size() < kExtendedBytes) return std::nullopt;
  std::size_t at = kConventionalBytes;
  // Capabilities take four bytes at least, so a longer list is a circle.
  for (std::size_t i = 0; i < kExtendedBytes / 4; ++i) {
    const std::uint32_t header = little_endian(config, at, 4);
    if ((header & 0xFFFF) == kAccessControl && at + kControlOffset + 2 <= kExtendedBytes) {
      return static_cast<std::uint16_t>(little_endian(config, at + kControlOffset, 2));
    }
    at = header >> 20 & ~std::size_t{3};
    if (at < kConventionalBytes) return 0;  // the last one, or nonsense
  }
  return 0;
}

bool redirects(std::uint16_t acs_control) {
  return (acs_control & (kRequestRedirect | kCompletionRedirect)) != 0;
}

}  // namespace regatta::topology::sources
