// The stream of events as a browser's EventSource reads it, over several connections.
#include "orchestrator/api/event_api.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "orchestrator/api/api.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using testing::ElementsAre, testing::IsEmpty;

// As the HTML standard has it, 9.2.6: an `id` counts at the end of its block, with data or without.
class EventSource {
 public:
  explicit EventSource(Api& api) : api_(api) {}

  // The kinds that come with the first pieces of a connection, which then breaks off.
  std::vector<std::string> connect(const std::string& kind = "") {
    Request request;
    request.method = "GET";
    request.path = "/api/v1/events/stream";
    if (!kind.empty()) request.query["kind"] = kind;
    if (!last_id_.empty()) request.headers["last-event-id"] = last_id_;
    const Response response = api_.handle(request);
    EXPECT_EQ(response.status, 200) << response.body;
    std::string text;
    for (int i = 0; response.stream && i < 3; ++i) text += response.stream->next().bytes;
    std::vector<std::string> kinds;
    std::string id = last_id_, event;
    for (const std::string& line : base::split(text, '\n')) {
      if (line.rfind("id: ", 0) == 0) id = line.substr(4);
      if (line.rfind("event: ", 0) == 0) event = line.substr(7);
      if (!line.empty()) continue;
      last_id_ = id;
      if (!event.empty()) kinds.push_back(event);
      event.clear();
    }
    return kinds;
  }

 private:
  Api& api_;
  std::string last_id_;
};

class EventStreamTest : public ControllerFixture {
 protected:
  EventStreamTest() : ControllerFixture(1) {}

  Api api_{*controller_, base::posix_file_system(), clock_, {folder_.path()}};
};

TEST_F(EventStreamTest, WhatHappensBetweenTwoConnectionsIsNotLost) {
  (void)submit();
  EventSource quiet(api_);
  EXPECT_THAT(quiet.connect("run.submitted"), IsEmpty());
  (void)submit();
  EXPECT_THAT(quiet.connect("run.submitted"), ElementsAre("run.submitted"));
  EXPECT_THAT(quiet.connect("run.submitted"), IsEmpty()) << "and is told once";
}

TEST_F(EventStreamTest, MoreThanAPieceHoldsComesInSeveral) {
  EventSource source(api_);
  EXPECT_THAT(source.connect("node.resumed"), IsEmpty());
  constexpr std::size_t kEvents = 150;
  for (std::size_t i = 0; i < kEvents; ++i) {
    store::Event event;
    event.kind = "node.resumed";
    store_->note(event);
  }
  EXPECT_EQ(source.connect("node.resumed").size(), kEvents);
  EXPECT_THAT(source.connect("node.resumed"), IsEmpty());
}

// What a connection says until it ends, a second at a time: the second and the bytes of each piece.
std::vector<std::pair<int, std::string>> listened(BodyStream& stream, tests::SimulatedClock& clock,
                                                  int* ended) {
  std::vector<std::pair<int, std::string>> said;
  for (int second = 0; second < 1000; ++second) {
    const BodyStream::Piece piece = stream.next();
    if (!piece.bytes.empty()) said.emplace_back(second, piece.bytes);
    *ended = second;
    if (piece.is_last) break;
    clock.now += 1;
  }
  return said;
}

TEST_F(EventStreamTest, ASilentOneBeatsAndEndsAfterTenMinutes) {
  (void)submit();
  Request request;
  request.method = "GET";
  request.path = "/api/v1/events/stream";
  const Response response = api_.handle(request);
  ASSERT_EQ(response.status, 200) << response.body;
  int ended = 0;
  const auto said = listened(*response.stream, clock_, &ended);
  EXPECT_EQ(ended, 600);
  ASSERT_EQ(said.size(), 41U) << "a head, and a beat each 15 s";
  EXPECT_THAT(said[0].second, testing::StartsWith("retry: 2000\nid: "));
  for (std::size_t i = 1; i < said.size(); ++i) {
    EXPECT_EQ(said[i].first, static_cast<int>(15 * i));
    EXPECT_EQ(said[i].second, ":\n\n") << "a comment, which no reader takes for an event";
  }
}

TEST_F(EventStreamTest, WhoeverHasSpokenNeedsNoBeat) {
  Request request;
  request.method = "GET";
  request.path = "/api/v1/events/stream";
  const Response response = api_.handle(request);
  ASSERT_EQ(response.status, 200) << response.body;
  (void)response.stream->next();
  clock_.now += 14;
  (void)submit();
  EXPECT_THAT(response.stream->next().bytes, testing::HasSubstr("event: run.submitted"));
  clock_.now += 14;
  EXPECT_EQ(response.stream->next().bytes, "");
  clock_.now += 1;
  EXPECT_EQ(response.stream->next().bytes, ":\n\n");
}

}  // namespace
}  // namespace regatta::orchestrator::api
