#include "orchestrator/cli/output.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/schemas.h"
#include "orchestrator/text/run_csv.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

Json rows_of(const Json& answer, const Shape& shape) {
  if (shape.rows == nullptr) return Json::array({answer});
  return *shape.rows == '\0' ? answer : answer.value(shape.rows, Json::array());
}

std::string names_of(const Json& rows, const char* key) {
  std::string names;
  for (const Json& row : rows) {
    const Json id = row.value(key, Json());
    if (id.is_null()) continue;
    names += base::printable(id.is_string() ? id.get<std::string>() : base::json_text(id)) + "\n";
  }
  return names;
}

}  // namespace

void Output::add_option(OptionList& options, const Shape& shape) {
  shape_ = shape;
  Choices<Format> formats{{"text", Format::Text}, {"json", Format::Json}, {"yaml", Format::Yaml}};
  if (shape.rows != nullptr) formats.emplace_back("csv", Format::Csv);
  if (shape.id != nullptr) formats.emplace_back("name", Format::Name);
  options.choose("-o,--output", &format_, formats,
                 shape.id != nullptr ? "for people, for programs, or ids alone"
                                     : "for people or for programs");
}

bool Output::print(const Json& answer) const {
  switch (format_) {
    case Format::Text:
      return false;
    case Format::Json:
      print_json(answer);
      break;
    case Format::Yaml:
      std::cout << text::yaml_of(answer);
      break;
    case Format::Csv:
      print_table(rows_of(answer, shape_));
      break;
    case Format::Name:
      std::cout << names_of(rows_of(answer, shape_), shape_.id);
      break;
  }
  std::cout << std::flush;
  return true;
}

// Its head, too, where it has no row.
void Output::print_table(const Json& rows) const {
  std::vector<std::string> head = columns_;
  if (rows.empty() && head.empty() && shape_.schema != nullptr) {
    head = columns_in_api(shape_.schema, shape_.rows);
  }
  std::cout << text::csv_of(rows, text::reader_of_stdout(), head);
}

bool Output::print_next(const Json& row) {
  switch (format_) {
    case Format::Text:
      return false;
    case Format::Json:
      print_json_line(row);
      break;
    case Format::Yaml:
      std::cout << "---\n" << text::yaml_of(row);
      break;
    case Format::Csv: {
      const std::string table = text::csv_of(Json::array({row}), text::reader_of_stdout());
      std::cout << (has_head_ ? table.substr(table.find("\r\n") + 2) : table);
      has_head_ = true;
      break;
    }
    case Format::Name:
      std::cout << names_of(Json::array({row}), shape_.id);
      break;
  }
  std::cout << std::flush;
  return true;
}

std::vector<std::string> columns_in_api(const std::string& schema, const std::string& rows) {
  const Json all = api::schemas();
  Json row = all.at(schema);
  if (row.at("properties").contains(rows)) row = row["properties"][rows].at("items");
  if (row.contains("anyOf")) row = row["anyOf"].at(0);
  if (row.contains("$ref")) {
    const std::string reference = row["$ref"].get<std::string>();
    row = all.at(reference.substr(reference.rfind('/') + 1));
  }
  std::vector<std::string> names;
  for (const auto& [name, property] : row.at("properties").items()) names.push_back(name);
  return names;
}

void print(const std::string& text) { std::cout << text << std::flush; }

void print_json(const Json& json) {
  std::cout << text::json_text(json, 2, text::reader_of_stdout()) << "\n" << std::flush;
}

void print_json_line(const Json& json) {
  std::cout << text::json_text(json, -1, text::reader_of_stdout()) << "\n" << std::flush;
}

}  // namespace regatta::orchestrator::cli
