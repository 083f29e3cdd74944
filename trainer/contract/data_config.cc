#include "trainer/contract/data_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/document.h"
#include "base/file_system.h"
#include "base/text.h"
#include "trainer/contract/read_range.h"

namespace regatta::trainer::contract {
namespace {

using base::Table;

constexpr int kMinLength = 5;  // [CLS] a [SEP] b [SEP]
constexpr std::size_t kMostPathBytes = 4096;
constexpr const char* kNoPath = "missing; name a dataset directory made by 'regatta-train prepare'";

void read_path(Table& table, std::string* path) {
  table.read("path", path);
  bool bad = path->size() > kMostPathBytes;
  for (const char c : *path) bad = bad || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  if (bad) table.fail("path", "not a path; use at most 4096 bytes and no control characters");
}

// The same for two spellings of one path, without a look at the disk.
std::string plain(const std::string& path) {
  return (base::Path(path) / "").lexically_normal().string();
}

// Of the list under `key`, which is there. Into `path` where it is one.
void read_mixture(Table& table, const std::string& key, DataConfig* data) {
  std::vector<Table> items = table.tables(key);
  if (items.empty()) table.fail(key, "the list is empty; name at least one dataset");
  if (items.size() > kMostDatasets) {
    table.fail(key, "has " + text_of(items.size()) + " datasets; use at most " +
                        text_of(kMostDatasets) + ", or prepare some of them as one");
  }
  std::vector<MixturePart> parts;
  std::map<std::string, std::size_t> seen;
  for (Table& item : items) {
    MixturePart part;
    read_path(item, &part.path);
    read_range(item, "weight", &part.weight, 0, kMostWeight, Ends::OpenLow);
    item.finish();
    if (part.path.empty()) item.fail("path", kNoPath);
    const auto [first, is_new] = seen.emplace(plain(part.path), parts.size());
    if (!is_new) {
      item.fail("path", "'" + base::printable(part.path) + "' is also the dataset of [" +
                            text_of(first->second) + "]; name it once, with the sum of the " +
                            "weights");
    }
    parts.push_back(std::move(part));
  }
  if (parts.size() == 1) {
    data->path = std::move(parts.front().path);
  } else {
    data->mixture = std::move(parts);
  }
}

void check_task(Table& table, const std::string& key, const ModelShape& model,
                const DataConfig& data) {
  if (data.mixture.empty() || model.task == Task::Pretraining) return;
  table.fail(key, "names several datasets, and task " + name_of(model.task) +
                      " takes one; name it in data.path");
}

}  // namespace

std::vector<std::string> data_paths(const DataConfig& data) {
  if (data.mixture.empty()) return {data.path};
  std::vector<std::string> paths;
  for (const MixturePart& part : data.mixture) paths.push_back(part.path);
  return paths;
}

std::vector<double> data_weights(const DataConfig& data) {
  if (data.mixture.empty()) return {1.0};
  std::vector<double> weights;
  for (const MixturePart& part : data.mixture) weights.push_back(part.weight);
  return weights;
}

std::string data_name(const DataConfig& data) { return base::join(data_paths(data), ", "); }

std::string data_path_key(const DataConfig& data, std::size_t index) {
  return data.mixture.empty() ? "data.path" : "data.mixture[" + text_of(index) + "].path";
}

void change_data_paths(DataConfig* data,
                       const std::function<std::string(const std::string& path)>& change) {
  if (data->mixture.empty()) data->path = change(data->path);
  for (MixturePart& part : data->mixture) part.path = change(part.path);
}

void read_data(Table& root, const ModelShape& model, DataConfig* data) {
  const int longest = std::min(model.max_positions, kMostLength);
  if (root.is_list("data")) {
    read_mixture(root, "data", data);
    check_task(root, "data", model, *data);
    if (data->max_length <= longest) return;
    root.fail("data", "a list has max_length " + text_of(data->max_length) +
                          ", and the model takes " + text_of(longest) +
                          " tokens; write {mixture: [...], max_length: " + text_of(longest) + "}");
  }
  Table table = root.table("data");
  read_path(table, &data->path);
  if (table.is_list("mixture")) {
    if (!data->path.empty()) {
      table.fail("path", "stands beside data.mixture; use one of the two");
    }
    read_mixture(table, "mixture", data);
  } else {
    (void)table.tables("mixture");  // says what else it should be
  }
  check_task(table, "mixture", model, *data);
  read_range(table, "max_length", &data->max_length, kMinLength, longest);
  read_range(table, "mask_fraction", &data->mask_fraction, 0, 1, Ends::Open);
  read_range(table, "short_fraction", &data->short_fraction, 0, 1);
  table.finish();
}

void require_data(Table& root, const DataConfig& data) {
  if (data.path.empty() && data.mixture.empty()) root.table("data").fail("path", kNoPath);
}

nlohmann::ordered_json data_json(const DataConfig& data) {
  nlohmann::ordered_json json;
  if (data.mixture.empty()) json["path"] = data.path;
  for (const MixturePart& part : data.mixture) {
    json["mixture"].push_back({{"path", part.path}, {"weight", part.weight}});
  }
  json["max_length"] = data.max_length;
  json["mask_fraction"] = data.mask_fraction;
  json["short_fraction"] = data.short_fraction;
  return json;
}

}  // namespace regatta::trainer::contract
