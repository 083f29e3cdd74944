# Writes a source that tells the commit of SOURCE to OUTPUT, and only when that has changed. Without
# git, or in a folder that is no repository itself (an archive, perhaps unpacked inside of one), the
# commit is empty.
#
#     cmake -DSOURCE=… -DOUTPUT=… -P commit.cmake
set(commit "")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  if(top STREQUAL source)
    execute_process(
      COMMAND ${GIT} --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT [[
#include "base/build_commit.h"
namespace regatta::base {
std::string build_commit() { return "@commit@"; }
}  // namespace regatta::base
]] @ONLY)
