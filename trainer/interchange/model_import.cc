#include "trainer/interchange/model_import.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset.h"
#include "trainer/interchange/hugging_face.h"
#include "trainer/interchange/hugging_face_weights.h"
#include "trainer/interchange/model_export.h"
#include "trainer/interchange/staged_directory.h"
#include "trainer/interchange/tensorflow_weights.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/samples/mixture.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using run::shown;

constexpr std::uint64_t kMaxText = std::uint64_t{1} << 20U;

// The parts that a model may lack as a whole.
constexpr const char* kOptionalParts[] = {"bert.pooler.", "cls.predictions.",
                                          "cls.seq_relationship."};

// Where weights are from.
struct WeightSource {
  std::string name;
  std::function<bool(const contract::TensorEntry& entry)> has;
  // Fills the values with a tensor that it has.
  std::function<void(const contract::TensorEntry& entry, std::span<float> values)> read;
};

void check_finite(const std::string& name, std::span<const float> values,
                  const std::string& source) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw Error(Code::User, source + ": tensor '" + name + "' has a value that is not finite at " +
                              "element " + std::to_string(bad - values.begin()) +
                              "; such a model cannot be trained on");
}

bool is_of_part(const std::string& name, const std::string& part) {
  return name.rfind(part, 0) == 0;
}

// The names that the source lacks, without those of the optional parts that it lacks as a whole.
struct Missing {
  std::vector<std::string> names;
  std::vector<std::string> parts;
};

Missing missing_in(const WeightSource& source, const contract::TensorTable& table) {
  Missing missing;
  for (const contract::TensorEntry& entry : table.tensors) {
    if (!source.has(entry)) missing.names.push_back(entry.name);
  }
  for (const char* part : kOptionalParts) {
    const auto in_part = [&](const std::string& name) { return is_of_part(name, part); };
    const auto lost = std::count_if(missing.names.begin(), missing.names.end(), in_part);
    const auto all = std::count_if(
        table.tensors.begin(), table.tensors.end(),
        [&](const contract::TensorEntry& entry) { return is_of_part(entry.name, part); });
    if (lost != all) continue;
    missing.parts.push_back(part);
    missing.names.erase(std::remove_if(missing.names.begin(), missing.names.end(), in_part),
                        missing.names.end());
  }
  return missing;
}

// Fills the tensors of the parts as for a new run.
void initialise_parts(const contract::TensorTable& table, std::uint64_t seed,
                      const std::vector<std::string>& parts, std::vector<float>* arena,
                      std::vector<std::string>* notes) {
  if (parts.empty()) return;
  const std::vector<float> initial =
      model::initial_weights(table, seed);  // large, and seldom needed
  for (const std::string& part : parts) {
    notes->push_back("no " + part + "*: initialised as for a new run");
    for (const contract::TensorEntry& entry : table.tensors) {
      if (!is_of_part(entry.name, part)) continue;
      std::copy_n(initial.begin() + entry.offset, entry.size, arena->begin() + entry.offset);
    }
  }
}

// The arena with every tensor that the source has; optional parts that it lacks are initialised.
// Names and shapes come first: a wrong file costs neither the time nor the memory of a model.
std::vector<float> read_parameters(const contract::TensorTable& table, std::uint64_t seed,
                                   const WeightSource& source, std::vector<std::string>* notes) {
  const Missing missing = missing_in(source, table);
  if (!missing.names.empty()) {
    const std::size_t others = missing.names.size() - 1;
    const std::string more = others > 0 ? " and lacks " + std::to_string(others) + " more" : "";
    throw Error(Code::User, source.name + ": has no tensor '" + missing.names.front() + "'" + more +
                                "; name a whole BERT model");
  }
  std::vector<float> arena(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (const contract::TensorEntry& entry : table.tensors) {
    const auto in = [&](const std::string& part) { return is_of_part(entry.name, part); };
    if (std::any_of(missing.parts.begin(), missing.parts.end(), in)) continue;
    const std::span<float> values(arena.data() + entry.offset,
                                  static_cast<std::size_t>(entry.size));
    source.read(entry, values);
    check_finite(entry.name, values, source.name);
  }
  initialise_parts(table, seed, missing.parts, &arena, notes);
  return arena;
}

template <typename Value>
void compare(std::vector<std::string>* differences, const std::string& key, const Value& ours,
             const std::string& their_key, const Value& theirs) {
  if (ours == theirs) return;
  differences->push_back(key + " is " + std::to_string(ours) + ", " + their_key + " is " +
                         std::to_string(theirs));
}

// Everything that must agree but the vocabulary, in one message.
void check_shape_agrees(const contract::ModelShape& ours, const contract::ModelShape& theirs,
                        const Path& run_file, const Path& config_file) {
  std::vector<std::string> differences;
  compare(&differences, "layers", ours.layers, "num_hidden_layers", theirs.layers);
  compare(&differences, "hidden", ours.hidden, "hidden_size", theirs.hidden);
  compare(&differences, "heads", ours.heads, "num_attention_heads", theirs.heads);
  compare(&differences, "feed_forward", ours.feed_forward, "intermediate_size",
          theirs.feed_forward);
  compare(&differences, "max_positions", ours.max_positions, "max_position_embeddings",
          theirs.max_positions);
  compare(&differences, "token_types", ours.token_types, "type_vocab_size", theirs.token_types);
  if (ours.gelu != theirs.gelu) {
    differences.push_back(
        std::string("gelu is ") + (ours.gelu == contract::Gelu::Erf ? "erf" : "tanh") +
        ", hidden_act means " + (theirs.gelu == contract::Gelu::Erf ? "erf" : "tanh"));
  }
  if (ours.layer_norm_epsilon != theirs.layer_norm_epsilon) {
    differences.push_back("LayerNorm adds 1e-12 here, layer_norm_eps differs");
  }
  if (differences.empty()) return;
  throw Error(Code::User, shown(run_file) + " describes another model than " + shown(config_file) +
                              ": " + base::join(differences, "; ") + "; change the run file");
}

void check_vocabulary(base::FileSystem& files, const Path& path, const data::Dataset& dataset,
                      std::int64_t rows) {
  if (!files.exists(path)) {
    throw Error(Code::NotFound, "no " + shown(path) +
                                    ", so nobody knows what the model's ids mean; name its " +
                                    "vocab.txt with --vocab");
  }
  const data::Vocabulary theirs = data::Vocabulary::load(path, files);
  const data::Vocabulary& ours = dataset.vocabulary();
  const std::string advice = "; prepare the data with --vocab " + shown(path);
  for (data::TokenId id = 0; id < std::min(theirs.size(), ours.size()); ++id) {
    if (theirs.piece(id) == ours.piece(id)) continue;
    throw Error(Code::User, shown(path) + ": line " + std::to_string(id + 1) + " is '" +
                                base::printable(theirs.piece(id)) + "', in the dataset it is '" +
                                base::printable(ours.piece(id)) + "'" + advice);
  }
  if (theirs.size() != ours.size()) {
    throw Error(Code::User, shown(path) + ": has " + std::to_string(theirs.size()) +
                                " pieces, the dataset " + std::to_string(ours.size()) + advice);
  }
  if (rows < ours.size()) {
    throw Error(Code::User, "the model has " + std::to_string(rows) + " pieces, " + shown(path) +
                                " names " + std::to_string(ours.size()) +
                                "; name the model's own vocab.txt with --vocab");
  }
}

void check_case(base::FileSystem& files, const Path& path, const data::Dataset& dataset) {
  if (!files.exists(path)) return;
  const auto theirs = lower_case_of(files.read(path, kMaxText), shown(path));
  const bool ours = dataset.manifest().tokenizer.lower_case;
  if (!theirs || *theirs == ours) return;
  throw Error(Code::User, shown(path) + ": the model's text is " + (*theirs ? "lower" : "mixed") +
                              " case, the dataset's is " + (ours ? "lower" : "mixed") +
                              " case; prepare the data " + (*theirs ? "without" : "with") +
                              " --cased");
}

// What `run` starts from, as it will read it.
struct Run {
  contract::RunConfig config;  // as in run.json
  samples::Datasets datasets;
  contract::ModelShape shape;  // with the dataset's vocabulary
};

Run open_run(base::FileSystem& files, const Path& run_file) {
  contract::RunConfig config =
      contract::parse_run_config(files.read(run_file, kMaxText), run_file.string());
  const Path folder = std::filesystem::absolute(run_file).parent_path();
  contract::change_data_paths(&config.data,
                              [&](const std::string& path) { return (folder / path).string(); });
  samples::Datasets datasets = samples::Datasets::open(config.data);
  contract::ModelShape shape = config.model;
  const auto pieces = static_cast<int>(datasets.vocabulary().size());
  if (shape.vocabulary != 0 && shape.vocabulary != pieces) {
    throw Error(Code::User, shown(run_file) + ": model.vocabulary is " +
                                std::to_string(shape.vocabulary) + ", but the dataset has " +
                                std::to_string(pieces) + " pieces; leave the key out");
  }
  shape.vocabulary = pieces;
  return {std::move(config), std::move(datasets), shape};
}

struct Imported {
  step::TrainingState state;
  std::int64_t step = 0;
};

void zero_moments(const contract::TensorTable& table, step::TrainingState* state) {
  state->first_moment.assign(static_cast<std::size_t>(table.arena_size), 0.0F);
  state->second_moment = state->first_moment;
}

// optimizer.safetensors of an exported directory; returns the step.
std::int64_t read_moments(base::FileSystem& files, const Path& path,
                          const contract::TensorTable& table, step::TrainingState* state) {
  if (!files.exists(path)) {
    throw Error(Code::NotFound,
                "no " + shown(path) + "; export with --with-optimizer, or import " + "without");
  }
  const auto reader = checkpoint::SafetensorsReader::open(files, path);
  const auto text = reader.metadata().find(kStepMetadata);
  const auto step =
      text == reader.metadata().end() ? std::nullopt : base::parse_integer(text->second);
  if (!step || *step < 0) {
    throw Error(Code::User, shown(path) + ": does not say at which step it was made; import " +
                                "without --with-optimizer");
  }
  zero_moments(table, state);
  for (const auto& [prefix, moments] : {std::pair(checkpoint::kFirstMoment, &state->first_moment),
                                        {checkpoint::kSecondMoment, &state->second_moment}}) {
    for (const contract::TensorEntry& entry : table.tensors) {
      const std::span<float> values(moments->data() + entry.offset,
                                    static_cast<std::size_t>(entry.size));
      reader.read(prefix + entry.name, "F32", entry.shape, std::as_writable_bytes(values));
      check_finite(prefix + entry.name, values, shown(path));
    }
  }
  return *step;
}

void note_leftovers(std::int64_t padding, const std::vector<std::string>& unused,
                    std::vector<std::string>* notes) {
  if (padding > 0) {
    notes->push_back(std::to_string(padding) + " rows beyond the vocabulary were cut");
  }
  if (unused.empty()) return;
  notes->push_back(std::to_string(unused.size()) + " tensors were not used, the first is '" +
                   base::printable(unused.front()) + "'");
}

Imported from_hugging_face(base::FileSystem& files, const ImportOptions& options, const Run& run,
                           std::vector<std::string>* notes) {
  const Path config_file = options.from / kConfigFile;
  const HuggingFaceConfig theirs =
      parse_config(files.read(config_file, kMaxText), shown(config_file));
  check_shape_agrees(run.shape, theirs.shape, options.run_file, config_file);
  check_vocabulary(
      files, options.vocabulary.empty() ? options.from / data::kVocabularyName : options.vocabulary,
      run.datasets.first(), theirs.shape.vocabulary);
  check_case(files, options.from / kTokenizerConfigFile, run.datasets.first());

  HuggingFaceWeights weights(files, options.from, theirs.shape.vocabulary);
  const contract::TensorTable table = contract::make_tensor_table(run.shape);
  Imported imported;
  imported.state.parameters = read_parameters(
      table, run.config.seed,
      {shown(options.from), [&](const contract::TensorEntry& entry) { return weights.has(entry); },
       [&](const contract::TensorEntry& entry, std::span<float> values) {
         weights.read(entry, values);
       }},
      notes);
  note_leftovers(theirs.shape.vocabulary - run.shape.vocabulary, weights.unused(), notes);
  if (options.with_optimizer) {
    imported.step =
        read_moments(files, options.from / checkpoint::kOptimizerFile, table, &imported.state);
  } else {
    zero_moments(table, &imported.state);
  }
  return imported;
}

// The moments of every parameter that was not initialised anew.
void read_moments(TensorflowWeights& weights, const contract::TensorTable& table,
                  const std::set<std::string>& initialised, const std::string& source,
                  step::TrainingState* state) {
  for (const auto& [kind, moments] :
       {std::pair(checkpoint::TensorflowKind::First, &state->first_moment),
        {checkpoint::TensorflowKind::Second, &state->second_moment}}) {
    for (const contract::TensorEntry& entry : table.tensors) {
      if (initialised.count(entry.name) > 0) continue;
      const std::span<float> values(moments->data() + entry.offset,
                                    static_cast<std::size_t>(entry.size));
      if (!weights.read(entry, kind, values)) {
        throw Error(Code::User, source + ": has not both moments of '" + entry.name +
                                    "'; import without --with-optimizer");
      }
      check_finite("moment of " + entry.name, values, source);
    }
  }
}

void check_tensorflow_config(base::FileSystem& files, const Path& config_file,
                             const ImportOptions& options, const Run& run,
                             std::vector<std::string>* notes) {
  if (files.exists(config_file)) {
    contract::ModelShape theirs =
        parse_config(files.read(config_file, kMaxText), shown(config_file)).shape;
    theirs.gelu = run.shape.gelu;
    check_shape_agrees(run.shape, theirs, options.run_file, config_file);
  } else {
    notes->push_back("no bert_config.json: the number of heads is the run file's");
  }
  // Google's first code computed erf, the later one tanh; bert_config.json says "gelu" for both.
  notes->push_back(std::string("TensorFlow checkpoints do not tell which gelu they are for; ") +
                   "the run file says " + (run.shape.gelu == contract::Gelu::Erf ? "erf" : "tanh"));
}

// PREFIX.index and PREFIX.data-…, as google-research/bert writes them; bert_config.json and
// vocab.txt lie beside them.
Imported from_tensorflow(base::FileSystem& files, const ImportOptions& options, const Run& run,
                         std::vector<std::string>* notes) {
  Path prefix = options.from;
  if (prefix.extension() == ".index") prefix.replace_extension();
  const Path directory = prefix.has_parent_path() ? prefix.parent_path() : Path(".");
  check_tensorflow_config(files, directory / "bert_config.json", options, run, notes);
  TensorflowWeights weights(
      files, prefix,
      options.with_optimizer ? checkpoint::Moments::Read : checkpoint::Moments::Skip);
  check_vocabulary(
      files, options.vocabulary.empty() ? directory / data::kVocabularyName : options.vocabulary,
      run.datasets.first(), weights.rows());
  const contract::TensorTable table = contract::make_tensor_table(run.shape);
  Imported imported;
  std::set<std::string> initialised;
  imported.state.parameters =
      read_parameters(table, run.config.seed,
                      {shown(prefix),
                       [&](const contract::TensorEntry& entry) {
                         if (!weights.has(entry)) initialised.insert(entry.name);
                         return weights.has(entry);
                       },
                       [&](const contract::TensorEntry& entry, std::span<float> values) {
                         (void)weights.read(entry, checkpoint::TensorflowKind::Parameter, values);
                       }},
                      notes);
  note_leftovers(weights.rows() - run.shape.vocabulary, weights.unused(), notes);
  zero_moments(table, &imported.state);
  if (options.with_optimizer) {
    read_moments(weights, table, initialised, shown(prefix), &imported.state);
    imported.step = weights.step();
  }
  return imported;
}

Imported read_model(base::FileSystem& files, const ImportOptions& options, const Run& run,
                    std::vector<std::string>* notes) {
  if (files.exists(options.from / kConfigFile)) {
    return from_hugging_face(files, options, run, notes);
  }
  Path index = options.from;
  if (index.extension() != ".index") index += ".index";
  if (files.exists(index)) return from_tensorflow(files, options, run, notes);
  if (!files.exists(options.from)) {
    throw Error(Code::NotFound, "no model at " + shown(options.from) + "; check the name");
  }
  throw Error(Code::NotFound, shown(options.from) + ": has no config.json; name the directory of " +
                                  "a Hugging Face model, or the prefix of a TensorFlow checkpoint");
}

}  // namespace

ImportReport import_model(base::FileSystem& files, const base::Clock& clock,
                          const ImportOptions& options) {
  const std::string taken = "choose another directory; a run is never overwritten";
  if (files.exists(options.run_directory)) {
    throw Error(Code::Conflict, shown(options.run_directory) + " exists already; " + taken);
  }
  Run run = open_run(files, options.run_file);
  ImportReport report;
  Imported imported = read_model(files, options, run, &report.notes);
  if (imported.step >= run.config.steps) {
    throw Error(Code::User, "the imported optimizer has done " + std::to_string(imported.step) +
                                " steps, the run file asks for " +
                                std::to_string(run.config.steps) + "; raise steps");
  }

  StagedDirectory staged(files, options.run_directory, StagedDirectory::Existing::Refuse, taken);
  const contract::RunDirectory directory =
      contract::RunDirectory::create(files, staged.path() / "run", contract::to_json(run.config));
  run.config.model = run.shape;
  const contract::TensorTable table = contract::make_tensor_table(run.shape);
  run::CheckpointKeeper keeper({files, clock, directory, contract::Fence(directory, 0), run.config,
                                table, run.datasets.fingerprint(), base::random_hex(8)});
  const contract::CheckpointRecord written =
      keeper.write(imported.step, imported.state.whole(table), std::nullopt).front();
  if (written.status != "written") throw Error(Code::Operator, written.message);
  staged.publish_inner(directory.path());
  report.checkpoint = written.name;
  report.step = imported.step;
  return report;
}

}  // namespace regatta::trainer::interchange
