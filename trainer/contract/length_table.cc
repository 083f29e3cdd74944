#include "trainer/contract/length_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::contract {

LengthTable LengthTable::parse(std::string_view text, const std::string& source) {
  LengthTable table;
  double total = 0;
  int number = 0;
  for (const std::string& line : base::split(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = base::split(line, ',');
    const auto fail = [&](const std::string& message) {
      throw base::Error(base::Code::User, source + ":" + std::to_string(number) + ": " + message);
    };
    if (fields.size() != 3) fail("expected low,high,fraction");
    const auto low = base::parse_integer(fields[0]);
    const auto high = base::parse_integer(fields[1]);
    const auto fraction = base::parse_number(fields[2]);
    if (!low || !high || !fraction) fail("expected numbers in low,high,fraction");
    if (*low < 4 || *high < *low || *high > 4096) fail("lengths run from 4 to 4096 tokens");
    if (!table.ranges_.empty() && *low <= table.ranges_.back().high) fail("ranges must ascend");
    if (!(*fraction > 0 && *fraction < 1e12)) fail("the fraction must be positive");
    table.ranges_.push_back({*low, *high, *fraction});
    total += *fraction;
  }
  if (table.ranges_.empty()) {
    throw base::Error(base::Code::User, source + ": holds no line low,high,fraction");
  }
  for (Range& range : table.ranges_) range.fraction /= total;
  return table;
}

double LengthTable::mean() const {
  double mean = 0;
  for (const Range& range : ranges_) {
    mean += range.fraction * 0.5 * static_cast<double>(range.low + range.high);
  }
  return mean;
}

std::int64_t LengthTable::longest() const { return ranges_.back().high; }

std::int64_t LengthTable::quantile(double u) const {
  for (const Range& range : ranges_) {
    if (u < range.fraction) {
      const auto width = static_cast<double>(range.high - range.low + 1);
      return std::min(range.high,
                      range.low + static_cast<std::int64_t>(u / range.fraction * width));
    }
    u -= range.fraction;
  }
  return ranges_.back().high;
}

std::vector<std::int32_t> LengthTable::evenly(int count) const {
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(static_cast<std::int32_t>(quantile((i + 0.5) / count)));
  }
  return lengths;
}

}  // namespace regatta::trainer::contract
