#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"

namespace regatta::orchestrator::cli {

// Where the controller is, and what lets a client in over TCP.
struct ControllerAddress {
  std::string name{};  // "unix:/…/controller.sock", "http://127.0.0.1:8420"; empty: the default
  std::string token_file{};          // for http and https; empty: DATA/token, if it is there
  std::optional<base::Path> data{};  // DATA, whose socket is the default
};

// Talks to a controller. Every call has a deadline. Errors of the API come back as the base::Error
// they were; an unreachable controller is Code::Retry. Sends nothing to a socket, and no token to a
// port, that another user (but root) listens on.
class Client {
 public:
  // Code::User for another kind of address, and for a token that would leave this machine in the
  // clear; Code::Operator where the token's file is not as the controller wrote it.
  Client(const ControllerAddress& address, double timeout_seconds);

  // path: below /api/v1, such as "/runs"; ids in it come from path_part().
  [[nodiscard]] nlohmann::ordered_json get(const std::string& path) const;
  nlohmann::ordered_json post(const std::string& path, const std::string& body,
                              const std::map<std::string, std::string>& headers) const;
  nlohmann::ordered_json remove(const std::string& path) const;
  // Gives the bytes of an answer, from `offset` of them on, to `take` as they come, however many
  // there are; the timeout is for silence. Code::Retry where they end too early, and where the
  // answer is neither these nor a refusal: then none of it is taken.
  using Take = std::function<void(std::string_view bytes)>;
  void download(const std::string& path, std::uint64_t offset, const Take& take) const;
  // "unix:PATH", or "http://…" without a slash at the end.
  [[nodiscard]] const std::string& name() const { return name_; }
  // The socket; empty with TCP.
  [[nodiscard]] const base::Path& socket() const { return socket_; }
  // Where it is said, once, that what the controller answers stands still (api::kTroubleHeader).
  void tell_troubles(std::ostream& out) { troubles_ = &out; }

 private:
  [[nodiscard]] nlohmann::ordered_json call(
      const char* method, const std::string& path, const std::string* body,
      const std::map<std::string, std::string>& headers) const;
  struct Transfer;
  void perform(const char* method, const std::string& path, Transfer* transfer) const;
  void tell(const std::string& trouble) const;
  void find_token(const ControllerAddress& address);

  std::string name_;
  base::Path socket_;
  std::string token_;
  bool loopback_ = false;
  double timeout_seconds_;
  mutable std::ostream* troubles_;  // null: it has been said
};

// `text` with everything but letters, digits and "-._~" percent-encoded.
[[nodiscard]] std::string encoded(const std::string& text);
// The same of what stands between two '/' of a path. A usage error when it is empty; Code::NotFound
// when it has a '/', or is "." or "..", which is the name of nothing and would lead elsewhere.
[[nodiscard]] std::string path_part(const std::string& text);

}  // namespace regatta::orchestrator::cli
