// A controller that is starting: it answers while Slurm is asked whether it is there, and while the
// runs directory's lease is waited for.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/file_system.h"
#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

class Api;

// Thread-safe. Until open() the page, /healthz, /readyz (503) and /version are served at once, the
// last with `scheduler` null; other requests wait for it, kLongestSeconds at most, and then get
// 503.
class Opening {
 public:
  Opening(base::Path runs_directory, base::Path page_directory, std::string commit)
      : runs_directory_(std::move(runs_directory)),
        page_directory_(std::move(page_directory)),
        commit_(std::move(commit)) {}

  [[nodiscard]] Response answer(const Request& request);
  void open(Api* api);  // which outlives all requests
  void give_up();       // it does not open; nobody waits any more

 private:
  base::Path runs_directory_, page_directory_;
  const std::string commit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Api* api_ = nullptr;
  bool gone_ = false;
};

}  // namespace regatta::orchestrator::api
