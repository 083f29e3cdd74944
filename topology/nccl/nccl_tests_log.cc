#include "topology/nccl/nccl_tests_log.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "topology/graph/reader_error.h"

namespace regatta::topology::nccl {
namespace {

using Json = nlohmann::json;

struct Program {
  const char* name;
  std::optional<Collective> collective;
};
constexpr Program kPrograms[] = {
    {"all_reduce_perf", Collective::AllReduce},
    {"all_gather_perf", Collective::AllGather},
    {"reduce_scatter_perf", Collective::ReduceScatter},
    {"broadcast_perf", Collective::Broadcast},
    {"reduce_perf", Collective::Reduce},
    {"alltoall_perf", std::nullopt},
    {"sendrecv_perf", std::nullopt},
    {"gather_perf", std::nullopt},
    {"scatter_perf", std::nullopt},
    {"hypercube_perf", std::nullopt},
};

constexpr double kMostMicroseconds = 1e10;  // three hours
constexpr int kMostLogRanks = 1 << 20;

// One of the two measurements of a row.
struct Measured {
  double us = 0, algbw = 0, busbw = 0;
  double wrong = 0;
};

struct RawRow {
  std::size_t line = 0;
  std::uint64_t bytes = 0;
  bool has_operation = false;  // a reduction: "sum"
  std::optional<Measured> out_of_place, in_place;
};

// What both forms contain, before it is judged.
struct RawLog {
  std::vector<RawRow> rows;
  std::string program;
  int nccl_version = 0;
  std::vector<std::pair<int, std::string>> devices;  // rank and host
  std::string gpu_model;
  std::string network;
  bool gpu_direct = false;
  bool cuda_graph = false;
  bool checked = false;
  bool finished = false;
  std::optional<double> out_of_bounds;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlank = " \t\r";
  for (std::size_t at = 0; (at = line.find_first_not_of(kBlank, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// Without what mpirun (--tag-output: "[1,0]<stdout>:") and srun (-l: "0: ") put before each line,
// and without the '#' of comments, which some wrappers strip.
std::string_view plain(std::string_view line) {
  const std::size_t tag = line.substr(0, 40).find("<stdout>:");
  if (!line.empty() && line.front() == '[' && tag != std::string_view::npos) {
    line.remove_prefix(tag + 9);
  }
  const std::size_t digits = line.find_first_not_of("0123456789", line.find_first_not_of(' '));
  if (digits != std::string_view::npos && digits > 0 && digits < 12 && line[digits] == ':' &&
      line.substr(digits, 2) == ": ") {
    line.remove_prefix(digits + 2);
  }
  const std::size_t first = line.find_first_not_of(" \t#");
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

std::optional<std::int64_t> whole_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + label.size());
  const auto words = words_of(rest);
  if (words.empty()) return std::nullopt;
  return base::parse_integer(words[0].substr(0, words[0].find_first_not_of("0123456789")));
}

// A name only where it is a word of its own: "reduce_perf" is no part of "all_reduce_perf".
std::string program_in(std::string_view line) {
  for (const Program& program : kPrograms) {
    const std::size_t at = line.find(program.name);
    if (at == std::string_view::npos) continue;
    const char before = at == 0 ? ' ' : line[at - 1];
    if (before == ' ' || before == '/' || before == '"') return program.name;
  }
  return "";
}

std::optional<double> finite_number(std::string_view text) {
  const auto number = base::parse_number(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

class TextReader {
 public:
  explicit TextReader(const std::string& place) : place_(place) {}

  RawLog read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      take(plain(text.substr(0, end)), text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (columns_.empty())
      graph::fail_at(place_, 0, "it has no table of nccl-tests; " + complaint_text());
    if (log_.rows.empty()) graph::fail_at(place_, 0, "its table has no rows; " + complaint_text());
    return std::move(log_);
  }

 private:
  void take(std::string_view line, std::string_view whole) {
    const auto words = words_of(line);
    if (words.empty()) return;
    if (log_.program.empty()) log_.program = program_in(whole);
    if (whole.find("NCCL INFO") != std::string_view::npos) return take_info(whole);
    if (words.size() >= 3 && words[0] == "size" && words[1] == "count" && words[2] == "type") {
      return take_header(words);
    }
    if (words[0] == "Rank" || words[0] == "nThread" || words[0] == "nccl-tests") {
      return take_about(line, words);
    }
    if (line.rfind("Out of bounds values", 0) == 0) {
      log_.finished = true;
      if (const auto count = whole_after(line, ":"))
        log_.out_of_bounds = static_cast<double>(*count);
      return;
    }
    // Bytes and elements, which lines of other programs hardly begin with.
    const bool is_row = words.size() >= 2 && base::parse_integer(words[0]) &&
                        base::parse_integer(words[1]) && !columns_.empty();
    if (is_row && !log_.finished) return take_row(words);
    if (complaint_.empty()) note_complaint(whole);
  }

  void take_header(const std::vector<std::string_view>& words) {
    if (!columns_.empty())
      graph::fail_at(place_, line_, "a second table begins; give one at a time");
    for (const std::string_view word : words) {
      if (word == "cputime")
        graph::fail_at(place_, line_, "the times are the CPU's (-C); measure without");
      columns_.emplace_back(word);
      if (word == "timestamp") columns_.emplace_back("");  // day and time of day
    }
    const auto times = std::count(columns_.begin(), columns_.end(), "time");
    if (times != 1 && times != 2) graph::fail_at(place_, line_, "the header has no column 'time'");
  }

  void take_about(std::string_view line, const std::vector<std::string_view>& words) {
    if (words[0] == "nccl-tests") {
      const auto version = whole_after(line, "nccl-library=");
      if (version && *version < 10'000'000) log_.nccl_version = static_cast<int>(*version);
    } else if (words[0] == "nThread") {
      log_.cuda_graph = whole_after(line, "graph:").value_or(0) != 0;
      log_.checked = whole_after(line, "validation:").value_or(0) != 0;
    } else if (words.size() >= 8) {
      const auto rank = base::parse_integer(words[1]);
      const auto on = std::find(words.begin(), words.end(), "on");
      if (!rank || *rank < 0 || *rank >= kMostLogRanks || words.end() - on < 2) return;
      log_.devices.emplace_back(static_cast<int>(*rank), std::string(*(on + 1)));
      const std::size_t bus = line.find("] ");
      if (bus != std::string_view::npos) log_.gpu_model = line.substr(bus + 2, 80);
      while (!log_.gpu_model.empty() && log_.gpu_model.back() <= ' ') log_.gpu_model.pop_back();
    }
  }

  // "… NCCL INFO Using network IB", "… NCCL INFO Channel 00 : 8[0] -> 0[0] [send] via
  // NET/AWS Libfabric/0/GDRDMA".
  void take_info(std::string_view line) {
    constexpr std::string_view kUsing = "Using network ", kVia = " via NET/";
    if (const std::size_t at = line.find(kUsing); at != std::string_view::npos) {
      log_.network = shown_name(line.substr(at + kUsing.size()));
    } else if (const std::size_t via = line.find(kVia); via != std::string_view::npos) {
      const std::string_view rest = line.substr(via + kVia.size());
      if (log_.network.empty()) log_.network = shown_name(rest.substr(0, rest.find('/')));
      if (rest.find("/GDRDMA") != std::string_view::npos) log_.gpu_direct = true;
    }
  }
  static std::string shown_name(std::string_view text) {
    text = text.substr(0, 40);
    while (!text.empty() && text.back() <= ' ') text.remove_suffix(1);
    return base::printable(text);
  }

  double number(const std::vector<std::string_view>& words, std::size_t column) const {
    const auto value = finite_number(words[column]);
    if (!value || *value < 0 || *value > 1e15) {
      graph::fail_at(place_, line_,
                     "column " + columns_[column] + " is '" +
                         std::string(words[column].substr(0, 40)) + "', no measurement");
    }
    return *value;
  }

  void take_row(const std::vector<std::string_view>& words) {
    if (log_.rows.size() >= kMostLogRows) {
      graph::fail_at(place_, line_, "more than " + std::to_string(kMostLogRows) + " rows");
    }
    if (words.size() != columns_.size()) {
      graph::fail_at(place_, line_,
                     "a row has " + std::to_string(words.size()) + " of " +
                         std::to_string(columns_.size()) +
                         " columns; the log is cut off or lines are mixed");
    }
    RawRow row;
    row.line = line_;
    const auto bytes = base::parse_integer(words[0]);
    if (!bytes || *bytes < 0) graph::fail_at(place_, line_, "the size is not a number of bytes");
    row.bytes = static_cast<std::uint64_t>(*bytes);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] == "redop") row.has_operation = words[i] != "none";
      if (columns_[i] != "time") continue;
      if (i + 3 >= columns_.size() || columns_[i + 1] != "algbw" || columns_[i + 2] != "busbw") {
        graph::fail_at(place_, line_, "the header has no algbw and busbw behind 'time'");
      }
      Measured measured = {number(words, i), number(words, i + 1), number(words, i + 2), 0};
      // Old versions print the largest difference ("error"), new ones how many values are wrong;
      // without a check both print N/A. A number is proof of the check where no line says so.
      if (words[i + 3] != "N/A") {
        const double value = number(words, i + 3);
        if (columns_[i + 3] != "error") measured.wrong = value;
        log_.checked = true;
      }
      (row.out_of_place ? row.in_place : row.out_of_place) = measured;
    }
    log_.rows.push_back(row);
  }

  void note_complaint(std::string_view line) {
    for (const char* word : {"error", "Error", "ERROR", "failure", "Failed", "FAILED", "denied"}) {
      // PMIx complains of its storage in every run that went well.
      if (line.find(word) == std::string_view::npos || line.find("PMIX") != line.npos) continue;
      complaint_ = std::string(line.substr(0, 200));
      return;
    }
  }
  std::string complaint_text() const {
    return complaint_.empty() ? "give the output of all_reduce_perf or another of its tests"
                              : "its first line that tells of an error: " + complaint_;
  }

  const std::string& place_;
  RawLog log_;
  std::size_t line_ = 0;
  std::vector<std::string> columns_;
  std::string complaint_;
};

class JsonReader {
 public:
  explicit JsonReader(const std::string& place) : place_(place) {}

  RawLog read(std::string_view text) const {
    constexpr int kMostDepth = 16;
    const Json root = base::json_depth_at_most(text, kMostDepth) ? base::parse_json<Json>(text)
                                                                 : Json(Json::value_t::discarded);
    if (!root.is_object()) graph::fail_at(place_, 0, "it is no JSON object; the file is cut off");
    if (root.value("version", Json()) != Json(1)) {
      graph::fail_at(place_, 0, "it is no JSON of nccl-tests in version 1");
    }
    RawLog log;
    log.nccl_version = static_cast<int>(whole(root, "nccl_version").value_or(0));
    for (const Json& word : list(root, "args")) {
      if (word.is_string() && log.program.empty()) {
        log.program = program_in(word.get_ref<const std::string&>());
      }
    }
    if (root.contains("config")) read_config(root["config"], &log);
    std::size_t number = 0;
    for (const Json& row : list(root, "results")) {
      log.rows.push_back(read_row(row, ++number));
      if (counts_wrong(row)) log.checked = true;
    }
    if (log.rows.empty()) graph::fail_at(place_, 0, "it has no results; the run failed");
    if (root.contains("out_of_bounds") && root["out_of_bounds"].is_object()) {
      log.finished = true;
      const auto count = whole(root["out_of_bounds"], "count");
      if (count) log.out_of_bounds = static_cast<double>(*count);
    }
    return log;
  }

 private:
  static std::optional<std::int64_t> whole(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer()) return std::nullopt;
    const auto value =
        found->is_number_unsigned() && found->get<std::uint64_t>() > (std::uint64_t{1} << 62)
            ? -1
            : found->get<std::int64_t>();
    return value < 0 ? std::nullopt : std::optional(value);
  }
  static std::string text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  }
  static Json list(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_array() ? *found : Json::array();
  }

  static void read_config(const Json& config, RawLog* log) {
    if (!config.is_object()) return;
    log->cuda_graph = whole(config, "graph").value_or(0) != 0;
    log->checked = whole(config, "validation").value_or(0) != 0;
    for (const Json& device : list(config, "devices")) {
      if (!device.is_object()) continue;
      const auto rank = whole(device, "rank");
      if (!rank || *rank >= kMostLogRanks) continue;
      log->devices.emplace_back(static_cast<int>(*rank), text(device, "hostname"));
      log->gpu_model = text(device, "device_info").substr(0, 80);
    }
  }

  std::optional<Measured> read_measured(const Json& row, const char* key,
                                        std::size_t number) const {
    const auto found = row.find(key);
    if (found == row.end() || found->is_null()) return std::nullopt;
    const std::string where = "result " + std::to_string(number) + ": " + key + ": ";
    if (!found->is_object()) graph::fail_at(place_, 0, where + "is not an object");
    if (found->contains("cpu_time")) {
      graph::fail_at(place_, 0, where + "the times are the CPU's (-C); measure without");
    }
    const auto value = [&](const char* name) {
      const auto at = found->find(name);
      const double figure = at != found->end() && at->is_number() ? at->get<double>() : -1;
      if (!(figure >= 0) || figure > 1e15) {
        graph::fail_at(place_, 0, where + name + " is not a measurement");
      }
      return figure;
    };
    Measured measured = {value("time"), value("alg_bw"), value("bus_bw"), 0};
    if (found->contains("nwrong") && !(*found)["nwrong"].is_null())
      measured.wrong = value("nwrong");
    return measured;
  }

  static bool counts_wrong(const Json& row) {
    for (const char* key : {"out_of_place", "in_place"}) {
      const auto found = row.find(key);
      if (found != row.end() && found->is_object() && whole(*found, "nwrong")) return true;
    }
    return false;
  }

  RawRow read_row(const Json& json, std::size_t number) const {
    if (number > kMostLogRows) {
      graph::fail_at(place_, 0, "more than " + std::to_string(kMostLogRows) + " results");
    }
    const auto bytes = json.is_object() ? whole(json, "size") : std::nullopt;
    if (!bytes) graph::fail_at(place_, 0, "result " + std::to_string(number) + " has no size");
    RawRow row;
    row.bytes = static_cast<std::uint64_t>(*bytes);
    const std::string operation = text(json, "redop");
    row.has_operation = !operation.empty() && operation != "none";
    row.out_of_place = read_measured(json, "out_of_place", number);
    row.in_place = read_measured(json, "in_place", number);
    return row;
  }

  const std::string& place_;
};

// ---- what was read, judged ----

void check_row(const RawRow& row, const std::string& place) {
  if (!row.out_of_place && !row.in_place) graph::fail_at(place, row.line, "a row has no time");
  for (const auto& measured : {row.out_of_place, row.in_place}) {
    if (!measured) continue;
    if (measured->wrong > 0) {
      graph::fail_at(place, row.line,
                     "the test found wrong results; find out why before you use its times");
    }
    if (measured->us > kMostMicroseconds || (row.bytes > 0 && measured->us <= 0)) {
      graph::fail_at(place, row.line, "a time is none that a call can take");
    }
    // Below 1 GB/s two decimals say too little.
    const double algbw = static_cast<double>(row.bytes) / (measured->us * 1000);
    if (measured->algbw >= 1 && std::abs(algbw - measured->algbw) > 0.05 * measured->algbw) {
      graph::fail_at(place, row.line,
                     "bytes, time and algbw do not fit together; columns are missing");
    }
  }
}

struct Range {
  double low, high;
};

// busbw ÷ algbw, as near as the rounding to two decimals lets it be known.
Range bus_factor(const RawLog& log) {
  Range range = {0, 1e9};
  for (const RawRow& row : log.rows) {
    for (const auto& measured : {row.out_of_place, row.in_place}) {
      if (!measured || measured->algbw < 0.1) continue;
      const double half = 0.00501;
      range.low = std::max(range.low, (measured->busbw - half) / (measured->algbw + half));
      range.high = std::min(range.high, (measured->busbw + half) / (measured->algbw - half));
    }
  }
  return range;
}

// The only number of ranks for which busbw is so many times algbw; 0 when there are several.
int ranks_by_factor(Collective collective, const Range& factor) {
  const double most = collective == Collective::AllReduce ? 2 : 1;
  if (collective == Collective::Broadcast || collective == Collective::Reduce) return 0;
  if (!(factor.low < factor.high) || factor.high >= most || factor.low <= 0) return 0;
  // factor = most · (n − 1) / n
  const double low = std::ceil(most / (most - factor.low));
  const double high = std::floor(most / (most - factor.high));
  return low == high && low >= 2 && low < kMostLogRanks ? static_cast<int>(low) : 0;
}

double factor_of(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (collective == Collective::AllReduce) return 2 * share;
  const bool rooted = collective == Collective::Broadcast || collective == Collective::Reduce;
  return rooted ? 1 : share;
}

void tell_collective(const RawLog& raw, const Range& factor, NcclTestLog* log) {
  for (const Program& program : kPrograms) {
    if (raw.program == program.name) {
      log->collective = program.collective;
      return;
    }
  }
  const bool reduces = raw.rows.front().has_operation;
  if (factor.high <= 0 || factor.low >= 1e8) return;
  if (factor.low > 1.0) {
    log->collective = Collective::AllReduce;
  } else if (factor.high < 1.0) {
    log->collective = reduces ? Collective::ReduceScatter : Collective::AllGather;
  } else if (raw.devices.size() == 2 && reduces) {
    log->collective = Collective::AllReduce;  // of two ranks, which "reduce" would be, too
  }
  if (log->collective) {
    log->notes.push_back(std::string("The log names no test; by its bandwidths it is ") +
                         name_of(*log->collective) + ".");
  }
}

void tell_ranks(const RawLog& raw, const Range& factor, const std::string& place,
                NcclTestLog* log) {
  std::set<int> listed;
  std::set<std::string> hosts;
  for (const auto& [rank, host] : raw.devices) {
    if (!listed.insert(rank).second) {
      graph::fail_at(place, 0,
                     "rank " + std::to_string(rank) +
                         " is listed twice: the test was built without MPI, and each of its "
                         "processes ran alone; build it with MPI=1");
    }
    hosts.insert(host);
  }
  if (!listed.empty()) log->ranks = *listed.rbegin() + 1;
  if (log->ranks == static_cast<int>(listed.size())) log->nodes = static_cast<int>(hosts.size());
  if (!log->collective) return;
  if (log->ranks == 0) {
    log->ranks = ranks_by_factor(*log->collective, factor);
    if (log->ranks != 0) {
      log->notes.push_back("The log lists no devices; by its bandwidths it is of " +
                           std::to_string(log->ranks) + " ranks.");
    }
    return;
  }
  const double expected = factor_of(*log->collective, log->ranks);
  // Narrow ranges of many rows may miss each other by the rounding of the times.
  if (expected < factor.low - 0.01 || expected > factor.high + 0.01) {
    graph::fail_at(place, 0,
                   "busbw and algbw are not those of " + std::string(name_of(*log->collective)) +
                       " over the " + std::to_string(log->ranks) + " ranks that it lists");
  }
}

void take_rows(const RawLog& raw, NcclTestLog* log) {
  for (const RawRow& row : raw.rows) {
    if (row.bytes == 0) continue;
    NcclTestRow kept;
    kept.bytes = row.bytes;
    if (row.out_of_place) kept.out_of_place_us = row.out_of_place->us;
    if (row.in_place) kept.in_place_us = row.in_place->us;
    log->rows.push_back(kept);
  }
  std::stable_sort(log->rows.begin(), log->rows.end(),
                   [](const NcclTestRow& a, const NcclTestRow& b) { return a.bytes < b.bytes; });
  // A size that was measured again: the later one stands.
  auto& rows = log->rows;
  for (std::size_t i = 1; i < rows.size();) {
    if (rows[i].bytes == rows[i - 1].bytes) {
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i - 1));
    } else {
      ++i;
    }
  }
  double least = 1e300;  // of all larger calls
  std::size_t disturbed = 0;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    constexpr double kFar = 1.3;
    row->disturbed = row->us() > kFar * least;
    if (row->disturbed) ++disturbed;
    least = std::min(least, row->us());
  }
  if (disturbed > 0) {
    log->notes.push_back(std::to_string(disturbed) +
                         " of the calls took much longer than a larger one; they are left out.");
  }
}

NcclTestLog judged(const RawLog& raw, const std::string& place) {
  for (const RawRow& row : raw.rows) check_row(row, place);
  if (raw.out_of_bounds.value_or(0) > 0) {
    graph::fail_at(place, 0, "the test found wrong results; find out why before you use its times");
  }
  NcclTestLog log;
  log.program = raw.program;
  log.nccl_version = raw.nccl_version;
  log.gpu_model = raw.gpu_model;
  log.network = raw.network;
  log.gpu_direct = raw.gpu_direct;
  log.cuda_graph = raw.cuda_graph;
  log.checked = raw.checked;
  const RawRow& last = raw.rows.back();
  const Measured& measured = last.in_place ? *last.in_place : *last.out_of_place;
  if (measured.algbw >= 0.1 && measured.busbw == 0) {
    graph::fail_at(place, last.line,
                   "busbw is 0: each process ran alone, with one rank; start them by MPI");
  }
  const Range factor = bus_factor(raw);
  tell_collective(raw, factor, &log);
  tell_ranks(raw, factor, place, &log);
  take_rows(raw, &log);
  if (log.rows.empty()) graph::fail_at(place, 0, "all of its calls are of 0 bytes");
  if (!raw.finished) log.notes.push_back("The log ends before the test's summary.");
  if (!raw.checked) log.notes.push_back("The test did not check its results.");
  return log;
}

}  // namespace

NcclTestLog parse_nccl_tests_log(std::string_view text, const std::string& place) {
  if (text.size() > kMostLogBytes) {
    graph::fail_at(place, 0,
                   "it has " + base::human_bytes(text.size()) + ", too much for nccl-tests");
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return judged(JsonReader(place).read(text), place);
  }
  return judged(TextReader(place).read(text), place);
}

}  // namespace regatta::topology::nccl
