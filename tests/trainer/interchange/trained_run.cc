#include "tests/trainer/interchange/trained_run.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/run/training_run.h"

namespace regatta::tests {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 30U;

base::FileSystem& disk() { return base::posix_file_system(); }

}  // namespace

std::string run_text(const base::Path& dataset, const RunText& text) {
  return "name: small\nmodel: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: "
         "48, gelu: " +
         text.gelu + "}\ndata: {path: " + dataset.string() +
         ", max_length: 48}\nbatch: {size: 8}\noptimizer: {learning_rate: 0.01}\n"
         "evaluate: {every: 100, samples: 4}\ncheckpoint: {every: " +
         std::to_string(text.save_every) +
         ", keep_last: 9}\nthreads: 1\nsteps: " + std::to_string(text.steps) + "\n" + text.more;
}

void train_run(const base::Path& run_file, const base::Path& run) {
  if (!disk().exists(run / "run.json")) {
    const std::string text = disk().read(run_file, kLimit);
    (void)trainer::contract::RunDirectory::create(
        disk(), run,
        trainer::contract::to_json(trainer::contract::parse_run_config(text, run_file.string())));
  }
  trainer::run::TrainingRunOptions options;
  options.variables = [](const char*) -> const char* { return nullptr; };
  const trainer::run::TrainingEnd end = trainer::run::train(
      disk(), base::system_clock(), trainer::contract::RunDirectory::open(disk(), run), options);
  ASSERT_EQ(end.code, trainer::contract::ExitCode::Finished);
}

std::string newest_state(const base::Path& run) {
  const std::vector<base::Path> checkpoints = checkpoints_of(run);
  if (checkpoints.empty()) return "none";
  const base::Path& path = checkpoints.back();
  return disk().read(path / "model.safetensors", kLimit) +
         disk().read(path / "optimizer.safetensors", kLimit);
}

std::vector<base::Path> checkpoints_of(const base::Path& run) {
  std::vector<base::Path> found;
  for (const std::string& name : disk().list(run / "checkpoints")) {
    if (checkpoint::parse_checkpoint_name(name)) found.push_back(run / "checkpoints" / name);
  }
  return found;
}

void split_optimizer(const base::Path& checkpoint, int shards) {
  const base::Path whole = checkpoint / checkpoint::kOptimizerFile;
  const std::string text = disk().read(checkpoint / checkpoint::kManifestFile, kLimit);
  checkpoint::Manifest manifest = checkpoint::parse_manifest(text, "manifest");
  const std::vector<StoredTensor> tensors = read_tensors(whole);
  for (int shard = 0; shard < shards; ++shard) {
    std::vector<checkpoint::NamedTensor> named;
    for (const StoredTensor& tensor : tensors) {
      const auto elements = static_cast<std::int64_t>(tensor.bytes.size() / 4);
      const checkpoint::TensorRange range{tensor.name, elements * shard / shards,
                                          elements * (shard + 1) / shards};
      const std::int64_t size = range.end - range.begin;
      if (size == 0) continue;
      const auto bytes = std::as_bytes(std::span(tensor.bytes));
      named.push_back({checkpoint::range_name(range),
                       tensor.dtype,
                       {size},
                       bytes.subspan(static_cast<std::size_t>(4 * range.begin),
                                     static_cast<std::size_t>(4 * size))});
    }
    const std::string file = checkpoint::shard_file(checkpoint::kOptimizer, shard, shards);
    const auto written = checkpoint::write_safetensors(disk(), checkpoint / file, named, {});
    manifest.files[file] = {written.bytes, written.digest};
  }
  disk().remove_file(whole);
  manifest.files.erase(checkpoint::kOptimizerFile);
  write_text(checkpoint / checkpoint::kManifestFile, checkpoint::to_json(manifest));
}

std::map<std::string, std::string> contents_of(const base::Path& directory) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : disk().list(directory)) {
    if (std::filesystem::is_directory(directory / name)) continue;
    contents[name] = disk().read(directory / name, kLimit);
  }
  return contents;
}

void write_text(const base::Path& path, const std::string& text) {
  const auto file = disk().open(path, base::FileSystem::Open::Truncate);
  file->append(text);
}

std::vector<StoredTensor> read_tensors(const base::Path& file) {
  const auto reader = checkpoint::SafetensorsReader::open(disk(), file);
  std::vector<StoredTensor> tensors;
  for (const checkpoint::TensorInfo& info : reader.tensors()) {
    StoredTensor tensor{info.name, info.dtype, info.shape,
                        std::string(info.end - info.begin, '\0')};
    reader.read(info.name, info.dtype, info.shape, std::as_writable_bytes(std::span(tensor.bytes)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void write_tensors(const base::Path& file, const std::vector<StoredTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  disk().remove_file(file);
  std::vector<checkpoint::NamedTensor> named;
  for (const StoredTensor& tensor : tensors) {
    named.push_back(
        {tensor.name, tensor.dtype, tensor.shape, std::as_bytes(std::span(tensor.bytes))});
  }
  (void)checkpoint::write_safetensors(disk(), file, named, metadata);
}

void change_config(const base::Path& directory,
                   const std::function<void(nlohmann::json&)>& change) {
  const base::Path path = directory / "config.json";
  nlohmann::json json = nlohmann::json::parse(disk().read(path, kLimit));
  change(json);
  write_text(path, json.dump());
}

base::Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {base::Code::Developer, ""};
}

void TrainedRun::SetUpTestSuite() {
  suite_ = new TemporaryDirectory;
  dataset_ = new base::Path(make_small_dataset(suite(), 40));
  write_text(run_file(), run_text(dataset(), {}));
  train_run(run_file(), run());
}

void TrainedRun::TearDownTestSuite() {
  delete dataset_;
  delete suite_;
}

base::Path TrainedRun::exported(const std::string& name, bool with_optimizer) {
  trainer::interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = path() / name;
  options.with_optimizer = with_optimizer;
  (void)trainer::interchange::export_model(disk(), options);
  return options.output;
}

std::vector<std::string> TrainedRun::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const std::string& name : disk().list(path())) {
    if (name.rfind(prefix, 0) == 0) found.push_back(name);
  }
  return found;
}

}  // namespace regatta::tests
