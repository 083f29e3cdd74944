// One request and its answer, with cpp-httplib between bytes in memory: it reads and formats HTTP
// and never sees a connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "orchestrator/api/http.h"
#include "orchestrator/api/request_head.h"

namespace regatta::orchestrator::api {

enum class Body { Sent, LeftOut };  // left out: of HEAD

// What goes over the wire.
struct Wire {
  std::string bytes;
  std::shared_ptr<BodyStream> rest = {};  // what follows them; or nothing
  bool is_broken = false;                 // the connection ends here, whatever was promised
};

// What goes over the wire when `handler` is asked; the connection ends after it. The library reads
// a text that is written anew from `head` and `body`, so it cannot disagree with us on where the
// request ends. An exception that leaves `handler` becomes a 500 without detail, as does an answer
// that has a flaw; the log says why.
[[nodiscard]] Wire exchange(const RequestHead& head, std::string_view body, const Peer& peer,
                            const std::function<Response(const Request&)>& handler);

// The same for an answer that needs no request, such as a refusal; one without a stream.
[[nodiscard]] std::string to_wire(const Response& response, Body body);

// Why `wire` is not exactly one HTTP/1.1 answer with what `meant` says; empty when it is: one
// status line, one Content-Length that is the length of meant.body, then these bytes and no more
// (no bytes for HEAD; neither bytes nor a length for 304 and 204), no Transfer-Encoding. Of a
// stream it is the head alone, with the length of all pieces, or none where that is not known.
[[nodiscard]] std::string flaw_of(std::string_view wire, const Response& meant, Body body);

}  // namespace regatta::orchestrator::api
