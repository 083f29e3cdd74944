#include "trainer/watch/process_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "trainer/ranks/rendezvous.h"

namespace regatta::trainer::watch {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;  // of a file in /proc
constexpr std::size_t kMostStackBytes = std::size_t{256} << 10U;
constexpr std::size_t kMostThreads = 256;

// Empty when it cannot be read.
std::string text_of(const base::Path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

base::Path place_of(pid_t process) { return base::Path("/proc") / std::to_string(process); }

std::vector<pid_t> numbers_in(const base::Path& directory) {
  std::vector<pid_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto number = base::parse_integer(entry->path().filename().string());
    if (number && *number > 0) numbers.push_back(static_cast<pid_t>(*number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// What /proc/<pid>/status says of `key`; one line.
std::string status_of(const std::string& status, const std::string& key) {
  for (const std::string& line : base::split(status, '\n')) {
    if (line.rfind(key + ":\t", 0) == 0) return base::printable(line.substr(key.size() + 2));
  }
  return "?";
}

std::optional<int> rank_of(pid_t process) {
  std::map<std::string, std::string> variables;
  for (const std::string& item : base::split(text_of(place_of(process) / "environ"), '\0')) {
    const std::size_t equals = item.find('=');
    if (equals != std::string::npos) variables[item.substr(0, equals)] = item.substr(equals + 1);
  }
  try {
    const auto place = ranks::rank_place([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    if (place) return place->rank;
  } catch (const base::Error&) {  // started in a way of its own
  }
  return std::nullopt;
}

std::string thread_text(const base::Path& thread) {
  const std::string status = text_of(thread / "status");
  if (status.empty()) return "";  // it has just ended
  std::string text = "  thread " + thread.filename().string() + " " + status_of(status, "Name") +
                     ": state " + status_of(status, "State");
  const auto add = [&](const char* what, const char* file) {
    const std::string said = text_of(thread / file);
    const std::string line = said.substr(0, said.find('\n'));
    if (!line.empty() && line != "0")
      text += ", " + std::string(what) + " " + base::printable(line);
  };
  add("waits in", "wchan");
  add("system call", "syscall");
  text += "\n";
  for (const std::string& line : base::split(text_of(thread / "stack"), '\n')) {
    if (!line.empty()) text += "    kernel " + base::printable(line) + "\n";
  }
  return text;
}

// The user's stacks, by the first of these programs that is installed.
std::string user_stacks(pid_t process, double seconds) {
  const std::string id = std::to_string(process);
  const std::vector<std::vector<std::string>> programs = {
      {"eu-stack", "-p", id},
      {"gdb", "-p", id, "-nx", "-batch", "-ex", "thread apply all backtrace"}};
  for (const std::vector<std::string>& arguments : programs) {
    base::Command command;
    command.arguments = arguments;
    try {
      const base::Output output = base::run(command, seconds);
      std::string text = "  " + base::join(arguments, " ") + (output.timed_out ? " (cut)" : "");
      text += "\n";
      std::string said = output.text.substr(0, kMostStackBytes);
      // gdb writes warnings even when all is well.
      if (said.empty()) said = output.errors.substr(0, kMostStackBytes);
      for (const std::string& line : base::split(said, '\n')) {
        if (!line.empty()) text += "    " + base::printable(line) + "\n";
      }
      return text;
    } catch (const base::Error&) {  // not installed
    }
  }
  return "  no user stacks: install elfutils (eu-stack) or gdb on the nodes\n";
}

// Absolute, without dots and a slash at its end. Links stay: following them could wait for the very
// mount that the run hangs on.
base::Path plain(const base::Path& path, const base::Path& working_directory) {
  const base::Path whole = (working_directory / path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// The run directory on a trainer's command line, `run … --directory DIRECTORY`; none on others.
std::optional<base::Path> directory_of(const std::vector<std::string>& arguments) {
  constexpr std::string_view kOption = "--directory";
  if (arguments.size() < 3 || arguments[1] != "run") return std::nullopt;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == kOption && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].rfind(std::string(kOption) + "=", 0) == 0) {
      return arguments[i].substr(kOption.size() + 1);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<pid_t> processes_of_run(const base::Path& run_directory) {
  std::error_code error;
  const base::Path wanted = plain(run_directory, std::filesystem::current_path(error));
  std::vector<pid_t> found;
  for (const pid_t process : numbers_in("/proc")) {
    const auto directory = directory_of(base::split(text_of(place_of(process) / "cmdline"), '\0'));
    if (!directory) continue;
    const base::Path own = std::filesystem::read_symlink(place_of(process) / "cwd", error);
    if (*directory == run_directory || plain(*directory, own) == wanted) found.push_back(process);
  }
  return found;
}

std::string describe_process(pid_t process, const std::string& node, double seconds) {
  const base::Path place = place_of(process);
  const std::optional<int> rank = rank_of(process);
  std::string text = "rank " + (rank ? std::to_string(*rank) : "?") + ", node " + node + ", pid " +
                     std::to_string(process) + ", state " +
                     status_of(text_of(place / "status"), "State") + "\n";
  std::vector<pid_t> threads = numbers_in(place / "task");
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  for (const pid_t thread : threads) {
    text += thread_text(place / "task" / std::to_string(thread));
  }
  return text + user_stacks(process, seconds);
}

std::string describe_run(const base::Path& run_directory, const std::string& node, double seconds) {
  const std::vector<pid_t> processes = processes_of_run(run_directory);
  if (processes.empty()) {
    return "node " + node + ": no process trains in " + base::printable(run_directory.native()) +
           "\n";
  }
  std::vector<std::string> texts(processes.size());
  {
    std::vector<std::jthread> readers;  // a node has a few ranks, and each may take its seconds
    for (std::size_t i = 0; i < processes.size(); ++i) {
      readers.emplace_back([&, i] { texts[i] = describe_process(processes[i], node, seconds); });
    }
  }
  return base::join(texts, "\n") + "\n";
}

}  // namespace regatta::trainer::watch
