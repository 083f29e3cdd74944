// Matrix products by cuBLASLt, with the epilogues of trainer/device/device.h's Gemm: fused into the
// library's call where that is allowed and faster, separate kernels otherwise (gemm_plan.h).
//
// The first product of a key (outside of a capture) times up to 8 of the library's algorithms, and
// with an epilogue also the separate way, on the operands at hand: it takes milliseconds and waits
// for the stream. Every later one only enqueues. A choice once made stays for the engine's life, so
// that equal calls give equal bits; the cache file makes it stay for other processes, too.
//
// Deterministic: only algorithms that split k not at all, or whose partial sums go to the workspace
// in float32 and are added in a separate, ordered pass (cuBLASLt's reduction schemes NONE and
// COMPUTE_TYPE). Left out are INPLACE, which adds into the result as blocks arrive, and
// OUTPUT_TYPE, which rounds partial sums to 16 bits.
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/cuda/gemm_plan.h"
#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

struct GemmOptions {
  bool tensor_float32 = false;  // for products of float32
  bool tune = true;             // false: the library's first suggestion, untimed
  std::string cache_file;       // empty: none
  std::string device_name;
};

class GemmEngine {
 public:
  // Reads the cache file; one that cannot be used only leaves a warning. Throws Code::Operator when
  // the library cannot start. `files` outlives the engine.
  GemmEngine(GemmOptions options, base::FileSystem& files);
  ~GemmEngine();  // saves
  GemmEngine(const GemmEngine&) = delete;
  GemmEngine& operator=(const GemmEngine&) = delete;

  // The shapes are checked. Uses the first half of at.scratch as the library's workspace, and a
  // little of the second.
  void run(const KernelLaunch& at, const device::Gemm& op, bool capturing);

  // Writes what was timed since the last call to the cache file: nothing where nothing was. Called
  // whenever the host waits, so that the choices behind whatever it then reads, a checkpoint say,
  // are on disk before it; a process that is killed afterwards can be repeated bit for bit.
  void save();

  [[nodiscard]] cublasLtHandle_t handle() const { return handle_.get(); }
  [[nodiscard]] std::string version() const;  // "cuBLASLt 13.1.0"
  // What went wrong with the cache file, if anything did.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  [[nodiscard]] const std::map<GemmKey, GemmPlan>& plans() const { return plans_; }

 private:
  struct DestroyHandle {
    void operator()(cublasLtContext* handle) const { static_cast<void>(cublasLtDestroy(handle)); }
  };

  const GemmPlan& plan_of(const KernelLaunch& at, const device::Gemm& op, const GemmKey& key,
                          bool capturing);
  [[nodiscard]] GemmPlan untimed_plan(const KernelLaunch& at, const device::Gemm& op,
                                      const GemmKey& key) const;
  // Nothing if there is no memory to try on.
  [[nodiscard]] std::optional<GemmPlan> timed_plan(const KernelLaunch& at, const device::Gemm& op,
                                                   const GemmKey& key);
  void execute(const KernelLaunch& at, const device::Gemm& op, const GemmKey& key,
               const GemmPlan& plan, bool capturing);
  [[nodiscard]] cublasStatus_t call_library(const KernelLaunch& at, const device::Gemm& op,
                                            const GemmKey& key,
                                            const GemmAlgorithm& algorithm) const;
  void finish_separately(const KernelLaunch& at, const device::Gemm& op, GemmTail tail) const;
  // The best of three after one, or nothing if the plan does not run.
  [[nodiscard]] std::optional<double> microseconds(const KernelLaunch& at, const device::Gemm& op,
                                                   const GemmKey& key, const GemmPlan& plan);
  void load();

  GemmOptions options_;
  base::FileSystem& files_;
  std::unique_ptr<cublasLtContext, DestroyHandle> handle_;
  std::string machine_;
  GemmCache cache_;
  bool unsaved_ = false;
  std::map<GemmKey, GemmPlan> plans_;
  std::string warning_;
};

}  // namespace regatta::trainer::cuda
