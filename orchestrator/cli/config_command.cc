// `regatta config show`: the values of a run file, the user's file and the site's together, and
// which of them says what; `config schema`: what a run file may say. Neither needs a controller.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/document.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/output.h"
#include "orchestrator/cli/schema_command.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ConfigOptions {
  std::string file;      // a run file; "-": stdin; empty: only what the files of defaults say
  bool origin = false;   // beside each value, which file has it
  bool secrets = false;  // values of slurm.environment, too
  Output output{};
};

struct Value {
  std::string key;  // "slurm.partition"
  Json value;       // null: a secret
  std::string origin;
};

constexpr const char* kBuiltIn = "default";

// "slurm.setup" and the like, of every mapping and value in the text.
void collect_keys(base::Table& table, const std::string& before, std::set<std::string>* keys) {
  for (const std::string& key : table.keys()) {
    const std::string path = before.empty() ? key : before + "." + key;
    keys->insert(path);
    if (!table.is_table(key)) continue;
    base::Table inner = table.table(key);
    collect_keys(inner, path, keys);
  }
}

// Leaves in the order of the canonical file; a list is one leaf.
void flatten(const Json& json, const std::string& before, std::vector<Value>* values) {
  for (const auto& [key, value] : json.items()) {
    const std::string path = before.empty() ? key : before + "." + key;
    if (value.is_object() && !value.empty()) {
      flatten(value, path, values);
    } else {
      values->push_back({path, value, ""});
    }
  }
}

// A receiver's address may be one in its path.
bool is_secret(const std::string& key) {
  const bool of_webhook = key.rfind("webhooks.", 0) == 0 && key.size() > 4;
  return key.rfind("slurm.environment.", 0) == 0 ||
         (of_webhook && key.compare(key.size() - 4, 4, ".url") == 0);
}

// Options of sbatch may come from several files: all of them.
std::string origin_of(const std::string& key, const std::set<std::string>& given,
                      const std::map<std::string, base::Path>& origins, const std::string& source) {
  if (const auto found = origins.find(key); found != origins.end()) return found->second.string();
  std::string text = given.count(key) > 0 ? source : "";
  for (const auto& [name, path] : origins) {
    if (name.rfind(key + ".", 0) != 0 || text.find(path.string()) != std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + path.string();
  }
  return text.empty() ? kBuiltIn : text;
}

std::vector<Value> values_of_run(const ConfigOptions& options,
                                 const std::vector<site::DefaultsFile>& files) {
  const std::string source = input_name(options.file);
  const std::string text = read_input(options.file);
  std::set<std::string> given;
  base::Table table = base::Table::parse(text, source);
  collect_keys(table, "", &given);
  const site::FilledRun run =
      site::with_defaults(trainer::contract::parse_run_config(text, source), files);
  std::vector<Value> values;
  flatten(base::parse_json<Json>(trainer::contract::to_json(run.config)), "", &values);
  for (Value& value : values) value.origin = origin_of(value.key, given, run.origins, source);
  return values;
}

std::vector<Value> values_of_defaults(const std::vector<site::DefaultsFile>& files) {
  std::vector<Value> values;
  const auto first = [&](const char* key, auto of) {
    for (const site::DefaultsFile& file : files) {
      if (of(file) == decltype(of(file)){}) continue;
      values.push_back({key, of(file), file.path.string()});
      return;
    }
  };
  first("runs", [](const site::DefaultsFile& file) { return file.runs; });
  first("parallel", [](const site::DefaultsFile& file) { return file.parallel; });
  const auto first_days = [&](const char* key, std::optional<double> site::MetricsDefaults::*days) {
    for (const site::DefaultsFile& file : files) {
      if (!(file.metrics.*days)) continue;
      values.push_back({std::string("metrics.") + key, *(file.metrics.*days), file.path.string()});
      return;
    }
  };
  first_days("raw_days", &site::MetricsDefaults::raw_days);
  first_days("ten_second_days", &site::MetricsDefaults::ten_second_days);
  first_days("minute_days", &site::MetricsDefaults::minute_days);
  for (const site::DefaultsFile& file : files) {
    if (!file.exports.keep_days) continue;
    values.push_back({"exports.keep_days", *file.exports.keep_days, file.path.string()});
    break;
  }
  for (const site::DefaultsFile& file : files) {
    for (const site::WebhookSetting& webhook : file.webhooks) {
      const std::string key = "webhooks." + webhook.name;
      values.push_back({key + ".url", webhook.url, file.path.string()});
      values.push_back({key + ".kinds", webhook.kinds, file.path.string()});
      values.push_back({key + ".secret_file", webhook.secret_file.string(), file.path.string()});
    }
  }
  std::map<std::string, base::Path> origins;
  trainer::contract::SlurmResources slurm;
  for (const site::DefaultsFile& file : files) {
    std::vector<std::string> keys;
    slurm = trainer::contract::with_slurm_defaults(std::move(slurm), file.slurm, &keys);
    for (const std::string& key : keys) origins["slurm." + key] = file.path;
  }
  std::vector<Value> all;
  flatten({{"slurm", trainer::contract::slurm_resources_json(slurm)}}, "", &all);
  for (Value& value : all) {
    value.origin = origin_of(value.key, {}, origins, "");
    if (value.origin != kBuiltIn) values.push_back(std::move(value));
  }
  return values;
}

void print_values(const std::vector<Value>& values, const ConfigOptions& options) {
  Json json = Json::array();
  for (const Value& value : values) {
    json.push_back({{"key", value.key}, {"value", value.value}, {"origin", value.origin}});
  }
  if (options.output.print(json)) return;
  std::vector<std::vector<std::string>> rows;
  for (const Value& value : values) {
    const std::string text = value.value.is_null()     ? "(hidden; --secrets shows it)"
                             : value.value.is_string() ? value.value.get<std::string>()
                                                       : base::json_text(value.value);
    rows.push_back({value.key, text.empty() ? "\"\"" : text});
    if (options.origin) rows.back().push_back(value.origin);
  }
  std::cout << text::table(rows);
}

class ConfigShow : public Command {
 public:
  explicit ConfigShow(const Program& program)
      : Command({"show",
                 Group::Controller,
                 "show what the site's and the user's files set, or a run file completed by them",
                 {"config show", "config show run.yaml --origin"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::RunFile, &options_.file,
                "a run file, shown as it would be submitted to Slurm; - for stdin");
    options.add("--origin", &options_.origin, "say from which file each value is");
    options.add("--secrets", &options_.secrets, "also show the values of slurm.environment");
    options_.output.add_option(options, {"", "key"});
  }

  int run() override {
    const std::vector<site::DefaultsPlace> places = site::defaults_places(environment_);
    const std::vector<site::DefaultsFile> files = site::read_defaults(places);
    std::vector<Value> values =
        options_.file.empty() ? values_of_defaults(files) : values_of_run(options_, files);
    for (Value& value : values) {
      if (is_secret(value.key) && !options_.secrets) value.value = Json();
    }
    print_values(values, options_);
    if (values.empty() && options_.output.is_text()) {
      std::vector<std::string> names;
      for (const site::DefaultsPlace& place : places) names.push_back(place.path.string());
      std::cerr << "regatta: nothing is set in " << base::printable(base::join(names, " and "))
                << "\n";
    }
    return 0;
  }

 private:
  site::ProgramEnvironment environment_;
  ConfigOptions options_;
};

}  // namespace

std::unique_ptr<Command> config_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<PrintSchema>(
      CommandText{"schema",
                  Group::Controller,
                  "print what a run file may say, as `regatta schema` does",
                  {"config schema"}}));
  parts.push_back(std::make_unique<ConfigShow>(program));
  return std::make_unique<CommandFamily>(
      CommandText{"config", Group::Controller, "settings of the site and the user", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
