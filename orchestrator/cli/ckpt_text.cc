#include "orchestrator/cli/ckpt_text.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "checkpoint/shards.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using text::text_of;
using Row = std::vector<std::string>;

std::string number_text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? base::short_number(it->get<double>()) : "-";
}

std::string step_text(const Json& json) {
  return std::to_string(json.value("step", std::int64_t{0}));
}

std::string bytes_text(const Json& json) {
  const auto it = json.find("bytes");
  if (it == json.end() || !it->is_number_unsigned() || *it == 0) return "-";
  return base::human_bytes(it->get<std::uint64_t>());
}

// With the number of shards where there are several.
std::string size_text(const Json& row) {
  const auto shards = row.find("shards");
  const bool cut = shards != row.end() && shards->is_number() && *shards > 1;
  return bytes_text(row) + (cut ? " in " + base::json_text(*shards) + " shards" : "");
}

std::string list_text(const Json& list, const char* separator) {
  Row parts;
  if (!list.is_array()) return "";
  for (const Json& part : list)
    parts.push_back(part.is_string() ? part.get<std::string>() : base::json_text(part));
  return base::join(parts, separator);
}

std::string metric_text(const Json& row) {
  const auto it = row.find("value");
  if (it == row.end() || !it->is_number()) return "-";
  return text_of(row, "metric") + " " + base::short_number(it->get<double>());
}

std::string kept_text(const Json& row) {
  if (row.value("goes", false)) return "goes at the next gc";
  const auto it = row.find("kept_because");
  const std::string kept = it == row.end() ? "" : list_text(*it, ", ");
  return kept.empty() ? text_of(row, "reason") : kept;
}

std::string pin_text(const Json& row) {
  const auto it = row.find("pinned");
  if (it == row.end() || !it->is_object()) return "-";
  const std::string reason = text_of(*it, "reason");
  return reason.empty() ? "pinned" : "pinned: " + reason;
}

std::string condition_text(const Json& row) {
  const std::string condition = text_of(row, "condition");
  return condition.empty() ? text_of(row, "status") : condition;
}

std::string age_text(const Json& row) {
  const auto it = row.find("age_seconds");
  return it != row.end() && it->is_number() ? base::human_seconds(it->get<double>()) : "-";
}

// The shards of a part, and then its tensors: one that lies in ranges is one line.
struct Part {
  std::vector<Row> files;
  std::vector<std::string> names;  // of tensors, in order
  struct Tensor {
    std::string dtype, shape;
    std::uint64_t bytes = 0, ranges = 0;
    std::int64_t elements = 0;
  };
  std::map<std::string, Tensor> tensors;
};

void add_tensor(const Json& one, Part* part) {
  const std::string name = text_of(one, "name");
  const auto range = checkpoint::parse_range_name(name);
  const auto [it, added] = part->tensors.try_emplace(range ? range->tensor : name);
  if (added) part->names.push_back(it->first);
  Part::Tensor& tensor = it->second;
  tensor.dtype = text_of(one, "dtype");
  tensor.shape = "[" + list_text(one.value("shape", Json::array()), ", ") + "]";
  tensor.bytes += one.value("bytes", std::uint64_t{0});
  if (!range) return;
  ++tensor.ranges;
  tensor.elements += range->end - range->begin;
}

void print_files(const Json& files) {
  std::map<std::string, Part> parts;
  for (const auto& [file, facts] : files.items()) {
    const auto shard = checkpoint::parse_shard_file(file);
    Part& part = parts[shard ? shard->kind : file];
    part.files.push_back({"", file, bytes_text(facts), text_of(facts, "digest")});
    if (facts.contains("error")) part.files.push_back({"", "error", text_of(facts, "error")});
    const Json tensors = facts.value("tensors", Json());
    if (!tensors.is_array()) continue;
    for (const Json& one : tensors) add_tensor(one, &part);
  }
  for (const auto& [kind, part] : parts) {
    std::cout << "\n" << text::table(part.files);
    std::vector<Row> cells;
    for (const std::string& name : part.names) {
      const Part::Tensor& tensor = part.tensors.at(name);
      cells.push_back({"  " + name, tensor.dtype,
                       tensor.ranges == 0 ? tensor.shape
                                          : "[" + std::to_string(tensor.elements) + "] in " +
                                                std::to_string(tensor.ranges) + " ranges",
                       base::human_bytes(tensor.bytes)});
    }
    std::cout << text::table(cells);
  }
}

}  // namespace

void print_checkpoints(const Json& answer) {
  Json rows = answer.value("checkpoints", Json::array());
  const std::string trouble = text_of(answer, "trouble");  // then the rows are what journals say
  if (!trouble.empty()) {
    std::cerr << "regatta: " << base::printable(trouble) << "\n";
  } else if (rows.empty()) {
    std::cerr << "no checkpoints\n";
  }
  // As a directory lists them; a journal records removals later.
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a.value("step", std::int64_t{0}) > b.value("step", std::int64_t{0});
  });
  std::vector<Row> cells{{"STEP", "NAME", "STATUS", "SIZE", "METRIC", "AGE", "PINNED", "KEPT"}};
  for (const Json& row : rows) {
    cells.push_back({step_text(row), text_of(row, "name"), condition_text(row), size_text(row),
                     metric_text(row), age_text(row), pin_text(row), kept_text(row)});
  }
  if (!rows.empty()) std::cout << text::table(cells);
}

void print_checkpoint(const Json& row) {
  std::vector<Row> cells{{"checkpoint", text_of(row, "name")},
                         {"path", text_of(row, "path")},
                         {"status", condition_text(row)},
                         {"size", size_text(row)},
                         {"metric", metric_text(row)},
                         {"written", text_of(row, "at")},
                         {"pinned", pin_text(row)},
                         {"kept", kept_text(row)}};
  const Json manifest = row.value("manifest", Json());
  for (const char* key : {"run", "execution", "epoch", "samples", "model_fingerprint",
                          "data_fingerprint", "versions"}) {
    if (!manifest.is_object() || !manifest.contains(key)) continue;
    const Json& value = manifest[key];
    cells.push_back({key, value.is_string() ? value.get<std::string>() : base::json_text(value)});
  }
  std::cout << text::table(cells);
  print_files(row.value("files", Json::object()));
}

void print_removals(const Json& answer) {
  const bool dry = answer.value("dry_run", false);
  std::vector<Row> cells;
  for (const Json& row : answer.value("removed", Json::array())) {
    cells.push_back({dry ? "would go" : "removed", text_of(row, "name"),
                     list_text(row.value("reasons", Json::array()), ", ")});
  }
  for (const Json& row : answer.value("kept", Json::array())) {
    cells.push_back(
        {"stays", text_of(row, "name"), list_text(row.value("reasons", Json::array()), ", ")});
  }
  if (cells.empty()) std::cerr << "no checkpoints\n";
  std::cout << text::table(cells);
}

void print_differences(const Json& answer) {
  for (const Json& row : answer.value("misfits", Json::array())) {
    std::cout << base::printable(text_of(row, "name") + ": " + text_of(row, "what")) << "\n";
  }
  std::vector<Row> cells{{"TENSOR", "SHAPE", "|A|", "|B|", "|A-B|", "RELATIVE", "LARGEST", "AT"}};
  for (const Json& row : answer.value("tensors", Json::array())) {
    std::string at = row.value("same_bits", false)
                         ? "same bits"
                         : "[" + list_text(row.value("at", Json::array()), ", ") + "]";
    const auto odd_a = row.value("not_finite_a", std::int64_t{0});
    const auto odd_b = row.value("not_finite_b", std::int64_t{0});
    if (odd_a + odd_b > 0) {
      at += ", not finite: " + std::to_string(odd_a) + " and " + std::to_string(odd_b);
    }
    cells.push_back(
        {text_of(row, "name"), "[" + list_text(row.value("shape", Json::array()), ", ") + "]",
         number_text(row, "norm_a"), number_text(row, "norm_b"), number_text(row, "difference"),
         number_text(row, "relative"), number_text(row, "largest"), at});
  }
  std::cout << text::table(cells);
}

void print_retention(const Json& row) {
  std::cout << base::printable(text_of(row, "name") + ": " + kept_text(row)) << "\n";
}

}  // namespace regatta::orchestrator::cli
