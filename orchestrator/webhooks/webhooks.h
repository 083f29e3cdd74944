// Events as they are appended, POSTed to receivers: signed, at least once, and in order. Each
// webhook has a thread of its own, so a receiver that hangs delays nobody else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/store/store.h"
#include "orchestrator/webhooks/post.h"

namespace regatta::orchestrator::webhooks {

// What a receiver checks: "sha256=" and HMAC-SHA256 of "TIMESTAMP.BODY" in hexadecimal digits.
[[nodiscard]] std::string signature_of(const std::string& secret, const std::string& timestamp,
                                       const std::string& body);

// The text of a file that nobody else can read, without a line break at its end. Code::Operator
// for another file, Code::User for fewer than 16 characters.
[[nodiscard]] std::string read_secret(const base::Path& path);

struct WebhookLimits {
  double timeout_seconds = 10;  // for a receiver's answer
  double first_pause_seconds = 1;
  double longest_pause_seconds = 300;     // doubles up to it; a random half of each is left out
  double longest_wish_seconds = 3600;     // of a receiver that asks for a pause
  double dead_seconds = 3.0 * 24 * 3600;  // of failures in a row, after which nothing is tried
};

struct Settings {
  std::vector<site::WebhookSetting> webhooks{};
  std::string version{};                                   // of this program
  std::function<std::string(const store::Event&)> body{};  // what is sent of an event
  slurm::NodeTable* nodes = nullptr;  // that is kept up to date for who wants events of nodes
  WebhookLimits limits{};
};

struct Status {
  std::string name;
  std::string url;                 // without its path, which may be a secret
  std::vector<std::string> kinds;  // as they were asked for; empty: all
  store::WebhookPlace place;
  std::int64_t waiting = 0;  // events, as many as are counted
};

// Sends one event.
struct Sending {
  std::vector<std::string> headers;
  std::string body;
};
using Send = std::function<HookAnswer(const Sending&, const std::stop_token&)>;

// One of them, without a thread.
class Courier {
 public:
  // One that the store does not know begins with the newest event. Everything outlives it.
  Courier(store::Store& store, base::Clock& clock, const Settings& settings,
          const site::WebhookSetting& setting, Send send);

  // Delivers what waits, as far as that goes. Called by one thread.
  void step(const std::stop_token& stop);

  // From any thread.
  [[nodiscard]] Status status() const;
  [[nodiscard]] const std::string& name() const { return setting_.name; }
  // Tries again at once what failed; false: nothing did.
  bool redeliver(const std::string& by);
  // Goes on without the event that failed; false: none did.
  bool skip(const std::string& by);

 private:
  [[nodiscard]] bool deliver(const store::Event& event, const std::stop_token& stop);
  [[nodiscard]] HookAnswer try_once(const store::Event& event, const std::stop_token& stop);
  void note_success(std::int64_t number);
  void note_failure(const store::Event& event, const HookAnswer& answer);
  // Under the mutex: keeps the place, and logs where that fails.
  void keep(const store::Event* told = nullptr);
  [[nodiscard]] double pause(int failures);

  store::Store& store_;
  base::Clock& clock_;
  const Settings& settings_;
  const site::WebhookSetting setting_;
  const Send send_;
  store::EventFilter filter_;
  std::string shown_url_;

  mutable std::mutex mutex_;
  store::WebhookPlace place_;
  std::mt19937_64 random_{std::random_device{}()};
  std::int64_t seen_ = 0;  // no event up to this number is to be delivered
};

class Webhooks {
 public:
  // Code::User and Code::Operator for settings that cannot be. Forgets the places of webhooks that
  // are set no more, and begins. Everything outlives it.
  Webhooks(store::Store& store, base::Clock& clock, Settings settings);
  ~Webhooks();
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

  // From any thread.
  [[nodiscard]] std::vector<Status> status() const;
  // Code::NotFound for a name that is none.
  [[nodiscard]] Courier& find(const std::string& name) const;

 private:
  void run(Courier* courier, const std::stop_token& stop);

  store::Store& store_;
  base::Clock& clock_;
  const Settings settings_;
  std::vector<std::unique_ptr<Courier>> couriers_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace regatta::orchestrator::webhooks
