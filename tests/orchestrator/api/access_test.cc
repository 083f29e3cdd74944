#include "orchestrator/api/access.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::SimulatedClock;
using Json = nlohmann::ordered_json;

constexpr uid_t kOwner = 1000;
const std::string kToken(64, 'a');

class AccessTest : public testing::Test {
 protected:
  // What the socket's peer or, without one, somebody on TCP is answered; 0: it goes on to the API.
  static api::Request over_tcp(const std::string& method, const std::string& path,
                               const std::string& token = "", const std::string& body = "") {
    api::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.peer.address = "127.0.0.1";
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    return request;
  }
  static api::Request over_socket(uid_t uid, const std::string& method, const std::string& path,
                                  const std::string& body = "") {
    api::Request request = over_tcp(method, path, "", body);
    request.peer = {};
    request.peer.local_socket = true;
    request.peer.uid = uid;
    return request;
  }
  int status(const api::Request& request) {
    const auto answer = access_.answer(request);
    return answer ? answer->status : 0;
  }
  std::string ticket() {
    const auto answer = access_.answer(over_socket(kOwner, "POST", "/api/v1/tickets"));
    EXPECT_EQ(answer->status, 201);
    return Json::parse(answer->body).at("ticket");
  }
  api::Response exchange(const std::string& ticket) {
    return *access_.answer(
        over_tcp("POST", "/api/v1/session", "", Json{{"ticket", ticket}}.dump()));
  }
  std::string session() {
    return Json::parse(exchange(ticket()).body).at("token").get<std::string>();
  }

  SimulatedClock clock_;
  api::Access access_{{kToken, "http://127.0.0.1:8420", kOwner}, clock_};
};

// Access stands before the API, so that a route that comes later cannot be forgotten: whatever
// begins with /api needs a credential, known or not, with every method.
TEST_F(AccessTest, EveryPathOfTheApiNeedsACredential) {
  for (const std::string path :
       {"/api", "/api/", "/apis", "/api/v1", "/api/v1/", "/api/v1/version", "/api/v1/runs",
        "/api/v1/runs/x", "/api/v1/runs/x/cancel", "/api/v1/a-route-of-tomorrow", "/api/v2/runs",
        "/api/v1/tickets", "/api/v1/session/", "/api/v1/session/x", "/api//v1/session"}) {
    for (const std::string method : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"}) {
      EXPECT_EQ(status(over_tcp(method, path)), 401) << method << " " << path;
    }
  }
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/session")), 401);
  const auto answer = access_.answer(over_tcp("GET", "/api/v1/runs"));
  EXPECT_EQ(answer->headers.at("WWW-Authenticate"), "Bearer realm=\"regatta\"");
  const Json error = Json::parse(answer->body);
  EXPECT_EQ(error.at("code"), "unauthorized");
  EXPECT_THAT(error.at("detail").get<std::string>(), HasSubstr("regatta open"));
}

TEST_F(AccessTest, ThePagesFilesAreForEverybody) {
  for (const std::string path : {"/", "/index.html", "/assets/app-0123456789ab.js", "/runs/x"}) {
    EXPECT_EQ(status(over_tcp("GET", path)), 0) << path;
  }
}

TEST_F(AccessTest, OnlyTheWholeTokenIsTheToken) {
  struct Row {
    std::string header;
    int status;
  };
  for (const Row& row : {
           Row{"Bearer " + kToken, 0},
           Row{"bearer " + kToken, 0},
           Row{"BEARER " + kToken, 0},
           Row{"Bearer " + kToken.substr(1), 401},
           Row{"Bearer " + kToken + "a", 401},
           Row{"Bearer  " + kToken, 401},
           Row{"Bearer " + kToken + " ", 401},
           Row{"Bearer " + std::string(64, 'A'), 401},
           Row{"Bearer " + std::string(64, 'b'), 401},
           Row{"Bearer " + std::string(100'000, 'a'), 401},
           Row{"Bearer ", 401},
           Row{"Bearer", 401},
           Row{"", 401},
           Row{kToken, 401},
           Row{"Basic " + kToken, 401},
       }) {
    api::Request request = over_tcp("GET", "/api/v1/runs");
    request.headers["authorization"] = row.header;
    EXPECT_EQ(status(request), row.status) << row.header.substr(0, 80);
  }
  api::Request request = over_tcp("GET", "/api/v1/runs");
  request.query["token"] = kToken;
  request.headers["cookie"] = "token=" + kToken;
  EXPECT_EQ(status(request), 401) << "nowhere else, least of all in an address or a cookie";
}

TEST_F(AccessTest, TheSocketIsForTheOwnerAndRoot) {
  for (const std::string path : {"/", "/api/v1/runs", "/api/v1/tickets", "/api/v1/session"}) {
    EXPECT_EQ(status(over_socket(kOwner + 1, "POST", path)), 403) << path;
    EXPECT_EQ(status(over_socket(static_cast<uid_t>(-1), "POST", path)), 403) << path;
  }
  EXPECT_EQ(status(over_socket(kOwner, "GET", "/api/v1/runs")), 0);
  EXPECT_EQ(status(over_socket(0, "POST", "/api/v1/runs")), 0);
}

TEST_F(AccessTest, ATicketIsForASessionOnce) {
  const std::string first = ticket();
  EXPECT_GE(first.size(), 32U) << "128 bits";
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", first)), 401) << "it is not a token itself";
  const api::Response opened = exchange(first);
  EXPECT_EQ(opened.status, 201);
  const std::string token = Json::parse(opened.body).at("token");
  EXPECT_NE(token, kToken);
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", token)), 0);
  EXPECT_EQ(exchange(first).status, 401) << "used twice";
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", token)), 0) << "and the first user stays in";
}

TEST_F(AccessTest, ATicketEndsAfterAMinute) {
  const std::string in_time = ticket();
  const std::string late = ticket();
  clock_.now = clock_.now + 59;
  EXPECT_EQ(exchange(in_time).status, 201);
  clock_.now = clock_.now + 2;
  EXPECT_EQ(exchange(late).status, 401);
}

TEST_F(AccessTest, ATicketOfAnotherControllerIsNone) {
  api::Access other({kToken, "http://127.0.0.1:8421", kOwner}, clock_);
  const auto made = other.answer(over_socket(kOwner, "POST", "/api/v1/tickets"));
  EXPECT_EQ(exchange(Json::parse(made->body).at("ticket")).status, 401);
}

TEST_F(AccessTest, TicketsAreNotMadeOverTcp) {
  EXPECT_EQ(status(over_tcp("POST", "/api/v1/tickets")), 401);
  EXPECT_EQ(status(over_tcp("POST", "/api/v1/tickets", session())), 403)
      << "or a session could renew itself for ever";
  EXPECT_EQ(status(over_tcp("POST", "/api/v1/tickets", kToken)), 403);
  EXPECT_EQ(status(over_socket(kOwner, "GET", "/api/v1/tickets")), 405);
}

TEST_F(AccessTest, TicketsTakeNoBody) {
  api::Request request = over_socket(kOwner, "POST", "/api/v1/tickets");
  request.body = R"({"url": "http://elsewhere"})";
  EXPECT_EQ(status(request), 422);
  request.body = "{}";
  EXPECT_EQ(status(request), 201);
}

TEST_F(AccessTest, BodiesThatAreNoTicketAreRefused) {
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("[]"), std::string("{}"),
        std::string(R"({"ticket": 7})"), R"({"ticket": ")" + ticket() + R"(", "more": 1})",
        std::string(R"({"ticket": ["x"]})"), R"({"ticket": "x", "ticket": ")" + ticket() + "\"}",
        std::string("\xff\xfe"), std::string(100'000, '['),
        R"({"ticket": ")" + std::string(100'000, 'a') + "\"}"}) {
    EXPECT_EQ(status(over_tcp("POST", "/api/v1/session", "", body)), 422) << body.substr(0, 40);
  }
  for (const std::string body : {R"({"ticket": ""})", R"({"ticket": "x"})"}) {
    EXPECT_EQ(status(over_tcp("POST", "/api/v1/session", "", body)), 401) << body;
  }
}

TEST_F(AccessTest, SessionsEndWithoutUseAndAfterAWeek) {
  const std::string idle = session();
  const std::string busy = session();
  double hours = 0;
  for (; hours < 7 * 24; hours += 11) {
    EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", busy)), 0) << hours << " h";
    clock_.now = clock_.now + 11 * 3600.0;
    if (hours > 0) {
      EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", idle)), 401) << hours << " h";
    }
  }
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", busy)), 401) << "a week is the most";
}

TEST_F(AccessTest, TicketsAndSessionsAreBounded) {
  const std::string oldest_ticket = ticket();
  for (std::size_t i = 0; i < api::kMostTickets; ++i) {
    clock_.now = clock_.now + 0.1;
    (void)ticket();
  }
  EXPECT_EQ(exchange(oldest_ticket).status, 401);
  const std::string unused = session();
  const std::string used = session();
  for (std::size_t i = 0; i < api::kMostSessions - 1; ++i) {
    clock_.now = clock_.now + 0.1;
    EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", used)), 0);
    (void)session();
  }
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", unused)), 401);
  EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", used)), 0);
}

TEST_F(AccessTest, StrangersDoNotShutTheOwnerOut) {
  const std::string mine = ticket();
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(exchange(std::to_string(i)).status, 401);
    EXPECT_EQ(status(over_tcp("GET", "/api/v1/runs", std::to_string(i))), 401);
  }
  EXPECT_EQ(exchange(mine).status, 201) << "no lockout";
}

TEST_F(AccessTest, AnswersDoNotHoldTheToken) {
  for (const api::Request& request :
       {over_tcp("GET", "/api/v1/runs", kToken.substr(1)), over_tcp("GET", "/api/v1/runs"),
        over_tcp("POST", "/api/v1/tickets", kToken),
        over_socket(kOwner, "POST", "/api/v1/tickets")}) {
    const auto answer = access_.answer(request);
    ASSERT_TRUE(answer);
    EXPECT_THAT(answer->body, Not(HasSubstr(kToken.substr(0, 20))));
    EXPECT_EQ(answer->headers.at("Cache-Control"), "no-store");
  }
}

}  // namespace
}  // namespace regatta::orchestrator
