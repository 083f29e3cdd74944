#include "orchestrator/cli/config_command.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/document.h"
#include "base/text.h"
#include "orchestrator/cli/topo_commands.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Value {
  std::string key;  // "slurm.partition"
  Json value;       // null: a secret
  std::string origin;
};

constexpr const char* kBuiltIn = "default";

// "slurm.setup" and the like, of every mapping and value that stands in the text.
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

bool is_secret(const std::string& key) { return key.rfind("slurm.environment.", 0) == 0; }

// Options of sbatch may be put together from several files: all of them.
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
  const std::string source = options.file == "-" ? "stdin" : options.file;
  const std::string text = read_input(options.file);
  std::set<std::string> given;
  base::Table table = base::Table::parse(text, source);
  collect_keys(table, "", &given);
  const site::FilledRun run =
      site::with_defaults(trainer::contract::parse_run_config(text, source), files);
  std::vector<Value> values;
  flatten(Json::parse(trainer::contract::to_json(run.config)), "", &values);
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

void print(const std::vector<Value>& values, const ConfigOptions& options) {
  if (options.format == Format::Json) {
    Json json = Json::array();
    for (const Value& value : values) {
      json.push_back({{"key", value.key}, {"value", value.value}, {"origin", value.origin}});
    }
    std::cout << text::json_text(json, 2, text::reader_of_stdout()) << "\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Value& value : values) {
    const std::string text = value.value.is_null()     ? "(hidden; --secrets shows it)"
                             : value.value.is_string() ? value.value.get<std::string>()
                                                       : value.value.dump();
    rows.push_back({value.key, text.empty() ? "\"\"" : text});
    if (options.origin) rows.back().push_back(value.origin);
  }
  std::cout << text::table(rows);
}

}  // namespace

int show_config(const ConfigOptions& options, const site::ProgramEnvironment& environment) {
  const std::vector<site::DefaultsPlace> places = site::defaults_places(environment);
  const std::vector<site::DefaultsFile> files = site::read_defaults(places);
  std::vector<Value> values =
      options.file.empty() ? values_of_defaults(files) : values_of_run(options, files);
  for (Value& value : values) {
    if (is_secret(value.key) && options.secrets == Secrets::Hidden) value.value = Json();
  }
  print(values, options);
  if (values.empty() && options.format == Format::Text) {
    std::vector<std::string> names;
    for (const site::DefaultsPlace& place : places) names.push_back(place.path.string());
    std::cerr << "regatta: nothing is set in " << base::printable(base::join(names, " and "))
              << "\n";
  }
  return 0;
}

}  // namespace regatta::orchestrator::cli
