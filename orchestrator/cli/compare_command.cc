#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/step_replays.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/compare/bench_difference.h"
#include "orchestrator/compare/environment_difference.h"
#include "orchestrator/compare/learning_text.h"
#include "orchestrator/compare/speed_text.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/text/comparison.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCompared = 10;
constexpr double kMostReplaySeconds = 1e6;
constexpr std::size_t kFirstFacts = 12;  // of environments, beside all else
constexpr std::size_t kAllFacts = 10000;
constexpr int kMostDepth = 32;  // of a file

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

// A path, and not a run's id or name.
bool names_file(const std::string& argument) {
  constexpr std::string_view kEnding = ".json";
  return argument.find('/') != std::string::npos ||
         (argument.size() > kEnding.size() &&
          argument.compare(argument.size() - kEnding.size(), kEnding.size(), kEnding) == 0);
}

// An environment.json (docs/formats/environment.md), or a bench (docs/platform_bench.md).
using ComparedFile = std::variant<Json, trainer::contract::PlatformBench>;

ComparedFile read_compared_file(const base::Path& path) {
  const std::uint64_t most = std::max<std::uint64_t>(trainer::contract::kMostBenchBytes,
                                                     trainer::contract::kMostEnvironmentBytes);
  const std::string text = base::posix_file_system().read_at(path, 0, most + 1);
  const std::string source = base::printable(path.string());
  // Of what is nested deeper than either the readers say so.
  const Json json =
      base::json_depth_at_most(text, kMostDepth) ? base::parse_json<Json>(text) : Json();
  if (json.is_object() && json.contains("figures")) {
    return trainer::contract::parse_platform_bench(std::string_view(text), source);
  }
  if (json.is_object() && json.contains("fingerprint")) {
    return trainer::contract::parse_environment(text, source);
  }
  throw base::Error(base::Code::User,
                    source +
                        " is neither an environment.json of an attempt nor a bench of a machine"
                        " (regatta platform bench --out FILE)");
}

class Compare : public Command {
 public:
  explicit Compare(const Program& program)
      : Command(
            {"compare",
             Group::Runs,
             "show figures of runs and references side by side, and of two runs why they differ",
             {"compare adam lamb", "compare adam lamb --replay", "compare adam lamb @last -o json",
              "compare adam v4.1-tinycorp-tinybox_green-result_0",
              "compare adam theirs/environment.json", "compare node1.json node2.json"}}),
        environment_(program.environment),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& runs =
        options.add("runs", ValueKind::Run, &runs_,
                    "ids, names if only one run has them, or names of references; two "
                    "may be files: an attempt's environment.json, or benches of machines");
    runs.is_required = true;
    runs.type = "RUN";
    options.add("--speed", &parts_.speed, "only why one of two runs is slower");
    options.add("--learning", &parts_.learning,
                "only from which step on two runs learn differently, and why");
    options.add("--environment", &parts_.environment,
                "only in what two environments differ, the important first");
    options.add("--replay", &replay_,
                "the same, and take that step of both again, here, to show which difference it is");
    options
        .add("--replay-seconds", &replay_seconds_, "for all replays, which are at most 8, together")
        .range = NumberRange{1, kMostReplaySeconds};
    options.add("--trainer", ValueKind::File, &trainer_,
                "regatta-train for replays (default: the runs' own, or as `serve` finds it)");
    add_client_options(options, &client_);
  }

  int run() override {
    if (runs_.size() < 2 || runs_.size() > kMostCompared) {
      throw UsageError(base::plural(static_cast<std::int64_t>(runs_.size()), "run") +
                       " cannot be compared; name 2 to " + std::to_string(kMostCompared));
    }
    parts_.learning = parts_.learning || replay_;
    const bool is_of_two = parts_.any() || std::any_of(runs_.begin(), runs_.end(), names_file);
    if (is_of_two && runs_.size() != 2) {
      throw UsageError("--speed, --learning, --environment and files compare two, not " +
                       std::to_string(runs_.size()));
    }
    if (std::any_of(runs_.begin(), runs_.end(), names_file)) return compare_files();
    const Client client = client_.connect();
    Json answers = Json::array();
    for (const std::string& run : runs_) answers.push_back(looked_up(client, run));
    const bool all = !parts_.any();
    Json comparison = all ? text::comparison_of(answers) : Json::object();
    if (all || parts_.speed) add_part(client, answers, "speed", &comparison);
    if (all || parts_.learning) add_part(client, answers, "learning", &comparison);
    if (all || parts_.environment) add_environments(client, answers, &comparison);
    if (replay_) add_replays(client, answers, &comparison["learning"]);
    if (client_.output.print(comparison)) return 0;
    std::vector<std::string> texts;
    if (all) texts.push_back(text::comparison_text(comparison));
    add_text(comparison, "speed", &compare::speed_text, &texts);
    add_text(comparison, "learning", &compare::learning_text, &texts);
    add_text(
        comparison, "environment",
        [&](const Json& told) {
          return compare::environment_difference_text(told, all ? kFirstFacts : kAllFacts);
        },
        &texts);
    std::cout << base::join(texts, "\n");
    return 0;
  }

 private:
  struct Parts {
    bool speed = false, learning = false, environment = false;
    [[nodiscard]] bool any() const { return speed || learning || environment; }
  };

  // Two benches, or two environments, of which one may be that of a run.
  int compare_files() const {
    if (parts_.speed || parts_.learning) {
      throw UsageError(
          "--speed and --learning compare runs of a controller, by id or name, and one of these is "
          "a path; a run elsewhere is taken up when its directory is copied below the "
          "controller's runs directory");
    }
    std::array<ComparedFile, 2> sides;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (names_file(runs_[i])) {
        sides[i] = read_compared_file(runs_[i]);
        continue;
      }
      const Client client = client_.connect();
      sides[i] = environment_of(client, client.get("/runs/" + path_part(runs_[i])));
      if (std::get<Json>(sides[i]).is_null()) {
        throw base::Error(base::Code::NotFound, "the run '" + base::printable(runs_[i]) +
                                                    "' has no environment.json to compare");
      }
    }
    if (sides[0].index() != sides[1].index()) {
      throw UsageError(
          "a bench of a machine is compared with another one, an environment with an "
          "environment or a run; name two of a kind");
    }
    const auto* bench = std::get_if<trainer::contract::PlatformBench>(&sides[0]);
    const Json told =
        bench != nullptr
            ? compare::bench_difference(*bench,
                                        std::get<trainer::contract::PlatformBench>(sides[1]))
            : compare::environment_difference(std::get<Json>(sides[0]), std::get<Json>(sides[1]));
    if (client_.output.print(told)) return 0;
    std::cout << (bench != nullptr ? compare::bench_difference_text(told)
                                   : compare::environment_difference_text(told, kAllFacts));
    return 0;
  }
  // Of two runs; where one has none that can be read, that.
  void add_environments(const Client& client, const Json& answers, Json* comparison) const {
    const bool both =
        answers.size() == 2 && answers[0].contains("config") && answers[1].contains("config");
    if (!both && parts_.environment) {
      throw UsageError("--environment compares two runs; one of these is a reference");
    }
    if (!both) return;
    try {
      const Json a = environment_of(client, answers[0]), b = environment_of(client, answers[1]);
      if (a.is_null() || b.is_null()) {
        const std::string run = answers[a.is_null() ? 0 : 1].value("id", "");
        throw base::Error(base::Code::NotFound, "the run '" + run + "' has no environment.json");
      }
      (*comparison)["environment"] = compare::environment_difference(a, b);
    } catch (const base::Error& error) {
      if (parts_.environment) throw;
      (*comparison)["environment_unknown"] = error.what();
    }
  }

  // Of two runs, what the API's route of that name says; else why that cannot be told. Where only
  // one part is wanted that is an error.
  void add_part(const Client& client, const Json& answers, const std::string& part,
                Json* comparison) const {
    const bool both =
        answers.size() == 2 && answers[0].contains("config") && answers[1].contains("config");
    const bool is_asked_for = parts_.any();
    if (!both && is_asked_for) {
      throw UsageError("--" + part + " compares two runs; one of these is a reference");
    }
    if (!both) return;
    const auto id = [&](std::size_t i) { return path_part(answers[i].value("id", "")); };
    try {
      (*comparison)[part] = client.get("/runs/" + id(1) + "/" + part + "?against=" + id(0));
    } catch (const base::Error& error) {
      const bool is_unknown =
          error.code() == base::Code::NotFound || error.code() == base::Code::User;
      if (!is_unknown || is_asked_for) throw;
      (*comparison)[part + "_unknown"] = error.what();
    }
  }
  static void add_text(const Json& comparison, const std::string& part,
                       const std::function<std::string(const Json&)>& text_of,
                       std::vector<std::string>* texts) {
    const auto unknown = comparison.find(part + "_unknown");
    if (comparison.contains(part)) texts->push_back(text_of(comparison.at(part)));
    if (unknown == comparison.end()) return;
    texts->push_back(part + ": " + base::printable(unknown->get<std::string>()) + "\n");
  }
  // Where a step differs: it is taken again, if both runs lie here.
  void add_replays(const Client& client, const Json& answers, Json* learning) const {
    const Json& bits = learning->at("other_bits");
    if (bits.is_null()) return;
    const Json environment_a = environment_or_null(client, answers[0]);
    const Json environment_b = environment_or_null(client, answers[1]);
    const auto run = [&](std::size_t i, const Json& environment) {
      return ReplayedRun{answers[i].at("id"), answers[i].at("directory").get<std::string>(),
                         &environment};
    };
    const base::Path trainer =
        runs::find_trainer(trainer_, environment_.program, environment_.path);
    StepReplays replays(run(0, environment_a), run(1, environment_b), {trainer, replay_seconds_},
                        environment_);
    const compare::StepsApart steps{learning->at("first").at("step"), bits.at("step")};
    (*learning)["replay"] = compare::replay_json(compare::explain(
        steps, compare::learning_facts(environment_a, environment_b), environment_a,
        [&](const compare::ReplayRequest& request) { return replays.take(request); }));
  }
  // Null also where it cannot be read, which is said: a replay shows what it can without.
  [[nodiscard]] static Json environment_or_null(const Client& client, const Json& run) {
    try {
      return environment_of(client, run);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Operator && error.code() != base::Code::Conflict) throw;
      std::cerr << "regatta: " << base::printable(error.what()) << "; replays go on without it\n";
      return {};
    }
  }
  // Null where it has none.
  [[nodiscard]] static Json environment_of(const Client& client, const Json& run) {
    try {
      return client.get("/runs/" + path_part(run.value("id", "")) + "/environment");
    } catch (const base::Error& error) {
      if (error.code() == base::Code::NotFound) return {};
      throw;
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

  site::ProgramEnvironment environment_;
  ClientOptions client_;
  std::vector<std::string> runs_;
  Parts parts_;
  bool replay_ = false;
  double replay_seconds_ = 600;
  std::string trainer_;
};

}  // namespace

std::unique_ptr<Command> compare_command(const Program& program) {
  return std::make_unique<Compare>(program);
}

}  // namespace regatta::orchestrator::cli
