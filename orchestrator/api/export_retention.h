// Exports of checkpoints that the API was asked for go when their days are over.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace regatta::orchestrator::api {

class Api;

// Looks in a thread, a minute after it began and then every hour.
class ExportRetention {
 public:
  // Both outlive it. Days: since the export was asked for.
  ExportRetention(Api& api, base::Clock& clock, double keep_days);
  ~ExportRetention();
  ExportRetention(const ExportRetention&) = delete;
  ExportRetention& operator=(const ExportRetention&) = delete;

 private:
  void work(const std::stop_token& stop);

  Api& api_;
  base::Clock& clock_;
  double keep_days_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace regatta::orchestrator::api
