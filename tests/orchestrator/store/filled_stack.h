// A store with many runs (filled_store.h) below a controller and the API.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/api/api.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/filled_store.h"
#include "tests/orchestrator/support.h"

namespace regatta::tests {

class FilledStack {
 public:
  explicit FilledStack(const FilledStore& what) : filled_(folder_.path(), what) {}

  orchestrator::api::Response get(const std::string& path,
                                  const std::map<std::string, std::string>& query = {}) {
    return send("GET", path, query);
  }
  orchestrator::api::Response send(const std::string& method, const std::string& path,
                                   const std::map<std::string, std::string>& query = {},
                                   const std::string& body = "") {
    orchestrator::api::Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    request.query = query;
    request.body = body;
    return api_.handle(request);
  }
  // Of an answer 200.
  nlohmann::ordered_json json(const std::string& path,
                              const std::map<std::string, std::string>& query = {});
  orchestrator::store::Store& store() { return store_; }
  base::Path database() const { return folder_.path() / "state" / "store.sqlite"; }

 private:
  struct Filled {
    Filled(const base::Path& folder, FilledStore what) {
      what.runs_directory = folder / "runs";
      fill_store(folder / "state", what);
    }
  };
  orchestrator::control::ControllerOptions options() const {
    orchestrator::control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }

  TemporaryDirectory folder_;
  Filled filled_;
  SimulatedClock clock_;
  ScriptedScheduler scheduler_;
  orchestrator::store::Store store_{folder_.path() / "state"};
  orchestrator::control::Controller controller_{base::posix_file_system(), clock_, store_,
                                                scheduler_, options()};
  orchestrator::api::Api api_{
      controller_, base::posix_file_system(), clock_, {folder_.path() / "page"}};
};

}  // namespace regatta::tests
