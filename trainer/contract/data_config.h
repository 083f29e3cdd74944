// Section `data` of the run file: which datasets a run reads, and how samples are made of them.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"

namespace regatta::base {
class Table;
}

namespace regatta::trainer::contract {

constexpr std::size_t kMostDatasets = 64;
constexpr double kMostWeight = 1e6;
constexpr int kMostLength = 4095;  // of a sample, in the attention of every device

// One dataset of several.
struct MixturePart {
  std::string path;   // as DataConfig's
  double weight = 1;  // its samples are to those of another part as the weights are
  friend bool operator==(const MixturePart&, const MixturePart&) = default;
};

struct DataConfig {
  std::string path;  // dataset directory; absolute once the run exists; empty with a mixture
  std::vector<MixturePart> mixture{};  // 2 to kMostDatasets; empty: `path` alone
  int max_length = 128;                // tokens per sample, specials included
  double mask_fraction = 0.15;
  double short_fraction = 0.1;  // of samples with a random shorter target length
};

// All dataset directories in their order: those of the mixture, or the one.
[[nodiscard]] std::vector<std::string> data_paths(const DataConfig& data);
// The weights of these; 1 of the one.
[[nodiscard]] std::vector<double> data_weights(const DataConfig& data);
// Of messages: the directories with ", " between them.
[[nodiscard]] std::string data_name(const DataConfig& data);
// The key in the run file of the index-th of them: data.path, data.mixture[1].path.
[[nodiscard]] std::string data_path_key(const DataConfig& data, std::size_t index);
// Each becomes what `change` makes of it.
void change_data_paths(DataConfig* data,
                       const std::function<std::string(const std::string& path)>& change);

// Reads the section: a mapping, or a list, which is short for its key `mixture`; a mixture of one
// is that dataset's path. model: with its task and max_positions. That no dataset is named is left
// to require_data(), for when all other keys are known to be good. Both throw as
// parse_run_config().
void read_data(base::Table& root, const ModelShape& model, DataConfig* data);
void require_data(base::Table& root, const DataConfig& data);
[[nodiscard]] nlohmann::ordered_json data_json(const DataConfig& data);

}  // namespace regatta::trainer::contract
