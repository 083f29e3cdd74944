// A PCI device's configuration space, where it has more than the kernel's attributes do.
// Registers: PCI Express Base Specification 5.0, 7.6.3 (extended capabilities) and 7.7.8 (ACS).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace regatta::topology::sources {

// The ACS Control register; 0 where the device has none. `config` is sysfs's "config" as far as it
// could be read: nothing when that ends before the extended capabilities, which only root may read.
[[nodiscard]] std::optional<std::uint16_t> acs_control(std::string_view config);

// Whether a port with this ACS Control sends requests or completions between its switch's devices
// up to the root complex.
[[nodiscard]] bool redirects(std::uint16_t acs_control);

}  // namespace regatta::topology::sources
