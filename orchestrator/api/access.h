// Who may use the API. Over the unix socket: the controller's own user. Over TCP, which every user
// of the machine can reach: whoever shows the token of DATA/token, or a session that a one-time
// link was exchanged for. The page's own files hold no secret and are for everybody.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/sha256.h"
#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

constexpr double kTicketSeconds = 60;
constexpr double kSessionIdleSeconds = 12 * 3600.0;
constexpr double kSessionSeconds = 7 * 24 * 3600.0;
constexpr std::size_t kMostTickets = 64;    // the oldest is dropped
constexpr std::size_t kMostSessions = 256;  // the one that was idle longest is dropped

struct AccessOptions {
  std::string token;  // of DATA/token
  std::string url;    // where the page is, without a slash at the end
  uid_t owner = 0;    // the controller's own user
};

class Access {
 public:
  // The clock outlives it. Of the token, tickets and sessions only hashes are kept; a restart of
  // the controller ends all tickets and sessions.
  Access(const AccessOptions& options, base::Clock& clock);

  // The answer to a request that does not go on to the API: a refusal, or one of the two routes
  // that are answered here, POST /tickets (over the socket only) and POST /session. Nothing for all
  // that may go on. Thread-safe.
  [[nodiscard]] std::optional<Response> answer(const Request& request);

 private:
  struct Session {
    double made = 0;
    double used = 0;
  };

  [[nodiscard]] bool has_credential(const Request& request);
  [[nodiscard]] Response make_ticket();
  [[nodiscard]] Response open_session(const Request& request);
  [[nodiscard]] Response refuse(const Request& request, const std::string& message);
  // Both with the lock held.
  [[nodiscard]] bool take_ticket(const std::string& ticket, double now);
  void forget_expired(double now);

  const base::Sha256 token_;
  const std::string url_;
  const uid_t owner_;
  base::Clock& clock_;
  std::mutex mutex_;
  std::map<base::Sha256, double> tickets_;  // hash → when it was made
  std::map<base::Sha256, Session> sessions_;
  int refused_ = 0;  // since the log last said so
  std::optional<double> logged_;
};

}  // namespace regatta::orchestrator::api
