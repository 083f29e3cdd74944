// Text for people: tables, the progress line, the summary. Pure functions of the API's JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regatta::orchestrator::text {

// Columns padded to their widest cell, two blanks between; each cell passes through
// base::printable.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

// Characters of UTF-8: columns of most texts.
[[nodiscard]] std::size_t width_of(const std::string& text);
// At most so many of them, the last an ellipsis where more are left out.
[[nodiscard]] std::string cut(const std::string& text, std::size_t columns);

// At most `width` columns where the ids leave room for that (0: as wide as it gets): dates and
// heads get shorter, then dates and values go, and notes are cut.
[[nodiscard]] std::string run_table(const nlohmann::ordered_json& runs, int width = 0);
[[nodiscard]] std::string run_details(const nlohmann::ordered_json& run);
// "[####------] step 412/4000  mlm_accuracy 0.083 of 0.098  341 samples/s  target in 35.0 s", at
// most `width` columns: the bar goes first, then the rate and the metric; step and forecast stay.
[[nodiscard]] std::string progress_line(const nlohmann::ordered_json& run, int width);
// The result of a run: target reached or not, time to accuracy, throughput, checkpoint path.
[[nodiscard]] std::string run_summary(const nlohmann::ordered_json& run);

// How many decimals tell a value from what stands beside it: 4, or more where these are the same.
[[nodiscard]] int decimals_apart(double value, double beside);

// "12:04:31" where the program runs (TZ), of a time of the API; empty where there is none.
[[nodiscard]] std::string local_time(const nlohmann::ordered_json& at);
// The same with its day: "2026-11-23 14:05:03".
[[nodiscard]] std::string local_date(const nlohmann::ordered_json& at);
// "Slurm has not answered since 12:04:31 (3 min 05 s): why". answered_at: of the API, or null.
[[nodiscard]] std::string silence_text(const nlohmann::ordered_json& answered_at,
                                       double age_seconds, const std::string& why);

// JSON for stdout. A terminal gets what is not ASCII as \u escapes: to JSON they are the same, and
// to a terminal U+009B begins a sequence that it obeys.
enum class Audience { Program, Terminal };
[[nodiscard]] Audience reader_of_stdout();
// Columns of the terminal behind a descriptor (80 when it does not say); 0 when it is none.
[[nodiscard]] int terminal_width(int descriptor);
// Lines of it (24 when it does not say); 0 when it is none.
[[nodiscard]] int terminal_height(int descriptor);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent,
                                    Audience reader);

// A text of an answer; empty where there is none.
[[nodiscard]] std::string text_of(const nlohmann::ordered_json& json, const char* key);

[[nodiscard]] bool is_over(const nlohmann::ordered_json& run);

}  // namespace regatta::orchestrator::text
