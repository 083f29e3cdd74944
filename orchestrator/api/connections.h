// Connections, all on one thread that never waits for any of them: a slow or silent peer costs a
// descriptor and a buffer, no worker. A request is read whole before anybody else sees it; one
// request per connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "orchestrator/api/exchange.h"
#include "orchestrator/api/http.h"
#include "orchestrator/api/request_head.h"

namespace regatta::orchestrator::api {

struct ConnectionLimits {
  double first_byte_seconds = 10;
  double head_seconds = 15;     // since it was accepted, as all of these
  double request_seconds = 30;  // head and body
  double answer_seconds = 30;   // since the answer, or a piece of it, is ready, until it is taken
  double stop_seconds = 5;      // for answers that are under way when the server ends
  double linger_seconds = 2;    // for the peer to take note of an answer while it still sends
  std::size_t connections = 512;
  std::size_t per_peer = 256;  // a user of the unix socket, a TCP address
  std::size_t streams = 64;    // answers that go out piece by piece: endless ones, and others
  std::size_t unsent_bytes = std::size_t{64} << 20U;  // of answers that peers do not take
};

class Connections {
 public:
  using Id = std::uint64_t;
  struct Events {
    // Called as soon as a head is there, before any body: an answer refuses.
    std::function<std::optional<Response>(const RequestHead&, const Peer&)> refuse;
    // A whole request; answer(id, …) follows from any thread, or an answer is returned at once.
    std::function<std::optional<Response>(Id, const RequestHead&, std::string body, const Peer&)>
        take;
    // Asks for the next piece; answer(id, …) follows from any thread. False: nobody can now.
    std::function<bool(Id, const std::shared_ptr<BodyStream>&)> ask;
  };

  // listening: descriptors that never block; the caller keeps them open.
  Connections(std::vector<int> listening, const ConnectionLimits& limits, Events events);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void start();
  // Takes no more requests, gives those that are being answered `limits.stop_seconds`, and closes
  // everything. Nothing is called afterwards.
  void stop();
  // What goes out; any thread, also after stop(). For a connection that is gone it does nothing.
  void answer(Id id, Wire wire);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // Waiting: for the next piece of the answer.
  enum class Stage { Head, Body, Working, Answer, Waiting, Linger };
  // Between the socket and these buffers is the place for TLS: receive() and send_more() are the
  // only readers and writers of `fd`.
  struct Connection {
    base::UniqueFd fd;
    Peer peer;
    std::string peer_key;
    Stage stage = Stage::Head;
    std::string input;
    HeadScanner scanner;
    RequestHead head;
    std::string output;
    std::shared_ptr<BodyStream> rest;  // what follows it
    bool asked = false;                // for the next piece
    std::size_t sent = 0;
    std::size_t ignored = 0;
    Time accepted, progress, answered;
    std::uint32_t watched = 0;
  };
  using Table = std::map<Id, Connection>;

  static std::uint32_t events_of(const Connection& connection);
  void run(const std::stop_token& stop);
  void turn();
  void stop_reading();
  void pause_accepting();
  bool go_on_accepting();
  void accept_some(int listening);
  bool make_room(const std::string& peer_key);
  std::optional<Id> longest_idle(const std::function<bool(const Connection&)>& which) const;
  void handle(Id id, std::uint32_t events);
  bool receive(Connection& connection);
  void look(Id id, Connection& connection);
  void begin_body(Id id, Connection& connection);
  void finish_request(Id id, Connection& connection);
  void set_answer(Connection& connection, Wire wire);
  void refuse(Connection& connection, const Response& response);
  bool send_more(Connection& connection);
  bool go_on(Id id, Connection& connection);
  void ask(Id id, Connection& connection);
  bool ignore_input(Connection& connection);
  void watch(Id id, Connection& connection, std::uint32_t events);
  void close(Id id);
  void take_answers();
  void sweep();
  bool is_late(Connection& connection, Time now);

  const std::vector<int> listening_;
  const ConnectionLimits limits_;
  const Events events_;
  base::UniqueFd poll_;
  base::UniqueFd wake_;
  Table connections_;
  std::map<std::string, std::size_t> per_peer_;
  std::size_t unsent_ = 0;
  Id next_id_ = 0;
  bool accepting_ = true;  // false while descriptors are short
  bool stopping_ = false;
  Time swept_;
  std::mutex mutex_;
  std::vector<std::pair<Id, Wire>> answers_;
  std::jthread thread_;  // last: it uses all of these
};

}  // namespace regatta::orchestrator::api
