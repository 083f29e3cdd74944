#include "topology/sources/smi_topo.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ascii.h"
#include "base/text.h"
#include "base/wording.h"
#include "topology/graph/cpu_mask.h"
#include "topology/graph/nccl_speeds.h"
#include "topology/graph/reader_error.h"
#include "topology/sources/smi_text.h"

namespace regatta::topology::sources {
namespace {

constexpr const char* kLabels[] = {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"};
constexpr std::string_view kP2pCells[] = {"OK", "NS", "CNS", "GNS", "TNS", "DR"};

struct Device {
  std::string column;  // "GPU3", "NIC0", "mlx5_0"
  std::string cpus;
  std::optional<std::int64_t> numa;
  std::optional<std::int64_t> gpu_numa;

  [[nodiscard]] std::optional<std::int64_t> number_after(std::string_view prefix) const {
    if (!column.starts_with(prefix) || column.size() == prefix.size()) return std::nullopt;
    if (column[prefix.size()] < '0' || column[prefix.size()] > '9') return std::nullopt;
    return base::parse_integer(std::string_view(column).substr(prefix.size()));
  }
  [[nodiscard]] bool is_gpu() const { return number_after("GPU").has_value(); }
};

bool is_device_name(std::string_view cell) {
  return !cell.empty() && std::all_of(cell.begin(), cell.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == ':';
  });
}

std::optional<int> nvlinks_in(std::string_view cell) {
  if (!cell.starts_with("NV")) return std::nullopt;
  const auto count = base::parse_integer(cell.substr(2));
  if (!count || *count < 1 || *count > 1000) return std::nullopt;
  return static_cast<int>(*count);
}

bool is_path(std::string_view cell) {
  return cell == "SYS" || cell == "SOC" || cell == "NODE" || cell == "PHB" || cell == "PXB" ||
         cell == "PIX" || nvlinks_in(cell);
}

class Matrix {
 public:
  Matrix(std::string_view text, const SmiContext& context, std::vector<graph::Finding>* findings)
      : context_(context), findings_(findings), lines_(smi_lines(text, context.place)) {}

  graph::Graph read() {
    read_header();
    read_rows();
    check_cells();
    read_rest();
    add_devices();
    add_paths();
    add_nvlinks();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    graph::fail_at(context_.place, at_ < lines_.size() ? at_ + 1 : 0, what);
  }

  // Cells of a line; labels at the end of a header are one cell each, also between blanks.
  std::vector<std::string> cells_of(std::string_view line) const {
    std::vector<std::string> cells;
    if (line.find('\t') != std::string_view::npos) {
      for (const std::string& cell : base::split(line, '\t'))
        cells.emplace_back(base::trimmed(cell));
      return cells;
    }
    std::string_view rest = base::trimmed(line);
    while (!rest.empty()) {
      std::size_t end = rest.find(' ');
      for (const std::string_view label : kLabels) {
        if (rest.starts_with(label)) end = label.size();
      }
      cells.emplace_back(rest.substr(0, end));
      rest = end >= rest.size() ? std::string_view() : base::trimmed(rest.substr(end));
    }
    return cells;
  }

  // The columns of a header, nothing when the line is none.
  static std::optional<std::vector<std::string>> columns_of(std::vector<std::string> cells) {
    while (!cells.empty() && cells.front().empty()) cells.erase(cells.begin());
    while (!cells.empty() && cells.back().empty()) cells.pop_back();
    if (cells.empty() || !Device{cells.front(), {}, {}, {}}.is_gpu()) return std::nullopt;
    for (const std::string& cell : cells) {
      const bool label =
          std::find(std::begin(kLabels), std::end(kLabels), cell) != std::end(kLabels);
      if (cell == "X" || is_path(cell) || (!label && !is_device_name(cell))) return std::nullopt;
    }
    return cells;
  }

  void read_header() {
    for (; at_ < lines_.size(); ++at_) {
      const auto columns = columns_of(cells_of(lines_[at_]));
      if (!columns) continue;
      std::set<std::string> names;
      for (const std::string& column : *columns) {
        const auto label = std::find(std::begin(kLabels), std::end(kLabels), column);
        if (label != std::end(kLabels)) {
          labels_ = static_cast<std::size_t>(label - std::begin(kLabels)) + 1;
        } else if (labels_ != 0) {
          fail("the column '" + column + "' stands behind the affinities");
        } else {
          if (!names.insert(column).second) fail("two columns are '" + column + "'");
          for (const std::string prefix : {"GPU", "NIC"}) {
            const auto number = Device{column, {}, {}, {}}.number_after(prefix);
            if (number && column != prefix + std::to_string(*number)) {
              fail("'" + column.substr(0, 40) + "' is not a number of a device");
            }
          }
          devices_.push_back({column, {}, {}, {}});
        }
      }
      if (devices_.size() > kMostSmiDevices) {
        fail("there are " + std::to_string(devices_.size()) + " columns; at most " +
             std::to_string(kMostSmiDevices) + " are read");
      }
      ++at_;
      return;
    }
    fail("there is no line of columns 'GPU0 …'; give the whole output of nvidia-smi topo -m");
  }

  void read_rows() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const bool gpus_are_read =
          std::none_of(devices_.begin() + static_cast<std::ptrdiff_t>(i), devices_.end(),
                       [](const Device& device) { return device.is_gpu(); });
      if (findings_ != nullptr && gpus_are_read && is_cut_at(devices_[i])) return keep_gpus(i);
      read_row(&devices_[i]);
    }
  }

  // Cells of the next line that is not empty, the row's name first; none at the end.
  std::vector<std::string> next_row() {
    while (at_ < lines_.size() && base::trimmed(lines_[at_]).empty()) ++at_;
    if (at_ == lines_.size()) return {};
    std::vector<std::string> cells = cells_of(lines_[at_]);
    // "topo -p2p" puts a blank before its rows, and pasted text anything.
    while (!cells.empty() && cells.front().empty()) cells.erase(cells.begin());
    return cells;
  }
  [[nodiscard]] bool is_last_line() const {
    return std::all_of(lines_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, lines_.end(),
                       [](const std::string& line) { return base::trimmed(line).empty(); });
  }

  // Whether the text ends before the end of this device's row.
  bool is_cut_at(const Device& device) {
    const std::vector<std::string> cells = next_row();
    if (cells.empty() || cells.front() != device.column) return true;
    if (cells.size() < devices_.size() + 1) return true;
    const std::string& last = cells[devices_.size()];
    return is_last_line() && last != "X" && !is_path(last);
  }

  // Names of NICs follow the matrix, so those of a matrix that is cut off have none, and would
  // stand beside themselves once another source is merged.
  void keep_gpus(std::size_t rows) {
    graph::Finding finding;
    finding.id = "reading.cut_off";
    finding.subject = context_.place;
    std::vector<Device> gpus;
    std::vector<std::vector<std::string>> cells;
    for (std::size_t i = 0; i < rows; ++i) {
      if (!devices_[i].is_gpu()) continue;
      gpus.push_back(devices_[i]);
      std::vector<std::string>& row = cells.emplace_back();
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        if (devices_[j].is_gpu()) row.push_back(cells_[i][j]);
      }
    }
    const std::size_t nics = devices_.size() - gpus.size();
    finding.words = base::printable(context_.place) + ": the matrix is cut off at the row of " +
                    devices_[rows].column + "; " + base::plural(gpus.size(), "GPU") + " read, " +
                    base::plural(nics, "NIC") + " left out";
    finding.evidence = {
        {base::printable(context_.place),
         std::to_string(rows) + " of " + std::to_string(devices_.size()) + " rows"}};
    finding.remedy = "give the whole output of nvidia-smi topo -m";
    findings_->push_back(std::move(finding));
    devices_ = std::move(gpus);
    cells_ = std::move(cells);
    is_cut_ = true;
  }

  void read_row(Device* device) {
    std::vector<std::string> cells = next_row();
    if (at_ == lines_.size()) {
      fail("the matrix ends before the row of " + device->column + ", so it is cut off");
    }
    if (cells.empty() || cells.front() != device->column) {
      fail("the row of " + device->column + " is missing, so the matrix is cut off");
    }
    if (cells.size() < devices_.size() + 1) {
      fail("the row of " + device->column + " has " + std::to_string(cells.size() - 1) + " of " +
           std::to_string(devices_.size()) + " cells, so it is cut off");
    }
    std::vector<std::string>& row = cells_.emplace_back();
    for (std::size_t i = 1; i <= devices_.size(); ++i) {
      std::string& cell = cells[i];
      if (std::find(std::begin(kP2pCells), std::end(kP2pCells), cell) != std::end(kP2pCells)) {
        fail("'" + cell +
             "' belongs to nvidia-smi topo -p2p, which tells what is allowed and not "
             "what connects; run nvidia-smi topo -m");
      }
      const bool self = i == cells_.size();
      if (self ? cell != "X" : !is_path(cell)) {
        fail("'" + base::printable(cell.substr(0, 40)) + "' cannot connect " + device->column +
             " and " + devices_[i - 1].column);
      }
      row.push_back(cell == "SOC" ? "SYS" : std::move(cell));
    }
    cells.erase(cells.begin(), cells.begin() + 1 + static_cast<std::ptrdiff_t>(devices_.size()));
    read_affinity(device, std::move(cells), lines_[at_].find('\t') != std::string_view::npos);
    ++at_;
  }

  // With tabs each cell stands in its place, except that drivers with a third column put an empty
  // one before it. Between blanks an empty cell leaves no trace: what looks like a list of CPUs is
  // one, and a lone number is a NUMA domain.
  void read_affinity(Device* device, std::vector<std::string> cells, bool tabs) const {
    while (!cells.empty() && cells.back().empty()) cells.pop_back();
    if (device->is_gpu()) check_end(*device, cells, tabs);
    if (cells.empty()) return;
    if (tabs) {
      if (cells.size() == 4 && labels_ == 3 && cells[2].empty()) cells.erase(cells.begin() + 2);
    } else if (cells.size() < labels_ && cells[0].find_first_of("-,") == std::string::npos) {
      cells.insert(cells.begin(), "");
    }
    if (cells.size() > labels_) {
      fail("the row of " + device->column + " has more cells than the matrix has columns");
    }
    if (device->is_gpu()) check_affinity(*device, cells);
    cells.resize(3);
    for (std::string& cell : cells) {
      if (cell == "N/A") cell.clear();
    }
    if (!cells[0].empty() && !graph::parse_cpu_list(cells[0])) {
      fail("'" + base::printable(cells[0].substr(0, 40)) + "' is not a list of CPUs");
    }
    device->cpus = cells[0];
    // The memory of a GPU may be near to several domains ("0-1"): then it belongs to none of them.
    if (!cells[1].empty() && !smi_is_cpu_list(cells[1]) && !base::parse_integer(cells[1])) {
      fail("'" + base::printable(cells[1].substr(0, 40)) + "' is no NUMA domain");
    }
    if (!cells[2].empty() && !base::parse_integer(cells[2])) {
      fail("'" + base::printable(cells[2].substr(0, 40)) + "' is not the number of a NUMA domain");
    }
    device->numa = base::parse_integer(cells[1]);
    device->gpu_numa = base::parse_integer(cells[2]);
  }

  // Behind a list of CPUs nvidia-smi prints a domain, or N/A. A row without has lost it to the cell
  // before ("64-95" and "0" become "64-950") or to a cut.
  void check_affinity(const Device& device, const std::vector<std::string>& cells) const {
    if (cells[0].empty() || cells[0] == "N/A") return;
    for (std::size_t i = 1; i < labels_; ++i) {
      if (i < cells.size() && !cells[i].empty()) continue;
      fail("the row of " + device.column + " has '" + base::printable(cells[0].substr(0, 40)) +
           "' as " + kLabels[0] + " and no " + kLabels[i] +
           ": two cells run together, or the row is cut off; give the whole output of nvidia-smi "
           "topo -m");
    }
  }

  // A text that ends in a row looks like one without CPUs: "6" of "64-95  1" like a domain.
  void check_end(const Device& device, const std::vector<std::string>& cells, bool tabs) const {
    const bool has_cpus = !cells.empty() && (tabs || cells.size() == labels_ ||
                                             cells[0].find_first_of("-,") != std::string::npos);
    const bool others_have_cpus = std::any_of(
        devices_.begin(), devices_.end(), [](const Device& each) { return !each.cpus.empty(); });
    if (has_cpus || !others_have_cpus || !is_last_line()) return;
    fail("the text ends in the row of " + device.column +
         ", before the end of its CPUs; give the whole output of nvidia-smi topo -m");
  }

  void check_cells() const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (cells_[i][j] != cells_[j][i]) {
          graph::fail_at(context_.place, 0,
                         devices_[j].column + " and " + devices_[i].column + " are connected by " +
                             cells_[j][i] + " in one row and by " + cells_[i][j] +
                             " in the other; run nvidia-smi topo -m again");
        }
        if (nvlinks_in(cells_[i][j]) && !(devices_[i].is_gpu() && devices_[j].is_gpu())) {
          graph::fail_at(context_.place, 0,
                         devices_[j].column + " and " + devices_[i].column +
                             " cannot be connected by NVLinks (" + cells_[i][j] + ")");
        }
      }
    }
  }

  // The legends, and nothing of a second matrix.
  void read_rest() {
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view line = base::trimmed(lines_[at_]);
      if (columns_of(cells_of(lines_[at_]))) {
        fail("a second matrix begins here; give the output of one machine");
      }
      if (is_cut_) continue;
      const std::size_t colon = line.find(": ");
      if (!line.starts_with("NIC") || colon == std::string_view::npos) continue;
      const std::string name(base::trimmed(line.substr(colon + 2)));
      const auto is_column = [&](const Device& device) {
        return device.column == line.substr(0, colon);
      };
      if (std::none_of(devices_.begin(), devices_.end(), is_column)) {
        fail("the legend names '" +
             base::printable(line.substr(0, std::min<std::size_t>(colon, 40))) +
             "', which is not a column, so the matrix is cut off");
      }
      if (!is_device_name(name)) fail("the legend has no name for a NIC");
      if (!legend_.emplace(line.substr(0, colon), name).second) fail("a NIC has two names");
    }
    std::set<std::string> names;
    for (const Device& device : devices_) names.insert(device.column);
    for (const auto& [column, name] : legend_) {
      if (!names.insert(name).second) fail("two NICs are '" + name + "'");
    }
  }

  void add_devices() {
    source_ = graph_.add_source(graph::Source::NvidiaSmi, context_.place);
    derived_ = graph_.add_source(graph::Source::Derived, context_.place);
    node_ = graph_.add(graph::Kind::Node, context_.node);
    for (const Device& device : devices_) {
      const auto gpu = device.number_after("GPU");
      vertices_.push_back(gpu ? add_gpu(device, *gpu) : add_nic(device));
    }
    add_cpus();
  }

  graph::VertexIndex add_gpu(const Device& device, std::int64_t index) {
    const graph::VertexIndex gpu =
        graph_.add(graph::Kind::Gpu, context_.node + "/gpu#" + std::to_string(index),
                   numa_vertex(device.numa));
    graph_.set(gpu, graph::key::kIndex, index, source_);
    if (device.numa) graph_.set(gpu, graph::key::kNuma, *device.numa, source_);
    if (!device.cpus.empty()) graph_.set(gpu, graph::key::kCpus, device.cpus, source_);
    if (device.gpu_numa) graph_.set(gpu, graph::key::kGpuNuma, *device.gpu_numa, source_);
    if (context_.model.empty()) return gpu;
    graph_.set(gpu, graph::key::kModel, context_.model, source_);
    if (const auto sm = graph::compute_capability_of(context_.model)) {
      graph_.set(gpu, graph::key::kComputeCapability, *sm, derived_);
    }
    return gpu;
  }

  // All but SYS stays inside of a NUMA domain, so GPUs that are nearer tell where a NIC is.
  std::optional<std::int64_t> numa_beside(const Device& nic) const {
    const auto row = static_cast<std::size_t>(&nic - devices_.data());
    std::optional<std::int64_t> numa;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!devices_[i].is_gpu() || !devices_[i].numa || cells_[row][i] == "SYS") continue;
      if (numa && *numa != *devices_[i].numa) return std::nullopt;
      numa = devices_[i].numa;
    }
    return numa;
  }

  graph::VertexIndex add_nic(const Device& device) {
    const auto number = device.number_after("NIC");
    const auto named = legend_.find(device.column);
    const std::string name = !number ? device.column : named == legend_.end() ? "" : named->second;
    const auto numa = numa_beside(device);
    const graph::VertexIndex nic = graph_.add(
        graph::Kind::Nic,
        context_.node + (name.empty() ? "/nic#" + std::to_string(*number) : "/nic:" + name),
        numa_vertex(numa));
    if (!name.empty()) graph_.set(nic, graph::key::kName, name, source_);
    if (numa) graph_.set(nic, graph::key::kNuma, *numa, derived_);
    return nic;
  }

  graph::VertexIndex numa_vertex(std::optional<std::int64_t> numa) {
    if (!numa || *numa < 0) return node_;
    return graph_.add(graph::Kind::Numa, context_.node + "/numa:" + std::to_string(*numa), node_);
  }

  // A domain has the CPUs that all of its GPUs are near to; where they differ (a container sees
  // only some of them) only the GPUs say so.
  void add_cpus() {
    std::map<std::int64_t, std::set<std::string>> cpus;
    for (const Device& device : devices_) {
      if (device.numa && *device.numa >= 0 && !device.cpus.empty()) {
        cpus[*device.numa].insert(device.cpus);
      }
    }
    for (const auto& [numa, lists] : cpus) {
      if (lists.size() == 1)
        graph_.set(numa_vertex(numa), graph::key::kCpus, *lists.begin(), source_);
    }
  }

  void add_paths() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        if (i == j) continue;
        graph_.set(vertices_[i], graph::key::kPath + graph_.vertex(vertices_[j]).id, cells_[i][j],
                   source_);
      }
    }
  }

  void add_nvlinks() {
    const auto sm = graph::compute_capability_of(context_.model);
    const int most = sm ? graph::nvlinks_of(*sm) : graph::kMostNvlinks;
    std::vector<int> sums(devices_.size()), largest(devices_.size());
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (const std::string& cell : cells_[i]) {
        const int links = nvlinks_in(cell).value_or(0);
        sums[i] += links;
        largest[i] = std::max(largest[i], links);
      }
    }
    const bool switched =
        std::any_of(sums.begin(), sums.end(), [&](int sum) { return sum > most; });
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (sums[i] == 0) continue;
      const std::int64_t links = switched ? largest[i] : sums[i];
      graph_.set(vertices_[i], graph::key::kNvlinks, links, source_);
      if (switched) {
        add_link(vertices_[i],
                 graph_.add(graph::Kind::NvSwitch, context_.node + "/nvswitch#0", node_), links,
                 sm);
        continue;
      }
      for (std::size_t j = 0; j < i; ++j) {
        if (const auto count = nvlinks_in(cells_[i][j])) {
          add_link(vertices_[i], vertices_[j], *count, sm);
        }
      }
    }
  }

  void add_link(graph::VertexIndex a, graph::VertexIndex b, std::int64_t count,
                std::optional<std::int64_t> sm) {
    const std::uint32_t link = graph_.connect(graph::LinkKind::NvLink, a, b);
    graph_.set_link(link, graph::key::kCount, count, source_);
    const auto speed = sm ? graph::nvlink_gb_per_s(*sm) : std::nullopt;
    if (speed)
      graph_.set_link(link, graph::key::kBandwidth, *speed * static_cast<double>(count), derived_);
  }

  const SmiContext& context_;
  std::vector<graph::Finding>* findings_;  // null: what is cut off is refused
  std::vector<std::string> lines_;
  std::size_t at_ = 0;
  bool is_cut_ = false;
  std::size_t labels_ = 0;  // columns behind the devices
  std::vector<Device> devices_;
  std::vector<std::vector<std::string>> cells_;
  std::map<std::string, std::string, std::less<>> legend_;

  graph::Graph graph_;
  std::uint32_t source_ = 0, derived_ = 0;
  graph::VertexIndex node_ = graph::kNoVertex;
  std::vector<graph::VertexIndex> vertices_;  // by column
};

}  // namespace

graph::Graph read_smi_topo(std::string_view text, const SmiContext& context,
                           std::vector<graph::Finding>* findings) {
  return Matrix(text, context, findings).read();
}

}  // namespace regatta::topology::sources
