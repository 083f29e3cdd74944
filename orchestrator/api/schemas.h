// What requests and answers look like, as JSON Schemas (2020-12) by name. Of records they are made
// from the same lists of fields (runs/fields.h) as the answers; a test holds answers against them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::api {

// {"Run": {…}, …}, for "components.schemas" of the document.
[[nodiscard]] nlohmann::ordered_json schemas();

}  // namespace regatta::orchestrator::api
