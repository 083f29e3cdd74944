// Child processes by argument vector: never a shell, always a deadline or an owner.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::base {

struct Command {
  std::vector<std::string> arguments;  // [0] is the program, found in PATH when it has no slash
  std::map<std::string, std::string> environment;  // added to this process's own
  Path directory;                                  // empty: this process's own
  // stdout and stderr are appended to this regular file, no link; empty: /dev/null
  Path output_path;
  bool inherit_output = false;    // stdout and stderr are this process's own
  bool new_session = false;       // its own session and process group: outlives its parent
  bool new_group = false;         // its own process group: a terminal's Ctrl-C does not reach it
  bool bare_environment = false;  // nothing of this process's own environment
  int input = -1;                 // a descriptor that becomes stdin; -1: /dev/null
  bool keep_descriptors = false;  // inherit all of them that are not marked close-on-exec
  std::size_t most_text = std::size_t{16} << 20U;  // bytes of stdout that run() keeps
  Path program{};  // what is executed in its place; arguments[0] is its name
};

// Starts the command; unless told otherwise it inherits only the standard streams. Throws when the
// program cannot be started.
[[nodiscard]] pid_t spawn(const Command& command);

struct Exit {
  std::optional<int> code;    // set when the process returned
  std::optional<int> signal;  // set when a signal ended it
};

// How a child of this process ended, and reaps it; nothing while it runs.
[[nodiscard]] std::optional<Exit> poll_exit(pid_t child);
[[nodiscard]] Exit wait_exit(pid_t child);

// When the process started, in clock ticks since boot (/proc/<pid>/stat field 22): with the id it
// identifies one process until the next boot. Nothing if it does not exist or is a zombie.
[[nodiscard]] std::optional<std::uint64_t> process_start_ticks(pid_t process);

struct Output {
  Exit exit;
  std::string text;    // stdout, at most Command::most_text
  std::string errors;  // stderr, at most 1 MiB
  bool timed_out = false;
  bool cut = false;      // more was written to stdout or stderr than is kept
  bool stopped = false;  // `stop` was requested
};

// Runs to the end, to the deadline or until `stop` is requested, when the process group is killed.
// Returns within about a second after that, even when a killed process stays (one that waits for a
// dead file server takes no signal): it is then left to whoever reaps this process's children.
[[nodiscard]] Output run(const Command& command, double timeout_seconds,
                         const std::stop_token& stop = {});

// Runs to the end as if this process were the program: what it writes appears on this process's
// stdout and stderr at once (and in the answer), and INT, TERM and HUP that this process gets go on
// to it. For the main thread of a program, one call at a time.
[[nodiscard]] Output run_in_place(const Command& command);

}  // namespace regatta::base
