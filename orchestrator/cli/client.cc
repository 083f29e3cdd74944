#include "orchestrator/cli/client.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/http.h"
#include "orchestrator/api/server.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/files/trusted_peer.h"
#include "orchestrator/site/data_directory.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxAnswer = std::size_t{64} << 20U;
constexpr long kConnectMilliseconds = 5000;

struct Cleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Words that are not ours, such as "forbidden" or "busy", mean what their status says.
base::Code code_named(const std::string& name, long status) {
  for (const base::Code code :
       {base::Code::User, base::Code::NotFound, base::Code::Forbidden, base::Code::Conflict,
        base::Code::Operator, base::Code::Retry, base::Code::Developer}) {
    if (base::meaning(code).name == name) return code;
  }
  if (name == "unauthorized") return base::Code::Forbidden;
  if (status == 408 || status == 503) return base::Code::Retry;
  return status < 500 ? base::Code::User : base::Code::Developer;
}

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTls = "https://";

// The host of an address as libcurl will read it, without brackets; empty when there is none.
std::string host_of(const std::string& url) {
  const std::unique_ptr<CURLU, Cleanup> parsed(curl_url());
  char* host = nullptr;
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parsed.get(), CURLUPART_HOST, &host, 0) != CURLUE_OK) {
    return "";
  }
  std::string name = host;
  curl_free(host);
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  return name;
}

// What to write in the place of a name that begins with neither http:// nor unix:.
std::string address_meant(const std::string& name) {
  constexpr const char* kForms = "unix:PATH of its socket, or http://127.0.0.1:8420";
  const std::string shown = base::printable(name);
  if (name.find("://") != std::string::npos || name.rfind(kUnix, 0) == 0) return kForms;
  if (name.find('/') != std::string::npos) return std::string(kUnix) + shown;
  const bool host = !name.empty() && name.find_first_of(" \t@?#") == std::string::npos &&
                    !host_of("http://" + name).empty();
  return host ? "http://" + shown : kForms;
}

[[noreturn]] void throw_unreachable(const std::string& name, bool loopback, const char* why) {
  const std::string what =
      "cannot reach the controller at " + base::printable(name) + " (" + why + "); ";
  if (loopback && name.rfind(kTls, 0) == 0) {
    throw base::Error(base::Code::User, what +
                                            "a controller of this machine has no TLS: use http://" +
                                            base::printable(name.substr(kTls.size())));
  }
  throw base::Error(base::Code::Retry,
                    what + "start it with 'regatta serve', or name another with --server");
}

Json parse_answer(const std::string& name, long status, const std::string& answer) {
  const Json json = base::parse_json<Json>(answer);
  const auto text = [&json](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (status >= 400 && !text("code").empty()) {  // problem details, as a controller has them
    throw base::Error(code_named(text("code"), status),
                      text("detail").empty() ? "the controller refused" : text("detail"));
  }
  if (status >= 400 || json.is_discarded()) {
    throw base::Error(base::Code::Retry, base::printable(name) + " answered with status " +
                                             std::to_string(status) +
                                             ", not as a controller does; check --server");
  }
  return json;
}

// What is learned of the other end before anything is sent to it.
struct Guard {
  curl_socket_t socket = CURL_SOCKET_BAD;
  std::string foreign;  // why nothing was sent
};

// Called by libcurl in the place of socket().
curl_socket_t make_socket(void* guard, curlsocktype, curl_sockaddr* address) {
  return static_cast<Guard*>(guard)->socket =
             ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Called by libcurl between connecting and sending.
int check_socket(void* given, char*, char*, int, int) {
  Guard* const guard = static_cast<Guard*>(given);
  guard->foreign = files::why_not_own_socket(guard->socket);
  return guard->foreign.empty() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}
int check_listener(void* given, char* address, char*, int port, int) {
  Guard* const guard = static_cast<Guard*>(given);
  guard->foreign = files::why_not_own_listener(address, port);
  return guard->foreign.empty() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// For the whole, or for silence.
void set_timeout(CURL* curl, double seconds, bool for_silence) {
  if (for_silence) {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(seconds)));
  } else {
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(seconds * 1000));
  }
}

}  // namespace

// A request, and what becomes of its answer.
struct Client::Transfer {
  const std::string* body = nullptr;
  std::map<std::string, std::string> headers{};
  Take take{};         // of an answer with `taken`; nothing: it goes to `answer`
  long taken = 0;      // status
  std::string from{};  // the server

  CURL* curl = nullptr;
  long status = 0;
  std::string answer{};
  std::string trouble{};        // api::kTroubleHeader
  std::exception_ptr failed{};  // of `take`

  // That these are the bytes that were asked for.
  void check_status() const {
    if (status == taken) return;
    throw base::Error(base::Code::Retry, base::printable(from) + " answered with status " +
                                             std::to_string(status) + " where " +
                                             std::to_string(taken) +
                                             " was due; remove the part that is there, or check "
                                             "--server");
  }

  static std::size_t receive_header(char* bytes, std::size_t size, std::size_t count,
                                    void* target) {
    const std::string_view line(bytes, size * count);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        base::lower_case(line.substr(0, colon)) == base::lower_case(api::kTroubleHeader)) {
      static_cast<Transfer*>(target)->trouble = base::trimmed(line.substr(colon + 1), " \t\r\n");
    }
    return line.size();
  }

  static std::size_t receive(char* bytes, std::size_t size, std::size_t count, void* target) {
    auto* const transfer = static_cast<Transfer*>(target);
    const std::string_view part(bytes, size * count);
    curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &transfer->status);
    if (!transfer->take || transfer->status >= 400) {
      if (transfer->answer.size() + part.size() > kMaxAnswer) return 0;
      transfer->answer.append(part);
      return part.size();
    }
    try {
      transfer->check_status();
      transfer->take(part);
    } catch (...) {
      transfer->failed = std::current_exception();
      return 0;
    }
    return part.size();
  }
};

Client::Client(const ControllerAddress& address, double timeout_seconds)
    : name_(address.name), timeout_seconds_(timeout_seconds), troubles_(&std::cerr) {
  if (name_.empty()) {
    if (!address.data) {
      throw base::Error(base::Code::Operator,
                        "cannot tell where the controller is: neither XDG_STATE_HOME nor HOME is "
                        "set; name it with --server");
    }
    name_ = std::string(kUnix) + site::socket_path(*address.data).string();
  }
  if (name_.rfind(kUnix, 0) == 0 && name_.size() > kUnix.size()) {
    socket_ = name_.substr(kUnix.size());
    return;
  }
  while (!name_.empty() && name_.back() == '/') name_.pop_back();
  if (name_.rfind("http://", 0) != 0 && name_.rfind(kTls, 0) != 0) {
    throw UsageError("the server '" + base::printable(name_) + "' is not an address; use " +
                     address_meant(name_));
  }
  loopback_ = api::is_loopback(host_of(name_));
  find_token(address);
}

// The default token goes to this machine only: elsewhere there is another controller, if any.
void Client::find_token(const ControllerAddress& address) {
  const bool encrypted = name_.rfind(kTls, 0) == 0;
  if (!address.token_file.empty()) {
    if (!loopback_ && !encrypted) {
      throw base::Error(base::Code::User,
                        "the token is not sent to " + base::printable(name_) +
                            ", where everybody on the way can read it; use https://, or ssh -L "
                            "and http://127.0.0.1");
    }
    token_ = site::read_token(address.token_file);
    return;
  }
  if (!loopback_ || !address.data) return;
  try {
    token_ = site::read_token(site::token_path(*address.data));
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) throw;
  }
}

Json Client::get(const std::string& path) const { return call("GET", path, nullptr, {}); }

Json Client::remove(const std::string& path) const { return call("DELETE", path, nullptr, {}); }

Json Client::post(const std::string& path, const std::string& body,
                  const std::map<std::string, std::string>& headers) const {
  return call("POST", path, &body, headers);
}

Json Client::call(const char* method, const std::string& path, const std::string* body,
                  const std::map<std::string, std::string>& headers) const {
  Transfer transfer{body, headers};
  perform(method, path, &transfer);
  return parse_answer(name_, transfer.status, transfer.answer);
}

void Client::download(const std::string& path, std::uint64_t offset, const Take& take) const {
  Transfer transfer;
  transfer.take = take;
  transfer.taken = offset > 0 ? 206 : 200;
  transfer.from = name_;
  if (offset > 0) transfer.headers["Range"] = "bytes=" + std::to_string(offset) + "-";
  perform("GET", path, &transfer);
  if (transfer.status >= 400) (void)parse_answer(name_, transfer.status, transfer.answer);
  transfer.check_status();
}

void Client::tell(const std::string& trouble) const {
  if (troubles_ == nullptr || trouble.empty()) return;
  *std::exchange(troubles_, nullptr)
      << "regatta: " << base::printable(trouble) << "; what it shows stands still\n";
}

void Client::perform(const char* method, const std::string& path, Transfer* transfer) const {
  const std::unique_ptr<CURL, Cleanup> curl(curl_easy_init());
  base::check(curl != nullptr, "libcurl can be initialised");
  transfer->curl = curl.get();
  Guard guard;
  std::optional<files::SocketName> socket;
  std::unique_ptr<curl_slist, Cleanup> list;
  const auto add_header = [&](const std::string& line) {
    list.reset(curl_slist_append(list.release(), line.c_str()));
  };
  // Over the socket the host is never looked up, and is one that the server takes.
  const std::string address = (socket_.empty() ? name_ : "http://127.0.0.1") + "/api/v1" + path;
  if (!socket_.empty()) {
    socket.emplace(socket_);
    curl_easy_setopt(curl.get(), CURLOPT_UNIX_SOCKET_PATH, socket->text().c_str());
    curl_easy_setopt(curl.get(), CURLOPT_OPENSOCKETFUNCTION, make_socket);
    curl_easy_setopt(curl.get(), CURLOPT_OPENSOCKETDATA, &guard);
    curl_easy_setopt(curl.get(), CURLOPT_PREREQFUNCTION, check_socket);
    curl_easy_setopt(curl.get(), CURLOPT_PREREQDATA, &guard);
  }
  if (!socket_.empty() || loopback_) curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  if (!token_.empty()) {
    add_header("Authorization: Bearer " + token_);
    if (loopback_) {
      curl_easy_setopt(curl.get(), CURLOPT_PREREQFUNCTION, check_listener);
      curl_easy_setopt(curl.get(), CURLOPT_PREREQDATA, &guard);
    }
  }
  curl_easy_setopt(curl.get(), CURLOPT_URL, address.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  set_timeout(curl.get(), timeout_seconds_, transfer->take != nullptr);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "regatta/" REGATTA_VERSION);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, Transfer::receive_header);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, transfer);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Transfer::receive);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, method);
  for (const auto& [name, value] : transfer->headers) add_header(name + ": " + value);
  if (transfer->body != nullptr) {
    add_header("Content-Type: application/json");
    add_header("Expect:");
    curl_easy_setopt(curl.get(), CURLOPT_POST, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, transfer->body->data());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(transfer->body->size()));
  }
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, list.get());
  const CURLcode result = curl_easy_perform(curl.get());
  if (!guard.foreign.empty()) {
    throw base::Error(base::Code::Forbidden,
                      "nothing was sent to " + base::printable(name_) + ": " + guard.foreign +
                          "; name your own controller's socket with --server unix:PATH");
  }
  if (result == CURLE_COULDNT_CONNECT && !socket_.empty()) {
    long reason = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_OS_ERRNO, &reason);
    files::refuse_socket(socket_, static_cast<int>(reason));
  }
  tell(transfer->trouble);
  if (transfer->failed) std::rethrow_exception(transfer->failed);
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &transfer->status);
  if (result == CURLE_PARTIAL_FILE) {
    throw base::Error(base::Code::Retry,
                      base::printable(name_) + " broke off before all was sent; try again");
  }
  if (result != CURLE_OK) throw_unreachable(name_, loopback_, curl_easy_strerror(result));
}

std::string path_part(const std::string& text) {
  if (text.empty()) throw UsageError("a name is empty; give the id or name of what is meant");
  if (text == "." || text == ".." || text.find('/') != std::string::npos) {
    throw base::Error(base::Code::NotFound, "nothing is called '" + base::printable(text) +
                                                "': ids and names have no '/' and are not dots");
  }
  return encoded(text);
}

std::string encoded(const std::string& text) {
  std::string out;
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kDigits[static_cast<unsigned char>(c) >> 4U]);
      out.push_back(kDigits[static_cast<unsigned char>(c) & 15U]);
    }
  }
  return out;
}

}  // namespace regatta::orchestrator::cli
