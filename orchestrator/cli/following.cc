#include "orchestrator/cli/following.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr double kAwaySeconds = 1;  // between two tries

}  // namespace

nlohmann::ordered_json PatientClient::get(const std::string& path) {
  for (bool told = false;; told = true) {
    try {
      return client_.get(path);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Retry || !waits_) throw;
      if (!told) std::cerr << "regatta: " << base::printable(error.what()) << "; tries again\n";
    }
    pause_for_reader(kAwaySeconds);
  }
}

void pause_for_reader(double seconds) {
  pollfd output{STDOUT_FILENO, 0, 0};
  if (::poll(&output, 1, static_cast<int>(1000 * seconds)) <= 0) return;
  // A terminal that was closed, or the read end of a pipe.
  if ((output.revents & (POLLERR | POLLHUP)) == 0) {
    ::poll(nullptr, 0, static_cast<int>(1000 * seconds));  // no descriptor that can tell
    return;
  }
  ::raise(SIGPIPE);
  std::exit(0);  // where that is ignored
}

}  // namespace regatta::orchestrator::cli
