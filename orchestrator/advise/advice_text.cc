#include "orchestrator/advise/advice_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::advise {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

std::string count_text(double value) {
  constexpr double kFew = 100;
  if (value < kFew && value != std::floor(value)) return base::short_number(value, 3);
  std::string digits = std::to_string(std::llround(value));
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

// Short times with three digits: a tenth of a second is much of them.
std::string time_text(double seconds) {
  constexpr double kShort = 10;
  return seconds < kShort ? base::short_number(seconds, 3) + " s" : base::human_seconds(seconds);
}

std::string seconds_text(const Range& range) {
  return time_text(range.value) + " (" + time_text(range.low) + " to " + time_text(range.high) +
         ")";
}

std::string number_text(const Range& range) {
  return base::short_number(range.value, 3) + " (" + base::short_number(range.low, 3) + " to " +
         base::short_number(range.high, 3) + ")";
}

std::string name_of(const Row& row) {
  return base::plural(row.of.nodes, "node") + ", " + base::plural(row.of.ranks, "rank") +
         ", batch " + count_text(row.of.batch);
}

// Less is better.
double cost_of(const Row& row, Objective objective) {
  switch (objective) {
    case Objective::TimeToAccuracy:
      return row.seconds.value;
    case Objective::GpuHours:
      return row.gpu_hours.value;
    case Objective::Goodput:
      break;
  }
  return -row.goodput.value;
}

// Indices of the rows that a table shows, by ranks and batch.
std::vector<std::size_t> shown_rows(const Report& report) {
  const std::vector<Row>& rows = report.advice.rows;
  std::map<std::pair<int, int>, std::size_t> best;
  std::set<std::size_t> shown(report.advice.front.begin(), report.advice.front.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [place, is_new] = best.try_emplace({rows[i].of.nodes, rows[i].of.ranks}, i);
    const auto cost = [&](std::size_t row) { return cost_of(rows[row], report.objective); };
    if (!is_new && cost(i) < cost(place->second)) place->second = i;
  }
  for (const auto& [ranks, row] : best) shown.insert(row);
  std::vector<std::size_t> order(shown.begin(), shown.end());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Candidate &first = rows[a].of, &second = rows[b].of;
    return std::tuple(first.nodes, first.ranks, first.batch) <
           std::tuple(second.nodes, second.ranks, second.batch);
  });
  return order;
}

Cells cells_of(const Report& report) {
  Cells cells{{"", "nodes", "ranks", "batch", "step, ms", "samples/s", "efficiency", "samples",
               "steps", "time to target", "GPU-hours"}};
  const std::size_t best = report.advice.best_for(report.objective).expected;
  for (const std::size_t index : shown_rows(report)) {
    const Row& row = report.advice.rows[index];
    cells.push_back({index == best  ? ">"
                     : row.on_front ? "*"
                                    : "",
                     std::to_string(row.of.nodes), std::to_string(row.of.ranks),
                     count_text(row.of.batch),
                     base::formatted("%.1f", 1e3 * row.of.step_seconds.value),
                     count_text(row.samples_per_second), base::short_number(row.efficiency, 3),
                     count_text(row.samples.value), count_text(static_cast<double>(row.steps)),
                     seconds_text(row.seconds), number_text(row.gpu_hours)});
  }
  return cells;
}

// Somebody gave the scale alone.
bool has_ends(const Noise& noise) {
  return noise.low < noise.scale || !noise.high || *noise.high > noise.scale;
}

std::string noise_text(const Report& report) {
  const Noise& noise = report.advice.noise;
  std::string text = "noise scale " + count_text(noise.scale) + " samples";
  if (!has_ends(noise)) return text + ", " + report.noise_from + " without ends";
  text += " (" + count_text(noise.low);
  text += noise.high ? " to " + count_text(*noise.high) : ", no upper end";
  return text + "), " + report.noise_from;
}

std::string target_text(const Report& report) {
  const Target& target = report.advice.target;
  return report.target + " takes " + count_text(target.samples) + " samples with batches of " +
         count_text(target.batch) + ", " + report.target_from;
}

// What is best for an objective, and for the ends of the noise scale where that is something else.
std::string best_sentence(const Report& report, Objective objective) {
  static const std::vector<std::string> kinds{"Soonest", "Fewest GPU-hours", "Largest goodput"};
  const auto place = static_cast<std::size_t>(objective);
  const Best& best = report.advice.best.at(place);
  const auto row = [&](std::size_t index) -> const Row& { return report.advice.rows[index]; };
  std::string text = kinds[place] + ": " + name_of(row(best.expected)) + ": " +
                     (objective == Objective::Goodput
                          ? number_text(row(best.expected).goodput) + " samples/s"
                          : seconds_text(row(best.expected).seconds) + ", " +
                                number_text(row(best.expected).gpu_hours) + " GPU-hours");
  if (!has_ends(report.advice.noise)) return text + ".";
  if (best.is_sure()) return text + "; at both ends of the noise scale, too.";
  const auto other = [&](std::size_t index, const char* end) {
    if (index == best.expected) return std::string();
    return "; with the " + std::string(end) + " end of the noise scale it is " +
           name_of(row(index));
  };
  return text + other(best.noise_low, "lower") + other(best.noise_high, "upper") + ".";
}

std::vector<std::string> sentences(const Report& report) {
  std::vector<std::string> lines;
  for (const Objective each :
       {Objective::TimeToAccuracy, Objective::GpuHours, Objective::Goodput}) {
    if (each == Objective::Goodput && report.objective != each) continue;
    lines.push_back(best_sentence(report, each));
  }
  return lines;
}

Json range_json(const Range& range) {
  return {{"value", range.value}, {"low", range.low}, {"high", range.high}};
}

Json row_json(const Row& row) {
  return {{"nodes", row.of.nodes},
          {"ranks", row.of.ranks},
          {"batch", row.of.batch},
          {"step_seconds", range_json(row.of.step_seconds)},
          {"evaluation_seconds", row.of.evaluation_seconds},
          {"samples_per_second", row.samples_per_second},
          {"efficiency", row.efficiency},
          {"goodput", range_json(row.goodput)},
          {"samples", range_json(row.samples)},
          {"steps", row.steps},
          {"seconds", range_json(row.seconds)},
          {"gpu_hours", range_json(row.gpu_hours)},
          {"on_front", row.on_front}};
}

// Text of a file within Markdown: nothing of it is markup.
std::string plain_markdown(const std::string& text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]<>|#&~";
  std::string plain;
  for (const char each : base::printable(text)) {
    if (kMarkup.find(each) != std::string_view::npos) plain += '\\';
    plain += each;
  }
  return plain;
}

}  // namespace

std::string advice_text(const Report& report) {
  std::string text = base::printable(report.title) + "\n" + base::printable(target_text(report)) +
                     "\n" + base::printable(noise_text(report)) + "\n\n";
  text += text::table(cells_of(report));
  text += "> best for --objective " +
          objective_names()[static_cast<std::size_t>(report.objective)] +
          "; * nothing takes both less time and fewer GPU-hours\n\n";
  for (const std::string& line : sentences(report)) text += line + "\n";
  for (const std::string& note : report.notes) text += "- " + base::printable(note) + "\n";
  return text;
}

std::string advice_markdown(const Report& report) {
  const Cells cells = cells_of(report);
  std::string text = "**" + plain_markdown(report.title) +
                     "**: " + plain_markdown(target_text(report)) + "; " +
                     plain_markdown(noise_text(report)) + ".\n\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += "| " + base::join(cells[i], " | ") + " |\n";
    if (i == 0) {
      for (std::size_t column = 0; column < cells[i].size(); ++column) text += "|---";
      text += "|\n";
    }
  }
  text += "\n\\>: best for --objective " +
          objective_names()[static_cast<std::size_t>(report.objective)] +
          "; \\*: nothing takes both less time and fewer GPU-hours.\n\n";
  for (const std::string& line : sentences(report)) text += line + "\n";
  text += "\n";
  for (const std::string& note : report.notes) text += "- " + plain_markdown(note) + "\n";
  return text;
}

Json advice_json(const Report& report) {
  const Advice& advice = report.advice;
  Json rows = Json::array(), best = Json::object();
  for (const Row& row : advice.rows) rows.push_back(row_json(row));
  for (std::size_t i = 0; i < advice.best.size(); ++i) {
    const Best& each = advice.best.at(i);
    best[objective_names()[i]] = {{"row", each.expected},
                                  {"row_with_noise_low", each.noise_low},
                                  {"row_with_noise_high", each.noise_high}};
  }
  return {{"title", report.title},
          {"objective", objective_names()[static_cast<std::size_t>(report.objective)]},
          {"noise_scale",
           {{"value", advice.noise.scale},
            {"low", advice.noise.low},
            {"high", advice.noise.high ? Json(*advice.noise.high) : Json()},
            {"from", report.noise_from}}},
          {"target",
           {{"what", report.target},
            {"samples", advice.target.samples},
            {"batch", advice.target.batch},
            {"from", report.target_from}}},
          {"base_batch", advice.base_batch},
          {"rows", std::move(rows)},
          {"best", std::move(best)},
          {"front", advice.front},
          {"notes", report.notes}};
}

std::string advice_csv(const Report& report) {
  std::string text =
      "nodes,ranks,batch,step_seconds,samples_per_second,efficiency,goodput,samples,samples_low,"
      "samples_high,steps,seconds,seconds_low,seconds_high,gpu_hours,gpu_hours_low,gpu_hours_high,"
      "on_front\n";
  for (const Row& row : report.advice.rows) {
    text += base::formatted(
        "%d,%d,%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%lld,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%s\n",
        row.of.nodes, row.of.ranks, row.of.batch, row.of.step_seconds.value, row.samples_per_second,
        row.efficiency, row.goodput.value, row.samples.value, row.samples.low, row.samples.high,
        static_cast<long long>(row.steps), row.seconds.value, row.seconds.low, row.seconds.high,
        row.gpu_hours.value, row.gpu_hours.low, row.gpu_hours.high,
        row.on_front ? "true" : "false");
  }
  return text;
}

}  // namespace regatta::orchestrator::advise
