// What requests and answers look like, as JSON Schemas (2020-12) by name. Of records they are made
// from the same lists of fields (runs/fields.h) as the answers; a test holds answers against them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace regatta::orchestrator::api {

// {"Run": {…}, …}, for "components.schemas" of the document.
[[nodiscard]] nlohmann::ordered_json schemas();
// {"$ref": …}, to one of them.
[[nodiscard]] nlohmann::ordered_json reference(std::string_view schema);

}  // namespace regatta::orchestrator::api
