#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/advise/advice_text.h"

namespace regatta::orchestrator::advise {
namespace {

constexpr double kLeft = 84, kTop = 54, kWide = 620, kHigh = 380, kRight = 150, kBottom = 50;

// Black's contrast to white is not needed: each line is named at its end, too.
constexpr const char* kColours[] = {"#2f6690", "#d1495b", "#3a7d44", "#8f5db7",
                                    "#b8651b", "#00798c", "#6b705c"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char each : base::printable(text)) {
    if (each == '&') {
      safe += "&amp;";
    } else if (each == '<') {
      safe += "&lt;";
    } else if (each == '>') {
      safe += "&gt;";
    } else if (each == '"') {
      safe += "&quot;";
    } else {
      safe += each;
    }
  }
  return safe;
}

// A logarithmic axis from just below the least to just above the largest value.
class Axis {
 public:
  Axis(double low, double high, double from, double to)
      : low_(std::log(low / 1.15)), high_(std::log(high * 1.15)), from_(from), to_(to) {}
  [[nodiscard]] double place(double value) const {
    return from_ + (std::log(value) - low_) / (high_ - low_) * (to_ - from_);
  }
  // Those of the values that lie on it; at most eight, the first of each group where there are
  // more.
  [[nodiscard]] std::vector<double> ticks(const std::vector<std::vector<double>>& groups) const {
    constexpr std::size_t kMost = 8;
    std::vector<double> all, firsts;
    for (const std::vector<double>& group : groups) {
      for (const double value : group) {
        if (std::log(value) < low_ || std::log(value) > high_) continue;
        all.push_back(value);
        if (value == group.front()) firsts.push_back(value);
      }
    }
    return all.size() > kMost && firsts.size() > 1 ? firsts : all;
  }

 private:
  double low_, high_, from_, to_;
};

std::vector<std::vector<double>> round_numbers() {
  std::vector<std::vector<double>> groups;
  for (int power = -12; power <= 15; ++power) {
    const double ten = std::pow(10.0, power);
    groups.push_back({ten, 2 * ten, 5 * ten});
  }
  return groups;
}

// Seconds, minutes, hours and days that people count in.
std::vector<std::vector<double>> round_times() {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  std::vector<std::vector<double>> groups;
  for (double part = 1e-6; part < 1; part *= 10) groups.push_back({part, 2 * part, 5 * part});
  for (const double unit : {1.0, kMinute}) {
    groups.push_back({unit, 2 * unit, 5 * unit});
    groups.push_back({10 * unit, 20 * unit, 30 * unit});
  }
  groups.push_back({kHour, 2 * kHour, 5 * kHour, 12 * kHour});
  for (double days = kDay; days < 1e6 * kDay; days *= 10) {
    groups.push_back({days, 2 * days, 5 * days});
  }
  return groups;
}

std::string words(double x, double y, const char* anchor, const std::string& text,
                  const std::string& more = "") {
  return base::formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor,
                         more.c_str()) +
         escaped(text) + "</text>\n";
}

std::string line(double x, double y, double to_x, double to_y, const std::string& look) {
  return base::formatted("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" ", x, y, to_x,
                         to_y) +
         look + "/>\n";
}

std::pair<Axis, Axis> axes_of(const std::vector<Row>& rows) {
  const auto by = [](double Range::*end, Range Row::*figure) {
    return [end, figure](const Row& a, const Row& b) { return a.*figure.*end < b.*figure.*end; };
  };
  const auto low = [&](Range Row::*figure) {
    return ((*std::min_element(rows.begin(), rows.end(), by(&Range::low, figure))).*figure).low;
  };
  const auto high = [&](Range Row::*figure) {
    return ((*std::max_element(rows.begin(), rows.end(), by(&Range::high, figure))).*figure).high;
  };
  return {Axis(low(&Row::gpu_hours), high(&Row::gpu_hours), kLeft, kLeft + kWide),
          Axis(low(&Row::seconds), high(&Row::seconds), kTop + kHigh, kTop)};
}

std::string frame(const Axis& x, const Axis& y) {
  std::string text;
  for (const double tick : x.ticks(round_numbers())) {
    text += line(x.place(tick), kTop, x.place(tick), kTop + kHigh, "stroke=\"#ddd\"") +
            words(x.place(tick), kTop + kHigh + 16, "middle", base::short_number(tick));
  }
  for (const double tick : y.ticks(round_times())) {
    text += line(kLeft, y.place(tick), kLeft + kWide, y.place(tick), "stroke=\"#ddd\"") +
            words(kLeft - 6, y.place(tick) + 4, "end", base::human_seconds(tick));
  }
  return text + words(kLeft + kWide / 2, kTop + kHigh + 38, "middle", "GPU-hours") +
         words(kLeft, kTop - 8, "start", "time to target");
}

std::string ranks_lines(const std::vector<Row>& rows, const Axis& x, const Axis& y) {
  std::map<std::pair<int, int>, std::vector<const Row*>> by_ranks;
  for (const Row& row : rows) by_ranks[{row.of.nodes, row.of.ranks}].push_back(&row);
  std::string text;
  std::size_t next = 0;
  for (auto& [key, line_rows] : by_ranks) {
    std::stable_sort(line_rows.begin(), line_rows.end(),
                     [](const Row* a, const Row* b) { return a->of.batch < b->of.batch; });
    const std::string colour = kColours[next++ % std::size(kColours)];
    std::string points;
    for (const Row* const row : line_rows) {
      const double at = x.place(row->gpu_hours.value), height = y.place(row->seconds.value);
      points += base::formatted("%.1f,%.1f ", at, height);
      text +=
          line(x.place(row->gpu_hours.low), y.place(row->seconds.low), x.place(row->gpu_hours.high),
               y.place(row->seconds.high), "stroke=\"" + colour + "\" stroke-opacity=\"0.3\"") +
          base::formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"><title>", at,
                          height, row->on_front ? 4 : 2, colour.c_str()) +
          escaped(base::plural(row->of.ranks, "rank") + ", batch " + std::to_string(row->of.batch) +
                  ": " + base::human_seconds(row->seconds.value) + ", " +
                  base::short_number(row->gpu_hours.value, 3) + " GPU-hours") +
          "</title></circle>\n";
    }
    text += "<polyline points=\"" + points + "\" fill=\"none\" stroke=\"" + colour + "\"/>\n";
    const double legend = kTop + 14 * static_cast<double>(next);
    text += line(kLeft + kWide + 12, legend - 4, kLeft + kWide + 30, legend - 4,
                 "stroke=\"" + colour + "\" stroke-width=\"2\"") +
            words(kLeft + kWide + 36, legend, "start",
                  base::plural(key.second, "rank") +
                      (key.first > 1 ? ", " + std::to_string(key.first) + " nodes" : ""));
  }
  return text;
}

// The rows that nothing beats, with their batches.
std::string front_line(const Advice& advice, const Axis& x, const Axis& y) {
  std::string points, names;
  double last = -100;
  for (const std::size_t index : advice.front) {
    const Row& row = advice.rows[index];
    const double at = x.place(row.gpu_hours.value), height = y.place(row.seconds.value);
    points += base::formatted("%.1f,%.1f ", at, height);
    if (std::abs(height - last) < 11) continue;  // names do not cover each other
    last = height;
    names += words(at + 7, height - 5, "start", std::to_string(row.of.batch));
  }
  return "<polyline points=\"" + points +
         "\" fill=\"none\" stroke=\"#222\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"/>\n" +
         names;
}

}  // namespace

std::string advice_svg(const Report& report) {
  const Advice& advice = report.advice;
  const auto [x, y] = axes_of(advice.rows);
  return base::formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
             kLeft + kWide + kRight, kTop + kHigh + kBottom) +
         words(kLeft, 16, "start", report.title, " font-weight=\"bold\"") +
         words(kLeft, 30, "start",
               report.target +
                   "; a line for each number of ranks through its batches, faint: what "
                   "is uncertain, dashed: nothing takes less of both") +
         frame(x, y) + ranks_lines(advice.rows, x, y) + front_line(advice, x, y) + "</svg>\n";
}

}  // namespace regatta::orchestrator::advise
