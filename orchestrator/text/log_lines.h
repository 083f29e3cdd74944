// Logs for a terminal: lines between those of a log that is followed, what a search has found.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator::text {

// Line by line, so that line breaks stay and everything else is escaped.
[[nodiscard]] std::string log_text(const std::string& log);

// "-- step 412/4000, loss 6.102, 341 samples/s, mlm_accuracy 0.0831 of 0.0980, target in 35.0 s",
// of a run as the API has it, in 80 columns: the metric and the rate go first. Empty before the
// first step.
[[nodiscard]] std::string step_line(const nlohmann::ordered_json& run);
// A line for each evaluation and each checkpoint of an answer of metrics, by time.
[[nodiscard]] std::string event_lines(const nlohmann::ordered_json& metrics);

// As `grep -n -C` prints them: "12:" before a match, "11-" before a line around it, "--" where
// lines are left out. last_line: the number of the last line that was printed; 0 at the begin.
[[nodiscard]] std::string found_lines(const nlohmann::ordered_json& lines, bool with_context,
                                      long long* last_line);

}  // namespace regatta::orchestrator::text
