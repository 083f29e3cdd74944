#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/text/run_csv.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

class Export : public Command {
 public:
  explicit Export(const Program& program)
      : Command({"export",
                 Group::Runs,
                 "print every step, evaluation or checkpoint of a run for other tools",
                 {"export demo", "export demo --series evaluations", "export @last -o jsonl"}}),
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
    options.choose("-o,--output", &as_, {{"csv", As::Csv}, {"jsonl", As::Lines}},
                   "a table, or one JSON object a line");
  }

  int run() override {
    if (type_.empty() && as_ == As::Csv) {
      throw base::Error(base::Code::User,
                        "rows of several series are no table; use -o jsonl, or --series steps, "
                        "evaluations or checkpoints");
    }
    const Client client = client_.connect();
    std::int64_t cursor = 0;
    bool first = true;
    for (bool more = true; more;) {
      const Json page = client.get("/runs/" + path_part(run_) +
                                   "/history?limit=10000&since=" + std::to_string(cursor));
      Json rows = Json::array();
      for (const Json& row : page.value("rows", Json::array())) {
        if (type_.empty() || row.value("type", "") == type_) rows.push_back(row);
      }
      print(rows, first);
      first = first && rows.empty();
      const std::int64_t before = cursor;
      cursor = page.value("cursor", cursor);
      more = page.value("more", false) && cursor > before;
    }
    return 0;
  }

 private:
  enum class As { Csv, Lines };

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
  std::string type_ = "step";
  As as_ = As::Csv;
};

}  // namespace

std::unique_ptr<Command> export_command(const Program& program) {
  return std::make_unique<Export>(program);
}

}  // namespace regatta::orchestrator::cli
