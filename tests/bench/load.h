// Requests at a rate, from threads of this process, over TCP: one connection each, as the server
// has it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace regatta::bench {

struct HttpAnswer {
  int status = 0;  // 0: no whole answer
  std::string body;
};

// Where a server listens, and what lets a client in.
struct Place {
  int port = 0;
  std::string token;
};

struct Call {
  std::string method = "GET";
  std::string target;  // below /api/v1
  std::string body{};
  std::string headers{};  // more of them, each with its line break
};
[[nodiscard]] HttpAnswer ask(const Place& place, const Call& call);

struct Load {
  double per_second = 1;
  double seconds = 5;
  int most_at_once = 64;  // threads
};
struct Latencies {
  std::vector<double> seconds;  // sorted
  int failed = 0;               // answers of another status than 200, 201 and 304
  std::string failure;          // the first of them

  [[nodiscard]] double at(double share) const;
};
// Asks call(0), call(1), … at even distances of time, whether or not earlier ones are answered: a
// latency counts from the moment that its request was due.
[[nodiscard]] Latencies put_load(const Place& place, const Load& load,
                                 const std::function<Call(int number)>& call);

struct Viewers {
  int count = 200;
  double period_seconds = 2;  // between two requests of one of them
  double seconds = 5;
};
struct Viewed {
  Latencies latencies;
  int most_open = 0;   // connections at once
  int least_open = 0;  // once all of them were open
};
// Each viewer is connected all the time, in a thread of its own, and asks call(viewer) when its
// turn comes; a connection that its answer has ended is followed by the next at once. A latency
// counts from the moment that the request was due.
[[nodiscard]] Viewed put_viewers(const Place& place, const Viewers& viewers,
                                 const std::function<Call(int viewer)>& call);

}  // namespace regatta::bench
