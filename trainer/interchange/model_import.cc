#include "trainer/interchange/model_import.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/interchange/model_source.h"
#include "trainer/interchange/run_model.h"
#include "trainer/interchange/staged_directory.h"
#include "trainer/interchange/starting_weights.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/run/checkpoint_keeper.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using run::shown;

constexpr std::uint64_t kMaxRunFile = std::uint64_t{1} << 20U;

// What `run` starts from, as it will read it.
struct ImportedRun {
  contract::RunConfig config;  // as in run.json
  DatasetFacts data;
  contract::ModelShape shape;  // with the dataset's vocabulary and labels
};

ImportedRun read_run_file(base::FileSystem& files, const Path& run_file) {
  contract::RunConfig config =
      contract::parse_run_config(files.read(run_file, kMaxRunFile), run_file.string());
  if (config.from) {
    throw Error(Code::User, shown(run_file) + ": from is " + base::printable(config.from->path) +
                                ", but the weights are those to import; leave the key out");
  }
  const Path here = std::filesystem::absolute(run_file).parent_path();
  contract::change_data_paths(&config.data,
                              [&](const std::string& path) { return (here / path).string(); });
  DatasetFacts data = dataset_facts(files, config);
  contract::ModelShape shape = config.model;
  const auto pieces = static_cast<int>(data.vocabulary.size());
  if (shape.vocabulary != 0 && shape.vocabulary != pieces) {
    throw Error(Code::User, shown(run_file) + ": model.vocabulary is " +
                                std::to_string(shape.vocabulary) + ", but the dataset has " +
                                std::to_string(pieces) + " pieces; leave the key out");
  }
  shape.vocabulary = pieces;
  shape.labels = static_cast<int>(data.labels.size());
  return {std::move(config), std::move(data), shape};
}

// Without moments they are zero.
step::TrainingState training_state(StartingState weights) {
  step::TrainingState state;
  const std::size_t size = weights.parameters.size();
  state.parameters = std::move(weights.parameters);
  state.first_moment = std::move(weights.first_moment);
  state.second_moment = std::move(weights.second_moment);
  state.first_moment.resize(size, 0.0F);
  state.second_moment.resize(size, 0.0F);
  return state;
}

StartingState read_weights(base::FileSystem& files, const base::Clock& clock,
                           const ImportOptions& options, const ImportedRun& run) {
  const auto source =
      open_model_source(files, clock,
                        {options.from, options.vocabulary, options.with_optimizer,
                         "regatta-train import", "name its vocab.txt with --vocab"});
  return start_from(*source,
                    {run.shape, run.data.vocabulary, run.data.lower_case, run.data.labels,
                     run.config.seed, run.config.threads, shown(options.run_file)},
                    options.with_optimizer ? "import without --with-optimizer" : "");
}

}  // namespace

ImportReport import_model(base::FileSystem& files, const base::Clock& clock,
                          const ImportOptions& options) {
  const std::string taken = "choose another directory; a run is never overwritten";
  if (files.exists(options.run_directory)) {
    throw Error(Code::Conflict, shown(options.run_directory) + " exists already; " + taken);
  }
  ImportedRun run = read_run_file(files, options.run_file);
  StartingState weights = read_weights(files, clock, options, run);
  ImportReport report{"", weights.step, std::move(weights.notes)};
  if (report.step >= run.config.steps) {
    throw Error(Code::User, "the imported optimizer has done " + std::to_string(report.step) +
                                " steps, the run file asks for " +
                                std::to_string(run.config.steps) + "; raise steps");
  }

  StagedDirectory staged(files, options.run_directory, StagedDirectory::Existing::Refuse, taken);
  const contract::RunDirectory directory =
      contract::RunDirectory::create(files, staged.path() / "run", contract::to_json(run.config));
  run.config.model = run.shape;
  const contract::TensorTable table = contract::make_tensor_table(run.shape);
  run::CheckpointKeeper keeper({files, clock, directory, contract::Fence(directory, 0), run.config,
                                table, run.data.fingerprint, base::random_hex(8)});
  const step::TrainingState state = training_state(std::move(weights));
  const contract::CheckpointRecord written =
      keeper.write(report.step, state.whole(table), std::nullopt).front();
  if (written.status != "written") throw Error(Code::Operator, written.message);
  staged.publish_inner(directory.path());
  report.checkpoint = written.name;
  return report;
}

}  // namespace regatta::trainer::interchange
