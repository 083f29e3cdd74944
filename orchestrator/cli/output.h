// What commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/cli/command_options.h"

namespace regatta::orchestrator::cli {

enum class Format { Text, Json, Yaml, Csv, Name };

// What an answer is beside JSON and YAML: a table has `csv`, what has an id has `name`.
struct Shape {
  const char* rows =
      nullptr;               // the key of its rows; "": it is a list of them; null: it is no table
  const char* id = nullptr;  // the key of what a row, or the whole, is called; null: by nothing
  // The schema in the API of the answer, or of its rows, which has the columns of a table without a
  // row; null: there is always one.
  const char* schema = nullptr;
};

// -o, --output of a command, and the answer in it.
class Output {
 public:
  // text, json, yaml, and what the shape has.
  void add_option(OptionList& options, const Shape& shape = {});

  [[nodiscard]] Format format() const { return format_; }
  [[nodiscard]] bool is_text() const { return format_ == Format::Text; }

  // Nothing is printed, and false comes back, where it is to be text, which is the command's.
  [[nodiscard]] bool print(const nlohmann::ordered_json& answer) const;
  // Of a table without a row, where they are not the schema's.
  void set_columns(std::vector<std::string> columns) { columns_ = std::move(columns); }
  // One of many that come one after the other: JSON in a line, a document of YAML, a row of CSV
  // (the first with a head), a name.
  [[nodiscard]] bool print_next(const nlohmann::ordered_json& row);

 private:
  void print_table(const nlohmann::ordered_json& rows) const;

  Format format_ = Format::Text;
  Shape shape_;
  std::vector<std::string> columns_;
  bool has_head_ = false;
};

// The columns of what a schema of the API lists below `rows`, or has itself where it lists nothing
// there.
[[nodiscard]] std::vector<std::string> columns_in_api(const std::string& schema,
                                                      const std::string& rows = "");

// Flushed, so that a reader of a pipe has it at once.
void print(const std::string& text);
// Over several lines, or in one.
void print_json(const nlohmann::ordered_json& json);
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace regatta::orchestrator::cli
