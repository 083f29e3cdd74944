#include "trainer/cuda/gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "trainer/cuda/check.h"
#include "trainer/cuda/handles.h"
#include "trainer/cuda/library_call.h"
#include "trainer/cuda/product.h"
#include "trainer/cuda/stopwatch.h"

namespace regatta::trainer::cuda {
namespace {

constexpr int kCandidates = 8;
constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{16} << 20;

void make_directories(base::FileSystem& files, const base::Path& path) {
  if (path.empty() || files.exists(path)) return;
  make_directories(files, path.parent_path());
  files.create_directory(path);
}

std::string size_text(const GemmKey& key) {
  return std::to_string(key.m) + "x" + std::to_string(key.n) + "x" + std::to_string(key.k);
}

// The product with results that a trial may write as often as it likes: those that accumulate are
// redirected to `memory`.
device::Gemm trial_of(const device::Gemm& op, void* memory) {
  device::Gemm trial = op;
  auto* bytes = static_cast<unsigned char*>(memory);
  if (op.beta != 0.0F) {
    trial.c.data = bytes;
    bytes += (op.c.bytes() + 255) / 256 * 256;
  }
  if (op.c_column_sums.data != nullptr) trial.c_column_sums.data = bytes;
  if (op.a_column_sums.data != nullptr) trial.a_column_sums.data = bytes;
  return trial;
}
std::int64_t trial_bytes(const device::Gemm& op) {
  return (op.beta != 0.0F ? (op.c.bytes() + 255) / 256 * 256 : 0) + op.c_column_sums.bytes() +
         op.a_column_sums.bytes();
}

void* sums_of(const KernelLaunch& at) {
  return static_cast<unsigned char*>(at.scratch) + kWorkspaceBytes;
}

}  // namespace

GemmEngine::GemmEngine(GemmOptions options, base::FileSystem& files)
    : options_(std::move(options)), files_(files) {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw base::Error(base::Code::Operator,
                      std::string("cuBLASLt does not start (") + cublasLtGetStatusString(status) +
                          "); check that the CUDA libraries and the driver belong together");
  }
  handle_.reset(handle);
  machine_ = options_.device_name + " / " + version();
  std::replace(machine_.begin(), machine_.end(), '\n', ' ');
  if (!options_.cache_file.empty()) load();
}

GemmEngine::~GemmEngine() {
  try {
    save();
  } catch (const std::exception&) {  // no memory for a text: other processes time for themselves
  }
}

std::string GemmEngine::version() const {
  const std::size_t number = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
         "." + std::to_string(number % 100);
}

void GemmEngine::run(const KernelLaunch& at, const device::Gemm& op, bool capturing) {
  base::check(op.gelu_input.data == nullptr || op.gelu_input.data != op.c.data || op.c.size == 0,
              "an activation's input is not overwritten by its gradient");
  if (op.m == 0 || op.n == 0) {
    if (op.a_column_sums.size > 0) add_column_sums(at, op.a, op.m, op.a_column_sums);
    return;
  }
  const GemmKey key = key_of(op, options_.tensor_float32);
  execute(at, op, key, plan_of(at, op, key, capturing), capturing);
}

void GemmEngine::execute(const KernelLaunch& at, const device::Gemm& op, const GemmKey& key,
                         const GemmPlan& plan, bool capturing) {
  switch (plan.path) {
    case GemmPath::BuiltIn:
      built_in_product(at, op);
      return;
    case GemmPath::Separate:
      run(at, without_tail(op, key.tail), capturing);
      finish_separately(at, op, key.tail);
      return;
    case GemmPath::Library: {
      const cublasStatus_t status = call_library(at, op, key, plan.algorithm);
      if (status != CUBLAS_STATUS_SUCCESS) {
        throw base::Error(base::Code::Developer, "cuBLASLt failed on the product " +
                                                     size_text(key) + " (" +
                                                     cublasLtGetStatusString(status) + ")");
      }
      return;
    }
  }
}

cublasStatus_t GemmEngine::call_library(const KernelLaunch& at, const device::Gemm& op,
                                        const GemmKey& key, const GemmAlgorithm& algorithm) const {
  base::check(at.scratch_bytes >= kWorkspaceBytes + 4 * (op.m + op.n),
              "the scratch memory holds the library's workspace and column sums");
  // The library overwrites column sums; the contract adds to them.
  const cublasStatus_t status =
      LibraryCall(op, key, sums_of(at)).enqueue(handle_.get(), at, algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (key.tail == GemmTail::InputSums) {
    add(at, {sums_of(at), op.a_column_sums.size, device::Dtype::Float32}, op.a_column_sums);
  }
  return status;
}

void GemmEngine::finish_separately(const KernelLaunch& at, const device::Gemm& op,
                                   GemmTail tail) const {
  const bool tanh_form = op.activation == device::Activation::GeluTanh;
  switch (tail) {
    case GemmTail::None:
      base::check(false, "a product without a tail has nothing to separate");
      return;
    case GemmTail::Bias:
      add_bias(at, op.c, op.bias);
      return;
    case GemmTail::Gelu:
    case GemmTail::GeluBias:
      gelu_forward(at, op.pre_activation, op.c, tanh_form);
      return;
    case GemmTail::GeluGradient:
      gelu_backward(at, op.gelu_input, op.c, op.c, tanh_form);
      return;
    case GemmTail::GeluGradientSums:
      add_column_sums(at, op.c, op.n, op.c_column_sums);
      return;
    case GemmTail::InputSums:
    case GemmTail::InputSumsBias:
      add_column_sums(at, op.a, op.m, op.a_column_sums);
      return;
  }
}

// ---------------------------------------------------------------- choosing

const GemmPlan& GemmEngine::plan_of(const KernelLaunch& at, const device::Gemm& op,
                                    const GemmKey& key, bool capturing) {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  if (!tail_can_fuse(key)) {
    GemmPlan separate;
    separate.path = GemmPath::Separate;
    return plans_[key] = separate;
  }
  const GemmPlan* known = cache_.find(machine_, key);
  if (known != nullptr &&
      (known->path != GemmPath::Library ||
       LibraryCall(op, key, sums_of(at)).accepts(handle_.get(), known->algorithm))) {
    return plans_[key] = *known;
  }
  if (options_.tune && !capturing) {
    if (const std::optional<GemmPlan> plan = timed_plan(at, op, key)) {
      cache_.put(machine_, key, *plan);
      unsaved_ = true;
      return plans_[key] = *plan;
    }
  }
  return plans_[key] = untimed_plan(at, op, key);
}

GemmPlan GemmEngine::untimed_plan(const KernelLaunch& at, const device::Gemm& op,
                                  const GemmKey& key) const {
  GemmPlan plan;
  const std::vector<GemmAlgorithm> found =
      LibraryCall(op, key, sums_of(at)).algorithms(handle_.get(), 1);
  if (!found.empty()) {
    plan.path = GemmPath::Library;
    plan.algorithm = found.front();
  } else {
    plan.path = key.tail == GemmTail::None ? GemmPath::BuiltIn : GemmPath::Separate;
  }
  return plan;
}

std::optional<GemmPlan> GemmEngine::timed_plan(const KernelLaunch& at, const device::Gemm& op,
                                               const GemmKey& key) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(trial_bytes(op), 1));
  void* raw = nullptr;
  if (cudaMalloc(&raw, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // so that no later call reports it
    return std::nullopt;
  }
  const DevicePointer memory = DevicePointer::adopt(raw);
  check(cudaMemsetAsync(raw, 0, bytes, at.stream), "clearing memory to time products");
  const device::Gemm trial = trial_of(op, raw);
  std::vector<GemmPlan> candidates;
  const std::vector<GemmAlgorithm> offered =
      LibraryCall(trial, key, sums_of(at)).algorithms(handle_.get(), kCandidates);
  for (const GemmAlgorithm& algorithm : offered) {
    candidates.push_back({GemmPath::Library, algorithm, 0});
  }
  if (key.tail != GemmTail::None) candidates.push_back({GemmPath::Separate, {}, 0});
  std::vector<GemmPlan> timed;
  for (GemmPlan plan : candidates) {
    const std::optional<double> time = microseconds(at, trial, key, plan);
    if (!time) continue;
    plan.microseconds = *time;
    timed.push_back(plan);
  }
  check(cudaStreamSynchronize(at.stream), "timing products");  // before `memory` goes
  return timed.empty() ? GemmPlan{} : fastest(timed);          // built in, if nothing else runs
}

std::optional<double> GemmEngine::microseconds(const KernelLaunch& at, const device::Gemm& op,
                                               const GemmKey& key, const GemmPlan& plan) {
  return best_microseconds(at.stream, [&] {
    if (plan.path != GemmPath::Library) {
      execute(at, op, key, plan, false);
      return true;
    }
    if (call_library(at, op, key, plan.algorithm) == CUBLAS_STATUS_SUCCESS) return true;
    static_cast<void>(cudaGetLastError());  // a refused launch is no error of what follows
    return false;
  });
}

// ---------------------------------------------------------------- the cache file

void GemmEngine::load() {
  const base::Path path = options_.cache_file;
  try {
    if (files_.exists(path)) cache_ = GemmCache::parse(files_.read(path, kMaxCacheBytes));
  } catch (const base::Error& error) {
    warning_ = "product cache " + options_.cache_file + " ignored: " + error.what() +
               "; it will be written anew";
  }
}

void GemmEngine::save() {
  if (!unsaved_ || options_.cache_file.empty()) return;
  unsaved_ = false;
  const base::Path path = options_.cache_file;
  try {
    // Other ranks and other machines write the same file; the last one must not forget the rest.
    GemmCache all = cache_;
    try {
      if (files_.exists(path)) all.merge(GemmCache::parse(files_.read(path, kMaxCacheBytes)));
    } catch (const base::Error&) {  // load() has warned, or another process's damage: replaced
    }
    make_directories(files_, path.parent_path());
    base::replace_file(files_, path, all.text());
  } catch (const base::Error& error) {
    warning_ = "product cache " + options_.cache_file + " not written: " + error.what();
    options_.cache_file.clear();  // one warning, not one for every product
  }
}

}  // namespace regatta::trainer::cuda
