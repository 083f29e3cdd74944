// Slurm's short form for sets of nodes: "n[1-3,07-09],gpu-a[0-1]b[00-03]". Grammar after the manual
// pages of slurm.conf (NodeName) and scontrol (show hostlist).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::topology::graph {

// As many nodes as Slurm itself allows in a cluster; what would expand to more is refused, so that
// a short text cannot ask for any amount of memory.
inline constexpr std::size_t kMostHosts = 65'536;

// 0 to 9, whatever the locale says.
[[nodiscard]] inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The names in the order of the text, repetitions kept. Several groups in a name multiply, the last
// one turning fastest; the digits of a range's first number give the width. Empty text, "(null)"
// and "None assigned" name nobody. Throws Code::User for anything else that is not a list of names
// of letters, digits, '.', '_' and '-': unbalanced or nested brackets, empty names and ranges,
// ranges that run downwards, hostlist functions ("name{…}"), and more than `most` names.
[[nodiscard]] std::vector<std::string> expand_hostlist(std::string_view text,
                                                       std::size_t most = kMostHosts);

// The short form of a set of names, sorted and without repetitions. Only numbers at the end of a
// name are folded, since not every release takes text behind a bracket. expand_hostlist() gives the
// same set back. A name that is none is refused as above.
[[nodiscard]] std::string compress_hosts(const std::vector<std::string>& names);

}  // namespace regatta::topology::graph
