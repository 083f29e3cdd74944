// The API as a function of requests, on a controller of its own without a scheduler that does
// anything: for routes that read what lies in a run's directory.
#pragma once

#include <string>

#include "orchestrator/api/api.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests {

class HandledApi : public testing::Test {
 protected:
  HandledApi()
      : store_(folder_.path() / "state"),
        controller_(base::posix_file_system(), clock_, store_, scheduler_, options()),
        api_(controller_, base::posix_file_system(), clock_, {}) {
    controller_.adopt();
  }
  orchestrator::control::ControllerOptions options() const {
    orchestrator::control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }
  // Its id.
  std::string submit();
  // Of a run's `route`, with one parameter where it has a value.
  orchestrator::api::Response get(const std::string& run, const std::string& route,
                                  const std::string& parameter, const std::string& value) {
    orchestrator::api::Request request;
    request.method = "GET";
    request.path = "/api/v1/runs/" + run + "/" + route;
    if (!value.empty()) request.query[parameter] = value;
    return api_.handle(request);
  }
  // The directory of an attempt, which is made.
  base::Path attempt(const std::string& run, const std::string& name) {
    const base::Path path = base::Path(store_.run(run)->directory) / "attempts" / name;
    std::filesystem::create_directories(path);
    return path;
  }
  static std::string attempt_name(int number, char digit = 'a') {
    return std::to_string(number) + "-" + std::string(16, digit);
  }

  TemporaryDirectory folder_;
  SimulatedClock clock_;
  ScriptedScheduler scheduler_;
  orchestrator::store::Store store_;
  orchestrator::control::Controller controller_;
  orchestrator::api::Api api_;
};

}  // namespace regatta::tests
