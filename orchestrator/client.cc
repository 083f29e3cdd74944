#include "orchestrator/client.h"

#include <curl/curl.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxAnswer = std::size_t{64} << 20U;
constexpr long kConnectMilliseconds = 5000;

struct Cleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::size_t take(char* bytes, std::size_t size, std::size_t count, void* target) {
  auto* const text = static_cast<std::string*>(target);
  if (text->size() + size * count > kMaxAnswer) return 0;
  text->append(bytes, size * count);
  return size * count;
}

base::Code code_named(const std::string& name) {
  for (const base::Code code : {base::Code::User, base::Code::NotFound, base::Code::Conflict,
                                base::Code::Operator, base::Code::Retry, base::Code::Developer}) {
    if (base::meaning(code).name == name) return code;
  }
  return base::Code::Developer;
}

}  // namespace

Client::Client(std::string url, double timeout_seconds)
    : url_(std::move(url)), timeout_seconds_(timeout_seconds) {
  while (!url_.empty() && url_.back() == '/') url_.pop_back();
  if (url_.rfind("http://", 0) != 0 && url_.rfind("https://", 0) != 0) {
    throw base::Error(base::Code::User, "the server '" + base::printable(url_) +
                                            "' is not an address; use http://127.0.0.1:8420");
  }
}

Json Client::get(const std::string& path) const { return call(path, nullptr, {}); }

Json Client::post(const std::string& path, const std::string& body,
                  const std::map<std::string, std::string>& headers) const {
  return call(path, &body, headers);
}

Json Client::call(const std::string& path, const std::string* body,
                  const std::map<std::string, std::string>& headers) const {
  const std::unique_ptr<CURL, Cleanup> curl(curl_easy_init());
  base::check(curl != nullptr, "libcurl can be initialised");
  std::string answer;
  std::unique_ptr<curl_slist, Cleanup> list;
  const auto add_header = [&](const std::string& line) {
    list.reset(curl_slist_append(list.release(), line.c_str()));
  };
  const std::string address = url_ + "/api/v1" + path;
  curl_easy_setopt(curl.get(), CURLOPT_URL, address.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_seconds_ * 1000));
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "regatta/" REGATTA_VERSION);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  if (body != nullptr) {
    add_header("Content-Type: application/json");
    add_header("Expect:");
    for (const auto& [name, value] : headers) add_header(name + ": " + value);
    curl_easy_setopt(curl.get(), CURLOPT_POST, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body->data());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(body->size()));
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, list.get());
  }
  const CURLcode result = curl_easy_perform(curl.get());
  if (result != CURLE_OK) {
    throw base::Error(base::Code::Retry, "cannot reach the controller at " + base::printable(url_) +
                                             " (" + curl_easy_strerror(result) +
                                             "); start it with 'regatta serve', or name another "
                                             "with --server");
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  const Json json = Json::parse(answer, nullptr, false);
  if (status >= 400 && json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    const std::string code = error.is_object() ? error.value("code", "developer") : "developer";
    const std::string message = error.is_object() ? error.value("message", "") : "";
    throw base::Error(code_named(code), message.empty() ? "the controller refused" : message);
  }
  if (status >= 400 || json.is_discarded()) {
    throw base::Error(base::Code::Retry, base::printable(url_) + " answered with status " +
                                             std::to_string(status) +
                                             ", not as a controller does; check --server");
  }
  return json;
}

std::string path_part(const std::string& text) {
  if (text.empty()) throw base::Error(base::Code::User, "the run's name is empty");
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

}  // namespace regatta::orchestrator
