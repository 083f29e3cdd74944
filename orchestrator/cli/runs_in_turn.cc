#include "orchestrator/cli/runs_in_turn.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/run_difference.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTurnSeconds = 0.5;
constexpr double kRetrySeconds = 1;  // between two tries
constexpr int kRowsAtOnce = 10'000;  // of a history
constexpr std::size_t kShownDifferences = 4;

// One after the other.
class Runner {
 public:
  Runner(const Client& client, const Turns& turns) : client_(client), turns_(turns) {}

  TurnsEnd run() {
    TurnsEnd end;
    // That no run is begun of a file that is another one by now.
    for (place_ = 0; place_ < turns_.runs.size(); ++place_) {
      if (turn().earlier.empty()) continue;
      if (!patiently([&] { return submit(); })) return detached("", &end);
    }
    for (place_ = 0; place_ < turns_.runs.size(); ++place_) {
      const auto submitted = patiently([&] { return submit(); });
      if (!submitted) return detached("", &end);
      const std::string id = submitted->value("id", "");
      end.ids.push_back(id);
      for (const Json& warning : submitted->value("warnings", Json::array())) {
        std::cerr << "regatta: warning: " << base::printable(warning.get<std::string>()) << "\n";
      }
      const bool was_over = text::is_over(*submitted);
      say(id + (was_over ? " is over already" : ""));
      const auto run = over(*submitted);
      if (!run) return detached(id, &end);
      if (run->value("state", "") == "succeeded") continue;
      end.code = 1;
      const std::string error = text::text_of(*run, "error");
      say(id + " " + run->value("state", "") + (error.empty() ? "" : ": " + error) +
          (was_over ? again(id) : ""));
      if (turns_.first_decides && place_ == 0) return end;
    }
    return end;
  }

 private:
  static std::string again(const std::string& id) {
    return "; `" + base::shown_command("regatta resume", id) + "` tries it again, after `" +
           base::shown_command("regatta rm", id) + "` a new one is made";
  }
  [[nodiscard]] const TurnRun& turn() const { return turns_.runs[place_]; }
  [[nodiscard]] Json submit() const {
    const plan::SubmittedRun asked{turn().config, {}};
    try {
      return client_.post("/runs?tags=" + encoded(base::join(turn().tags, ",")),
                          plan::submitted_body(asked), {{"Idempotency-Key", turn().key}});
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Conflict) throw;
      const std::string differences = file_differences();
      throw base::Error(base::Code::Conflict, "the run of " + turn().what + " " + turns_.of +
                                                  " was made of another file" +
                                                  (differences.empty() ? "" : ": " + differences) +
                                                  "; go on with that one, or give another --id");
    }
  }
  // In what the run that is there differs from the file; empty where nobody can say. What Slurm is
  // asked for comes last: the site's defaults are part of a run's.
  [[nodiscard]] std::string file_differences() const {
    if (turn().earlier.empty()) return "";
    try {
      Json config = client_.get("/runs/" + path_part(turn().earlier)).at("config");
      const std::string environment = "slurm.environment.";
      if (config.contains("slurm")) config["slurm"].erase("environment");  // its values are hidden
      auto found = trainer::contract::differences(
          trainer::contract::parse_run_config(base::json_text(config), "run.json"), turn().config);
      std::erase_if(found, [&](const auto& each) { return each.key.rfind(environment, 0) == 0; });
      std::stable_partition(found.begin(), found.end(),
                            [](const auto& each) { return each.key.rfind("slurm.", 0) != 0; });
      return trainer::contract::to_text(found, kShownDifferences);
    } catch (const base::Error&) {  // that it is another one is known all the same
      return "";
    }
  }
  // As it ended; nothing after Ctrl-C.
  std::optional<Json> over(Json run) {
    const std::string path = "/runs/" + path_part(run.value("id", ""));
    while (!text::is_over(run)) {
      if (interrupt_.wait(kTurnSeconds)) return std::nullopt;
      auto next = patiently([&] { return client_.get(path); });
      if (!next) return std::nullopt;
      run = std::move(*next);
    }
    return run;
  }
  // Until the controller answers; nothing after Ctrl-C.
  std::optional<Json> patiently(const std::function<Json()>& ask) const {
    for (bool told = false;; told = true) {
      try {
        return ask();
      } catch (const base::Error& error) {
        if (error.code() != base::Code::Retry) throw;
        if (!told) std::cerr << "regatta: " << base::printable(error.what()) << "; tries again\n";
      }
      if (interrupt_.wait(kRetrySeconds)) return std::nullopt;
    }
  }
  void say(const std::string& what) const {
    std::cerr << "run " << place_ + 1 << " of " << turns_.runs.size() << " ("
              << base::printable(turn().what) << "): " << base::printable(what) << "\n";
  }
  TurnsEnd detached(const std::string& run, TurnsEnd* end) const {
    std::cerr << "detached" << (run.empty() ? "" : "; " + base::printable(run) + " goes on") << "; "
              << turns_.go_on << "\n";
    end->code = kInterrupted;
    return *end;
  }

  const Client& client_;
  const Turns& turns_;
  const Interrupt interrupt_;
  std::size_t place_ = 0;
};

}  // namespace

TurnsEnd run_in_turn(const Client& client, const Turns& turns) {
  return Runner(client, turns).run();
}

Json whole_history(const Client& client, const std::string& id, bool* is_thinned) {
  Json rows = Json::array();
  const std::string path =
      "/runs/" + path_part(id) + "/history?limit=" + std::to_string(kRowsAtOnce) + "&since=";
  std::string since = "0";
  for (bool more = true; more;) {
    const Json part = client.get(path + since);
    for (const Json& row : part.at("rows")) rows.push_back(row);
    since = std::to_string(part.at("cursor").get<std::int64_t>());
    more = part.value("more", false);
    *is_thinned = *is_thinned || part.value("resolution_seconds", 0) > 0;
  }
  return rows;
}

}  // namespace regatta::orchestrator::cli
