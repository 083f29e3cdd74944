#include "orchestrator/webhooks/post.h"

#include <curl/curl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::webhooks {
namespace {

constexpr long kConnectMilliseconds = 5000;
constexpr int kLookMilliseconds = 100;                       // for a stop
constexpr std::size_t kMostAnswer = std::size_t{64} << 10U;  // bytes that are read, and dropped

struct Cleanup {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  const std::string copy = text;
  curl_free(text);
  return copy;
}

// Of a host that is an address, in whatever spelling, no name.
void check_numeric(const std::string& shown, std::string host, Private private_addresses) {
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return;
  const std::string why = why_forbidden(found->ai_addr, private_addresses);
  ::freeaddrinfo(found);
  if (!why.empty()) throw base::Error(base::Code::User, "webhook " + shown + ": " + why);
}

}  // namespace

HookUrl parse_hook_url(const std::string& url, Private private_addresses) {
  const auto refuse = [](const std::string& why) {
    throw base::Error(base::Code::User, "a webhook's URL " + why +
                                            "; use one such as https://example.org/hooks/regatta");
  };
  const std::unique_ptr<CURLU, Cleanup> parsed(curl_url());
  if (parsed == nullptr || url.find_first_of(" \t\r\n") != std::string::npos ||
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    refuse("is none");
  }
  const std::string scheme = part_of(parsed.get(), CURLUPART_SCHEME);
  const std::string host = part_of(parsed.get(), CURLUPART_HOST);
  const std::string port = part_of(parsed.get(), CURLUPART_PORT);
  if (scheme != "http" && scheme != "https") refuse("is neither http nor https");
  if (host.empty()) refuse("has no host");
  if (!part_of(parsed.get(), CURLUPART_USER).empty() ||
      !part_of(parsed.get(), CURLUPART_PASSWORD).empty()) {
    refuse("has a user or a password, which the secret's signature takes the place of");
  }
  const std::string shown =
      base::printable(scheme + "://" + host + (port.empty() ? "" : ":" + port));
  check_numeric(shown, host, private_addresses);
  return {url, shown};
}

struct Poster::Handles {
  // What a connection has learned.
  struct Guard {
    Private private_addresses = Private::Refused;
    std::string forbidden;
    std::size_t answered = 0;
  };
  struct EasyCleanup {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  };
  struct MultiCleanup {
    void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
  };

  // Called by libcurl in the place of socket(), with the very address that it connects to.
  static curl_socket_t open_socket(void* given, curlsocktype, curl_sockaddr* address) {
    Guard* const learned = static_cast<Guard*>(given);
    const std::string why = why_forbidden(&address->addr, learned->private_addresses);
    if (why.empty()) {
      return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }
    learned->forbidden = why;
    return CURL_SOCKET_BAD;
  }

  static std::size_t drop(char*, std::size_t size, std::size_t count, void* given) {
    Guard* const learned = static_cast<Guard*>(given);
    learned->answered += size * count;
    return learned->answered > kMostAnswer ? 0 : size * count;
  }

  Guard guard;
  std::unique_ptr<CURL, EasyCleanup> easy{curl_easy_init()};
  std::unique_ptr<CURLM, MultiCleanup> multi{curl_multi_init()};  // keeps connections
  std::array<char, CURL_ERROR_SIZE> error{};
};

Poster::Poster(Private private_addresses, double timeout_seconds)
    : handles_(std::make_unique<Handles>()) {
  Handles& handles = *handles_;
  base::check(handles.easy != nullptr && handles.multi != nullptr, "libcurl has memory");
  handles.guard.private_addresses = private_addresses;
  CURL* const curl = handles.easy.get();
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whose address would be the one that is checked
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, Handles::open_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &handles.guard);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Handles::drop);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &handles.guard);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_seconds * 1000));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handles.error.data());
}

Poster::~Poster() = default;

HookAnswer Poster::post(const HookPost& request, const std::stop_token& stop) {
  CURL* const curl = handles_->easy.get();
  CURLM* const multi = handles_->multi.get();
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, Cleanup> headers(list);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.whole.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
  handles_->guard.forbidden.clear();
  handles_->guard.answered = 0;
  handles_->error.front() = '\0';
  curl_multi_add_handle(multi, curl);
  int running = 1;
  while (running > 0 && !stop.stop_requested()) {
    curl_multi_perform(multi, &running);
    if (running > 0) curl_multi_poll(multi, nullptr, 0, kLookMilliseconds, nullptr);
  }
  CURLcode result = CURLE_ABORTED_BY_CALLBACK;
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  }
  curl_multi_remove_handle(multi, curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300 &&
      (result == CURLE_OK || result == CURLE_WRITE_ERROR)) {  // of an answer that is too long
    return {};
  }
  if (!handles_->guard.forbidden.empty()) return {handles_->guard.forbidden};
  if (stop.stop_requested()) return {"the controller ended"};
  if (result != CURLE_OK) {
    const std::string_view why(handles_->error.data());
    return {
        base::printable(why.empty() ? std::string(curl_easy_strerror(result)) : std::string(why))};
  }
  curl_off_t pause = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &pause);
  return {"the receiver answered with status " + std::to_string(status) +
              (status >= 300 && status < 400 ? ", and no redirect is followed" : ""),
          static_cast<double>(pause)};
}

}  // namespace regatta::orchestrator::webhooks
