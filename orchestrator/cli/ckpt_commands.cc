#include "orchestrator/cli/ckpt_commands.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "checkpoint/shards.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;
using Row = std::vector<std::string>;

// Where a run's checkpoints are reached: the same answers from both.
class Source {
 public:
  // Takes the run out of `words` unless there is a directory.
  Source(const ClientOptions& options, const std::string& directory,
         std::vector<std::string>* words) {
    if (!directory.empty()) {
      tools_.emplace(base::posix_file_system(), base::system_clock(),
                     std::filesystem::absolute(directory).lexically_normal());
      return;
    }
    if (words->empty()) {
      throw Error(Code::User, "which run? name its id, or its directory with --directory");
    }
    client_.emplace(options.server, options.timeout_seconds);
    run_ = "/runs/" + path_part(words->front());
    words->erase(words->begin());
  }

  [[nodiscard]] Json list() const {
    return tools_ ? tools_->list() : client_->get(run_ + "/checkpoints");
  }
  [[nodiscard]] Json show(const std::string& name) const {
    return tools_ ? tools_->show(name) : client_->get(path(name));
  }
  [[nodiscard]] Json verify(const std::string& name) const {
    return tools_ ? tools_->verify(name) : client_->post(path(name) + "/verify", "", {});
  }
  Json pin(const std::string& name, const std::string& reason) {
    if (tools_) return tools_->pin(name, reason);
    const Json body{{"reason", reason}};
    return client_->post(path(name) + "/pin",
                         body.dump(-1, ' ', false, Json::error_handler_t::replace), {});
  }
  Json unpin(const std::string& name) {
    return tools_ ? tools_->unpin(name) : client_->post(path(name) + "/unpin", "", {});
  }
  Json gc(bool dry_run) {
    using Gc = checkpoints::CheckpointTools::Gc;
    if (tools_) return tools_->gc(dry_run ? Gc::DryRun : Gc::Remove);
    return client_->post(run_ + "/checkpoints/gc" + (dry_run ? "?dry_run=true" : ""), "", {});
  }
  // Where a checkpoint lies on this machine; the controller's is this one.
  [[nodiscard]] base::Path place(const std::string& name) const {
    if (tools_) return tools_->path_of(name);
    return show(name).value("path", "");
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const {
    return run_ + "/checkpoints/" + path_part(name);
  }

  std::optional<checkpoints::CheckpointTools> tools_;
  std::optional<Client> client_;
  std::string run_;
};

std::string short_number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string number_text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? short_number(it->get<double>()) : "-";
}

std::string text_of(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
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
  return bytes_text(row) + (cut ? " in " + shards->dump() + " shards" : "");
}

std::string list_text(const Json& list, const char* separator) {
  Row parts;
  if (!list.is_array()) return "";
  for (const Json& part : list)
    parts.push_back(part.is_string() ? part.get<std::string>() : part.dump());
  return base::join(parts, separator);
}

std::string metric_text(const Json& row) {
  const auto it = row.find("value");
  if (it == row.end() || !it->is_number()) return "-";
  return text_of(row, "metric") + " " + short_number(it->get<double>());
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

void print_list(const Json& answer) {
  Json rows = answer.value("checkpoints", Json::array());
  if (rows.empty()) std::cerr << "no checkpoints\n";
  // As a directory lists them; a journal tells of removals later.
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

void print_details(const Json& row) {
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
    cells.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  std::cout << text::table(cells);
  print_files(row.value("files", Json::object()));
}

void print_gc(const Json& answer) {
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

void print_diff(const Json& answer) {
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

void print_json(const Json& json) {
  std::cout << text::json_text(json, 2, text::reader_of_stdout()) << "\n";
}

// Every one named; without a name every one that is not known to be unfinished or removed.
int verify(const Source& source, Row names, Format format) {
  if (names.empty()) {
    const Json listed = source.list();
    for (const Json& row : listed.value("checkpoints", Json::array())) {
      const std::string condition = text_of(row, "condition");
      if (condition != "valid" && condition != "damaged" && condition != "unreadable") continue;
      names.push_back(text_of(row, "name"));
    }
    if (names.empty()) std::cerr << "no checkpoints\n";
  }
  bool good = true;
  Json results = Json::array();
  for (const std::string& name : names) {
    const Json result = source.verify(name);
    good = good && result.value("good", false);
    results.push_back(result);
    if (format == Format::Json) continue;
    std::cout << base::printable(text_of(result, "name") +
                                 (result.value("good", false) ? ": good, " : ": DAMAGED: ") +
                                 text_of(result, "message"))
              << std::endl;
  }
  if (format == Format::Json) print_json({{"good", good}, {"checkpoints", results}});
  return good ? 0 : 1;
}

int diff(const ClientOptions& client, const CkptOptions& options, Row words) {
  const bool paths = options.directory.empty() && words.size() == 2;
  base::Path a;
  base::Path b;
  if (paths) {
    a = words[0];
    b = words[1];
  } else {
    const Source source(client, options.directory, &words);
    if (words.size() != 2) {
      throw Error(Code::User,
                  "diff takes two checkpoint directories, or a run and two of its checkpoints");
    }
    a = source.place(words[0]);
    b = source.place(words[1]);
  }
  const Json answer = checkpoints::diff_checkpoints(
      base::posix_file_system(), a, b,
      options.optimizer ? checkpoints::WithOptimizer::Yes : checkpoints::WithOptimizer::No);
  if (client.format == Format::Json) {
    print_json(answer);
  } else {
    print_diff(answer);
  }
  return 0;
}

// By regatta-train, which knows models; its output is this program's.
int export_model(const ClientOptions& client, const CkptOptions& options, Row words,
                 const site::ProgramEnvironment& environment) {
  base::Path checkpoint;
  if (options.directory.empty() && words.size() == 1) {
    checkpoint = words.front();
  } else {
    const Source source(client, options.directory, &words);
    if (words.size() != 1) {
      throw Error(Code::User,
                  "export takes a checkpoint's directory, or a run and one of its checkpoints");
    }
    checkpoint = source.place(words.front());
  }
  base::Command command;
  command.arguments = {
      runs::find_trainer(options.trainer, environment.program, environment.path).string(), "export",
      "--checkpoint=" + checkpoint.string(), "--output=" + options.output};
  command.arguments.insert(command.arguments.end(), options.export_options.begin(),
                           options.export_options.end());
  command.inherit_output = true;
  const base::Exit exit = base::wait_exit(base::spawn(command));
  return exit.code ? *exit.code : 128 + exit.signal.value_or(0);
}

// The one checkpoint named.
std::string only(const Row& words, const std::string& what) {
  if (words.size() == 1) return words.front();
  throw Error(Code::User, words.empty()
                              ? "which checkpoint to " + what + "? name it, its step, or 'latest'"
                              : "more than one checkpoint to " + what + ": '" +
                                    base::printable(words[1]) + "'; name one");
}

void expect_none(const Row& words) {
  if (words.empty()) return;
  throw Error(Code::User,
              "'" + base::printable(words.front()) + "' is one word too many; name a run only");
}

}  // namespace

int ckpt(CkptAction action, const ClientOptions& client, const CkptOptions& options,
         const site::ProgramEnvironment& environment) {
  Row words = options.words;
  if (action == CkptAction::Export) return export_model(client, options, words, environment);
  if (action == CkptAction::Diff) return diff(client, options, words);
  Source source(client, options.directory, &words);
  Json answer;
  void (*print)(const Json&) = print_details;
  switch (action) {
    case CkptAction::Verify:
      return verify(source, words, client.format);
    case CkptAction::List:
      expect_none(words);
      answer = source.list();
      print = print_list;
      break;
    case CkptAction::Gc:
      expect_none(words);
      answer = source.gc(options.dry_run);
      print = print_gc;
      break;
    case CkptAction::Pin:
      answer = source.pin(only(words, "pin"), options.reason);
      break;
    case CkptAction::Unpin:
      answer = source.unpin(only(words, "unpin"));
      break;
    default:
      answer = source.show(only(words, "show"));
      break;
  }
  if (client.format == Format::Json) {
    print_json(answer);
  } else if (action == CkptAction::Pin || action == CkptAction::Unpin) {
    std::cout << base::printable(text_of(answer, "name") + ": " + kept_text(answer)) << "\n";
  } else {
    print(answer);
  }
  return 0;
}

}  // namespace regatta::orchestrator::cli
