#include "orchestrator/simulate/mlperf_rows.h"

namespace regatta::orchestrator::simulate {
namespace {

constexpr auto A100 = MlperfGpu::A100;
constexpr auto H100 = MlperfGpu::H100;
constexpr auto H200 = MlperfGpu::H200;
constexpr auto B200 = MlperfGpu::B200;
constexpr auto GB200 = MlperfGpu::Gb200;
constexpr auto kUnpadded = RowLayout::Unpadded;
constexpr auto kPadded = RowLayout::Padded;
constexpr auto kPacked = RowLayout::Packed;
constexpr auto kOne = MlperfSums::One;
constexpr auto kBlocks = MlperfSums::Blocks;
constexpr auto kEach = MlperfSums::Each;

constexpr const char* kNone = "";
constexpr const char* kPcie = "PCIe card of 300 W";
constexpr const char* kHost = "few samples a GPU, probably no CUDA graphs: may wait for the host";
constexpr const char* kFp16 = "16 bits, while the small H100 entries are FP8: share of A100's v2.1";
constexpr const char* kEvaluations = "evaluations took 16 % of its time";
constexpr const char* kRacks = "16 samples a GPU; how its racks are joined is not published";

// Columns as in MlperfRow. Those of v5.0 are on software that packs samples as v4's does.
constexpr MlperfRow kRows[] = {
    {"v1.0", "NVIDIA", A100, "v1.0", 8, 448, 21.69, 2.75, kUnpadded, kOne, false, kNone},
    {"v1.0", "NVIDIA", A100, "v1.0", 64, 3072, 3.373, 3.22, kUnpadded, kOne, true, kNone},
    {"v1.1", "NVIDIA", A100, "v1.1", 8, 448, 20.00, 2.78, kUnpadded, kOne, false, kNone},
    {"v1.1", "NVIDIA", A100, "v1.1", 64, 3072, 3.038, 3.19, kUnpadded, kOne, true, kNone},
    {"v1.1", "NVIDIA", A100, "v1.1", 1024, 3072, 0.558, 2.84, kPadded, kOne, true, kNone},
    {"v1.1", "NVIDIA", A100, "v1.1", 4320, 12960, 0.226, 4.62, kPadded, kOne, true, kNone},
    {"v1.1", "Azure", A100, "v1.1", 1024, 3072, 0.656, 2.736, kPadded, kOne, false, kNone},
    {"v1.1", "Azure", A100, "v1.1", 2048, 6144, 0.422, 3.36, kPadded, kOne, false, kNone},
    {"v2.0", "NVIDIA", A100, "v2.0", 8, 448, 18.44, 2.64, kUnpadded, kOne, false, kNone},
    {"v2.0", "NVIDIA", A100, "v2.0", 64, 3072, 2.942, 3.216, kUnpadded, kOne, true, kNone},
    {"v2.0", "Inspur", A100, "Inspur", 8, 448, 15.71, 2.42, kUnpadded, kOne, false, kNone},
    {"v2.0", "Baidu", A100, "Paddle", 8, 448, 16.36, 2.40, kUnpadded, kOne, false, kNone},
    {"v2.0", "H3C", A100, "v2.0", 16, 448, 11.67, 2.60, kUnpadded, kOne, false, kNone},
    {"v2.0", "H3C, PCIe", A100, "v2.0", 1, 92, 255.3, 4.08, kUnpadded, kOne, false, kPcie},
    {"v2.0", "NVIDIA", A100, "v2.0", 1024, 4096, 0.421, 2.79, kPacked, kOne, true, kNone},
    {"v2.0", "NVIDIA", A100, "v2.0", 4096, 16384, 0.206, 5.47, kPacked, kOne, true, kNone},
    {"v2.0", "Samsung", A100, "v2.0", 1024, 16384, 0.372, 2.93, kUnpadded, kEach, false, kHost},
    {"v2.0", "Samsung", A100, "v2.0", 1368, 16416, 0.357, 2.938, kUnpadded, kEach, false, kHost},
    {"v2.1", "NVIDIA", A100, "v2.1", 8, 448, 16.88, 2.46, kUnpadded, kOne, false, kNone},
    {"v2.1", "NVIDIA", A100, "v2.1", 64, 3072, 2.497, 2.73, kUnpadded, kOne, true, kNone},
    {"v2.1", "Baidu", A100, "Paddle", 64, 3072, 2.476, 2.75, kUnpadded, kOne, false, kNone},
    {"v2.1", "HPE", A100, "HPE", 8, 384, 19.617, 2.778, kUnpadded, kOne, false, kNone},
    {"v2.1", "HPE", A100, "HPE", 16, 448, 11.189, 2.628, kUnpadded, kOne, false, kNone},
    {"v2.1", "HPE", A100, "HPE", 64, 3072, 3.084, 3.084, kUnpadded, kOne, false, kNone},
    {"v2.1", "HPE", A100, "HPE", 128, 6144, 2.013, 3.919, kUnpadded, kOne, false, kNone},
    {"v2.1", "Hazy Research", A100, "Hazy", 8, 448, 16.828, 2.456, kUnpadded, kOne, false, kNone},
    {"v2.1", "Hazy Research", A100, "Hazy", 64, 3072, 2.691, 2.649, kUnpadded, kOne, false, kNone},
    {"v2.1", "Hazy Research", A100, "Hazy", 128, 3072, 1.913, 2.651, kUnpadded, kOne, false, kHost},
    {"v2.1", "NVIDIA", H100, "preview", 8, 768, 6.326, 2.55, kPacked, kOne, false, kNone},
    {"v2.1", "NVIDIA", H100, "preview", 32, 3072, 1.797, 2.823, kPacked, kOne, true, kNone},
    {"v3.0", "NVIDIA", H100, "v3.0", 8, 768, 5.469, 2.52, kPacked, kOne, false, kNone},
    {"v3.0", "NVIDIA", H100, "v3.0", 64, 4608, 0.885, 2.85, kUnpadded, kOne, true, kNone},
    {"v3.0", "NVIDIA", H100, "16 bits", 512, 3072, 0.342, 2.80, kPacked, kBlocks, true, kFp16},
    {"v3.0", "NVIDIA", H100, "16 bits", 768, 4608, 0.253, 2.90, kPacked, kBlocks, true, kFp16},
    {"v3.0", "CoreWeave", H100, "16 bits", 3072, 12288, 0.134, 4.82, kPacked, kBlocks, true, kFp16},
    {"v3.1", "NVIDIA Eos", H100, "16 bits", 3472, 13888, 0.119, 5.46, kPacked, kBlocks, true,
     kFp16},
    {"v4.0", "HPE", H100, "v3.0", 16, 768, 3.178, 2.436, kPacked, kOne, false, kNone},
    {"v4.0", "NVIDIA", H200, "v4", 8, 768, 5.212, 2.49, kPacked, kOne, false, kNone},
    {"v4.1", "ASUS", H200, "v4", 8, 768, 5.116, 2.47, kPacked, kOne, false, kNone},
    {"v4.1", "Supermicro", H200, "v4", 8, 768, 4.972, 2.44, kPacked, kOne, false, kNone},
    {"v4.1", "Lenovo", H200, "v4", 8, 768, 4.873, 2.35, kPacked, kOne, false, kNone},
    {"v4.0", "Dell", H100, "v3.0", 4, 576, 9.84, 2.34, kPacked, kOne, false, kNone},
    {"v4.1", "Fujitsu", H100, "v3.0", 4, 896, 10.55, 2.68, kPacked, kOne, false, kNone},
    {"v4.1", "Lambda", H100, "v3.0", 16, 768, 3.279, 2.436, kPacked, kOne, false, kNone},
    {"v4.1", "Lambda", H100, "Lambda", 64, 4608, 0.946, 2.927, kUnpadded, kOne, false, kNone},
    {"v4.1", "NVIDIA", B200, "preview", 8, 768, 3.795, 2.47, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", B200, "v5", 8, 768, 3.384, 2.38, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 1", B200, "v5", 8, 768, 3.341, 2.32, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 2", B200, "v5", 8, 768, 3.349, 2.32, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 3", B200, "v5", 8, 768, 3.461, 2.42, kPacked, kOne, false, kNone},
    {"v5.0", "NVIDIA", B200, "v5", 8, 768, 3.492, 2.44, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 4", B200, "v5", 8, 768, 3.509, 2.46, kPacked, kOne, false, kNone},
    {"v5.0", "GigaComputing", B200, "v5", 8, 768, 3.515, 2.42, kPacked, kOne, false, kNone},
    {"v5.0", "Lenovo", B200, "v5", 8, 768, 3.571, 2.47, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 5", B200, "v5", 8, 768, 3.576, 2.46, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", B200, "v5", 16, 1536, 2.289, 3.07, kPacked, kOne, false, kNone},
    {"v5.0", "Supermicro 5", B200, "v5", 16, 1536, 2.450, 3.17, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", GB200, "v5", 4, 576, 6.092, 2.34, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", GB200, "v5", 8, 768, 3.255, 2.32, kPacked, kOne, false, kNone},
    {"v5.0", "NVIDIA", GB200, "v5", 8, 768, 3.415, 2.44, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", GB200, "v5", 16, 768, 1.992, 2.36, kPacked, kOne, false, kNone},
    {"v5.0", "Dell", GB200, "v5", 32, 6144, 1.450, 3.88, kPacked, kOne, false, kEvaluations},
    {"v5.0", "NVIDIA", GB200, "v5", 64, 4608, 0.649, 3.27, kPacked, kOne, false, kNone},
    {"v5.0", "NVIDIA", GB200, "v5", 512, 8192, 0.305, 3.97, kPacked, kOne, false, kRacks},
};

}  // namespace

std::vector<MlperfRow> mlperf_rows() { return {std::begin(kRows), std::end(kRows)}; }

const char* name_of(MlperfGpu gpu) {
  switch (gpu) {
    case MlperfGpu::A100:
      break;
    case MlperfGpu::H100:
      return "H100";
    case MlperfGpu::H200:
      return "H200";
    case MlperfGpu::B200:
      return "B200";
    case MlperfGpu::Gb200:
      return "GB200";
  }
  return "A100";
}

double samples_per_second(const MlperfRow& row) {
  constexpr double kMillion = 1e6, kSecondsOfMinute = 60;
  return row.million_samples * kMillion / (row.minutes * kSecondsOfMinute);
}

bool is_small(const MlperfRow& row) { return row.gpus == 8 || row.gpus == 64; }

}  // namespace regatta::orchestrator::simulate
