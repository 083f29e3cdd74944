#include "trainer/tasks/task_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/data/dataset_format.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

using TaskJson = nlohmann::ordered_json;

constexpr char kTaskFormat[] = "regatta-task-dataset";
// Changes whenever the same files would give other samples.
constexpr int kTaskRules = 1;
constexpr int kTaskManifestDepth = 8;

[[noreturn]] void fail_manifest(const std::string& what) {
  throw base::Error(base::Code::User, what);
}

[[nodiscard]] TaskJson columns_json(const TaskManifest& manifest) {
  return {{"header", manifest.header},
          {"text", manifest.text_column},
          {"second_text", manifest.second_text_column},
          {"label", manifest.label_column}};
}

[[noreturn]] void fail_fingerprint(const TaskManifest& manifest) {
  TaskManifest other = manifest;
  const auto rule =
      data::changed_rule(manifest.tokenizer, [&](const data::TokenizerOptions& rules) {
        other.tokenizer = rules;
        return fingerprint_of(other) == manifest.fingerprint;
      });
  fail_manifest("its fingerprint does not fit" +
                (rule ? ": " + *rule : ", or another version made it"));
}

// Where two texts differ that should be the same, by line.
[[nodiscard]] std::string first_change(std::string_view text, std::string_view canonical) {
  const std::vector<std::string> there = base::split(text, '\n');
  const std::vector<std::string> wanted = base::split(canonical, '\n');
  std::size_t line = 0;
  while (line < there.size() && line < wanted.size() && there[line] == wanted[line]) ++line;
  const std::string where = " at line " + std::to_string(line + 1);
  if (line >= wanted.size()) return where + ", where it should end";
  constexpr std::size_t kShown = 80;
  return where + ", which should be '" + base::printable(wanted[line].substr(0, kShown)) +
         "', or another version made it";
}

// A name is joined to the directory, and must not lead out of it.
void check_part_name(const TaskManifest::File& file, Part part) {
  const std::string beginning = std::string(name_of(part)) + "." + file.format;
  for (const char* compression : {"", ".gz", ".zst", ".zstd"}) {
    if (file.name == beginning + compression) return;
  }
  fail_manifest("its " + std::string(name_of(part)) + " file has a wrong name");
}

[[nodiscard]] TaskManifest parse_task_fields(const TaskJson& json) {
  TaskManifest manifest;
  const auto& names = contract::task_names();
  const auto task = std::find(names.begin(), names.end(), json.at("task").get<std::string>());
  if (task == names.end() || task == names.begin()) fail_manifest("its task is unknown");
  manifest.task = static_cast<contract::Task>(task - names.begin());
  json.at("fingerprint").get_to(manifest.fingerprint);
  json.at("tokenizer").at("lower_case").get_to(manifest.tokenizer.lower_case);
  json.at("tokenizer").at("word_limit").get_to(manifest.tokenizer.word_limit);
  json.at("vocabulary").at("pieces").get_to(manifest.vocabulary_size);
  json.at("vocabulary").at("digest").get_to(manifest.vocabulary_digest);
  json.at("labels").get_to(manifest.labels);
  const TaskJson& columns = json.at("columns");
  columns.at("header").get_to(manifest.header);
  columns.at("text").get_to(manifest.text_column);
  columns.at("second_text").get_to(manifest.second_text_column);
  columns.at("label").get_to(manifest.label_column);
  for (const Part part : kParts) {
    const TaskJson& from = json.at(std::string(name_of(part)));
    TaskManifest::File& file = manifest.parts[index_of(part)];
    from.at("name").get_to(file.name);
    from.at("format").get_to(file.format);
    from.at("bytes").get_to(file.bytes);
    from.at("digest").get_to(file.digest);
    from.at("samples").get_to(file.samples);
    check_part_name(file, part);
  }
  return manifest;
}

}  // namespace

std::string_view name_of(Part part) { return part == Part::Training ? "training" : "evaluation"; }

ExampleFormat example_format_named(std::string_view name) {
  if (name == "csv") return ExampleFormat::Csv;
  if (name == "jsonl") return ExampleFormat::JsonLines;
  return name == "tsv" ? ExampleFormat::Tsv : ExampleFormat::Automatic;
}

ExampleOptions TaskManifest::examples(Part part) const {
  ExampleOptions options;
  options.format = example_format_named(file(part).format);
  options.header = header;
  options.text_column = text_column;
  options.second_text_column = second_text_column;
  options.label_column = label_column;
  options.kind =
      task == contract::Task::Regression ? ExampleLabels::Numbers : ExampleLabels::Classes;
  options.labels = labels;
  return options;
}

std::string to_json(const TaskManifest& manifest) {
  TaskJson json = {{"format", kTaskFormat},
                   {"version", kTaskDatasetVersion},
                   {"fingerprint", manifest.fingerprint},
                   {"task", name_of(manifest.task)},
                   {"tokenizer",
                    {{"lower_case", manifest.tokenizer.lower_case},
                     {"word_limit", manifest.tokenizer.word_limit},
                     {"unicode", data::unicode::kVersion}}},
                   {"vocabulary",
                    {{"pieces", manifest.vocabulary_size}, {"digest", manifest.vocabulary_digest}}},
                   {"labels", manifest.labels},
                   {"columns", columns_json(manifest)}};
  for (const Part part : kParts) {
    const TaskManifest::File& file = manifest.file(part);
    json[std::string(name_of(part))] = {{"name", file.name},
                                        {"format", file.format},
                                        {"bytes", file.bytes},
                                        {"digest", file.digest},
                                        {"samples", file.samples}};
  }
  return base::json_text(json, 2) + "\n";
}

TaskManifest parse_task_manifest(std::string_view text) {
  const bool is_read = text.find('\0') == std::string_view::npos &&
                       base::json_depth_at_most(text, kTaskManifestDepth);
  const TaskJson json = is_read ? base::parse_json<TaskJson>(text) : TaskJson();
  if (!json.is_object()) fail_manifest("it is cut off, or not JSON");
  try {
    if (json.value("format", std::string()) != kTaskFormat) {
      fail_manifest("it is not the manifest of a dataset of a task");
    }
    const auto version = json.at("version").get<std::int64_t>();
    if (version != kTaskDatasetVersion) {
      fail_manifest("it has format version " + std::to_string(version) +
                    ", and this program reads version " + std::to_string(kTaskDatasetVersion));
    }
    TaskManifest manifest = parse_task_fields(json);
    if (fingerprint_of(manifest) != manifest.fingerprint) fail_fingerprint(manifest);
    const std::string canonical = to_json(manifest);
    if (canonical != text) fail_manifest("it has changed" + first_change(text, canonical));
    return manifest;
  } catch (const nlohmann::json::exception&) {
    fail_manifest("it has a field too few, or of another kind");
  }
}

std::string fingerprint_of(const TaskManifest& manifest) {
  // Counts follow from the rest: they are here so that one which was edited is found.
  TaskJson rules = {{"format", kTaskDatasetVersion},
                    {"rules", kTaskRules},
                    {"unicode", data::unicode::kVersion},
                    {"task", name_of(manifest.task)},
                    {"lower_case", manifest.tokenizer.lower_case},
                    {"word_limit", manifest.tokenizer.word_limit},
                    {"vocabulary", manifest.vocabulary_digest},
                    {"pieces", manifest.vocabulary_size},
                    {"labels", manifest.labels},
                    {"columns", columns_json(manifest)}};
  for (const Part part : kParts) {
    const TaskManifest::File& file = manifest.file(part);
    rules[std::string(name_of(part))] = {{"format", file.format},
                                         {"digest", file.digest},
                                         {"bytes", file.bytes},
                                         {"samples", file.samples}};
  }
  return base::digest_of(base::json_text(rules));
}

}  // namespace regatta::trainer::tasks
