#include "orchestrator/text/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/runs/metrics.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/slurm/slurm_values.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> number_of(const Json& run, const char* name) {
  const auto it = run.find(name);
  if (it == run.end() || !it->is_number()) return std::nullopt;
  return it->get<double>();
}
std::string figure(const std::optional<double>& value) {
  return value ? base::formatted("%.4f", *value) : "-";
}
// A value and its target, which rounding must not make one.
std::string figure(const std::optional<double>& value, const std::optional<double>& beside) {
  if (!value || !beside) return figure(value);
  return base::formatted("%.*f", decimals_apart(*value, *beside), *value);
}
std::string rate(const std::optional<double>& value) {
  return value ? base::formatted("%.*f", *value < 100 ? 1 : 0, *value) : "-";
}
std::string duration(const std::optional<double>& value) {
  return value ? base::human_seconds(*value) : "-";
}
std::string count(const Json& run, const char* name) {
  return base::formatted("%.0f", number_of(run, name).value_or(0));
}

std::string share_text(const std::optional<double>& share) {
  return share ? base::percent(*share) : "-";
}

// In the steps that its run file counts: of a batch that grows, of the first one.
double progress_of(const Json& run) {
  return number_of(run, "progress").value_or(number_of(run, "step").value_or(0));
}

// "25/100", and "120" alone of a run that was to end before and went on.
std::string share_done(const Json& run, const char* separator) {
  const double done = progress_of(run);
  const bool past = done > number_of(run, "steps").value_or(0);
  return base::formatted("%.0f", std::floor(done)) + (past ? "" : separator + count(run, "steps"));
}

// Of a batch that grows "9, worth 25/100".
std::string steps_done(const Json& run, const char* separator) {
  const bool grows = number_of(run, "progress").has_value();
  return (grows ? count(run, "step") + ", worth " : "") + share_done(run, separator);
}

// How many ranks on what, and how well they are used; empty when the run does not say.
std::string ranks_text(const Json& run) {
  const double ranks = number_of(run, "ranks").value_or(0);
  const auto mfu = number_of(run, "mfu");
  const auto goodput = number_of(run, "goodput");
  if (ranks < 1 || (ranks < 2 && !mfu && !goodput)) return "";
  std::string text = base::formatted("%.0f", ranks);
  const auto per_node = number_of(run, "ranks_per_node");
  if (per_node && *per_node > 0 && *per_node < ranks) {
    text += base::formatted(" (%.0f per node)", *per_node);
  }
  if (!text_of(run, "device").empty()) text += " on " + text_of(run, "device");
  if (mfu) text += ", MFU " + share_text(mfu);
  if (number_of(run, "utilisation")) {
    text += ", utilisation " + share_text(number_of(run, "utilisation"));
  }
  if (goodput) text += ", goodput " + rate(goodput) + " samples/s";
  return text;
}

// With what is known of it at 95 % confidence; where the gradient is not above its noise, only
// that.
std::string noise_scale(const Json& run) {
  const auto scale = number_of(run, "noise_scale"), low = number_of(run, "noise_scale_low"),
             high = number_of(run, "noise_scale_high");
  std::string range;
  if (low) range = high ? rate(low) + " to " + rate(high) : "above " + rate(low);
  if (!scale) return range.empty() ? "" : range + " samples";
  return rate(scale) + " samples" + (range.empty() ? "" : " (" + range + ")");
}

// What details say of the ranks beyond that one line.
void add_rank_details(const Json& run, std::vector<std::vector<std::string>>* rows) {
  const std::string noise = noise_scale(run);
  if (!noise.empty()) {
    rows->push_back({"noise scale", noise + ", statistical efficiency " +
                                        share_text(number_of(run, "efficiency"))});
  }
  const auto exposed = number_of(run, "exposed_share");
  if (exposed) {
    std::string text = share_text(exposed) + " of the step exposed";
    const auto imbalance = number_of(run, "imbalance");
    if (imbalance) text += ", largest rank " + base::formatted("%.4f", *imbalance) + " of the mean";
    rows->push_back({"communication", text});
  }
  if (run.contains("slowest") && run["slowest"].is_object()) {
    const Json& slowest = run["slowest"];
    rows->push_back({"furthest behind", "rank " + count(slowest, "rank") + " in " +
                                            text_of(slowest, "phase") + " for " +
                                            duration(number_of(slowest, "phase_seconds")) + ", " +
                                            duration(number_of(slowest, "age_seconds")) + " ago"});
  }
}

// "running: training, step 3 of 9", but not "failed: failed: …".
std::string state_and_text(const Json& run) {
  const std::string state = text_of(run, "state");
  const std::string text = text_of(run, "state_text");
  return text.rfind(state, 0) == 0 ? text : state + ": " + text;
}

// A target that is a multiple of what is computed when training starts.
std::string asked_target(const Json& run) {
  const auto times = number_of(run, "target_times_baseline");
  if (!times) return "none";
  return text_of(run, "metric") + base::formatted(" of %g times the best constant guess", *times) +
         ", which is computed when training starts";
}

std::string target_text(const Json& run) {
  const auto target = number_of(run, "target");
  const auto value = number_of(run, "value");
  std::string text;
  if (target) {
    text = text_of(run, "metric") + " " + figure(target, value) +
           (run.value("target_reached", false) ? ", reached" : ", not reached");
  } else {
    text = asked_target(run);
  }
  if (value)
    text += "; last " + (target ? "" : text_of(run, "metric") + " ") + figure(value, target);
  const auto baseline = number_of(run, "baseline");
  if (baseline && runs::better_of(text_of(run, "metric")) == runs::Better::Higher)
    text += " (the best constant guess: " + figure(baseline) + ")";
  return text;
}

// What a narrow terminal has no room for.
struct ProgressParts {
  bool metric, rate, long_words;
};

// What is shown beside the bar.
std::string progress_text(const Json& run, const ProgressParts& parts) {
  std::string text = "step " + steps_done(run, "/");
  const auto value = number_of(run, "value");
  if (parts.metric && value) {
    const auto target = number_of(run, "target");
    text += "  " + text_of(run, "metric") + " " + figure(value, target);
    if (target) text += " of " + figure(target, value);
  }
  if (parts.rate && number_of(run, "samples_per_second")) {
    text += "  " + rate(number_of(run, "samples_per_second")) + " samples/s";
  }
  const auto prediction = number_of(run, "predicted_seconds_to_target");
  if (run.value("target_reached", false)) {
    text += "  target reached";
  } else if (prediction) {
    text += (parts.long_words ? "  target in about " : "  target in ") + duration(prediction);
  }
  if (text_of(run, "state") == "stopping") text += "  stopping";
  if (const auto silence = number_of(run, "silent_seconds")) {
    text += "  silent for " + duration(silence);
  }
  return base::printable(text);
}

// How narrow the table of runs can get; each step keeps what the ones before it did.
enum RunTableStep { kWide, kShortWords, kNoDate, kNoValue, kRunTableSteps };

constexpr std::size_t kLeastNote = 16;  // columns: what is shorter says nothing

std::vector<std::string> run_row(const Json& run, int narrower) {
  const std::string created = local_date(run.value("created_at", Json()));
  std::vector<std::string> row{text_of(run, "id"), text_of(run, "state"), share_done(run, "/")};
  if (narrower < kNoValue) {
    const auto value = number_of(run, "value");
    const auto target = number_of(run, "target");
    row.push_back(figure(value, target));
    const auto times = number_of(run, "target_times_baseline");
    const bool waits = times && !target;
    row.push_back(waits ? base::formatted("%g x base", *times) : figure(target, value));
  }
  row.push_back(duration(number_of(run, "time_to_accuracy_seconds")));
  if (narrower < kNoDate) {
    const bool whole = narrower < kShortWords || created.size() < 16;
    row.push_back(whole ? created : created.substr(5, 11));  // "11-23 14:05"
  }
  return row;
}

// "#baseline #lamb".
std::string tags_text(const Json& run) {
  std::string text;
  for (const Json& tag : run.value("tags", Json::array())) {
    if (!tag.is_string()) continue;
    text += (text.empty() ? "#" : " #") + tag.get<std::string>();
  }
  return text;
}

winsize size_of_terminal(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : base::split(text, '\n')) {
    widest = std::max(widest, width_of(line));
  }
  return widest;
}

std::vector<std::vector<std::string>> run_rows(const Json& runs, int narrower, int width) {
  std::vector<std::vector<std::string>> rows{{"RUN", "STATE", "STEP"}};
  std::vector<std::string>& head = rows.front();
  if (narrower < kNoValue) head.insert(head.end(), {"VALUE", "TARGET"});
  head.push_back(narrower < kShortWords ? "TIME TO ACCURACY" : "TO ACCURACY");
  if (narrower < kNoDate) head.push_back("CREATED");
  for (const Json& run : runs) rows.push_back(run_row(run, narrower));
  const std::size_t taken = widest_line(table(rows)) + 2;
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const std::size_t room = std::max(kLeastNote, columns - std::min(columns, taken));
  bool noted = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json& run = runs[i];
    const bool waits = run.contains("after") && !run["after"].empty();
    std::string note = tags_text(run);
    if (run.value("archived", false)) note += note.empty() ? "archived" : "  archived";
    if (waits && text_of(run, "state") == "queued") {
      note += (note.empty() ? "" : "  ") + text_of(run, "state_text");
    }
    if (note.empty()) continue;
    rows[i + 1].push_back(width > 0 ? cut(base::printable(note), room) : note);
    noted = true;
  }
  if (noted) rows.front().push_back("NOTE");
  return rows;
}

}  // namespace

int decimals_apart(double value, double beside) {
  constexpr int kUsual = 4;
  constexpr int kMost = 12;
  for (int decimals = kUsual; value != beside && decimals <= kMost; ++decimals) {
    if (base::formatted("%.*f", decimals, value) != base::formatted("%.*f", decimals, beside)) {
      return decimals;
    }
  }
  return kUsual;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string cut(const std::string& text, std::size_t columns) {
  if (width_of(text) <= columns) return text;
  std::string out;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (begins && width_of(out) + 1 == columns) break;
    out += c;
  }
  return out + "\u2026";
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows) {
    cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.back().push_back(base::printable(row[i]));
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of(cells.back().back()));
    }
  }
  std::string out;
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] + 2 - width_of(row[i]), ' ');
    }
    out += "\n";
  }
  return out;
}

std::string run_table(const Json& runs, int width) {
  for (int narrower = 0; narrower < kRunTableSteps; ++narrower) {
    std::string text = table(run_rows(runs, narrower, width));
    if (width <= 0 || widest_line(text) <= static_cast<std::size_t>(width)) return text;
  }
  return table(run_rows(runs, kRunTableSteps, width));
}

std::string local_date(const Json& at) {
  if (!at.is_string()) return "";
  const auto utc = slurm::parse_slurm_time(at.get<std::string>().substr(0, 19));
  if (!utc) return "";
  const auto seconds = static_cast<std::time_t>(*utc);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[40];
  return std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0 ? "" : text;
}

std::string local_time(const Json& at) {
  const std::string date = local_date(at);
  return date.empty() ? "" : date.substr(date.find(' ') + 1);
}

std::string silence_text(const Json& answered_at, double age_seconds, const std::string& why) {
  const std::string since = local_time(answered_at);
  return base::printable("Slurm has not answered " +
                         (since.empty()
                              ? std::string("yet")
                              : "since " + since + " (" + base::human_seconds(age_seconds) + ")") +
                         (why.empty() ? "" : ": " + why));
}

namespace {

// Its task, unless it is the usual one, and what it began with.
void add_start(const Json& run, std::vector<std::vector<std::string>>* rows) {
  const std::string task = text_of(run, "task");
  if (!task.empty() && task != "pretraining") rows->push_back({"task", task});
  const Json from = run.value("from", Json());
  const std::string path = from.is_object() ? text_of(from, "path") : "";
  const std::string origin = text_of(run, "forked_from");
  if (origin.empty()) {
    if (!path.empty()) rows->push_back({"begins with", path});
    return;
  }
  rows->push_back({path.empty() ? "continues" : "begins with",
                   text_of(run, "forked_checkpoint") + " of " + origin});
}

}  // namespace

std::string run_details(const Json& run) {
  std::vector<std::vector<std::string>> rows{
      {"run", text_of(run, "id")},
      {"state", state_and_text(run)},
      {"created", local_date(run.value("created_at", Json()))},
      {"attempts", count(run, "attempts")},
      {"step", steps_done(run, " of ")},
      {"target", target_text(run)},
      {"time to accuracy", duration(number_of(run, "time_to_accuracy_seconds"))},
      {"training", duration(number_of(run, "training_seconds"))},
      {"since submission", duration(number_of(run, "since_submission_seconds"))},
      {"throughput", rate(number_of(run, "samples_per_second")) + " samples/s, " +
                         rate(number_of(run, "tokens_per_second")) + " tokens/s"},
      {"loss", figure(number_of(run, "loss"))},
      {"directory", text_of(run, "directory")}};
  const std::string ranks = ranks_text(run);
  if (!ranks.empty()) rows.push_back({"ranks", ranks});
  add_rank_details(run, &rows);
  const auto prediction = number_of(run, "predicted_seconds_to_target");
  if (prediction) rows.push_back({"target expected in", duration(prediction)});
  if (run.contains("checkpoint") && run["checkpoint"].is_object()) {
    rows.push_back({"checkpoint", text_of(run["checkpoint"], "path")});
  }
  add_start(run, &rows);
  if (const std::string tags = tags_text(run); !tags.empty()) rows.push_back({"tags", tags});
  for (const std::string& line : base::split(text_of(run, "note"), '\n')) {
    if (!line.empty()) rows.push_back({"note", line});
  }
  if (!text_of(run, "error").empty()) rows.push_back({"error", text_of(run, "error")});
  if (run.contains("warnings") && run["warnings"].is_array()) {
    for (const Json& warning : run["warnings"]) {
      if (warning.is_string()) rows.push_back({"warning", warning.get<std::string>()});
    }
  }
  return table(rows);
}

std::string progress_line(const Json& run, int width) {
  const double step = progress_of(run);
  const double steps = number_of(run, "steps").value_or(0);
  const auto columns = static_cast<std::size_t>(std::max(width, 20));
  if (steps <= 0 || step <= 0 || text_of(run, "state") == "queued") {
    return base::printable(text_of(run, "id") + ": " + text_of(run, "state_text"))
        .substr(0, columns);
  }
  std::string text = progress_text(run, {true, true, true});
  for (const ProgressParts& parts :
       {ProgressParts{true, true, false}, {true, false, false}, {false, false, false}}) {
    if (text.size() > columns) text = progress_text(run, parts);
  }
  if (columns < text.size() + 15) return text.substr(0, columns);
  const std::size_t cells = std::min<std::size_t>(30, columns - text.size() - 3);
  const auto done =
      static_cast<std::size_t>(std::clamp(step / steps, 0.0, 1.0) * static_cast<double>(cells));
  return "[" + std::string(done, '#') + std::string(cells - done, '-') + "] " + text;
}

std::string run_summary(const Json& run) {
  std::vector<std::vector<std::string>> rows{
      {"run", text_of(run, "id") + " " + text_of(run, "state")},
      {"target", target_text(run)},
      {"time to accuracy", duration(number_of(run, "time_to_accuracy_seconds"))},
      {"training", duration(number_of(run, "training_seconds")) + " (" +
                       duration(number_of(run, "since_submission_seconds")) + " since submission)"},
      {"throughput", rate(number_of(run, "samples_per_second")) + " samples/s, " +
                         rate(number_of(run, "tokens_per_second")) + " tokens/s"},
      {"checkpoint", run.contains("checkpoint") && run["checkpoint"].is_object()
                         ? text_of(run["checkpoint"], "path")
                         : "none"}};
  const std::string ranks = ranks_text(run);
  if (!ranks.empty()) rows.push_back({"ranks", ranks});
  if (!text_of(run, "error").empty()) rows.push_back({"error", text_of(run, "error")});
  return table(rows);
}

Audience reader_of_stdout() {
  return ::isatty(STDOUT_FILENO) == 1 ? Audience::Terminal : Audience::Program;
}

int terminal_width(int descriptor) {
  constexpr int kUsual = 80;
  if (::isatty(descriptor) != 1) return 0;
  const int told = size_of_terminal(descriptor).ws_col;
  return told > 0 ? told : kUsual;
}

int terminal_height(int descriptor) {
  constexpr int kUsual = 24;
  if (::isatty(descriptor) != 1) return 0;
  const int told = size_of_terminal(descriptor).ws_row;
  return told > 0 ? told : kUsual;
}

std::string json_text(const Json& json, int indent, Audience reader) {
  return reader == Audience::Terminal ? base::ascii_json_text(json, indent)
                                      : base::json_text(json, indent);
}

std::string text_of(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

bool is_over(const Json& run) {
  const auto state = runs::parse_run_state(text_of(run, "state"));
  return state && runs::is_over(*state);
}

}  // namespace regatta::orchestrator::text
