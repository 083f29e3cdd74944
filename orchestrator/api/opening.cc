#include "orchestrator/api/opening.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "orchestrator/api/answers.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/page.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::chrono::seconds kLongest(8);

}  // namespace

Response Opening::answer(const Request& request) {
  std::unique_lock lock(mutex_);
  if (api_ == nullptr && request.method == "GET") {
    if (request.path == "/api/v1/version" && request.query.empty()) {
      return json_response(200, {{"version", REGATTA_VERSION},
                                 {"scheduler", nullptr},
                                 {"runs_directory", runs_directory_.string()},
                                 {"adoption", {{"done", false}, {"found", 0}, {"read", 0}}}});
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
