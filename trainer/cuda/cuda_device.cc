#include "trainer/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "trainer/cuda/attention/attention_grouped.h"
#include "trainer/cuda/attention/attention_wgmma.h"
#include "trainer/cuda/batched_products.h"
#include "trainer/cuda/check.h"
#include "trainer/cuda/cuda_memory.h"
#include "trainer/cuda/device_check.h"
#include "trainer/cuda/event_pool.h"
#include "trainer/cuda/forward_choice.h"
#include "trainer/cuda/gemm.h"
#include "trainer/cuda/graph_cache.h"
#include "trainer/cuda/handles.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/native_streams.h"
#include "trainer/cuda/optimizer_table.h"
#include "trainer/cuda/trace_range.h"
#include "trainer/device/shape_checks.h"

namespace regatta::trainer::cuda {
namespace {

using cuda::check;
using cuda::KernelLaunch;

// Graphs and timed products are kept per token count: BERT-base on 8 GPUs has about 11 counts at
// 256, for 0.9 % of padding.
constexpr std::int64_t kTokenBucket = 256;

// A launch, and its range on a profiler's time line for as long as the expression lasts.
struct TracedLaunch : KernelLaunch {
  TracedLaunch(const KernelLaunch& launch, const char* name) : KernelLaunch(launch), range(name) {}
  cuda::TraceRange range;
};

class CudaDevice final : public device::Device, public cuda::NativeStreams {
 public:
  CudaDevice(CudaOptions options, cuda::DeviceReport report)
      : options_(std::move(options)),
        report_(std::move(report)),
        forward_choice_(options_.tune_products),
        graphs_(options_.max_graphs),
        products_({options_.tf32, options_.tune_products, options_.gemm_cache_file, report_.name},
                  base::posix_file_system()) {
    streams_.emplace_back();
    if (options_.attention == CudaAttention::Grouped) grouped_.emplace();
  }
  ~CudaDevice() override {
    // Memory must not go while something uses it; an error has been reported before.
    static_cast<void>(cudaSetDevice(options_.index));
    static_cast<void>(cudaDeviceSynchronize());
  }

  int gpu() const override { return options_.index; }
  cudaStream_t native(device::Stream stream) override {
    graphs_.refuse_capture("a collective");
    return raw(stream);
  }

  std::string description() const override;
  device::DeviceProfile profile() const override;
  bool computes_in(device::Dtype dtype) const override {
    return dtype == device::Dtype::Float32 || dtype == device::Dtype::BFloat16 ||
           dtype == device::Dtype::Float16;
  }
  bool is_on_host() const override { return false; }
  std::int64_t token_bucket() const override { return kTokenBucket; }

  void* allocate(std::int64_t bytes) override {
    enter();
    graphs_.refuse_capture("allocating memory");
    return memory_.allocate(bytes);
  }
  void release(void* memory) override { memory_.release(memory); }
  std::int64_t peak_bytes() const override { return memory_.peak_bytes(); }
  void* allocate_host(std::int64_t bytes) override {
    enter();
    graphs_.refuse_capture("allocating host memory");
    return memory_.allocate_host(bytes);
  }
  void release_host(void* memory) override { memory_.release_host(memory); }

  device::Stream make_stream() override {
    enter();
    graphs_.refuse_capture("making a stream");
    streams_.emplace_back();
    return static_cast<device::Stream>(streams_.size()) - 1;
  }
  device::Event record(device::Stream stream) override {
    graphs_.refuse_capture("recording an event");
    return events_.record(raw(stream));
  }
  void wait(device::Stream stream, device::Event event) override {
    graphs_.refuse_capture("waiting for an event");
    events_.wait(raw(stream), event);
  }
  void wait_host(device::Event event) override {
    enter();
    graphs_.refuse_capture("waiting on the host");
    products_.save();
    events_.wait_host(event);
  }
  void synchronize() override {
    enter();
    graphs_.refuse_capture("waiting on the host");
    products_.save();
    check(cudaDeviceSynchronize(), "waiting for the GPU");
    events_.all_done();
  }

  void repeat(device::Stream stream, std::uint64_t key,
              const std::function<void()>& enqueue) override {
    const cuda::TraceRange range("repeat");
    graphs_.repeat(raw(stream), key, enqueue);
  }
  void forget_repeats() override {
    enter();
    graphs_.forget();
  }

  void copy_to_device(device::Stream stream, device::View to, const void* from) override {
    copy_bytes(stream, to.data, from, to.bytes(), cudaMemcpyHostToDevice);
  }
  void copy_to_host(device::Stream stream, void* to, device::View from) override {
    copy_bytes(stream, to, from.data, from.bytes(), cudaMemcpyDeviceToHost);
  }
  void copy(device::Stream stream, device::View to, device::View from) override {
    device::check_copy(to, from);
    copy_bytes(stream, to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice);
  }
  void convert(device::Stream stream, device::View to, device::View from) override {
    device::check_convert(to, from);
    cuda::convert(at(stream), to, from);
  }
  void fill_zero(device::Stream stream, device::View to) override {
    const cudaStream_t queue = raw(stream);
    if (to.size == 0) return;
    check(cudaMemsetAsync(to.data, 0, static_cast<std::size_t>(to.bytes()), queue),
          "clearing memory");
  }

  void gemm(device::Stream stream, const device::Gemm& op) override {
    device::check_shapes(op);
    products_.run(at(stream), op, graphs_.capturing());
  }
  void add_column_sums(device::Stream stream, device::View x, std::int64_t columns,
                       device::View sum) override {
    device::check_column_sums(x, columns, sum);
    cuda::add_column_sums(at(stream), x, columns, sum);
  }
  void gelu_forward(device::Stream stream, device::View x, device::View y,
                    bool tanh_form) override {
    device::check_elementwise(x, y);
    cuda::gelu_forward(at(stream), x, y, tanh_form);
  }
  void gelu_backward(device::Stream stream, device::View x, device::View dy, device::View dx,
                     bool tanh_form) override {
    device::check_elementwise(x, dy, dx);
    cuda::gelu_backward(at(stream), x, dy, dx, tanh_form);
  }
  void tanh_forward(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    cuda::tanh_forward(at(stream), x, y);
  }
  void tanh_backward(device::Stream stream, device::View y, device::View dy,
                     device::View dx) override {
    device::check_elementwise(y, dy, dx);
    cuda::tanh_backward(at(stream), y, dy, dx);
  }
  void add(device::Stream stream, device::View x, device::View y) override {
    device::check_elementwise(x, y);
    cuda::add(at(stream), x, y);
  }

  void gather_rows(device::Stream stream, device::View from, device::View index,
                   std::int64_t columns, device::View to) override {
    device::check_row_selection(from, index, columns, to);
    cuda::gather_rows(at(stream), from, index, columns, to);
  }
  void scatter_add_rows(device::Stream stream, device::View from, device::View index,
                        std::int64_t columns, device::View to) override {
    device::check_row_selection(to, index, columns, from);
    cuda::scatter_add_rows(at(stream), from, index, columns, to);
  }

  void embedding_forward(device::Stream stream, const device::EmbeddingForward& op) override {
    device::check_shapes(op);
    cuda::embedding_forward(at(stream), op);
  }
  void embedding_backward(device::Stream stream, const device::EmbeddingBackward& op) override {
    device::check_shapes(op);
    cuda::embedding_backward(at(stream), op);
  }
  void layer_norm_forward(device::Stream stream, const device::LayerNormForward& op) override {
    device::check_shapes(op);
    cuda::layer_norm_forward(at(stream), op);
  }
  void layer_norm_backward(device::Stream stream, const device::LayerNormBackward& op) override {
    device::check_shapes(op);
    cuda::layer_norm_backward(at(stream), op);
  }
  void attention_forward(device::Stream stream, const device::AttentionForward& op) override;
  void attention_backward(device::Stream stream, const device::AttentionBackward& op) override;
  void cross_entropy(device::Stream stream, const device::CrossEntropy& op) override {
    device::check_shapes(op);
    cuda::cross_entropy(at(stream), op);
  }
  void span_cross_entropy(device::Stream stream, const device::SpanCrossEntropy& op) override {
    device::check_shapes(op);
    cuda::span_cross_entropy(at(stream), op);
  }
  void squared_error(device::Stream stream, const device::SquaredError& op) override {
    device::check_shapes(op);
    cuda::squared_error(at(stream), op);
  }

  void sum_of_squares(device::Stream stream, device::View x, device::View result) override {
    device::check_sum_of_squares(x, result);
    cuda::sum_of_squares(at(stream), x, result);
  }
  void limit_norm(device::Stream stream, device::View x, device::View squared_norm,
                  device::View limit) override {
    device::check_limit_norm(x, squared_norm, limit);
    cuda::limit_norm(at(stream), x, squared_norm, limit);
  }
  void update(device::Stream stream, const device::OptimizerUpdate& op) override;
  void add_noise_sums(device::Stream stream, const device::NoiseSums& op) override {
    device::check_shapes(op);
    cuda::add_noise_sums(at(stream), op);
  }

 private:
  struct Queue {
    cuda::OwnStream stream;
    void* scratch = nullptr;  // from memory_, on first use
  };

  // Every call may come from another thread than the one before.
  void enter() const { check(cudaSetDevice(options_.index), "choosing the GPU"); }
  Queue& queue(device::Stream stream) {
    base::check(stream >= 0 && static_cast<std::size_t>(stream) < streams_.size(),
                "a stream comes from make_stream");
    enter();
    return streams_[static_cast<std::size_t>(stream)];
  }
  cudaStream_t raw(device::Stream stream) { return queue(stream).stream.get(); }
  // `name`: of the operation that calls this.
  TracedLaunch at(device::Stream stream, const char* name = __builtin_FUNCTION()) {
    Queue& mine = queue(stream);
    if (mine.scratch == nullptr) {
      graphs_.refuse_capture("allocating scratch memory");
      mine.scratch = memory_.allocate(cuda::kScratchBytes);
    }
    return {{mine.stream.get(), report_.facts, mine.scratch, cuda::kScratchBytes}, name};
  }
  void copy_bytes(device::Stream stream, void* to, const void* from, std::int64_t bytes,
                  cudaMemcpyKind kind) {
    const cudaStream_t target = raw(stream);
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, target), "copying");
  }
  // Whether the fused kernels do this attention.
  bool is_fused(device::Dtype dtype, std::int64_t head_size) const {
    return options_.attention != CudaAttention::Reference &&
           cuda::attention_is_fused(dtype, head_size);
  }

  // Order matters: graphs, events and streams go before the memory that they use.
  const CudaOptions options_;
  const cuda::DeviceReport report_;
  cuda::CudaMemory memory_;
  cuda::OptimizerTables tables_;
  std::int64_t tables_cleared_ = 0;
  std::vector<Queue> streams_;
  std::optional<cuda::GroupedAttention> grouped_;
  cuda::ForwardChoice forward_choice_;
  cuda::EventPool events_;
  cuda::GraphCache graphs_;
  cuda::GemmEngine products_;
  cuda::BatchedProducts batched_{products_.handle()};  // of the reference attention
};

constexpr const char* kAttentionNames[] = {"automatic", "streamed", "resident",
                                           "wgmma",     "grouped",  "reference"};

std::string capability_text(int architecture) {
  return std::to_string(architecture / 10) + "." + std::to_string(architecture % 10);
}

std::string CudaDevice::description() const {
  std::string text = report_.name + " (compute capability " +
                     capability_text(report_.facts.architecture) + "), driver " +
                     cuda::version_text(report_.driver_version) + ", runtime " +
                     cuda::version_text(report_.runtime_version) + ", " + products_.version() +
                     ", float32 products in " + (options_.tf32 ? "TF32" : "float32") +
                     ", attention " + kAttentionNames[static_cast<int>(options_.attention)];
  const std::string forward = forward_choice_.description();
  if (!forward.empty()) text += " (forward " + forward + ")";
  if (!products_.warning().empty()) text += "; " + products_.warning();
  if (tables_cleared_ > 0) {
    text += "; the optimizer's tables were made again " + std::to_string(tables_cleared_) +
            " times, since there are more than " +
            std::to_string(cuda::OptimizerTables::kMaxTables) +
            " lists of tensors; use fewer gradient buckets";
  }
  if (graphs_.failures() > 0) {
    text += "; " + std::to_string(graphs_.failures()) +
            " sequences run without a graph: " + graphs_.first_failure();
  }
  return text;
}

device::DeviceProfile CudaDevice::profile() const {
  device::DeviceProfile profile;
  profile.kind = "cuda";
  profile.model = report_.name;
  profile.compute_capability = capability_text(report_.facts.architecture);
  profile.products = "cuBLASLt";
  profile.weight_gradient_products = profile.products;
  profile.attention = kAttentionNames[static_cast<int>(options_.attention)];
  profile.tf32 = options_.tf32;
  const std::string products = products_.version();  // "cuBLASLt 13.1.0"
  profile.libraries = {{"CUDA driver", cuda::version_text(report_.driver_version)},
                       {"CUDA runtime", cuda::version_text(report_.runtime_version)},
                       {profile.products, products.substr(products.rfind(' ') + 1)}};
  return profile;
}

std::int64_t head_size_of(const device::View& out, const device::View& lse) {
  return out.size / lse.size;
}

void CudaDevice::attention_forward(device::Stream stream, const device::AttentionForward& op) {
  device::check_shapes(op);
  if (!is_fused(op.out.dtype, head_size_of(op.out, op.lse))) {
    cuda::attention_forward_reference(at(stream), batched_, op);
  } else if (grouped_) {
    grouped_->forward(at(stream), op);
  } else if (options_.attention == CudaAttention::Wgmma &&
             cuda::attention_forward_has_wgmma(report_.facts, op.out.dtype,
                                               head_size_of(op.out, op.lse))) {
    cuda::attention_forward_wgmma(at(stream), op, {});
  } else if (options_.attention == CudaAttention::Streamed) {
    cuda::attention_forward_fused(at(stream), op, cuda::ForwardWay::Streamed);
  } else if (options_.attention == CudaAttention::Resident) {
    cuda::attention_forward_fused(at(stream), op, cuda::ForwardWay::Resident);
  } else {
    forward_choice_.run(at(stream), op, graphs_.capturing());
  }
}

void CudaDevice::attention_backward(device::Stream stream, const device::AttentionBackward& op) {
  device::check_shapes(op);
  if (!is_fused(op.out.dtype, head_size_of(op.out, op.lse))) {
    cuda::attention_backward_reference(at(stream), batched_, op);
  } else if (grouped_) {
    grouped_->backward(at(stream), op);
  } else if (options_.attention == CudaAttention::Wgmma &&
             cuda::attention_backward_has_wgmma(report_.facts, op.out.dtype,
                                                head_size_of(op.out, op.lse))) {
    cuda::attention_backward_mostly_wgmma(at(stream), op);
  } else {
    cuda::attention_backward_fused(at(stream), op);
  }
}

void CudaDevice::update(device::Stream stream, const device::OptimizerUpdate& op) {
  device::check_shapes(op);
  const TracedLaunch here = at(stream);
  if (op.tensor_count == 0) return;
  const cuda::OptimizerTableView* table = tables_.find(op.tensors, op.tensor_count);
  if (table == nullptr) {
    graphs_.refuse_capture("making the optimizer's table");
    if (tables_.full()) {
      graphs_.forget();
      check(cudaDeviceSynchronize(), "waiting for the GPU");
      tables_.clear();
      ++tables_cleared_;
    }
    table = &tables_.make(op.tensors, op.tensor_count);
  }
  cuda::update(here, op, *table);
}

}  // namespace

std::unique_ptr<device::Device> make_cuda_device(const CudaOptions& options) {
  cuda::DeviceReport report = cuda::examine_device(options.index);
  if (options.attention == CudaAttention::Wgmma && report.facts.architecture != 90) {
    throw base::Error(base::Code::User, "attention: wgmma needs a GPU of compute capability 9.0, " +
                                            report.name + " has " +
                                            std::to_string(report.facts.architecture / 10) + "." +
                                            std::to_string(report.facts.architecture % 10) +
                                            "; use attention: automatic");
  }
  return std::make_unique<CudaDevice>(options, std::move(report));
}

}  // namespace regatta::trainer::cuda
