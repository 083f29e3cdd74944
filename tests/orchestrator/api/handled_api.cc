#include "tests/orchestrator/api/handled_api.h"

#include <nlohmann/json.hpp>

namespace regatta::tests {

std::string HandledApi::submit() {
  orchestrator::api::Request request;
  request.method = "POST";
  request.path = "/api/v1/runs";
  request.body = run_file();
  return nlohmann::json::parse(api_.handle(request).body)["id"];
}

}  // namespace regatta::tests
