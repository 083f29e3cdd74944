#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace regatta::orchestrator {

// Talks to a controller. Every call has a deadline. Errors of the API come back as the base::Error
// they were; an unreachable controller is Code::Retry.
class Client {
 public:
  // url: "http://127.0.0.1:8420"; Code::User for anything but http:// or https://.
  Client(std::string url, double timeout_seconds);

  // path: below /api/v1, such as "/runs"; ids in it come from path_part().
  [[nodiscard]] nlohmann::ordered_json get(const std::string& path) const;
  nlohmann::ordered_json post(const std::string& path, const std::string& body,
                              const std::map<std::string, std::string>& headers) const;
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  [[nodiscard]] nlohmann::ordered_json call(
      const std::string& path, const std::string* body,
      const std::map<std::string, std::string>& headers) const;

  std::string url_;
  double timeout_seconds_;
};

// `text` with everything but letters, digits and "-._~" percent-encoded. Code::User when it is
// empty.
[[nodiscard]] std::string path_part(const std::string& text);

}  // namespace regatta::orchestrator
