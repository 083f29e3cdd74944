// What is wrong, or looks so: made by the graph's own checks and by the doctor.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace regatta::topology::graph {

enum class Severity { Note, Warning, Error };
[[nodiscard]] const char* name_of(Severity severity);  // "note", "warning", "error"

struct Evidence {
  std::string path;   // file, key or vertex
  std::string value;  // what stands there
};

struct Finding {
  std::string id;  // "nvlink.missing", as `regatta doctor --list` documents it
  Severity severity = Severity::Warning;
  std::string subject;  // a vertex's id, a variable, a file
  std::string words;    // one sentence: what is wrong
  std::vector<Evidence> evidence;
  std::optional<double> cost_gb_per_s;      // bandwidth that is lost, as far as a model knows
  std::optional<double> cost_milliseconds;  // time per step that is lost, likewise
  std::string remedy;                       // exactly what to do
};

}  // namespace regatta::topology::graph
