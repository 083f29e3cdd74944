#include "orchestrator/webhooks/webhooks.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <set>

#include "base/ascii.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/webhooks/post.h"

namespace regatta::orchestrator::webhooks {
namespace {

constexpr std::chrono::milliseconds kLook(250);  // between two looks for events
constexpr int kMostAtOnce = 50;                  // events of one read
constexpr std::int64_t kMostCounted = 10'000;    // of what waits
constexpr std::size_t kMostWebhooks = 16;
constexpr std::size_t kLeastSecret = 16, kMostSecret = 4096;  // bytes

[[noreturn]] void refuse_secret(const base::Path& path, const std::string& why) {
  throw base::Error(base::Code::Operator,
                    "the secret of a webhook, " + base::printable(path.string()) + ", " + why);
}

bool wants_nodes(const store::EventFilter& filter) {
  return filter.kinds.empty() ||
         std::any_of(filter.kinds.begin(), filter.kinds.end(),
                     [](const std::string& kind) { return kind.rfind("node.", 0) == 0; });
}

store::Event told_of(const char* kind, const std::string& by, std::string words) {
  store::Event event;
  event.kind = kind;
  event.by = by;
  event.words = std::move(words);
  return event;
}

std::vector<std::string> kinds_of(const site::WebhookSetting& setting) {
  std::vector<std::string> kinds;
  for (const std::string& asked : setting.kinds) {
    const std::vector<std::string> named = store::kinds_named(asked);
    if (named.empty()) {
      throw base::Error(base::Code::User,
                        "webhook " + setting.name + ": kind '" + base::printable(asked) +
                            "' is none; use one of docs/api.md, such as run.failed, or a "
                            "beginning, such as run");
    }
    kinds.insert(kinds.end(), named.begin(), named.end());
  }
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

Private private_of(const site::WebhookSetting& setting) {
  return setting.allow_private ? Private::Allowed : Private::Refused;
}

}  // namespace

std::string signature_of(const std::string& secret, const std::string& timestamp,
                         const std::string& body) {
  const base::Sha256 digest = base::hmac_sha256(secret, timestamp + "." + body);
  return "sha256=" + base::hex(std::string(digest.begin(), digest.end()));
}

std::string read_secret(const base::Path& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    base::throw_errno(errno,
                      "cannot read the secret of a webhook, " + base::printable(path.string()));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse_secret(path, "is not a regular file");
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse_secret(path, "belongs to user " + std::to_string(status.st_uid) + ", not to you");
  }
  if ((status.st_mode & 077U) != 0) {
    refuse_secret(path, "can be read or written by others; chmod 600 it, and put a new one in");
  }
  std::string secret(kMostSecret, '\0');
  const ssize_t count = ::read(fd.get(), secret.data(), secret.size());
  if (count < 0) {
    base::throw_errno(errno,
                      "cannot read the secret of a webhook, " + base::printable(path.string()));
  }
  secret.resize(static_cast<std::size_t>(count));
  secret = base::trimmed(secret, "\r\n");
  if (secret.size() < kLeastSecret) {
    refuse_secret(path, "has fewer than 16 characters; `openssl rand -hex 32` makes one");
  }
  return secret;
}

Courier::Courier(store::Store& store, base::Clock& clock, const Settings& settings,
                 const site::WebhookSetting& setting, Send send)
    : store_(store), clock_(clock), settings_(settings), setting_(setting), send_(std::move(send)) {
  filter_.kinds = kinds_of(setting_);
  shown_url_ = parse_hook_url(setting_.url, private_of(setting_)).shown;
  const std::string address = base::digest_of(setting_.url);
  for (const store::WebhookPlace& known : store_.webhooks()) {
    if (known.name == setting_.name) place_ = known;
  }
  if (place_.name.empty()) {
    place_.name = setting_.name;
    place_.position = store_.events_before({}, std::nullopt, 1).newest;
  }
  if (place_.address != address) {
    place_.address = address;
    place_.dead = false;
    place_.failures = 0;
    place_.next_try_utc = 0;
    place_.error.clear();
    store_.put_webhook(place_);
  }
  seen_ = place_.position;
}

Status Courier::status() const {
  Status status;
  status.name = setting_.name;
  status.url = shown_url_;
  status.kinds = setting_.kinds;
  {
    const std::scoped_lock lock(mutex_);
    status.place = place_;
  }
  status.waiting =
      store_.snapshot().count_events_after(filter_, status.place.position, kMostCounted);
  return status;
}

void Courier::step(const std::stop_token& stop) {
  if (settings_.nodes != nullptr && wants_nodes(filter_)) {
    settings_.nodes->follow(clock_.monotonic_seconds(), 0);
  }
  std::int64_t after = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (place_.dead || place_.next_try_utc > clock_.utc_seconds()) return;
    seen_ = std::max(seen_, place_.position);
    after = seen_;
  }
  while (store_.has_events_after(after) && !stop.stop_requested()) {
    // Of one state: an event of one kind must not be passed over for a newer one of another.
    const store::EventPage page = store_.snapshot().events_after(filter_, after, kMostAtOnce);
    for (const store::Event& event : page.events) {
      if (stop.stop_requested() || !deliver(event, stop)) return;
    }
    const std::int64_t reached = page.more ? page.events.back().number : page.newest;
    const std::scoped_lock lock(mutex_);
    if (reached <= after) return;
    seen_ = after = reached;
  }
}

// False: what comes after it has to wait.
bool Courier::deliver(const store::Event& event, const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    if (event.number <= place_.position) return true;  // skipped meanwhile
  }
  const HookAnswer answer = try_once(event, stop);
  if (answer.why.empty()) {
    note_success(event.number);
    return true;
  }
  if (!stop.stop_requested()) note_failure(event, answer);
  return false;
}

HookAnswer Courier::try_once(const store::Event& event, const std::stop_token& stop) {
  try {
    const std::string secret = read_secret(setting_.secret_file);
    const std::string timestamp = std::to_string(static_cast<std::int64_t>(clock_.utc_seconds()));
    std::string body = settings_.body(event);
    const std::vector<std::string> headers = {
        "Content-Type: application/json",
        "User-Agent: regatta/" + settings_.version,
        "Expect:",
        "X-Regatta-Webhook: " + setting_.name,
        "X-Regatta-Event: " + event.kind,
        "X-Regatta-Number: " + std::to_string(event.number),
        "X-Regatta-Timestamp: " + timestamp,
        "X-Regatta-Signature: " + signature_of(secret, timestamp, body)};
    return send_({headers, std::move(body)}, stop);
  } catch (const base::Error& error) {
    return {error.what()};
  }
}

void Courier::note_success(std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  if (place_.failures > 0)
    base::log(base::LogLevel::Info, "webhook " + place_.name + " works again");
  place_.position = std::max(place_.position, number);
  place_.delivered = number;
  place_.delivered_utc = clock_.utc_seconds();
  place_.failures = 0;
  place_.failing_since_utc = place_.next_try_utc = 0;
  place_.error.clear();
  keep();
}

void Courier::note_failure(const store::Event& event, const HookAnswer& answer) {
  const std::string& why = answer.why;
  const std::scoped_lock lock(mutex_);
  if (event.number <= place_.position) return;  // skipped meanwhile
  const double now = clock_.utc_seconds();
  if (place_.failures++ == 0) {
    place_.failing_since_utc = now;
    base::log(base::LogLevel::Warning, "webhook " + place_.name + " cannot be told event " +
                                           std::to_string(event.number) + ": " +
                                           base::printable(why) + "; it is tried again");
  }
  place_.error = why;
  place_.next_try_utc =
      now + std::max(pause(place_.failures),
                     std::min(answer.pause_seconds, settings_.limits.longest_wish_seconds));
  if (now - place_.failing_since_utc < settings_.limits.dead_seconds) {
    keep();
    return;
  }
  place_.dead = true;
  const std::string words = place_.name + ": event " + std::to_string(event.number) +
                            " could not be told for " +
                            base::human_seconds(now - place_.failing_since_utc) + " (" + why +
                            "); `regatta webhooks --redeliver " + place_.name + "` tries again";
  base::log(base::LogLevel::Error, "webhook " + base::printable(words));
  const store::Event told = told_of("webhook.dead", "", words);
  keep(&told);
}

// What was delivered stays so in this process; after its end it may be delivered once more.
void Courier::keep(const store::Event* told) {
  try {
    store_.put_webhook(place_, told);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning,
              "webhook " + place_.name + ": its place cannot be kept: " + error.what());
  }
}

double Courier::pause(int failures) {
  const WebhookLimits& limits = settings_.limits;
  const double whole = std::min(limits.longest_pause_seconds,
                                limits.first_pause_seconds * std::exp2(std::min(failures - 1, 30)));
  return whole * std::uniform_real_distribution<double>(0.5, 1)(random_);
}

bool Courier::redeliver(const std::string& by) {
  const std::scoped_lock lock(mutex_);
  if (place_.failures == 0) return false;
  place_.dead = false;
  place_.failures = 0;
  place_.failing_since_utc = place_.next_try_utc = 0;
  const store::Event told = told_of("webhook.revived", by, place_.name);
  keep(&told);
  return true;
}

bool Courier::skip(const std::string& by) {
  const std::scoped_lock lock(mutex_);
  if (place_.failures == 0) return false;
  // What failed is the next that it is to be told.
  const store::EventPage next = store_.snapshot().events_after(filter_, place_.position, 1);
  if (next.events.empty()) return false;
  place_.position = next.events.front().number;
  place_.dead = false;
  place_.failures = 0;
  place_.failing_since_utc = place_.next_try_utc = 0;
  place_.error.clear();
  const store::Event told =
      told_of("webhook.skipped", by, place_.name + ": event " + std::to_string(place_.position));
  keep(&told);
  return true;
}

Webhooks::Webhooks(store::Store& store, base::Clock& clock, Settings settings)
    : store_(store), clock_(clock), settings_(std::move(settings)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  if (settings_.webhooks.size() > kMostWebhooks) {
    throw base::Error(base::Code::User, "there are " + std::to_string(settings_.webhooks.size()) +
                                            " webhooks; 16 may be set at most");
  }
  std::set<std::string> names;
  for (const site::WebhookSetting& setting : settings_.webhooks) {
    if (!names.insert(setting.name).second) {
      throw base::Error(base::Code::User, "two webhooks are called " + setting.name +
                                              "; give each a name of its own");
    }
    (void)read_secret(setting.secret_file);
    // Shared, as a std::function is copied; one thread uses them.
    const auto url =
        std::make_shared<const HookUrl>(parse_hook_url(setting.url, private_of(setting)));
    const auto poster =
        std::make_shared<Poster>(private_of(setting), settings_.limits.timeout_seconds);
    couriers_.push_back(std::make_unique<Courier>(
        store_, clock_, settings_, setting,
        [url, poster](const Sending& sending, const std::stop_token& stop) {
          return poster->post({*url, sending.headers, sending.body}, stop);
        }));
  }
  for (const store::WebhookPlace& known : store_.webhooks()) {
    if (names.count(known.name) == 0) store_.remove_webhook(known.name);
  }
  for (const auto& courier : couriers_) {
    threads_.emplace_back(
        [this, each = courier.get()](const std::stop_token& stop) { run(each, stop); });
  }
}

Webhooks::~Webhooks() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Webhooks::run(Courier* courier, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::string trouble;
  while (!stop.stop_requested()) {
    try {
      courier->step(stop);
      trouble.clear();
    } catch (const base::Error& error) {
      if (trouble != error.what()) {
        base::log(base::LogLevel::Warning, "webhook " + courier->name() + ": " + error.what());
      }
      trouble = error.what();
    }
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, kLook, [] { return false; });
  }
}

std::vector<Status> Webhooks::status() const {
  std::vector<Status> all;
  for (const auto& courier : couriers_) all.push_back(courier->status());
  return all;
}

Courier& Webhooks::find(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& courier : couriers_) {
    if (courier->name() == name) return *courier;
    names.push_back(courier->name());
  }
  const auto suggestion = base::closest(name, names);
  throw base::Error(base::Code::NotFound,
                    "no webhook '" + base::printable(name) + "'" +
                        (suggestion ? "; did you mean '" + base::printable(*suggestion) + "'?"
                                    : "; 'regatta webhooks' lists them"));
}

}  // namespace regatta::orchestrator::webhooks
