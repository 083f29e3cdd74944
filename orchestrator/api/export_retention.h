// Exports of checkpoints that the API was asked for go when their days are over.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "orchestrator/store/roll_ups.h"

namespace regatta::orchestrator::api {

class Api;

// Looks in a thread.
class ExportRetention {
 public:
  // Both outlive it. Days: since the export was asked for.
  ExportRetention(Api& api, base::Clock& clock, double keep_days,
                  const store::LookTimes& looks = {});
  ~ExportRetention();
  ExportRetention(const ExportRetention&) = delete;
  ExportRetention& operator=(const ExportRetention&) = delete;

 private:
  void work(const std::stop_token& stop);

  Api& api_;
  base::Clock& clock_;
  double keep_days_;
  const store::LookTimes looks_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace regatta::orchestrator::api
