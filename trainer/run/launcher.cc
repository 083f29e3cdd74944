#include "trainer/run/launcher.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "trainer/contract/exit_code.h"
#include "trainer/run/stop_signals.h"

namespace regatta::trainer::run {
namespace {

// Between two looks at mpirun and at the signals.
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr std::uint64_t kMostExitBytes = 64;

// Rank 0's exit code: mpirun takes any but 0 for a crash, waits a second and writes a page about
// it, so ranks that end in order return 0 and leave their code in this file.
class ExitFile {
 public:
  ExitFile()
      : path_(std::filesystem::temp_directory_path() / ("regatta-exit-" + base::random_hex(8))) {}
  ExitFile(const ExitFile&) = delete;
  ExitFile& operator=(const ExitFile&) = delete;
  ~ExitFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const base::Path& path() const { return path_; }
  [[nodiscard]] std::optional<std::int64_t> code() const {
    try {
      return base::parse_integer(base::posix_file_system().read(path_, kMostExitBytes));
    } catch (const base::Error&) {
      return std::nullopt;
    }
  }

 private:
  base::Path path_;
};

bool is_exit_code(std::int64_t code) {
  return code == static_cast<int>(contract::ExitCode::Finished) ||
         (code >= static_cast<int>(contract::ExitCode::User) &&
          code <= static_cast<int>(contract::ExitCode::Continue)) ||
         code == static_cast<int>(contract::ExitCode::Developer);
}

base::Command mpirun(const MpiLaunch& launch, const base::Path& exit_file) {
  base::Command command;
  command.arguments = {launch.mpirun};
  // Ranks have threads of their own, and more ranks than cores are right for trials.
  for (const char* option : {"--oversubscribe", "--bind-to", "none"}) {
    command.arguments.emplace_back(option);
  }
  if (geteuid() == 0) command.arguments.emplace_back("--allow-run-as-root");
  command.arguments.insert(command.arguments.end(),
                           {"-np", std::to_string(launch.ranks), launch.program});
  command.arguments.insert(command.arguments.end(), launch.arguments.begin(),
                           launch.arguments.end());
  command.environment[kLauncherVariable] = std::to_string(getpid());
  command.environment[kExitFileVariable] = exit_file.string();
  command.inherit_output = true;
  command.new_group = true;  // Ctrl-C is for us: mpirun would kill the ranks
  return command;
}

}  // namespace

std::string mpirun_of(const ranks::Variables& variables) {
  const char* program = variables(kMpirunVariable);
  return program != nullptr ? program : "mpirun";
}

int launch_ranks(const MpiLaunch& launch) {
  const ExitFile exit_file;
  pid_t child = 0;
  try {
    child = base::spawn(mpirun(launch, exit_file.path()));
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Operator,
                      std::string("cannot start the ranks: ") + error.what() +
                          "; install Open MPI (Debian: openmpi-bin), name its mpirun in " +
                          kMpirunVariable + ", or set ranks: 1");
  }
  bool stopping = false;
  std::optional<base::Exit> end;
  while (!(end = base::poll_exit(child))) {
    const Requests requests = take_requests();
    // mpirun hands USR1 and USR2 to its ranks; on TERM it would kill them.
    if (requests.checkpoint) ::kill(child, SIGUSR2);
    if (requests.stop && !stopping) ::kill(child, SIGUSR1);
    stopping = requests.stop;
    std::this_thread::sleep_for(kLook);
  }
  if (const auto code = exit_file.code(); code && is_exit_code(*code)) {
    return static_cast<int>(*code);
  }
  // 0 without the file: the ranks ended before they had anything to say.
  if (end->code && *end->code != 0 && is_exit_code(*end->code)) return *end->code;
  base::log(base::LogLevel::Error,
            "a rank was lost (mpirun " +
                (end->code ? "returned " + std::to_string(*end->code)
                           : "was ended by signal " + std::to_string(end->signal.value_or(0))) +
                "); the run can go on from its last checkpoint");
  return static_cast<int>(contract::ExitCode::Retry);
}

void stop_with_launcher(const ranks::Variables& variables) {
  const char* launcher = variables(kLauncherVariable);
  if (launcher == nullptr) return;
  if (const auto process = base::parse_integer(launcher)) stop_with(*process);
}

void leave_exit_code(const ranks::Variables& variables, int code) {
  const char* exit_file = variables(kExitFileVariable);
  if (exit_file == nullptr) return;
  base::replace_file(base::posix_file_system(), exit_file, std::to_string(code));
}

int rank_exit_code(const ranks::Variables& variables, int rank, int code) {
  if (variables(kExitFileVariable) == nullptr) return code;
  if (rank == 0) leave_exit_code(variables, code);
  return 0;
}

}  // namespace regatta::trainer::run
