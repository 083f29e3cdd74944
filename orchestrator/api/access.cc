#include "orchestrator/api/access.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/routes.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTickets = "/api/v1/tickets";
constexpr const char* kSession = "/api/v1/session";
constexpr int kTicketBytes = 16;
constexpr int kSessionBytes = 32;
constexpr std::size_t kMostCredential = 256;  // bytes; longer ones are not even hashed
constexpr std::size_t kMostBody = 1024;
constexpr double kLogSeconds = 60;

// Every path that could reach a route: what begins so is no file of the page.
bool is_api(const std::string& path) { return path.rfind("/api", 0) == 0; }

// The token of "Authorization: Bearer TOKEN"; empty when there is none.
std::string bearer(const Request& request) {
  const auto header = request.headers.find("authorization");
  if (header == request.headers.end() || header->second.size() > kMostCredential) return "";
  constexpr std::string_view kScheme = "bearer ";
  const std::string& value = header->second;
  if (value.size() <= kScheme.size()) return "";
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = value[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != kScheme[i]) return "";
  }
  return value.substr(kScheme.size());
}

// Of {"ticket": "…"} and nothing else. Code::User for another body.
std::string ticket_in(const std::string& body) {
  const bool readable = body.size() <= kMostBody && base::is_utf8(body) &&
                        base::json_depth_at_most(body, 2) && !base::repeated_key(body);
  const Json json = readable ? base::parse_json<Json>(body) : Json();
  if (json.is_object() && json.size() == 1 && json.contains("ticket") &&
      json["ticket"].is_string()) {
    return json["ticket"];
  }
  std::string wrong = json.is_object() ? "ticket" : "";  // unless another key is
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && key != "ticket") wrong = base::printable(key);
  }
  throw base::Error(base::Code::User,
                    R"(the body is not {"ticket": "…"}; send the ticket of a link)", wrong);
}

}  // namespace

Access::Access(const AccessOptions& options, base::Clock& clock)
    : token_(base::sha256(options.token)),
      url_(options.url),
      owner_(options.owner),
      clock_(clock) {}

std::optional<Response> Access::answer(const Request& request) {
  const bool post = request.method == "POST";
  if (request.peer.local_socket) {
    if (request.peer.uid != owner_ && request.peer.uid != 0) {
      return error_response(403, "forbidden", "this controller answers its own user only");
    }
    const bool ours = request.path == kTickets || request.path == kSession;
    if (!ours) return std::nullopt;
    if (!post) return wrong_method("POST");
    if (const auto refused = refuse_query(request, {})) return refused;
    if (request.path == kSession) return open_session(request);
    const auto refused = refuse_body(request, RequestBody::None, {});
    return refused ? *refused : make_ticket();
  }
  if (!is_api(request.path)) return std::nullopt;
  if (post && request.path == kSession) {
    const auto refused = refuse_query(request, {});
    return refused ? *refused : open_session(request);
  }
  if (!has_credential(request)) {
    return refuse(request,
                  "this controller answers its own user only; for the page run 'regatta open' on "
                  "the controller's machine, other programs send 'Authorization: Bearer TOKEN' "
                  "with the token in its data directory (~/.local/state/regatta/token)");
  }
  if (request.path == kSession) return wrong_method("POST");
  if (request.path == kTickets) {
    return refuse_scope(request, Scope::Owner,
                        "links are made over the controller's socket only; run 'regatta open'");
  }
  return std::nullopt;
}

bool Access::has_credential(const Request& request) {
  const std::string credential = bearer(request);
  if (credential.empty()) return false;
  const base::Sha256 hash = base::sha256(credential);
  if (base::equal_in_constant_time(hash, token_)) return true;
  const double now = clock_.monotonic_seconds();
  const std::lock_guard lock(mutex_);
  forget_expired(now);
  const auto session = sessions_.find(hash);
  if (session == sessions_.end()) return false;
  session->second.used = now;
  return true;
}

Response Access::make_ticket() {
  const std::string ticket = base::random_hex(kTicketBytes);
  const double now = clock_.monotonic_seconds();
  {
    const std::lock_guard lock(mutex_);
    forget_expired(now);
    if (tickets_.size() >= kMostTickets) {
      tickets_.erase(
          std::min_element(tickets_.begin(), tickets_.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; }));
    }
    tickets_[base::sha256(ticket)] = now;
  }
  return json_response(201, {{"ticket", ticket}, {"url", url_}, {"seconds", kTicketSeconds}});
}

Response Access::open_session(const Request& request) {
  std::string ticket;
  try {
    ticket = ticket_in(request.body);
  } catch (const base::Error& error) {
    return error_response(error, request.body);
  }
  const double now = clock_.monotonic_seconds();
  std::string token;
  {
    const std::lock_guard lock(mutex_);
    forget_expired(now);
    if (take_ticket(ticket, now)) {
      if (sessions_.size() >= kMostSessions) {
        sessions_.erase(std::min_element(
            sessions_.begin(), sessions_.end(),
            [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
      }
      token = base::random_hex(kSessionBytes);
      sessions_[base::sha256(token)] = {now, now};
    }
  }
  if (token.empty()) {
    return refuse(request,
                  "this link was used already or is older than a minute; run 'regatta open' on the "
                  "controller's machine for another");
  }
  return json_response(
      201, {{"token", token}, {"idle_seconds", kSessionIdleSeconds}, {"seconds", kSessionSeconds}});
}

bool Access::take_ticket(const std::string& ticket, double now) {
  if (ticket.empty()) return false;
  const auto found = tickets_.find(base::sha256(ticket));
  if (found == tickets_.end()) return false;
  const bool valid = now - found->second <= kTicketSeconds;
  tickets_.erase(found);
  return valid;
}

void Access::forget_expired(double now) {
  std::erase_if(tickets_, [&](const auto& each) { return now - each.second > kTicketSeconds; });
  std::erase_if(sessions_, [&](const auto& each) {
    return now - each.second.used > kSessionIdleSeconds || now - each.second.made > kSessionSeconds;
  });
}

// Strangers may knock as often as they like: one line a minute says how often.
Response Access::refuse(const Request& request, const std::string& message) {
  const double now = clock_.monotonic_seconds();
  int count = 0;
  {
    const std::lock_guard lock(mutex_);
    ++refused_;
    if (!logged_ || now - *logged_ >= kLogSeconds) {
      logged_ = now;
      count = std::exchange(refused_, 0);
    }
  }
  if (count > 0) {
    base::log(base::LogLevel::Warning,
              "refused " + base::plural(count, "request") +
                  " without a valid token, the newest from " +
                  base::printable(request.peer.address.empty() ? "an unknown address"
                                                               : request.peer.address));
  }
  Response response = error_response(401, "unauthorized", message);
  response.headers["WWW-Authenticate"] = "Bearer realm=\"regatta\"";
  return response;
}

}  // namespace regatta::orchestrator::api
