// One POST to a receiver that may be anything: slow, hung, redirecting, or not where its name says.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/webhooks/address_guard.h"

namespace regatta::orchestrator::webhooks {

// A receiver's address, checked: http or https, a host, no user and no password.
struct HookUrl {
  std::string whole;
  std::string shown;  // scheme, host and port alone: a path or a query may be a secret
};
// Code::User for anything else, and for an address that is forbidden as it stands.
[[nodiscard]] HookUrl parse_hook_url(const std::string& url, Private private_addresses);

struct HookPost {
  const HookUrl& url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
};

struct HookAnswer {
  std::string why;           // it was not taken, in words without the URL's path; empty: it was
  double pause_seconds = 0;  // that the receiver asks for (Retry-After); 0: it does not
};

// For one thread. Follows no redirect, asks no proxy, and connects to no address but one that
// why_forbidden() has passed.
class Poster {
 public:
  Poster(Private private_addresses, double timeout_seconds);
  ~Poster();
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  // Taken is what the receiver answers with 2xx. Soon after `stop` it gives up.
  [[nodiscard]] HookAnswer post(const HookPost& request, const std::stop_token& stop);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace regatta::orchestrator::webhooks
