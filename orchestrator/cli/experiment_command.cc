// `regatta experiment …`: many runs of one file, and a table of what they came to.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/experiment_runs.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/run_file_paths.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "orchestrator/experiments/table_text.h"
#include "orchestrator/text/run_csv.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

enum class TableFormat { Plain, Data, Yaml, Markdown };

using Json = nlohmann::ordered_json;

constexpr int kIdBytes = 3;

void add_table_format(OptionList& options, TableFormat* format) {
  options.choose("-o,--output", format,
                 Choices<TableFormat>{{"text", TableFormat::Plain},
                                      {"json", TableFormat::Data},
                                      {"yaml", TableFormat::Yaml},
                                      {"markdown", TableFormat::Markdown}},
                 "for people, for programs, or for a document");
}

// False, and nothing is printed, where it is to be a table for people.
bool print_data(const Json& json, TableFormat format) {
  if (format == TableFormat::Data) print_json(json);
  if (format == TableFormat::Yaml) print(text::yaml_of(json));
  return format == TableFormat::Data || format == TableFormat::Yaml;
}

// Also of an experiment that is under way.
void print_experiment(const Client& client, const std::string& id, TableFormat format) {
  const Json table = experiment_table(client, id);
  if (print_data(table, format)) return;
  print(format == TableFormat::Plain ? experiments::table_text(table)
                                     : experiments::table_markdown(table));
}

class Parallel : public Command {
 public:
  explicit Parallel(const Program& program)
      : Command({"parallel",
                 Group::Runs,
                 "train a run file in several layouts of ranks, in turn, and compare them",
                 {"experiment parallel layouts.yaml", "experiment parallel layouts.yaml --dry-run",
                  "experiment parallel layouts.yaml --id 4f2a91 -o markdown"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options
        .add("file", ValueKind::RunFile, &file_,
             "the run file with a section `experiment`, YAML or JSON; - for stdin")
        .is_required = true;
    options
        .add("--id", ValueKind::Experiment, checked_id(&id_),
             "go on with this experiment, or begin it under this name; an id of its own otherwise")
        .type = "ID";
    options.add("--dry-run", &dry_run_, "only show the runs in their order, and check each layout");
    add_table_format(options, &format_);
    add_server_options(options, &client_);
  }

  int run() override {
    if (dry_run_ && format_ == TableFormat::Markdown) {
      throw UsageError("--dry-run has no table for a document; use -o text, json or yaml");
    }
    ExperimentPlan plan{
        experiments::parse_parallel_experiment(read_input(file_, kMaxRunFile), input_name(file_)),
        id_.empty() ? base::random_hex(kIdBytes) : id_, file_};
    trainer::contract::RunConfig& config = plan.experiment.run;
    const base::Path folder = file_ == "-" ? base::Path(".") : base::Path(file_).parent_path();
    make_data_absolute(folder, &config);
    if (config.from) settle_start(folder, &*config.from);
    const Client client = client_.connect();
    if (!id_.empty()) take_earlier(client, &plan);
    // Before the first begins, so that the last is not refused hours later.
    const Json previews = layout_previews(client, plan);
    if (dry_run_) return show_preview(plan, previews);
    std::cerr << "experiment " << plan.id << ": "
              << base::plural(planned_runs(plan.experiment).size(), "run")
              << ", each when the one before is over\n";
    const int code = run_in_turn(client, plan);
    if (code != kInterrupted) print_experiment(client, plan.id, format_);
    return code;
  }

 private:
  [[nodiscard]] int show_preview(const ExperimentPlan& plan, const Json& previews) const {
    const auto planned = planned_runs(plan.experiment);
    std::vector<std::vector<std::string>> rows{{"RUN", "SEED", "LAYOUT", "RANKS", "NAME"}};
    Json list = Json::array();
    for (std::size_t place = 0; place < planned.size(); ++place) {
      const auto& layout = plan.experiment.layouts[planned[place].layout];
      const std::string name = experiments::config_of(plan.experiment, planned[place]).name;
      rows.push_back({std::to_string(place + 1), std::to_string(planned[place].seed), layout.name,
                      std::to_string(layout.ranks()), name});
      list.push_back({{"run", place + 1},
                      {"seed", planned[place].seed},
                      {"layout", layout.name},
                      {"ranks", layout.ranks()},
                      {"name", name}});
    }
    bool good = true;
    std::string faults;
    for (const Json& each : previews) {
      for (const Json& check : each.at("preview").value("checks", Json::array())) {
        if (check.value("good", Json()) != false) continue;
        good = false;
        faults += base::printable(each.at("layout").get<std::string>() + ": " +
                                  check.value("name", "") + ": " + check.value("detail", "")) +
                  "\n";
      }
    }
    const Json preview{{"dry_run", true}, {"runs", std::move(list)}, {"layouts", previews}};
    if (!print_data(preview, format_)) print(text::table(rows) + faults);
    return good ? 0 : base::meaning(base::Code::User).exit_code;
  }

  ClientOptions client_;
  std::string file_;
  std::string id_;  // empty: a new one
  TableFormat format_ = TableFormat::Plain;
  bool dry_run_ = false;
};

class ShowExperiment : public Command {
 public:
  explicit ShowExperiment(const Program& program)
      : Command({"show",
                 Group::Runs,
                 "print the table of an experiment, of the runs that are over",
                 {"experiment show 4f2a91", "experiment show 4f2a91 -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("id", ValueKind::Experiment, &id_, "what `regatta experiment parallel` said")
        .is_required = true;
    add_table_format(options, &format_);
    add_server_options(options, &client_);
  }

  int run() override {
    check_experiment_id(id_, "the id");
    print_experiment(client_.connect(), id_, format_);
    return 0;
  }

 private:
  ClientOptions client_;
  std::string id_;
  TableFormat format_ = TableFormat::Plain;
};

}  // namespace

std::unique_ptr<Command> experiment_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<Parallel>(program));
  parts.push_back(std::make_unique<ShowExperiment>(program));
  return std::make_unique<CommandFamily>(
      CommandText{"experiment", Group::Runs, "compare layouts of ranks by runs of one file", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
