#include "orchestrator/api/opening.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "orchestrator/api/answers.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/health.h"
#include "orchestrator/api/page.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::chrono::seconds kLongest(8);

// 503 while the controller starts, and where its store does not answer.
Response readiness(Api* api) {
  const bool ready = api != nullptr && api->is_ready();
  return json_response(ready ? 200 : 503, {{"ready", ready}});
}

}  // namespace

Response Opening::answer(const Request& request) {
  std::unique_lock lock(mutex_);
  if (request.method == "GET" && (request.path == "/healthz" || request.path == "/readyz")) {
    Api* const ready = api_;
    lock.unlock();
    return request.path == "/healthz" ? json_response(200, {{"alive", true}}) : readiness(ready);
  }
  if (api_ == nullptr && request.method == "GET") {
    if (request.path == "/api/v1/version" && request.query.empty()) {
      return json_response(200, version_json(commit_, std::nullopt, runs_directory_, {}));
    }
    if (request.path != "/api" && request.path.rfind("/api/", 0) != 0) {
      lock.unlock();
      return serve_page(request, page_directory_);
    }
  }
  changed_.wait_for(lock, kLongest, [this] { return api_ != nullptr || gone_; });
  Api* const api = api_;
  lock.unlock();
  if (api != nullptr) return api->handle(request);
  Response response = error_response(
      503, "busy",
      "the controller is starting: it waits for Slurm's answer, or for another controller to give "
      "back its runs directory; try again in a moment");
  response.headers.emplace("Retry-After", "1");
  return response;
}

void Opening::open(Api* api) {
  const std::scoped_lock lock(mutex_);
  api_ = api;
  changed_.notify_all();
}

void Opening::give_up() {
  const std::scoped_lock lock(mutex_);
  gone_ = true;
  changed_.notify_all();
}

}  // namespace regatta::orchestrator::api
