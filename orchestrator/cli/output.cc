#include "orchestrator/cli/output.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {

void add_format_option(OptionList& options, Format* format) {
  options.choose("-o,--output", format, {{"text", Format::Text}, {"json", Format::Json}},
                 "for people or for programs");
}

void print_json(const nlohmann::ordered_json& json) {
  std::cout << text::json_text(json, 2, text::reader_of_stdout()) << "\n" << std::flush;
}

void print_json_line(const nlohmann::ordered_json& json) {
  std::cout << text::json_text(json, -1, text::reader_of_stdout()) << "\n" << std::flush;
}

}  // namespace regatta::orchestrator::cli
