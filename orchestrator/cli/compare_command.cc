#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/compare/speed_text.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/text/comparison.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCompared = 10;

// A reference with the figures that a run has, too.
Json as_run(const Json& reference) {
  const Json points = reference.value("evaluations", Json::array());
  Json run{{"id", reference.value("name", "")},
           {"state", reference.value("status", Json())},
           {"metric", std::string(runs::kMlperfMetric)},
           {"target", reference.value("threshold", Json())},
           {"time_to_accuracy_seconds", reference.value("time_to_accuracy_seconds", Json())},
           {"ranks", reference.value("chips", Json())},
           {"device", reference.value("system", Json())}};
  if (points.empty() || !points.back().is_array() || points.back().size() != 3) return run;
  const Json& last = points.back();
  run["value"] = last[2];
  if (last[0].is_number() && last[1].is_number() && last[0].get<double>() > 0) {
    run["samples_per_second"] = last[1].get<double>() / last[0].get<double>();
  }
  return run;
}

class Compare : public Command {
 public:
  explicit Compare(const Program& program)
      : Command(
            {"compare",
             Group::Runs,
             "show figures of runs and references beside each other, and how configurations differ",
             {"compare adam lamb", "compare adam lamb @last -o json",
              "compare adam v4.1-tinycorp-tinybox_green-result_0"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& runs = options.add("runs", ValueKind::Run, &runs_,
                               "ids, names if only one run has them, or names of references");
    runs.is_required = true;
    runs.type = "RUN";
    add_client_options(options, &client_);
  }

  int run() override {
    if (runs_.size() < 2 || runs_.size() > kMostCompared) {
      throw UsageError(std::to_string(runs_.size()) + " runs cannot be compared; name 2 to " +
                       std::to_string(kMostCompared));
    }
    const Client client = client_.connect();
    Json answers = Json::array();
    for (const std::string& run : runs_) answers.push_back(looked_up(client, run));
    Json comparison = text::comparison_of(answers);
    add_speed(client, answers, &comparison);
    if (client_.output.print(comparison)) return 0;
    std::cout << text::comparison_text(comparison);
    if (comparison.contains("speed")) {
      std::cout << "\n" << compare::speed_text(comparison["speed"]);
    } else if (comparison.contains("speed_unknown")) {
      std::cout << "\nspeed: " << base::printable(comparison["speed_unknown"].get<std::string>())
                << "\n";
    }
    return 0;
  }

 private:
  // Of two runs, why one is slower; else why that cannot be told.
  static void add_speed(const Client& client, const Json& answers, Json* comparison) {
    const bool both =
        answers.size() == 2 && answers[0].contains("config") && answers[1].contains("config");
    if (!both) return;
    const auto id = [&](std::size_t i) { return path_part(answers[i].value("id", "")); };
    try {
      (*comparison)["speed"] = client.get("/runs/" + id(1) + "/speed?against=" + id(0));
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound && error.code() != base::Code::User) throw;
      (*comparison)["speed_unknown"] = error.what();
    }
  }
  // A run, else a reference of that name.
  [[nodiscard]] static Json looked_up(const Client& client, const std::string& name) {
    try {
      return client.get("/runs/" + path_part(name));
    } catch (const base::Error& no_run) {
      if (no_run.code() != base::Code::NotFound) throw;
      try {
        return as_run(client.get("/references/" + path_part(name)));
      } catch (const base::Error& error) {
        if (error.code() != base::Code::NotFound) throw;
      }
      throw;
    }
  }

  ClientOptions client_;
  std::vector<std::string> runs_;
};

}  // namespace

std::unique_ptr<Command> compare_command(const Program& program) {
  return std::make_unique<Compare>(program);
}

}  // namespace regatta::orchestrator::cli
