#include "topology/plan/step_gantt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/text.h"

namespace regatta::topology::plan {
namespace {

constexpr std::size_t kMostTextRows = 40;
constexpr std::size_t kMostSvgRows = 200;
constexpr int kLabelColumns = 12;
constexpr int kFigureColumns = 20;

std::string milliseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  return text;
}

std::string summary(const StepTimeline& timeline) {
  return "step " + milliseconds(timeline.step_seconds) + ": computes " +
         milliseconds(timeline.compute_seconds) + ", waits " +
         milliseconds(timeline.exposed_seconds) + " for communication (of " +
         milliseconds(timeline.communication_seconds) + "), then norm, optimizer and other " +
         milliseconds(timeline.tail_seconds);
}

std::string bytes_text(const BucketSpan& span) {
  return base::human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, span.bytes)));
}

std::string left_out(std::size_t rows) { return "and " + std::to_string(rows) + " more buckets"; }

// A row of characters that stand for times from 0 to `end`.
class Track {
 public:
  Track(int columns, double end) : cells_(static_cast<std::size_t>(columns), ' '), end_(end) {}
  // At least one cell, so that what is short can be seen, unless it takes no time at all.
  void paint(double from, double to, char mark) {
    if (!(to > from) || !(end_ > 0)) return;
    const auto width = static_cast<double>(cells_.size());
    const double first = std::min(std::floor(from / end_ * width), width - 1);
    const double last = std::max(first + 1, std::min(std::round(to / end_ * width), width));
    std::fill(cells_.begin() + static_cast<std::ptrdiff_t>(first),
              cells_.begin() + static_cast<std::ptrdiff_t>(last), mark);
  }
  [[nodiscard]] const std::string& text() const { return cells_; }

 private:
  std::string cells_;
  double end_;
};

std::string row(std::string label, const Track& track, const std::string& figure) {
  label.resize(kLabelColumns, ' ');
  std::string line = label + "|" + track.text() + "|";
  if (!figure.empty()) line += " " + figure;
  return line + "\n";
}

// A box with a caption that browsers show when the pointer is on it.
std::string box(double x, double y, double width, const char* fill, const std::string& caption) {
  char text[160];
  std::snprintf(text, sizeof text,
                "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"10\" fill=\"%s\"><title>", x,
                y, std::max(0.0, width), fill);
  return text + caption + "</title></rect>\n";
}

std::string words(double x, double y, const std::string& text) {
  char head[80];
  std::snprintf(head, sizeof head, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
  return head + text + "</text>\n";
}

}  // namespace

std::string gantt_text(const StepTimeline& timeline, int columns) {
  const int width = std::max(columns, 60) - kLabelColumns - kFigureColumns - 2;
  const double end = timeline.step_seconds;
  Track compute(width, end);
  compute.paint(0, timeline.forward_seconds, 'f');
  compute.paint(timeline.forward_seconds, timeline.compute_seconds, 'b');
  const double summed = timeline.compute_seconds + timeline.exposed_seconds;
  compute.paint(timeline.compute_seconds, summed, '.');
  compute.paint(summed, end, 'o');
  std::string text = summary(timeline) + "\n" + row("compute", compute, milliseconds(end));
  const std::size_t rows = std::min(timeline.buckets.size(), kMostTextRows);
  for (std::size_t i = 0; i < rows; ++i) {
    const BucketSpan& span = timeline.buckets[i];
    Track track(width, end);
    track.paint(span.ready_seconds, span.start_seconds, '-');
    track.paint(span.start_seconds, span.end_seconds, '#');
    text += row("bucket " + std::to_string(i), track, bytes_text(span));
  }
  if (rows < timeline.buckets.size()) text += left_out(timeline.buckets.size() - rows) + "\n";
  return text + "f forward  b backward  - ready  # sum  . exposed  o norm, optimizer, other\n";
}

std::string gantt_svg(const StepTimeline& timeline) {
  constexpr double kLeft = 80, kWide = 720, kRow = 14, kTop = 40;
  const double end = timeline.step_seconds;
  const auto x = [&](double seconds) {  // a plan from elsewhere may say any time
    return kLeft + (end > 0 ? std::clamp(seconds / end, 0.0, 1.0) * kWide : 0);
  };
  double y = kTop;
  const auto paint = [&](double from, double to, const char* fill, const std::string& what) {
    if (!(to > from)) return std::string();
    return box(x(from), y, x(to) - x(from), fill, what + ", " + milliseconds(to - from));
  };
  const std::size_t rows = std::min(timeline.buckets.size(), kMostSvgRows);
  const double height = kTop + kRow * static_cast<double>(rows + 2) + 10;
  char head[240];
  std::snprintf(head, sizeof head,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\" font-size=\"10\">\n",
                kLeft + kWide + 90, height);
  const double summed = timeline.compute_seconds + timeline.exposed_seconds;
  std::string text =
      head + words(4, 16, summary(timeline)) + words(4, y + 9, "compute") +
      paint(0, timeline.forward_seconds, "#7aa6c2", "forward") +
      paint(timeline.forward_seconds, timeline.compute_seconds, "#2f6690", "backward") +
      paint(timeline.compute_seconds, summed, "#d1495b", "exposed communication") +
      paint(summed, end, "#8d99ae", "norm, optimizer and other");
  for (std::size_t i = 0; i < rows; ++i) {
    y += kRow;
    const BucketSpan& span = timeline.buckets[i];
    const std::string name = "bucket " + std::to_string(i);
    text += words(4, y + 9, name) +
            paint(span.ready_seconds, span.start_seconds, "#e5e0c9", name + " is ready") +
            paint(span.start_seconds, span.end_seconds, "#edae49", name + " is summed") +
            words(kLeft + kWide + 6, y + 9, bytes_text(span));
  }
  if (rows < timeline.buckets.size()) {
    text += words(4, y + kRow + 9, left_out(timeline.buckets.size() - rows));
  }
  return text + "</svg>\n";
}

}  // namespace regatta::topology::plan
