// `regatta import …` and `regatta references …`: curves of others, to be looked at beside one's
// own.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/runs/reference.h"
#include "orchestrator/simulate/mlperf_log.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostLogBytes = std::uint64_t{64} << 20U;

std::string text_at(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}
std::string seconds_at(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? base::human_seconds(found->get<double>()) : "-";
}
std::string number_at(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? base::json_text(*found) : "-";
}

class ImportMlperf : public Command {
 public:
  explicit ImportMlperf(const Program& program)
      : Command({"mlperf",
                 Group::Runs,
                 "read result logs of MLPerf Training's BERT as reference curves",
                 {"import mlperf training_results_v4.1/*/results/*/bert/result_*.txt",
                  "import mlperf result_0.txt --name ours --round v4.1"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& files = options.add("files", ValueKind::File, &files_, "result logs");
    files.is_required = true;
    files.type = "FILE";
    options.add("--name", &name_, "the reference's name, of one file (default: by its path)");
    options.add("--round", &round_, "the round, such as v4.1 (default: by the path)");
    options.add("--system", &system_, "the system (default: by the path, else what the log says)");
    options.add("--chips", &chips_, "number of accelerators (default: what the log says)").range = {
        1, 10'000'000};
    options
        .add("--threshold", &threshold_,
             "accuracy that counts as reached (default: what the log says, else 0.72)")
        .range = {0, 1};
    add_client_options(options, &client_, {"", "name"});
  }

  // All are read and checked before the first is sent.
  int run() override {
    if (!name_.empty() && files_.size() > 1) {
      throw UsageError("--name is for one file; leave it out, or import them one by one");
    }
    std::vector<runs::ReferenceCurve> curves;
    for (const std::string& file : files_) curves.push_back(read(file));
    const Client client = client_.connect();
    Json answers = Json::array();
    for (const runs::ReferenceCurve& curve : curves) {
      answers.push_back(client.post("/references", base::json_text(runs::reference_body(curve)),
                                    {{"Content-Type", "application/json"}}));
      if (!client_.output.is_text()) continue;
      const Json& answer = answers.back();
      std::cout << base::printable(text_at(answer, "name")) << ": "
                << base::plural(answer.value("evaluation_count", 0), "evaluation") << ", "
                << number_at(answer, "threshold") << " after "
                << seconds_at(answer, "time_to_accuracy_seconds") << "\n"
                << std::flush;
    }
    (void)client_.output.print(answers);
    return 0;
  }

 private:
  [[nodiscard]] runs::ReferenceCurve read(const std::string& file) const {
    const simulate::MlperfPlace place = simulate::mlperf_place(file);
    const std::string text = base::posix_file_system().read(file, kMostLogBytes);
    runs::ReferenceCurve curve = simulate::read_mlperf_log(text, file);
    runs::Reference& about = curve.about;
    about.name = name_.empty() ? place.name : name_;
    about.round = round_.empty() ? place.round : round_;
    if (!place.submitter.empty()) about.submitter = place.submitter;
    if (!place.system.empty()) about.system = place.system;
    if (!system_.empty()) about.system = system_;
    if (chips_ > 0) about.chips = chips_;
    if (threshold_) about.threshold = *threshold_;
    try {
      runs::complete(&curve);
    } catch (const base::Error& error) {
      throw base::Error(error.code(), file + ": " + error.what());
    }
    return curve;
  }

  ClientOptions client_;
  std::vector<std::string> files_;
  std::string name_, round_, system_;
  int chips_ = 0;
  std::optional<double> threshold_;
};

class ListReferences : public Command {
 public:
  explicit ListReferences(const Program& program)
      : Command({"ls",
                 Group::Runs,
                 "list reference curves",
                 {"references ls", "references ls -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_client_options(options, &client_, {"references", "name", "ReferenceList"});
  }

  int run() override {
    const Client client = client_.connect();
    Json rows = Json::array();
    std::string after;
    do {
      const Json page =
          client.get("/references?limit=1000" + (after.empty() ? "" : "&after=" + encoded(after)));
      for (const Json& row : page.value("references", Json::array())) rows.push_back(row);
      after = text_at(page, "next");
    } while (!after.empty());
    if (client_.output.print({{"references", rows}})) return 0;
    std::vector<std::vector<std::string>> cells{
        {"NAME", "ROUND", "SUBMITTER", "SYSTEM", "CHIPS", "STATUS", "THRESHOLD", "REACHED"}};
    for (const Json& row : rows) {
      cells.push_back({text_at(row, "name"), text_at(row, "round"), text_at(row, "submitter"),
                       text_at(row, "system"), number_at(row, "chips"), text_at(row, "status"),
                       number_at(row, "threshold"), seconds_at(row, "time_to_accuracy_seconds")});
    }
    std::cout << text::table(cells);
    return 0;
  }

 private:
  ClientOptions client_;
};

class RemoveReferences : public Command {
 public:
  explicit RemoveReferences(const Program& program)
      : Command({"rm",
                 Group::Runs,
                 "remove reference curves",
                 {"references rm v4.1-tinycorp-tinybox_green-result_0"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& names = options.add("names", &names_, "names of references");
    names.is_required = true;
    names.type = "NAME";
    add_server_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    for (const std::string& name : names_) {
      (void)client.remove("/references/" + path_part(name));
      std::cout << base::printable(name) << ": removed\n" << std::flush;
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Command> import_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<ImportMlperf>(program));
  return std::make_unique<CommandFamily>(
      CommandText{"import", Group::Runs, "read curves of other tools as references", {}},
      std::move(parts));
}

std::unique_ptr<Command> references_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<ListReferences>(program));
  parts.push_back(std::make_unique<RemoveReferences>(program));
  return std::make_unique<CommandFamily>(
      CommandText{"references", Group::Runs, "list and remove reference curves", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
