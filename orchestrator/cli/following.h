// What goes on until it is told to end: `logs -f`, `events -f`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/cli/client.h"

namespace regatta::orchestrator::cli {

// GET that outlasts a restart of the controller: while it does not answer (Code::Retry), it is
// asked again, and that is said once for each time that it is away. Other errors are thrown, and so
// is that one where nobody is to wait.
class PatientClient {
 public:
  PatientClient(const Client& client, bool waits) : client_(client), waits_(waits) {}

  [[nodiscard]] nlohmann::ordered_json get(const std::string& path);

 private:
  const Client& client_;
  bool waits_;
};

// Sleeps, but ends the program as a write would (SIGPIPE) when whoever read its output has gone:
// where nothing is written for hours, `| head` would wait for so long.
void pause_for_reader(double seconds);

}  // namespace regatta::orchestrator::cli
