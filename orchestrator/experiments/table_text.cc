#include "orchestrator/experiments/table_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/experiments/run_figures.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::experiments {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kNothing = "-";
constexpr int kMostDecimals = 8;

// Decimals by which so many digits of it are shown.
int decimals_of(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(digits - 1 - magnitude, 0, kMostDecimals);
}

// Of a figure as somebody published it: no digit more than it has.
std::string plain(double value) {
  std::string text = base::formatted("%.*f", decimals_of(value, 6), value);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string cell_of(const Json& figure, bool is_share) {
  const double factor = is_share ? 100 : 1;
  const std::string unit = is_share ? " %" : "";
  if (figure.is_number()) return plain(factor * figure.get<double>()) + unit;
  if (!figure.is_object()) return kNothing;
  const double mean = factor * figure.at("mean").get<double>();
  if (!figure.at("deviation").is_number()) return mean_text(mean, nullptr) + unit;
  const double deviation = factor * figure.at("deviation").get<double>();
  return mean_text(mean, &deviation) + unit;
}

std::string runs_cell(const Json& layout) {
  const std::size_t failed = layout.at("failed").size();
  return std::to_string(layout.at("succeeded").get<int>()) +
         (failed > 0 ? ", " + std::to_string(failed) + " failed" : "");
}

// A row for each figure that a layout has.
void add_figures(const Json& layouts, const std::string& loss_title, Rows* rows) {
  for (const FigureText& text : figure_texts()) {
    std::vector<std::string> row{text.figure == Figure::ValidationLoss ? loss_title : text.title};
    for (const Json& layout : layouts) {
      row.push_back(cell_of(layout.at("figures").value(text.key, Json()), text.is_share));
    }
    const bool any = std::any_of(row.begin() + 1, row.end(),
                                 [](const std::string& cell) { return cell != kNothing; });
    if (any) rows->push_back(std::move(row));
  }
}

Rows own_rows(const Json& table) {
  Rows rows{{"figure"}, {"ranks"}, {"stages"}, {"runs"}};
  const Json& layouts = table.at("layouts");
  for (const Json& layout : layouts) {
    const int stages = layout.at("pipeline").get<int>();
    rows[0].push_back(layout.at("name").get<std::string>());
    rows[1].push_back(std::to_string(layout.at("ranks").get<int>()));
    rows[2].push_back(std::to_string(stages) +
                      (stages > 1 ? ", " + layout.at("schedule").get<std::string>() : ""));
    rows[3].push_back(runs_cell(layout));
  }
  const Json& samples = table.at("loss_samples");
  add_figures(layouts,
              samples.is_number() ? "validation loss after " +
                                        std::to_string(samples.get<std::int64_t>()) + " samples"
                                  : "validation loss",
              &rows);
  return rows;
}

Rows published_rows(const Json& published) {
  Rows rows{{"figure"}};
  for (const Json& layout : published.at("layouts")) {
    rows[0].push_back(layout.at("name").get<std::string>());
  }
  add_figures(published.at("layouts"), "validation loss", &rows);
  return rows;
}

std::string head_of(const Json& table) {
  std::string head = "Experiment " + table.at("experiment").get<std::string>();
  if (table.at("batch_size").is_number()) {
    head += ": " + std::to_string(table.at("batch_size").get<std::int64_t>()) + " samples a step";
  }
  std::vector<std::string> hosts;
  for (const Json& host : table.at("hosts")) hosts.push_back(host.get<std::string>());
  if (!hosts.empty()) head += ", on " + base::join(hosts, ", ");
  if (table.at("device").is_string()) head += " (" + table.at("device").get<std::string>() + ")";
  return base::printable(head);
}

std::string published_head(const Json& published) {
  return "As published, not measured here: " + published.at("what").get<std::string>() + ", on " +
         published.at("hardware").get<std::string>();
}

std::vector<std::string> sentences_of(const Json& table) {
  std::vector<std::string> sentences{
      "Mean ± sample standard deviation over seeds, of the runs that succeeded."};
  for (const Json& each : table.at("agreement").at("sentences")) sentences.push_back(each);
  for (const Json& each : table.at("notes")) sentences.push_back(each);
  for (std::string& each : sentences) each = base::printable(each);
  return sentences;
}

// What Markdown would take for the end of a cell, or for markup.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : base::printable(text)) {
    if (std::string_view("|*_`<>[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_rows(const Rows& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "|";
    for (const std::string& cell : rows[i]) text += " " + escaped(cell) + " |";
    text += "\n";
    if (i > 0) continue;
    text += "|---|";
    for (std::size_t column = 1; column < rows[i].size(); ++column) text += "---:|";
    text += "\n";
  }
  return text;
}

}  // namespace

std::string mean_text(double mean, const double* deviation) {
  if (deviation == nullptr) return base::formatted("%.*f", decimals_of(mean, 4), mean);
  const int decimals = *deviation > 0 ? decimals_of(*deviation, 2) : decimals_of(mean, 4);
  return base::formatted("%.*f ± %.*f", decimals, mean, decimals, *deviation);
}

std::string table_text(const Json& table) {
  const Json& published = table.at("published");
  std::string text = head_of(table) + "\n\n" + text::table(own_rows(table)) + "\n";
  for (const std::string& sentence : sentences_of(table)) text += sentence + "\n";
  text += "\n" + published_head(published) + "\n\n" + text::table(published_rows(published)) + "\n";
  return text + published.at("note").get<std::string>() + " " +
         published.at("link").get<std::string>() + " says why.\n";
}

std::string table_markdown(const Json& table) {
  const Json& published = table.at("published");
  std::string text =
      "# " + escaped(head_of(table)) + "\n\n" + markdown_rows(own_rows(table)) + "\n";
  for (const std::string& sentence : sentences_of(table)) text += "- " + escaped(sentence) + "\n";
  const std::string link = published.at("link").get<std::string>();
  text += "\n## " + escaped(published_head(published)) + "\n\n" +
          markdown_rows(published_rows(published)) + "\n";
  return text + escaped(published.at("note").get<std::string>()) + " [" + link + "](" + link +
         ") says why.\n";
}

}  // namespace regatta::orchestrator::experiments
