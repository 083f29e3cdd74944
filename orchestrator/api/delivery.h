// What every answer gets on its way out: the request's id, a tag by which it is recognised, and
// gzip.
#pragma once

#include <string>

#include "orchestrator/api/http.h"
#include "orchestrator/api/request_head.h"

namespace regatta::orchestrator::api {

// The client's X-Request-Id where it is one (1 to 64 letters, digits and "-_."), else one of 16
// random hexadecimal digits.
[[nodiscard]] std::string request_id_of(const RequestHead& head);

// With the id in X-Request-Id, and in the body of a problem.
[[nodiscard]] Response with_request_id(Response response, const std::string& id);

// Whether If-None-Match names this ETag, weak or not.
[[nodiscard]] bool is_known(const std::string& if_none_match, const std::string& tag);

// For GET and HEAD: 200 gets an ETag, and becomes 304 where If-None-Match has it.
[[nodiscard]] Response with_tag(Response response, const Request& request);

// Compressed where the client takes gzip and the body is a text of more than 1 kB.
[[nodiscard]] Response compressed(Response response, const Request& request);

}  // namespace regatta::orchestrator::api
