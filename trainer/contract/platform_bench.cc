#include "trainer/contract/platform_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 4;
constexpr std::size_t kMostNameBytes = 80, kMostTextBytes = 300;
constexpr double kMostRepeats = 1e6, kMostThreads = 1 << 20;
constexpr double kMostUtc = 253402300799;  // the end of the year 9999
constexpr double kMostBytes = 1e18;
// Ratios of such values, and their squares, are numbers.
constexpr double kLeastValue = 1e-30, kMostValue = 1e30;
constexpr std::array<std::string_view, 5> kUnits = {"FLOP/s", "B/s", "samples/s", "s", "1"};

// Words of a-z, 0-9 and _ with single dots between them.
bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes) return false;
  char before = '.';
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!word && (c != '.' || before == '.')) return false;
    before = c;
  }
  return before != '.';
}

// An object of a bench, read key by key; finish() throws for what nobody asked for.
class Reader {
 public:
  Reader(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) refuse("", "is not an object");
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    const std::string name = place_.empty() ? key : key.empty() ? place_ : place_ + "." + key;
    throw base::Error(base::Code::User, (name.empty() ? "it" : "'" + name + "'") + " " + what,
                      name);
  }
  [[nodiscard]] const Json& at(const char* key) {
    known_.insert(key);
    const auto found = json_.find(key);
    if (found == json_.end()) refuse(key, "is missing");
    return *found;
  }
  [[nodiscard]] double number(const char* key, double low, double high) {
    const Json& value = at(key);
    if (!value.is_number()) refuse(key, "is not a number");
    const auto number = value.get<double>();
    if (!std::isfinite(number) || number < low || number > high) {
      refuse(key, "is " + base::json_text(value) + ", which is out of range");
    }
    return number;
  }
  [[nodiscard]] std::int64_t integer(const char* key, double low, double high) {
    const double value = number(key, low, high);
    if (value != std::floor(value)) refuse(key, "is not a whole number");
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] std::string text(const char* key) {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, "is not a text");
    std::string text = value.get<std::string>();
    if (text.size() > kMostTextBytes || !base::is_utf8(text)) {
      refuse(key, "has more than " + std::to_string(kMostTextBytes) + " bytes, or is not UTF-8");
    }
    return text;
  }
  // Empty where it is absent.
  [[nodiscard]] std::string text_or_none(const char* key) {
    known_.insert(key);
    return json_.contains(key) ? text(key) : "";
  }
  [[nodiscard]] std::string name(const char* key) {
    std::string name = text(key);
    if (!is_name(name)) {
      refuse(key, "is '" + base::printable(name) + "'; use words of a-z, 0-9 and _ with dots");
    }
    return name;
  }
  [[nodiscard]] std::string choice(const char* key, const auto& choices) {
    std::string value = text(key);
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      refuse(key, "is '" + base::printable(value) + "', which is none of those there are");
    }
    return value;
  }
  [[nodiscard]] const Json& list(const char* key) {
    const Json& value = at(key);
    if (!value.is_array()) refuse(key, "is not a list");
    if (value.size() > kMostBenchFigures) {
      refuse(key, "has more than " + std::to_string(kMostBenchFigures) + " entries");
    }
    return value;
  }
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (known_.count(key) == 0) refuse(base::printable(key.substr(0, 80)), "is unknown");
    }
  }

 private:
  const Json& json_;
  std::string place_;
  std::set<std::string> known_;
};

BenchFigure read_figure(const Json& json, const std::string& place) {
  Reader reader(json, place);
  BenchFigure figure;
  figure.name = reader.name("name");
  figure.unit = reader.choice("unit", kUnits);
  figure.value = reader.number("value", 0, kMostValue);
  if (figure.value <= 0) reader.refuse("value", "is 0; what a machine lacks belongs in 'absent'");
  if (figure.value < kLeastValue) reader.refuse("value", "is less than anything takes");
  figure.spread = reader.number("spread", 0, kMostValue);
  figure.repeats = static_cast<int>(reader.integer("repeats", 1, kMostRepeats));
  constexpr std::array<std::string_view, 2> kBetter = {"higher", "lower"};
  figure.higher_is_better = reader.choice("better", kBetter) == "higher";
  figure.work = reader.text("work");
  reader.finish();
  return figure;
}

PlatformBench read(const Json& json) {
  Reader top(json, "");
  (void)top.integer("format", kPlatformBenchFormat, kPlatformBenchFormat);
  PlatformBench bench;
  bench.workload = static_cast<int>(top.integer("workload", 1, kMostRepeats));
  bench.host = top.text("host");
  bench.utc = top.number("utc", 0, kMostUtc);
  (void)top.text("at");  // the same for people
  bench.seconds = top.number("seconds", 0, 1e9);
  bench.version = top.text("version");
  bench.commit = top.text_or_none("commit");
  Reader machine(top.at("machine"), "machine");
  bench.processor = machine.text_or_none("processor");
  bench.threads = static_cast<int>(machine.integer("threads", 1, kMostThreads));
  bench.memory_bytes = machine.integer("memory_bytes", 0, kMostBytes);
  bench.gpu = machine.text_or_none("gpu");
  bench.instruction_set = machine.text_or_none("instruction_set");
  bench.products = machine.text_or_none("products");
  bench.file_system = machine.text_or_none("file_system");
  bench.load_average = machine.number("load_average", 0, 1e9);
  machine.finish();
  std::set<std::string> names;
  const Json& figures = top.list("figures");
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const std::string place = "figures[" + std::to_string(i) + "]";
    bench.figures.push_back(read_figure(figures[i], place));
    if (!names.insert(bench.figures.back().name).second) {
      throw base::Error(base::Code::User,
                        "'" + place + ".name' is a duplicate: " + bench.figures.back().name);
    }
  }
  const Json& absent = top.list("absent");
  for (std::size_t i = 0; i < absent.size(); ++i) {
    Reader reader(absent[i], "absent[" + std::to_string(i) + "]");
    bench.absent.push_back({reader.name("name"), reader.text("why")});
    reader.finish();
  }
  top.finish();
  return bench;
}

void put(Json* json, const char* key, const std::string& value) {
  if (!value.empty()) (*json)[key] = value;
}

}  // namespace

std::string_view part_of(const BenchFigure& figure) {
  return std::string_view(figure.name).substr(0, figure.name.find('.'));
}

std::string machine_kind(const PlatformBench& bench) {
  return (bench.processor.empty() ? "unknown processor" : bench.processor) + ", " +
         std::to_string(bench.threads) + " threads" + (bench.gpu.empty() ? "" : ", " + bench.gpu);
}

Json to_json(const PlatformBench& bench) {
  Json machine = Json::object();
  put(&machine, "processor", bench.processor);
  machine["threads"] = bench.threads;
  machine["memory_bytes"] = bench.memory_bytes;
  put(&machine, "gpu", bench.gpu);
  put(&machine, "instruction_set", bench.instruction_set);
  put(&machine, "products", bench.products);
  put(&machine, "file_system", bench.file_system);
  machine["load_average"] = bench.load_average;
  Json json = {
      {"format", kPlatformBenchFormat}, {"workload", bench.workload}, {"host", bench.host},
      {"at", base::iso8601(bench.utc)}, {"utc", bench.utc},           {"seconds", bench.seconds},
      {"version", bench.version}};
  put(&json, "commit", bench.commit);
  json["machine"] = std::move(machine);
  json["figures"] = Json::array();
  for (const BenchFigure& figure : bench.figures) {
    json["figures"].push_back({{"name", figure.name},
                               {"unit", figure.unit},
                               {"value", figure.value},
                               {"spread", figure.spread},
                               {"repeats", figure.repeats},
                               {"better", figure.higher_is_better ? "higher" : "lower"},
                               {"work", figure.work}});
  }
  json["absent"] = Json::array();
  for (const MissingFigure& missing : bench.absent) {
    json["absent"].push_back({{"name", missing.name}, {"why", missing.why}});
  }
  return json;
}

PlatformBench parse_platform_bench(const Json& json, const std::string& source) {
  try {
    return read(json);
  } catch (const base::Error& error) {
    throw base::Error(error.code(),
                      base::printable(source) + " is no bench of a platform: " + error.what() +
                          "; `regatta-train bench platform --out FILE` writes one (format " +
                          std::to_string(kPlatformBenchFormat) + ")",
                      error.key());
  }
}

PlatformBench parse_platform_bench(std::string_view text, const std::string& source) {
  if (text.size() > kMostBenchBytes) {
    throw base::Error(base::Code::User, base::printable(source) + " is larger than " +
                                            base::human_bytes(kMostBenchBytes) +
                                            ", so no bench of a platform");
  }
  Json json(Json::value_t::discarded);
  if (base::json_depth_at_most(text, kMostDepth)) json = base::parse_json<Json>(text);
  return parse_platform_bench(json, source);
}

}  // namespace regatta::trainer::contract
