// The API's document, OpenAPI 3.1: made of the table of routes and of the schemas.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::orchestrator::api {

// The same for every controller of this version.
[[nodiscard]] nlohmann::ordered_json openapi_document();

}  // namespace regatta::orchestrator::api
