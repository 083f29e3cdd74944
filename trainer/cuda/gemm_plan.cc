#include "trainer/cuda/gemm_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::cuda {
namespace {

constexpr std::string_view kHeader = "regatta-gemm 1";
constexpr std::string_view kMachine = "machine ";
constexpr std::string_view kEnd = "end ";
constexpr double kTie = 0.99;

constexpr std::array<std::string_view, 4> kTypes = {"float32", "tf32", "bfloat16", "float16"};
constexpr std::array<std::string_view, 8> kTails = {
    "none",       "bias",           "gelu", "gelu-bias", "gelu-gradient", "gelu-gradient-sums",
    "input-sums", "input-sums-bias"};
constexpr std::array<std::string_view, 3> kPaths = {"library", "separate", "built-in"};
constexpr std::size_t kFields = 13 + std::tuple_size_v<GemmAlgorithm>;

GemmType type_of(device::Dtype dtype, bool tensor_float32) {
  base::check(dtype != device::Dtype::Float8E4M3 && dtype != device::Dtype::Float8E5M2,
              "products of FP8 are not there yet: they need scales that Gemm does not carry");
  switch (dtype) {
    case device::Dtype::BFloat16:
      return GemmType::BFloat16;
    case device::Dtype::Float16:
      return GemmType::Float16;
    default:
      base::check(dtype == device::Dtype::Float32, "a product reads float32, bfloat16 or float16");
      return tensor_float32 ? GemmType::TensorFloat32 : GemmType::Float32;
  }
}

GemmTail tail_of(const device::Gemm& op) {
  const bool bias = op.bias.size != 0;
  if (op.pre_activation.data != nullptr) return bias ? GemmTail::GeluBias : GemmTail::Gelu;
  if (op.gelu_input.data != nullptr) {
    return op.c_column_sums.data != nullptr ? GemmTail::GeluGradientSums : GemmTail::GeluGradient;
  }
  if (op.a_column_sums.data != nullptr) return bias ? GemmTail::InputSumsBias : GemmTail::InputSums;
  return bias ? GemmTail::Bias : GemmTail::None;
}

int alignment_of(const device::Gemm& op) {
  std::uintptr_t bits = 16;
  for (const device::View* view :
       {&op.a, &op.b, &op.c, &op.bias, &op.pre_activation, &op.gelu_input}) {
    bits |= reinterpret_cast<std::uintptr_t>(view->data);
  }
  return static_cast<int>(bits & (~bits + 1));
}

[[noreturn]] void refuse(std::size_t line, const std::string& why) {
  throw base::Error(base::Code::User, "line " + std::to_string(line) + " " + why);
}

template <std::size_t N>
std::size_t parse_name(const std::array<std::string_view, N>& names, std::string_view text,
                       std::size_t line) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) refuse(line, "has the unknown word '" + base::printable(text) + "'");
  return static_cast<std::size_t>(found - names.begin());
}

std::int64_t parse_count(std::string_view text, std::int64_t low, std::int64_t high,
                         std::size_t line) {
  const std::optional<std::int64_t> value = base::parse_integer(text);
  if (!value || *value < low || *value > high) {
    refuse(line, "has '" + base::printable(text) + "' where a number from " + std::to_string(low) +
                     " to " + std::to_string(high) + " belongs");
  }
  return *value;
}

std::uint64_t parse_word(std::string_view text, std::size_t line) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16) {
    refuse(line, "has '" + base::printable(text) + "' where 16 hexadecimal digits belong");
  }
  return value;
}

void parse_entry(const std::vector<std::string>& fields, std::size_t line, GemmKey* key,
                 GemmPlan* plan) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  if (fields.size() != kFields) {
    refuse(line,
           "has " + std::to_string(fields.size()) + " fields, not " + std::to_string(kFields));
  }
  key->m = parse_count(fields[0], 0, kLargest, line);
  key->n = parse_count(fields[1], 0, kLargest, line);
  key->k = parse_count(fields[2], 1, kLargest, line);
  key->transpose_a = parse_count(fields[3], 0, 1, line) == 1;
  key->transpose_b = parse_count(fields[4], 0, 1, line) == 1;
  key->type = static_cast<GemmType>(parse_name(kTypes, fields[5], line));
  key->float_result = parse_count(fields[6], 0, 1, line) == 1;
  key->accumulate = parse_count(fields[7], 0, 1, line) == 1;
  key->tail = static_cast<GemmTail>(parse_name(kTails, fields[8], line));
  key->tanh_form = parse_count(fields[9], 0, 1, line) == 1;
  key->alignment = static_cast<int>(parse_count(fields[10], 1, 16, line));
  plan->path = static_cast<GemmPath>(parse_name(kPaths, fields[11], line));
  const std::optional<double> microseconds = base::parse_number(fields[12]);
  if (!microseconds || !(*microseconds >= 0)) {
    refuse(line, "has '" + base::printable(fields[12]) + "' for a time");
  }
  plan->microseconds = *microseconds;
  for (std::size_t i = 0; i < plan->algorithm.size(); ++i) {
    plan->algorithm[i] = parse_word(fields[13 + i], line);
  }
  if (plan->path == GemmPath::BuiltIn && key->tail != GemmTail::None) {
    refuse(line, "has a tail on a built-in product");
  }
  if (plan->path == GemmPath::Separate && key->tail == GemmTail::None) {
    refuse(line, "separates a product that has no tail");
  }
  if (plan->path == GemmPath::Library && !tail_can_fuse(*key)) {
    refuse(line, "fuses a tail that the library cannot");
  }
}

std::string entry_text(const GemmKey& key, const GemmPlan& plan) {
  std::string text;
  for (const std::int64_t number :
       {key.m, key.n, key.k, std::int64_t{key.transpose_a}, std::int64_t{key.transpose_b}}) {
    text += std::to_string(number) + " ";
  }
  text += std::string(kTypes[static_cast<std::size_t>(key.type)]) + " ";
  text += std::string(key.float_result ? "1 " : "0 ") + (key.accumulate ? "1 " : "0 ");
  text += std::string(kTails[static_cast<std::size_t>(key.tail)]) + " ";
  text += std::string(key.tanh_form ? "1 " : "0 ") + std::to_string(key.alignment) + " ";
  text += std::string(kPaths[static_cast<std::size_t>(plan.path)]);
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, " %.3f", plan.microseconds);
  text += buffer;
  for (const std::uint64_t word : plan.algorithm) {
    std::snprintf(buffer, sizeof buffer, " %016llx", static_cast<unsigned long long>(word));
    text += buffer;
  }
  return text + "\n";
}

}  // namespace

GemmKey key_of(const device::Gemm& op, bool tensor_float32) {
  GemmKey key;
  key.m = op.m;
  key.n = op.n;
  key.k = op.k;
  key.transpose_a = op.transpose_a;
  key.transpose_b = op.transpose_b;
  key.type = type_of(op.a.dtype, tensor_float32);
  key.float_result = op.c.dtype == device::Dtype::Float32;
  key.accumulate = op.beta != 0.0F;
  key.tail = tail_of(op);
  key.tanh_form = op.activation == device::Activation::GeluTanh;
  key.alignment = alignment_of(op);
  return key;
}

bool tail_can_fuse(const GemmKey& key) {
  switch (key.tail) {
    case GemmTail::None:
    case GemmTail::Bias:
      return true;
    case GemmTail::InputSums:
      return key.float_result;
    case GemmTail::InputSumsBias:
    case GemmTail::GeluGradientSums:
      return false;
    case GemmTail::Gelu:
    case GemmTail::GeluBias:
    case GemmTail::GeluGradient:
      return !key.float_result && key.tanh_form && !key.accumulate && key.n % 8 == 0 &&
             key.alignment == 16;
  }
  return false;
}

device::Gemm without_tail(const device::Gemm& op, GemmTail tail) {
  device::Gemm rest = op;
  switch (tail) {
    case GemmTail::None:
      break;
    case GemmTail::Bias:
      rest.bias = {};
      break;
    case GemmTail::Gelu:
    case GemmTail::GeluBias:
      rest.c = op.pre_activation;
      rest.pre_activation = {};
      rest.activation = device::Activation::None;
      break;
    case GemmTail::GeluGradient:
      rest.gelu_input = {};
      rest.activation = device::Activation::None;
      break;
    case GemmTail::GeluGradientSums:
      rest.c_column_sums = {};
      break;
    case GemmTail::InputSums:
    case GemmTail::InputSumsBias:
      rest.a_column_sums = {};
      break;
  }
  return rest;
}

std::optional<GemmPlan> fastest(std::span<const GemmPlan> candidates) {
  std::optional<GemmPlan> best;
  for (const GemmPlan& candidate : candidates) {
    if (std::isnan(candidate.microseconds)) continue;
    if (!best || candidate.microseconds < kTie * best->microseconds) best = candidate;
  }
  return best;
}

GemmCache GemmCache::parse(std::string_view text) {
  GemmCache cache;
  std::vector<std::string> lines = base::split(text, '\n');
  if (lines.empty() || lines[0] != kHeader) {
    refuse(1, "does not begin with '" + std::string(kHeader) + "'");
  }
  if (lines.size() < 3 || !lines.back().empty()) refuse(lines.size(), "does not end the file");
  lines.pop_back();
  std::string machine;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.starts_with(kMachine)) {
      machine = line.substr(kMachine.size());
      if (machine.empty()) refuse(i + 1, "names no machine");
      continue;
    }
    if (machine.empty()) refuse(i + 1, "comes before any machine");
    GemmKey key;
    GemmPlan plan;
    parse_entry(base::split(line, ' '), i + 1, &key, &plan);
    if (!cache.machines_[machine].emplace(key, plan).second) refuse(i + 1, "repeats a product");
  }
  if (lines.back() != std::string(kEnd) + std::to_string(cache.size())) {
    refuse(lines.size(), "does not count the " + std::to_string(cache.size()) + " products");
  }
  return cache;
}

std::string GemmCache::text() const {
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [machine, plans] : machines_) {
    text += std::string(kMachine) + machine + "\n";
    for (const auto& [key, plan] : plans) text += entry_text(key, plan);
  }
  return text + std::string(kEnd) + std::to_string(size()) + "\n";
}

const GemmPlan* GemmCache::find(const std::string& machine, const GemmKey& key) const {
  const auto plans = machines_.find(machine);
  if (plans == machines_.end()) return nullptr;
  const auto found = plans->second.find(key);
  return found == plans->second.end() ? nullptr : &found->second;
}

void GemmCache::put(const std::string& machine, const GemmKey& key, const GemmPlan& plan) {
  base::check(!machine.empty() && machine.find('\n') == std::string::npos,
              "a machine of the product cache is one line");
  machines_[machine][key] = plan;
}

void GemmCache::merge(const GemmCache& other) {
  for (const auto& [machine, plans] : other.machines_)
    machines_[machine].insert(plans.begin(), plans.end());
}

std::size_t GemmCache::size() const {
  std::size_t count = 0;
  for (const auto& [machine, plans] : machines_) count += plans.size();
  return count;
}

}  // namespace regatta::trainer::cuda
