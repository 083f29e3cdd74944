// How every reader of a text refuses it.
#pragma once

#include <cstddef>
#include <string>

namespace regatta::topology::graph {

// Throws Code::User "place:line: what"; line 0 is the whole text.
[[noreturn]] void fail_at(const std::string& place, std::size_t line, const std::string& what);

}  // namespace regatta::topology::graph
