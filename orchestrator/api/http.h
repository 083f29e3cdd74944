// HTTP as two structs; the library stays behind exchange.cc.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace regatta::orchestrator::api {

constexpr std::size_t kMaxBody = std::size_t{1} << 20U;  // of a request

// Of every answer while the controller cannot write its store (Store::trouble()): why, in one line.
constexpr const char* kTroubleHeader = "X-Regatta-Trouble";

// Who sends a request.
struct Peer {
  bool local_socket = false;           // over the unix socket: uid and pid are who connected
  uid_t uid = static_cast<uid_t>(-1);  // -1 over TCP
  pid_t pid = 0;                       // 0 over TCP
  std::string address;                 // over TCP "127.0.0.1"; empty over the unix socket
};

struct Request {
  std::string method;                          // "GET", "POST", …; a HEAD arrives as GET
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> query;    // decoded; of repeated names one
  std::map<std::string, std::string> headers;  // names in lower case; values without control bytes;
                                               // of repeated names joined by ", "
  std::string body;
  Peer peer = {};
  std::string repeated_query = {};  // the name of a query parameter that came twice; else empty
  std::string unreadable_query =
      {};                            // a part of the query, as sent, that is no NAME=VALUE in UTF-8
  std::string unreadable_path = {};  // a part of the path, as sent, that is not UTF-8 with %XX
  std::string id = {};               // delivery.h
  bool has_length = true;            // false: a POST that does not say how long its body is

  // Empty where there is none of that name, which is in lower case.
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// A body that goes out piece by piece, as fast as the peer takes it.
class BodyStream {
 public:
  struct Piece {
    std::string bytes;
    bool is_last = false;
  };
  BodyStream() = default;
  virtual ~BodyStream() = default;
  BodyStream(const BodyStream&) = delete;
  BodyStream& operator=(const BodyStream&) = delete;

  // Bytes of all pieces; nothing: it ends when the connection does.
  [[nodiscard]] virtual std::optional<std::uint64_t> size() const = 0;
  // No bytes, and not the last: there are none yet, and it is asked again soon. In a worker's
  // thread, by one at a time; what it throws ends the connection.
  virtual Piece next() = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
  std::shared_ptr<BodyStream> stream = {};  // instead of `body`
};

}  // namespace regatta::orchestrator::api
