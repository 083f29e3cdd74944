#include "trainer/interchange/question_head.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/philox.h"
#include "base/portable_math.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::interchange {
namespace {

constexpr double kDeviation = 0.02;
// In place of a tensor's index in the table, which it is in none of.
constexpr std::uint32_t kOrdinal = 0xFFFFFFFFU;

}  // namespace

QuestionHead initial_question_head(std::int64_t hidden, std::uint64_t seed) {
  QuestionHead head;
  head.bias.assign(static_cast<std::size_t>(kSpanEnds), 0.0F);
  head.weight.resize(static_cast<std::size_t>(kSpanEnds * hidden));
  for (std::size_t element = 0; element < head.weight.size(); ++element) {
    const base::PhiloxCounter bits =
        base::philox(seed, {static_cast<std::uint32_t>(element), kOrdinal, 0,
                            static_cast<std::uint32_t>(contract::RandomSite::Initialisation)});
    // Box–Muller
    const double radius = std::sqrt(-2.0 * base::portable_log((bits[0] + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * bits[1] * 0x1p-32;
    head.weight[element] = static_cast<float>(kDeviation * radius * base::portable_cos(angle));
  }
  return head;
}

QuestionHead read_question_head(base::FileSystem& files, const base::Path& path,
                                std::int64_t hidden) {
  const auto reader = checkpoint::SafetensorsReader::open(files, path);
  QuestionHead head;
  head.weight.resize(static_cast<std::size_t>(kSpanEnds * hidden));
  head.bias.resize(static_cast<std::size_t>(kSpanEnds));
  reader.read(kQuestionWeight, "F32", {kSpanEnds, hidden},
              std::as_writable_bytes(std::span(head.weight)));
  reader.read(kQuestionBias, "F32", {kSpanEnds}, std::as_writable_bytes(std::span(head.bias)));
  for (const std::vector<float>* values : {&head.weight, &head.bias}) {
    if (std::all_of(values->begin(), values->end(), [](float x) { return std::isfinite(x); })) {
      continue;
    }
    throw base::Error(base::Code::User, base::printable(path.string()) +
                                            ": qa_outputs has a value that is not finite; " +
                                            "name another file");
  }
  return head;
}

}  // namespace regatta::trainer::interchange
