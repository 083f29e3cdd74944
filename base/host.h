// The machine and the user that this process runs on and as, by name.
#pragma once

#include <string>

namespace regatta::base {

// The machine's name as the kernel knows it (gethostname), at most 255 bytes, with its domain if it
// was set with one; "" if there is none. As it is: not escaped for a terminal.
[[nodiscard]] std::string host_name();

// An identifier that the kernel draws at each start of the machine; "" where /proc does not tell
// it.
[[nodiscard]] std::string boot_id();

// The name of the user as whom this process acts (effective user id), or that id in digits when
// nobody knows a name for it.
[[nodiscard]] std::string user_name();

}  // namespace regatta::base
