#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>

#include "base/build_commit.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"

namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

regatta::orchestrator::site::ProgramEnvironment read_environment() {
  regatta::orchestrator::site::ProgramEnvironment environment;
  environment.server = variable("REGATTA_SERVER");
  environment.token_file = variable("REGATTA_TOKEN_FILE");
  environment.runs = variable("REGATTA_RUNS");
  environment.state_home = variable("XDG_STATE_HOME");
  environment.home = variable("HOME");
  environment.path = variable("PATH").value_or("");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      environment.whole[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  std::error_code error;
  environment.program = std::filesystem::read_symlink("/proc/self/exe", error);
  return environment;
}

}  // namespace

int main(int count, char** arguments) {
  namespace base = regatta::base;
  namespace cli = regatta::orchestrator::cli;
  base::hold_standard_streams();
  try {
    const cli::Program program{read_environment(), base::version_text("regatta"),
                               base::build_commit()};
    const int code =
        cli::run_command_line(count > 0 ? arguments[0] : "",
                              {arguments + std::min(count, 1), arguments + count}, program);
    if (code == 0) base::finish_output();  // any other says more
    return code;
  } catch (const base::Error& error) {
    std::cerr << "regatta: " << base::printable(error.what()) << "\n";
    return base::meaning(error.code()).exit_code;
  } catch (const std::exception& error) {
    std::cerr << "regatta: " << base::printable(error.what()) << "\n";
    return base::meaning(base::Code::Developer).exit_code;
  }
}
