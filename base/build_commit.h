// Which commit a program was built from.
#pragma once

#include <string>

namespace regatta::base {

// "0123456789ab", with "-dirty" where files had changes; empty for a build outside of git. Defined
// in a generated source of its own library, which only the programs link: a commit compiles one
// file anew, and tests are not linked again.
[[nodiscard]] std::string build_commit();

// "regatta 0.1.0 (commit 0123456789ab)", or without the bracket where the commit is not known.
[[nodiscard]] inline std::string version_text(const std::string& program) {
  const std::string commit = build_commit();
  return program + " " REGATTA_VERSION + (commit.empty() ? "" : " (commit " + commit + ")");
}

}  // namespace regatta::base
