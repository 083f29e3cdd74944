#include "orchestrator/plan/start_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/store.h"

namespace regatta::orchestrator::plan {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::ModelShape;
using trainer::contract::RunConfig;

constexpr std::uint64_t kMostDescription = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostVocabulary = std::uint64_t{64} << 20U;
constexpr int kDescriptionDepth = 16;
constexpr const char* kFrom = "from";

struct Size {
  const char* key;    // of the run file, below model
  const char* other;  // of config.json
  int ModelShape::*value;
};
constexpr Size kSizes[] = {
    {"layers", "num_hidden_layers", &ModelShape::layers},
    {"hidden", "hidden_size", &ModelShape::hidden},
    {"heads", "num_attention_heads", &ModelShape::heads},
    {"feed_forward", "intermediate_size", &ModelShape::feed_forward},
};
constexpr const char* kPositions = "max_position_embeddings";

struct StartFacts {
  std::string described_in;  // a file; empty: nothing describes its sizes
  bool is_run = false;       // its sizes are called as here
  ModelShape shape{};        // a size that is not told is 0
  base::Path vocabulary;     // vocab.txt
  std::int64_t step = 0;     // of a run's checkpoint
};

std::string shown(const base::Path& path) { return base::printable(path.string()); }

[[noreturn]] void refuse_start(const std::string& key, const std::string& why,
                               base::Code code = base::Code::User) {
  throw base::Error(code, "run file: " + key + ": " + why, key);
}

// Sizes as config.json (bert_config.json is the same) has them.
ModelShape described(base::FileSystem& files, const base::Path& path) {
  const std::string text = files.read(path, kMostDescription);
  const Json json =
      base::json_depth_at_most(text, kDescriptionDepth) ? base::parse_json<Json>(text) : Json();
  if (!json.is_object()) {
    refuse_start(kFrom, shown(path) + " is no JSON object; copy the model again");
  }
  const auto kind = json.find("model_type");
  if (kind != json.end() && kind->is_string() && *kind != "bert") {
    refuse_start(kFrom, shown(path) + " is of a " + base::printable(kind->get<std::string>()) +
                            "; name a model of BERT's architecture");
  }
  const auto size = [&](const char* key) {
    const auto value = json.find(key);
    const bool fits = value != json.end() && value->is_number_unsigned() &&
                      value->get<std::uint64_t>() <= trainer::contract::kMostVocabulary;
    return fits ? value->get<int>() : 0;
  };
  ModelShape shape;
  for (const Size& each : kSizes) shape.*each.value = size(each.other);
  shape.max_positions = size(kPositions);
  return shape;
}

// Whose vocabulary is that of all.
base::Path first_dataset(const RunConfig& config) {
  return trainer::contract::data_paths(config.data).front();
}

// step: of the checkpoint that is meant.
StartFacts run_facts(base::FileSystem& files, const base::Path& directory, std::int64_t step) {
  const base::Path run_json = directory / "run.json";
  try {
    const RunConfig config = trainer::contract::parse_run_config(
        files.read(run_json, kMostDescription), run_json.string());
    return {run_json.string(), true, config.model, first_dataset(config) / "vocab.txt", step};
  } catch (const base::Error& error) {
    if (error.code() != base::Code::User) throw;
    refuse_start(kFrom, std::string("is a run whose file cannot be read: ") + error.what());
  }
}

StartFacts run_with_checkpoint(base::FileSystem& files, const base::Path& directory) {
  for (const checkpoint::Entry& entry :
       checkpoint::list_with_found_damage(files, directory / "checkpoints")) {
    if (entry.status == checkpoint::Status::Valid) return run_facts(files, directory, entry.step);
  }
  refuse_start(kFrom,
               shown(directory) +
                   " is a run without a whole checkpoint; wait for one, or name "
                   "another model",
               base::Code::NotFound);
}

// A pipe or a device in place of the weights.
void refuse_odd_file(base::FileSystem& files, const base::Path& path) {
  try {
    (void)files.size(path);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) return;  // they may have other names
    refuse_start(kFrom, error.what());
  }
}

StartFacts model_at(base::FileSystem& files, base::Path path) {
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (files.exists(path / "config.json")) {
    const base::Path config = path / "config.json";
    refuse_odd_file(files, path / "model.safetensors");
    return {config.string(), false, described(files, config), path / "vocab.txt"};
  }
  const bool is_index = path.extension() == ".index";
  if (files.exists(is_index ? path : base::Path(path.string() + ".index"))) {
    const base::Path config = path.parent_path() / "bert_config.json";
    const bool told = files.exists(config);
    return {told ? config.string() : "", false, told ? described(files, config) : ModelShape{},
            path.parent_path() / "vocab.txt"};
  }
  if (files.exists(path / "run.json")) return run_with_checkpoint(files, path);
  const base::Path run = path.parent_path().parent_path();
  const auto name = checkpoint::parse_checkpoint_name(path.filename().string());
  if (name && files.exists(run / "run.json")) {
    if (files.exists(path / checkpoint::kManifestFile)) return run_facts(files, run, name->step);
    refuse_start(
        kFrom,
        files.exists(path)
            ? shown(path) + " is a checkpoint that is not whole; name another"
            : "there is no checkpoint " + shown(path) + "; `regatta ckpt ls` lists those of a run",
        base::Code::NotFound);
  }
  if (!files.exists(path)) {
    refuse_start(kFrom, "there is no model at " + shown(path) + "; check the path",
                 base::Code::NotFound);
  }
  refuse_start(kFrom, shown(path) +
                          " has no config.json or run.json; name the directory of a Hugging Face "
                          "model, the prefix of a TensorFlow checkpoint, a run directory or one "
                          "of its checkpoints");
}

void check_sizes(const RunConfig& config, const StartFacts& facts) {
  if (facts.described_in.empty()) return;
  const std::string of = " of " + base::printable(facts.described_in);
  std::string first;
  std::vector<std::string> found;
  for (const Size& each : kSizes) {
    const int ours = config.model.*each.value, theirs = facts.shape.*each.value;
    if (theirs == 0 || ours == theirs) continue;
    if (found.empty()) first = std::string("model.") + each.key;
    found.push_back((found.empty() ? "" : "model." + std::string(each.key) + " ") + "is " +
                    std::to_string(ours) + ", and " + (facts.is_run ? each.key : each.other) + of +
                    " is " + std::to_string(theirs));
  }
  if (!found.empty()) refuse_start(first, base::join(found, "; ") + "; change the run file");
  const int positions = facts.shape.max_positions;
  if (positions == 0 || config.model.max_positions <= positions) return;
  const std::string theirs =
      ", and the model" + of + " has " + std::to_string(positions) + " positions; use at most ";
  if (config.data.max_length > positions) {
    refuse_start("data.max_length", "is " + std::to_string(config.data.max_length) + theirs +
                                        "that, and for model.max_positions, too");
  }
  refuse_start("model.max_positions",
               "is " + std::to_string(config.model.max_positions) + theirs + "that");
}

// Pieces as the trainer reads them: no carriage returns, no blank lines at the end.
std::vector<std::string_view> pieces_of_text(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view piece = text.substr(0, end);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    pieces.push_back(piece);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
  return pieces;
}

void check_vocabulary(base::FileSystem& files, const RunConfig& config, const StartFacts& facts) {
  const base::Path own = first_dataset(config) / "vocab.txt";
  if (!files.exists(facts.vocabulary)) {
    if (facts.is_run) return;  // the trainer says what to do without that run's dataset
    refuse_start(kFrom, "there is no " + shown(facts.vocabulary) +
                            ", so nobody knows what the model's ids mean; put its vocab.txt there");
  }
  if (own == facts.vocabulary || !files.exists(own)) return;
  const std::string our_text = files.read(own, kMostVocabulary);
  const std::string their_text = files.read(facts.vocabulary, kMostVocabulary);
  if (our_text == their_text) return;
  const auto ours = pieces_of_text(our_text), theirs = pieces_of_text(their_text);
  const auto [our, their] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (our == ours.end() && their == theirs.end()) return;
  const bool differs = our != ours.end() && their != theirs.end();
  refuse_start(trainer::contract::data_path_key(config.data, 0),
               shown(first_dataset(config)) + " has another vocabulary than " +
                   shown(facts.vocabulary) +
                   (differs ? ": line " + std::to_string(our - ours.begin() + 1) + " is '" +
                                  base::printable(std::string(our->substr(0, 100))) + "' and '" +
                                  base::printable(std::string(their->substr(0, 100))) + "'"
                            : ": " + std::to_string(ours.size()) + " and " +
                                  std::to_string(theirs.size()) + " pieces") +
                   "; prepare the data with --vocab " + shown(facts.vocabulary));
}

}  // namespace

void settle_short_start(RunConfig* config) {
  if (!config->from) return;
  trainer::contract::StartConfig& from = *config->from;
  if (from.is_short && from.path.find('/') == std::string::npos) from.run.swap(from.path);
  from.is_short = false;
  if (from.path.empty() || base::Path(from.path).is_absolute()) return;
  refuse_start("from.path", "'" + base::printable(from.path) +
                                "' is not absolute; the controller cannot know what it is "
                                "relative to");
}

void check_start(base::FileSystem& files, const RunConfig& config) {
  if (!config.from || config.from->path.empty()) return;
  const StartFacts facts = model_at(files, config.from->path);
  check_sizes(config, facts);
  if (config.from->optimizer && facts.step >= config.steps) {
    refuse_start("steps", "is " + std::to_string(config.steps) + ", and " +
                              shown(config.from->path) + " has done " + std::to_string(facts.step) +
                              "; raise steps, or leave from.optimizer out");
  }
  check_vocabulary(files, config, facts);
}

}  // namespace regatta::orchestrator::plan
