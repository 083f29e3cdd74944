// What the processes of a run stand in on this machine: states, kernel and user stacks of all
// threads, read from outside, since a process that is stopped tells nothing.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::watch {

// Ids of the processes that train in this run directory (`run --directory <it>`), sorted. A
// relative path, here or there, is one from the process's working directory; links are not
// followed.
[[nodiscard]] std::vector<pid_t> processes_of_run(const base::Path& run_directory);

// One process: a line "rank 3, node node02, pid 4711, state T (stopped)", a line for every thread
// with state, wchan and system call, the kernel's stack where it may be read, and what eu-stack or
// gdb says of the user's, with at most `seconds` for it. Lines of what cannot be read are left out;
// nothing is thrown.
[[nodiscard]] std::string describe_process(pid_t process, const std::string& node, double seconds);

// All of them, by rank; a line that says so when there is none.
[[nodiscard]] std::string describe_run(const base::Path& run_directory, const std::string& node,
                                       double seconds);

}  // namespace regatta::trainer::watch
