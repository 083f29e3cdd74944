#include "orchestrator/plan/dataset_facts.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::plan {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::ModelShape;
using trainer::contract::RunConfig;
using trainer::contract::Task;

constexpr std::uint64_t kMostManifest = std::uint64_t{16} << 20U;
constexpr int kManifestDepth = 8;
constexpr int kUnknownLabels = 2;

// Null where there is no such file, or none that can be read as an object.
Json manifest_at(base::FileSystem& files, const base::Path& path) {
  if (!files.exists(path)) return nullptr;
  const std::string text = files.read(path, kMostManifest);
  Json json =
      base::json_depth_at_most(text, kManifestDepth) ? base::parse_json<Json>(text) : Json();
  return json.is_object() ? json : Json();
}

std::int64_t count_at(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  if (!json.contains(place) || !json.at(place).is_number_integer()) return 0;
  return std::max<std::int64_t>(0, json.at(place).get<std::int64_t>());
}

int pieces_of(const Json& manifest) {
  const std::int64_t pieces = count_at(manifest, "/vocabulary/pieces");
  return pieces <= trainer::contract::kMostVocabulary ? static_cast<int>(pieces) : 0;
}

std::optional<DatasetFacts> task_facts(const Json& manifest) {
  const auto task = manifest.find("task");
  if (task == manifest.end() || !task->is_string()) return std::nullopt;
  const auto& names = trainer::contract::task_names();
  const auto name = std::find(names.begin(), names.end(), task->get<std::string>());
  if (name == names.end()) return std::nullopt;
  DatasetFacts facts;
  facts.task = static_cast<Task>(name - names.begin());
  facts.vocabulary = pieces_of(manifest);
  const auto labels = manifest.find("labels");
  if (labels != manifest.end() && labels->is_array() &&
      labels->size() <= trainer::contract::kMostLabels) {
    facts.labels = static_cast<int>(labels->size());
  }
  facts.training_samples = count_at(manifest, "/training/samples");
  facts.evaluation_samples = count_at(manifest, "/evaluation/samples");
  return facts;
}

[[noreturn]] void refuse_dataset(const std::string& key, const std::string& why) {
  throw base::Error(base::Code::User, "run file: " + key + ": " + why, key);
}

}  // namespace

std::optional<DatasetFacts> dataset_facts(base::FileSystem& files, const base::Path& dataset) {
  if (const Json task = manifest_at(files, dataset / "task.json"); task.is_object()) {
    return task_facts(task);
  }
  const Json text = manifest_at(files, dataset / "dataset.json");
  DatasetFacts facts;
  facts.vocabulary = pieces_of(text);
  const Json::json_pointer digest("/vocabulary/digest"), lower_case("/tokenizer/lower_case");
  if (text.contains(digest) && text.at(digest).is_string()) {
    facts.vocabulary_digest = text.at(digest).get<std::string>();
  }
  if (text.contains(lower_case) && text.at(lower_case).is_boolean()) {
    facts.lower_case = text.at(lower_case).get<bool>();
  }
  return facts.vocabulary > 0 ? std::optional(facts) : std::nullopt;
}

std::string to_text(const DatasetFacts& facts) {
  const std::string pieces = std::to_string(facts.vocabulary) + " pieces of vocabulary";
  if (facts.task == Task::Pretraining) return pieces;
  const bool has_labels = facts.task == Task::Classification;
  const char* const samples =
      facts.task == Task::QuestionAnswering ? " questions to train on" : " examples to train on";
  return trainer::contract::name_of(facts.task) + ", " +
         (has_labels ? std::to_string(facts.labels) + " labels, " : "") +
         std::to_string(facts.training_samples) + samples + ", " + pieces;
}

void complete_shape(const std::optional<DatasetFacts>& facts, ModelShape* shape) {
  if (shape->vocabulary == 0 && facts) shape->vocabulary = facts->vocabulary;
  if (shape->task != Task::Classification || shape->labels > 0) return;
  const bool told = facts && facts->task == Task::Classification && facts->labels > 0;
  shape->labels = told ? facts->labels : kUnknownLabels;
}

void check_dataset(const RunConfig& config, const base::Path& dataset, const DatasetFacts& facts) {
  const std::string path = base::printable(dataset.string());
  const std::string& task = trainer::contract::name_of(config.model.task);
  if (facts.task != config.model.task) {
    const std::string& theirs = trainer::contract::name_of(facts.task);
    // Several datasets are only for pre-training, so that another task would not help.
    const std::string advice = config.data.mixture.empty() ? "set task: " + theirs + ", or " : "";
    refuse_dataset("task", "is " + task + ", and " + path + " is a dataset for " + theirs + "; " +
                               advice + "name another dataset");
  }
  const int said = config.model.vocabulary;
  if (said > 0 && facts.vocabulary > 0 && said != facts.vocabulary) {
    refuse_dataset("model.vocabulary", "is " + std::to_string(said) + ", and " + path + " has " +
                                           std::to_string(facts.vocabulary) +
                                           " pieces; leave the key out, or name another dataset");
  }
  if (facts.training_samples > 0 && config.ranks > facts.training_samples) {
    refuse_dataset("ranks", "is " + std::to_string(config.ranks) + ", and " + path + " has " +
                                std::to_string(facts.training_samples) +
                                " to train on; use at most as many ranks");
  }
}

std::optional<std::string> text_difference(NamedDataset first, NamedDataset other) {
  const std::string a = base::printable(first.directory.string());
  const std::string b = base::printable(other.directory.string());
  const DatasetFacts &ours = first.facts, &theirs = other.facts;
  if (ours.vocabulary != theirs.vocabulary) {
    return b + " has a vocabulary of " + std::to_string(theirs.vocabulary) + " pieces, " + a +
           " one of " + std::to_string(ours.vocabulary) + "; prepare both with the same --vocab";
  }
  const bool told = !ours.vocabulary_digest.empty() && !theirs.vocabulary_digest.empty();
  if (told && ours.vocabulary_digest != theirs.vocabulary_digest) {
    return b + " has another vocabulary than " + a + "; prepare both with the same --vocab";
  }
  if (!ours.lower_case || !theirs.lower_case || *ours.lower_case == *theirs.lower_case) {
    return std::nullopt;
  }
  return b + " is " + (*theirs.lower_case ? "in lower case" : "cased") + ", " + a + " is " +
         (*ours.lower_case ? "in lower case" : "cased") + "; prepare both " +
         (*ours.lower_case ? "without" : "with") + " --cased";
}

}  // namespace regatta::orchestrator::plan
