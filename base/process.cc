#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

extern char** environ;

namespace regatta::base {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno(errno, "cannot make a pipe");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const Command& command) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (command.environment.count(std::string(text.substr(0, text.find('=')))) == 0) {
      merged.emplace_back(text);
    }
  }
  for (const auto& [name, value] : command.environment) merged.push_back(name + "=" + value);
  return merged;
}

// Only async-signal-safe calls: between fork and exec. Reports errno through `failure`.
[[noreturn]] void become(const Command& command, char* const* arguments, char* const* environment,
                         int input, int output, int errors, int failure) {
  if (command.new_session) ::setsid();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  bool ready = ::dup2(input, 0) == 0 && ::dup2(output, 1) == 1 && ::dup2(errors, 2) == 2;
  if (ready && !command.directory.empty()) ready = ::chdir(command.directory.c_str()) == 0;
  if (ready) ::execvpe(arguments[0], arguments, environment);
  const int reason = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

pid_t start(const Command& command, int output, int errors) {
  check(!command.arguments.empty(), "a command has a program");
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe failure = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) throw_errno(errno, "cannot start " + arguments[0]);
  if (child == 0) {
    become(command, argument_pointers.data(), environment_pointers.data(), input.get(), output,
           errors, failure.write.get());
  }
  failure.write.reset();
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure.read.get(), &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof reason) {
    ::waitpid(child, nullptr, 0);
    throw Error(Code::Operator, "cannot start " + printable(arguments[0]) + ": " +
                                    std::strerror(reason));
  }
  return child;
}

Exit exit_of(int status) {
  if (WIFEXITED(status)) return {WEXITSTATUS(status), std::nullopt};
  return {std::nullopt, WTERMSIG(status)};
}

}  // namespace

pid_t spawn(const Command& command) {
  const Path path = command.output_path.empty() ? Path("/dev/null") : command.output_path;
  const UniqueFd output(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output.valid()) throw_errno(errno, "cannot open " + path.string());
  return start(command, output.get(), output.get());
}

std::optional<Exit> poll_exit(pid_t child) {
  int status = 0;
  const pid_t ended = ::waitpid(child, &status, WNOHANG);
  if (ended != child) return std::nullopt;
  return exit_of(status);
}

Exit wait_exit(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw_errno(errno, "cannot wait for process " + std::to_string(child));
  }
  return exit_of(status);
}

std::optional<std::uint64_t> process_start_ticks(pid_t process) {
  std::string text;
  try {
    text = posix_file_system().read("/proc/" + std::to_string(process) + "/stat", 65536);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = split(std::string_view(text).substr(name_end + 2), ' ');
  if (fields.size() < 20 || fields[0] == "Z") return std::nullopt;
  const auto ticks = parse_integer(fields[19]);
  if (!ticks) return std::nullopt;
  return static_cast<std::uint64_t>(*ticks);
}

Output run(const Command& command, double timeout_seconds) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Command grouped = command;
  grouped.new_session = true;  // so that the deadline reaches grandchildren
  const pid_t child = start(grouped, output.write.get(), errors.write.get());
  output.write.reset();
  errors.write.reset();

  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::duration_cast<clock::duration>(
                                           std::chrono::duration<double>(timeout_seconds));
  Output result;
  struct Sink {
    UniqueFd* fd;
    std::string* text;
    std::size_t limit;
  };
  const Sink sinks[] = {{&output.read, &result.text, std::size_t{16} << 20U},
                        {&errors.read, &result.errors, std::size_t{1} << 20U}};
  while (output.read.valid() || errors.read.valid()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now()).count();
    pollfd polled[2] = {{output.read.get(), POLLIN, 0}, {errors.read.get(), POLLIN, 0}};
    const int ready = left > 0 ? ::poll(polled, 2, static_cast<int>(left) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      result.timed_out = true;
      ::kill(-child, SIGKILL);
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      char block[65536];
      const ssize_t got = ::read(polled[i].fd, block, sizeof block);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        sinks[i].fd->reset();
        continue;
      }
      const std::size_t room = sinks[i].limit - sinks[i].text->size();
      sinks[i].text->append(block, std::min(room, static_cast<std::size_t>(got)));
    }
  }
  result.exit = wait_exit(child);
  return result;
}

}  // namespace regatta::base
