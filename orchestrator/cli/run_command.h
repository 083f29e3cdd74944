// What commands that take a run share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/cli/client_options.h"

namespace regatta::orchestrator::cli {

// A part of a run file, {"slurm": {"qos": …}}, of words such as "slurm.qos=long". A value is JSON,
// or else a text. UsageError for other words.
[[nodiscard]] nlohmann::ordered_json changes_of(const std::vector<std::string>& words);
// UsageError for texts that are not UTF-8.
[[nodiscard]] std::string body_of(const nlohmann::ordered_json& json);

class RunCommand : public Command {
 public:
  RunCommand(CommandText text, const Program& program)
      : Command(std::move(text)), client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    add_client_options(options, &client_, {nullptr, "id"});
  }

 protected:
  [[nodiscard]] const ClientOptions& client() const { return client_; }
  [[nodiscard]] const std::string& name() const { return run_; }
  // Below /api/v1.
  [[nodiscard]] std::string path() const { return "/runs/" + path_part(run_); }
  // As anything but text, where that is asked for.
  [[nodiscard]] bool printed(const nlohmann::ordered_json& answer) const {
    return client_.output.print(answer);
  }

 private:
  ClientOptions client_;
  std::string run_;
};

}  // namespace regatta::orchestrator::cli
