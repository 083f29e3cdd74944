#include "orchestrator/plan/step_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::plan {
namespace {

using trainer::contract::Precision;
using trainer::contract::RunConfig;

PeakShare share_of(const RunConfig& config, const DeviceFigures* device,
                   const GivenFigures& given) {
  if (given.efficiency) {
    return {*given.efficiency, *given.efficiency, *given.efficiency, true, "given by --efficiency"};
  }
  // Shares are of the data sheet's peak: of another one, that the run names, nothing is known.
  constexpr double kSame = 0.02;
  const bool is_other_peak =
      config.peak_tflops > 0 && device != nullptr &&
      std::abs(config.peak_tflops * kTera / peak_flops(*device, config.dtype) - 1) > kSame;
  return peak_share_of(is_other_peak ? nullptr : device, config.dtype);
}

}  // namespace

StepModel step_model(const RunConfig& config, const std::string& gpu_model,
                     const DeviceFigures* device, int nodes, const GivenFigures& given) {
  StepModel model;
  model.share = share_of(config, device, given);
  model.overhead_seconds = given.overhead_seconds.value_or(nodes > 1 ? kUsualOverheadSeconds : 0.0);
  ComputeFigures& compute = model.compute;
  compute.kernel_seconds = kKernelSeconds;
  compute.bytes_of_element =
      config.dtype == Precision::BFloat16 || config.dtype == Precision::Float16 ? 2 : 4;
  compute.efficiency = model.share.value;
  if (device != nullptr) {
    compute.peak_flops = peak_flops(*device, config.dtype);
    compute.memory_bytes_per_second = kMemoryShare * device->memory_bytes_per_second;
    compute.multiprocessors = device->multiprocessors;
  }
  if (config.peak_tflops > 0) compute.peak_flops = config.peak_tflops * kTera;
  if (!(compute.peak_flops > 0)) {
    const std::string gpu =
        gpu_model.empty() ? "the GPUs" : "the GPU '" + base::printable(gpu_model) + "'";
    throw base::Error(
        base::Code::User,
        "the speed of " + gpu + " is unknown; set statistics.peak_tflops in the run file");
  }
  return model;
}

std::vector<std::string> step_basis(const RunConfig& config, const GivenFigures& given,
                                    const std::optional<trainer::contract::LengthTable>& lengths) {
  std::vector<std::string> basis;
  basis.push_back(
      std::string("the share of the peak applies to matrix products that fill the device") +
      (given.efficiency ? "" : "; --efficiency"));
  if (!given.overhead_seconds) {
    basis.push_back("a step on several nodes takes " +
                    base::short_number(1e3 * kUsualOverheadSeconds) +
                    " ms of fixed overhead, as MLPerf's entries do; --overhead-seconds");
  }
  basis.push_back(lengths ? "samples are " + base::short_number(lengths->mean()) +
                                " tokens long on average"
                          : "every sample is " + std::to_string(config.data.max_length) +
                                " tokens long, as --lengths names no table");
  if (trainer::contract::grows(config)) {
    basis.push_back("steps have " + std::to_string(config.batch_size) +
                    " samples, with which the batch begins that grows");
  }
  return basis;
}

std::string share_sentence(const PeakShare& share) {
  char value[40];
  std::snprintf(value, sizeof value, "%.3g %%", 100 * share.value);
  return "share of the peak " + std::string(value) + ": " + share.basis;
}

trainer::contract::LengthTable longest_lengths(const RunConfig& config) {
  const std::string length = std::to_string(config.data.max_length);
  return trainer::contract::LengthTable::parse(length + "," + length + ",1", "data.max_length");
}

std::optional<DatasetFacts> take_dataset(const std::string& file, int given, RunConfig* config) {
  if (given > 0) config->model.vocabulary = given;
  const base::Path folder = file == "-" ? base::Path(".") : base::Path(file).parent_path();
  // All datasets have the same vocabulary.
  const std::string dataset = trainer::contract::data_paths(config->data).front();
  const auto facts = dataset_facts(base::posix_file_system(), folder / dataset);
  complete_shape(facts, &config->model);
  if (config->model.vocabulary > 0) return facts;
  throw base::Error(base::Code::User,
                    (file == "-" ? "stdin" : file) +
                        ": the vocabulary size is unknown, since there is no dataset at '" +
                        base::printable(dataset) + "' yet; give --vocabulary");
}

}  // namespace regatta::orchestrator::plan
