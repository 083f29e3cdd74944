// The routes of /api/v1, and the page for everything else.
#pragma once

#include "base/clock.h"
#include "orchestrator/api/checkpoint_api.h"
#include "orchestrator/api/http.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/slurm/node_table.h"

namespace regatta::orchestrator::api {

class Api {
 public:
  // Everything outlives the API. page_directory: see serve_page(). nodes: null where runs are
  // processes of this machine.
  Api(control::Controller& controller, base::FileSystem& files, base::Clock& clock,
      base::Path page_directory, CheckpointApiOptions checkpoints = {},
      slurm::NodeTable* nodes = nullptr, files::SharedFiles* shared = nullptr)
      : controller_(controller),
        files_(files),
        clock_(clock),
        checkpoint_api_(files, clock, std::move(checkpoints), shared),
        page_directory_(std::move(page_directory)),
        nodes_(nodes),
        shared_(shared) {}

  // Thread-safe. Never throws base::Error: errors become their status and JSON.
  [[nodiscard]] Response handle(const Request& request);

 private:
  [[nodiscard]] Response route(const Request& request, const std::vector<std::string>& parts);
  [[nodiscard]] Response nodes();
  [[nodiscard]] Response plan(const runs::Run& run);
  [[nodiscard]] runs::Run find(const std::string& name);
  enum class Secrets { Hidden, Shown };
  [[nodiscard]] Response show(const std::string& run, Secrets secrets);
  [[nodiscard]] Response checkpoints(const std::string& run);
  [[nodiscard]] Response explain(const std::string& run);
  [[nodiscard]] std::optional<runs::Contact> contact_of(
      const std::vector<runs::Launch>& launches) const;
  [[nodiscard]] Response list_runs(const Request& request);
  [[nodiscard]] Response submit(const Request& request);
  [[nodiscard]] Response cancel(const std::string& run);
  [[nodiscard]] Response resume(const Request& request, const std::string& run);
  [[nodiscard]] Response metrics(const Request& request, const std::string& run);
  [[nodiscard]] Response logs(const Request& request, const std::string& run);

  control::Controller& controller_;
  base::FileSystem& files_;
  base::Clock& clock_;
  CheckpointApi checkpoint_api_;
  base::Path page_directory_;
  slurm::NodeTable* nodes_;
  files::SharedFiles* shared_;
};

}  // namespace regatta::orchestrator::api
