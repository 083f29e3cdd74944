#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

#include "base/descriptor_file_system.h"
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
  for (char** entry = environ; !command.bare_environment && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (command.environment.count(std::string(text.substr(0, text.find('=')))) == 0) {
      merged.emplace_back(text);
    }
  }
  for (const auto& [name, value] : command.environment) merged.push_back(name + "=" + value);
  return merged;
}

// A copy numbered 3 or more: a parent without standard streams gets their numbers for its own
// files, and dup2 onto itself would leave the close-on-exec mark.
UniqueFd above_standard(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) throw_errno(errno, "cannot copy a file descriptor");
  return copy;
}

// What a child is started with; posix_spawn's functions return errno, and ENOMEM at worst.
class Start {
 public:
  Start() {
    require(::posix_spawnattr_init(&attributes));
    require(::posix_spawn_file_actions_init(&actions));
  }
  ~Start() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  static void require(int error) {
    if (error != 0) throw_errno(error, "cannot prepare a process");
  }

  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_t actions{};
};

// posix_spawn, not fork: a copy of a large process, only to be thrown away, takes milliseconds.
pid_t start(const Command& command, int output, int errors) {
  check(!command.arguments.empty(), "a command has a program");
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) throw_errno(errno, "cannot open /dev/null");
  const UniqueFd input = above_standard(command.input < 0 ? nothing.get() : command.input);
  const UniqueFd high_output = above_standard(output);
  const UniqueFd high_errors = above_standard(errors);
  Start start;
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (command.new_session) flags |= POSIX_SPAWN_SETSID;
  if (command.new_group) flags |= POSIX_SPAWN_SETPGROUP;
  sigset_t none, pipes;
  sigemptyset(&none);
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  Start::require(::posix_spawnattr_setflags(&start.attributes, flags));
  Start::require(::posix_spawnattr_setsigmask(&start.attributes, &none));
  Start::require(::posix_spawnattr_setsigdefault(&start.attributes, &pipes));
  const int sources[] = {input.get(), high_output.get(), high_errors.get()};
  for (int fd = 0; fd < 3; ++fd) {
    Start::require(::posix_spawn_file_actions_adddup2(&start.actions, sources[fd], fd));
  }
  if (!command.keep_descriptors) {
    Start::require(::posix_spawn_file_actions_addclosefrom_np(&start.actions, 3));
  }
  if (!command.directory.empty()) {
    Start::require(
        ::posix_spawn_file_actions_addchdir_np(&start.actions, command.directory.c_str()));
  }
  pid_t child = 0;
  const std::string program = command.program.empty() ? arguments[0] : command.program.string();
  const int error = ::posix_spawnp(&child, program.c_str(), &start.actions, &start.attributes,
                                   argument_pointers.data(), environment_pointers.data());
  if (error != 0) {
    throw Error(Code::Operator, "cannot start " + printable(program) + ": " + std::strerror(error));
  }
  return child;
}

Exit exit_of(int status) {
  if (WIFEXITED(status)) return {WEXITSTATUS(status), std::nullopt};
  return {std::nullopt, WTERMSIG(status)};
}

// A child's log lies where others write, too: whatever is there that is no file of its own is
// refused, and nobody waits for a reader of a named pipe.
UniqueFd open_output(const Path& path) {
  if (path.empty()) {
    UniqueFd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!nothing.valid()) throw_errno(errno, "cannot open /dev/null");
    return nothing;
  }
  UniqueFd output =
      open_regular(plain_place(path, Place::Links::Refuse), O_WRONLY | O_CREAT | O_APPEND, "open");
  const int flags = ::fcntl(output.get(), F_GETFL);
  if (flags < 0 || ::fcntl(output.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw_errno(errno, "cannot open " + path.string());
  }
  return output;
}

}  // namespace

pid_t spawn(const Command& command) {
  if (command.inherit_output) return start(command, STDOUT_FILENO, STDERR_FILENO);
  const UniqueFd output = open_output(command.output_path);
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

namespace {

using clock = std::chrono::steady_clock;

// What cannot be written (nobody reads any more) is lost, as it would be to the program itself.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

volatile sig_atomic_t handed_to = 0;  // the child, 0: none yet
volatile sig_atomic_t held_back = 0;  // a signal that came before there was one
void hand_on(int number) {
  if (handed_to == 0) {
    held_back = number;
  } else {
    ::kill(handed_to, number);
  }
}

// While it lives, signals that would end this process go to a child instead.
class HandedOn {
 public:
  HandedOn() {
    handed_to = 0;
    held_back = 0;
    struct sigaction action {};
    action.sa_handler = hand_on;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      // What this process ignores (nohup) its child ignores too.
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~HandedOn() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  HandedOn(const HandedOn&) = delete;
  HandedOn& operator=(const HandedOn&) = delete;

  void to(pid_t child) const {
    handed_to = child;
    if (held_back != 0) ::kill(child, held_back);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)]{};
};

constexpr std::size_t kMostErrors = std::size_t{1} << 20U;
constexpr std::int64_t kStopLookMilliseconds = 50;   // how often a running command looks at `stop`
constexpr auto kLastWait = std::chrono::seconds(1);  // for what was killed

// When a command has to be ended, at the latest.
struct Patience {
  std::optional<clock::time_point> deadline;
  std::stop_token stop;

  [[nodiscard]] bool is_over() const {
    return stop.stop_requested() || (deadline && clock::now() >= *deadline);
  }
  // Until it has to be asked again.
  [[nodiscard]] int milliseconds() const {
    constexpr std::int64_t kLongestPoll = 60'000;
    std::int64_t wait = stop.stop_possible() ? kStopLookMilliseconds : kLongestPoll;
    if (deadline) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - clock::now()).count();
      wait = std::clamp(left + 1, std::int64_t{0}, wait);
    }
    return static_cast<int>(wait);
  }
};

// Takes what both pipes hold until both are closed. False: the patience was over before.
// echo: it is also written to this process's own stdout and stderr.
bool collect(Pipe& output, Pipe& errors, const Patience& patience, std::size_t most_text, bool echo,
             Output* result) {
  struct Sink {
    UniqueFd* fd;
    std::string* text;
    std::size_t limit;
  };
  const Sink sinks[] = {{&output.read, &result->text, most_text},
                        {&errors.read, &result->errors, kMostErrors}};
  while (output.read.valid() || errors.read.valid()) {
    if (patience.is_over()) return false;
    pollfd polled[2] = {{output.read.get(), POLLIN, 0}, {errors.read.get(), POLLIN, 0}};
    if (::poll(polled, 2, patience.milliseconds()) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      char block[65536];
      const ssize_t got = ::read(polled[i].fd, block, sizeof block);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        sinks[i].fd->reset();
        continue;
      }
      const std::string_view text(block, static_cast<std::size_t>(got));
      const std::string_view kept = text.substr(0, sinks[i].limit - sinks[i].text->size());
      sinks[i].text->append(kept);
      result->cut = result->cut || kept.size() < text.size();
      if (echo) write_all(i == 0 ? STDOUT_FILENO : STDERR_FILENO, text);
    }
  }
  return true;
}

// The end of a child, looked for in ever longer pauses; nothing once `give_up` says so.
template <typename GiveUp>
std::optional<Exit> poll_exit_until(pid_t child, const GiveUp& give_up) {
  auto pause = std::chrono::microseconds(100);
  for (;;) {
    if (const auto ended = poll_exit(child)) return ended;
    if (give_up()) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(20'000));
  }
}

}  // namespace

Output run(const Command& command, double timeout_seconds, const std::stop_token& stop) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Command grouped = command;
  grouped.new_session = true;  // so that the deadline reaches grandchildren
  const pid_t child = start(grouped, output.write.get(), errors.write.get());
  output.write.reset();
  errors.write.reset();

  constexpr double kLongest = 1e8;  // three years; what a deadline in nanoseconds can hold and more
  const Patience patience{
      clock::now() + std::chrono::duration_cast<clock::duration>(
                         std::chrono::duration<double>(std::clamp(timeout_seconds, 0.0, kLongest))),
      stop};
  Output result;
  const bool over = !collect(output, errors, patience, command.most_text, false, &result);
  // A program may close its outputs and go on, so its end has the same deadline.
  std::optional<Exit> ended;
  if (!over) ended = poll_exit_until(child, [&] { return patience.is_over(); });
  if (!ended) {
    result.stopped = stop.stop_requested();
    result.timed_out = !result.stopped;
    ::kill(-child, SIGKILL);
    const auto last = clock::now() + kLastWait;
    ended = poll_exit_until(child, [&] { return clock::now() >= last; });
  }
  result.exit = ended.value_or(Exit{std::nullopt, SIGKILL});
  return result;
}

Output run_in_place(const Command& command) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const HandedOn signals;
  const pid_t child = start(command, output.write.get(), errors.write.get());
  signals.to(child);
  output.write.reset();
  errors.write.reset();
  Output result;
  collect(output, errors, {}, command.most_text, true, &result);
  result.exit = wait_exit(child);
  return result;
}

}  // namespace regatta::base
