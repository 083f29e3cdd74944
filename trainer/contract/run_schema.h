// The run file as a JSON Schema (2020-12), for editors and for the API's document. It is what
// parse_run_config() asks for, so it names no key that is not read and misses none. What depends on
// another key (a micro batch is at most the batch) is not in it: the reader says that.
#pragma once

#include <string>

namespace regatta::trainer::contract {

[[nodiscard]] std::string run_file_schema();

}  // namespace regatta::trainer::contract
