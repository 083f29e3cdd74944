#include <cstdint>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/slurm/slurm_values.h"
#include "orchestrator/text/event_file.h"
#include "orchestrator/text/run_csv.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

// "2026-11-27T10:30:15.250Z" of a run whose training has begun, as seconds since 1970.
std::optional<double> beginning_of(const Json& run) {
  constexpr std::size_t kSeconds = 19, kMilliseconds = 4;  // characters
  const auto at = run.find("started_at");
  if (at == run.end() || !at->is_string()) return std::nullopt;
  const auto text = at->get<std::string>();
  const auto seconds = slurm::parse_slurm_time(text.substr(0, kSeconds));
  if (!seconds || text.size() < kSeconds + kMilliseconds) return seconds;
  const auto thousandths = base::parse_integer(text.substr(kSeconds + 1, kMilliseconds - 1));
  return *seconds + static_cast<double>(thousandths.value_or(0)) / 1e3;
}

class Export : public Command {
 public:
  explicit Export(const Program& program)
      : Command({"export",
                 Group::Runs,
                 "write every step, evaluation or checkpoint of a run for other tools",
                 {"export demo", "export demo --series evaluations", "export @last -o jsonl",
                  "export demo -o tensorboard --directory logs/demo"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.choose("--series", &type_,
                   {{"steps", std::string("step")},
                    {"evaluations", std::string("evaluation")},
                    {"checkpoints", std::string("checkpoint")},
                    {"all", std::string()}},
                   "which rows; all of them with jsonl only");
    add_server_options(options, &client_);
    options.choose(
        "-o,--output", &as_, {{"csv", As::Csv}, {"jsonl", As::Lines}, {"tensorboard", As::Events}},
        "a table, one JSON object a line, or an event file of TensorBoard, of all series");
    options.add("--directory", ValueKind::Directory, &directory_,
                "with tensorboard: where the file is to be");
  }

  int run() override {
    if ((as_ == As::Events) == directory_.empty()) {
      throw UsageError(directory_.empty()
                           ? "name the directory for TensorBoard's event file with --directory"
                           : "--directory is for -o tensorboard; send other output elsewhere "
                             "with > FILE");
    }
    if (type_.empty() && as_ == As::Csv) {
      throw UsageError(
          "rows of several series are no table; use -o jsonl, or --series steps, "
          "evaluations or checkpoints");
    }
    const Client client = client_.connect();
    if (as_ == As::Events) {
      write_events(client);
      return 0;
    }
    bool first = true;
    for_each_page(client, [&](const Json& page) {
      Json rows = Json::array();
      for (const Json& row : page) {
        if (type_.empty() || row.value("type", "") == type_) rows.push_back(row);
      }
      if (as_ == As::Csv) spread_metrics(&rows);
      print(rows, first);
      first = first && rows.empty();
    });
    if (first && as_ == As::Csv) {
      std::vector<std::string> columns = columns_in_api(schema());
      std::erase(columns, kMetrics);
      cli::print(text::csv_of(Json::array(), text::Audience::Program, columns));
    }
    return 0;
  }

 private:
  enum class As { Csv, Lines, Events };
  static constexpr const char* kMetrics = "metrics";

  [[nodiscard]] const char* schema() const {
    return type_ == "step" ? "StepRow" : type_ == "evaluation" ? "EvaluationRow" : "CheckpointRow";
  }

  template <typename Use>
  void for_each_page(const Client& client, Use use) const {
    std::int64_t cursor = 0;
    for (bool more = true; more;) {
      const Json page = client.get("/runs/" + path_part(run_) +
                                   "/history?limit=10000&since=" + std::to_string(cursor));
      use(page.value("rows", Json::array()));
      const int resolution = page.value("resolution_seconds", 0);
      if (cursor == 0 && resolution > 0) {
        std::cerr << "older steps are means of " << resolution
                  << " s, as the store keeps them of a run that ended long ago; the journals in "
                     "its directory have every step\n";
      }
      const std::int64_t before = cursor;
      cursor = page.value("cursor", cursor);
      more = page.value("more", false) && cursor > before;
    }
  }

  // Of evaluations: each in a column of its own. All of a run's have the same metrics, so the first
  // rows say which.
  void spread_metrics(Json* rows) {
    if (metrics_.empty()) {
      for (const Json& row : *rows) {
        const Json found = row.value(kMetrics, Json::object());
        for (const auto& [name, value] : found.items()) metrics_[name] = nullptr;
      }
    }
    for (Json& row : *rows) {
      const Json found = row.value(kMetrics, Json::object());
      row.erase(kMetrics);
      for (const auto& [name, absent] : metrics_.items()) row[name] = found.value(name, absent);
    }
  }

  // The same file again, of the run as it is by then; under its name once it is whole.
  void write_events(const Client& client) const {
    const Json run = client.get("/runs/" + path_part(run_));
    const std::optional<double> origin = beginning_of(run);
    if (!origin) {
      throw base::Error(base::Code::User, "run " + base::printable(run.value("id", run_)) +
                                              " has not begun to train; export it when it has");
    }
    base::FileSystem& files = base::posix_file_system();
    std::filesystem::create_directories(directory_);
    const std::string id = path_part(run.value("id", run_));
    const base::Path path =
        base::Path(directory_) /
        ("events.out.tfevents." + std::to_string(static_cast<std::int64_t>(*origin)) + "." + id);
    // TensorBoard reads whatever has "tfevents" in its name.
    const base::Path part = base::Path(directory_) / (".regatta-export-" + id);
    try {
      text::EventFile events(*origin);
      const auto file = files.open(part, base::FileSystem::Open::Truncate);
      file->append(events.head());
      for_each_page(client, [&](const Json& rows) { file->append(events.records(rows)); });
      files.rename(part, path);
    } catch (const base::Error&) {
      files.remove_file(part);
      throw;
    }
    std::cout << base::printable(path.string()) << "\n";
  }

  // The head of a table once.
  void print(const Json& rows, bool first) const {
    if (as_ == As::Lines) {
      for (const Json& row : rows) print_json_line(row);
      return;
    }
    const std::string table = text::csv_of(rows);
    std::cout << (first || table.empty() ? table : table.substr(table.find("\r\n") + 2))
              << std::flush;
  }

  ClientOptions client_;
  std::string run_;
  std::string directory_;
  std::string type_ = "step";
  As as_ = As::Csv;
  Json metrics_ = Json::object();  // as a set of names in their order
};

}  // namespace

std::unique_ptr<Command> export_command(const Program& program) {
  return std::make_unique<Export>(program);
}

}  // namespace regatta::orchestrator::cli
