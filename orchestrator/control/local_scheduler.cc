#include "orchestrator/control/local_scheduler.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>
#include <set>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kTokenVariable = "REGATTA_LAUNCH";
constexpr int kMostKillPasses = 50;
constexpr std::uint64_t kMaxProcText = std::uint64_t{4} << 20U;

// A file of /proc; empty when it cannot be read (gone, or another user's).
std::string proc_text(pid_t process, const char* name) {
  try {
    return base::posix_file_system().read_at("/proc/" + std::to_string(process) + "/" + name, 0,
                                             kMaxProcText);
  } catch (const base::Error&) {
    return {};
  }
}

std::vector<pid_t> processes() {
  std::vector<pid_t> found;
  try {
    for (const std::string& name : base::posix_file_system().list("/proc")) {
      const auto number = base::parse_integer(name);
      if (!number || *number <= 1 || *number > std::numeric_limits<pid_t>::max()) continue;
      found.push_back(static_cast<pid_t>(*number));
    }
  } catch (const base::Error&) {  // no /proc: none is known
  }
  return found;
}

// Kills whatever is in the session `session`, which exists or has just ended. The number of a
// session is not given to a new process while the old one has members.
void kill_session(pid_t session) {
  // One pass can miss what is forked while it reads the list; what is killed forks no more.
  std::set<pid_t> killed;
  for (int pass = 0; pass < kMostKillPasses; ++pass) {
    const std::size_t before = killed.size();
    for (const pid_t process : processes()) {
      if (::getsid(process) != session) continue;
      // The descriptor pins the process, so the second look and the signal mean the same one.
      const base::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
      if (::getsid(process) != session) continue;
      if (!base::process_start_ticks(process)) continue;  // a zombie is dead
      const long sent = fd.valid() ? ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0)
                                   : ::kill(process, SIGKILL);  // a kernel before 5.3
      if (sent == 0) killed.insert(process);
    }
    if (killed.size() == before) return;
  }
}

bool has_entry(const std::string& zero_separated, const std::string& wanted) {
  for (const std::string& entry : base::split(zero_separated, '\0')) {
    if (entry == wanted) return true;
  }
  return false;
}

}  // namespace

LocalScheduler::LocalScheduler(base::Path trainer, std::map<std::string, std::string> environment)
    : trainer_(std::move(trainer)),
      environment_(std::move(environment)),
      boot_id_(base::boot_id()) {}  // "" in a restricted /proc: pid and start ticks must do

std::string LocalScheduler::submit(const runs::LaunchRequest& request) {
  base::Command command;
  command.arguments = arguments_for(request.run_directory);
  command.environment = environment_;
  command.environment[kTokenVariable] = request.token;
  command.bare_environment = true;
  command.directory = request.run_directory;
  command.output_path = request.log_path;
  command.new_session = true;
  pid_t child = 0;
  try {
    child = base::spawn(command);
  } catch (const base::Error& error) {
    // A program that is being replaced, too many processes: it is this machine's trouble, and no
    // run of the queue is to fail for it. What lies in the way of its log is the run's own.
    const bool own = error.code() == base::Code::Conflict;
    throw base::Error(own ? base::Code::Operator : base::Code::Conflict, error.what());
  }
  // A child that has already ended is a zombie and tells no start time; poll() then reaps it.
  const std::string handle = handle_of(child, base::process_start_ticks(child).value_or(0));
  const std::scoped_lock lock(mutex_);
  children_[child] = handle;
  return handle;
}

std::vector<std::string> LocalScheduler::arguments_for(const base::Path& run_directory) const {
  return {trainer_.string(), "run", "--directory", run_directory.string()};
}

runs::StartPreview LocalScheduler::preview(const base::Path& run_directory,
                                           const trainer::contract::RunConfig&,
                                           const std::optional<std::string>&) const {
  return {arguments_for(run_directory), ""};
}

runs::SchedulerFinding LocalScheduler::find(const std::string& token, double) {
  for (const pid_t process : processes()) {
    if (::getsid(process) != process) continue;  // what the attempt started has its token too
    if (!has_entry(proc_text(process, "environ"), std::string(kTokenVariable) + "=" + token)) {
      continue;
    }
    if (const auto ticks = base::process_start_ticks(process)) {
      return {true, handle_of(process, *ticks)};
    }
  }
  return {true, std::nullopt};
}

std::optional<std::string> LocalScheduler::adopt(std::int64_t process,
                                                 const base::Path& run_directory) {
  if (process <= 1 || process > std::numeric_limits<pid_t>::max()) return std::nullopt;
  const auto id = static_cast<pid_t>(process);
  const auto ticks = base::process_start_ticks(id);
  if (!ticks) return std::nullopt;
  // The id may have gone to another program since the journal was written.
  if (!has_entry(proc_text(id, "cmdline"), run_directory.string())) return std::nullopt;
  return handle_of(id, *ticks);
}

bool LocalScheduler::is_gone(std::int64_t process) const {
  return process <= 1 || process > std::numeric_limits<pid_t>::max() ||
         !base::process_start_ticks(static_cast<pid_t>(process));
}

runs::ProcessReport LocalScheduler::poll(const std::string& handle) {
  const auto identity = identity_of(handle);
  if (!identity) return {runs::ProcessState::Gone, std::nullopt, std::nullopt};
  if (identity->boot_id != boot_id_) {
    // What the shutdown had asked to stop was asked by nobody.
    runs::ProcessReport gone;
    gone.state = runs::ProcessState::Gone;
    gone.cause = runs::Cause::NodeFailure;
    gone.words = "this machine was started anew";
    return gone;
  }
  const std::scoped_lock lock(mutex_);
  const auto child = children_.find(identity->process);
  if (child != children_.end() && child->second == handle) {
    if (const auto exit = base::poll_exit(identity->process)) {
      ended_[handle] = *exit;
      children_.erase(child);
      // Ranks that outlived it would compete with the next attempt's.
      kill_session(identity->process);
    } else {
      return {runs::ProcessState::Running, std::nullopt, std::nullopt};
    }
  }
  const auto ended = ended_.find(handle);
  if (ended != ended_.end()) {
    return {runs::ProcessState::Ended, ended->second.code, ended->second.signal};
  }
  if (is_alive(*identity)) return {runs::ProcessState::Running, std::nullopt, std::nullopt};
  return {runs::ProcessState::Gone, std::nullopt, std::nullopt};
}

void LocalScheduler::stop(const std::string& handle) {
  const auto identity = identity_of(handle);
  if (!identity) return;
  // The descriptor pins the process, so the check and the signal mean the same one.
  const base::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, identity->process, 0)));
  if (!is_alive(*identity)) return;
  if (fd.valid()) {
    ::syscall(SYS_pidfd_send_signal, fd.get(), SIGTERM, nullptr, 0);
  } else {
    ::kill(identity->process, SIGTERM);  // a kernel before 5.3
  }
}

void LocalScheduler::kill(const std::string& handle) {
  const auto identity = identity_of(handle);
  if (!identity || !is_alive(*identity)) return;
  // Adopted, it may have been started within somebody's session, which is not ours to kill.
  if (::getsid(identity->process) == identity->process) kill_session(identity->process);
  if (::getpgid(identity->process) == identity->process) ::kill(-identity->process, SIGKILL);
  ::kill(identity->process, SIGKILL);
}

std::optional<LocalScheduler::Identity> LocalScheduler::identity_of(const std::string& handle) {
  const std::vector<std::string> parts = base::split(handle, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto process = base::parse_integer(parts[0]);
  const auto ticks = base::parse_integer(parts[1]);
  if (!process || !ticks || *process <= 1 || *process > std::numeric_limits<pid_t>::max()) {
    return std::nullopt;
  }
  return Identity{static_cast<pid_t>(*process), static_cast<std::uint64_t>(*ticks), parts[2]};
}

std::string LocalScheduler::handle_of(pid_t process, std::uint64_t start_ticks) const {
  return std::to_string(process) + ":" + std::to_string(start_ticks) + ":" + boot_id_;
}

bool LocalScheduler::is_alive(const Identity& identity) const {
  const auto ticks = base::process_start_ticks(identity.process);
  return ticks && *ticks == identity.start_ticks && identity.boot_id == boot_id_;
}

}  // namespace regatta::orchestrator::control
