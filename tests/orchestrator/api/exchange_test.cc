// What cpp-httplib reads of a request, what it makes of an answer, and that no wrong one goes out.
#include "orchestrator/api/exchange.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "orchestrator/api/delivery.h"
#include "tests/orchestrator/api/raw_http.h"

namespace regatta::orchestrator {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

api::RequestHead head_of(const std::string& method, const std::string& target,
                         const std::string& headers = "") {
  api::ReadHead read = api::read_head(tests::request_text(method, target, headers));
  base::check(read.head.has_value(), "a head that can be read");
  return std::move(*read.head);
}

// The bytes of an answer that has no stream.
std::string exchanged(const api::RequestHead& head, std::string_view body, const api::Peer& peer,
                      const std::function<api::Response(const api::Request&)>& handler) {
  const api::Wire wire = api::exchange(head, body, peer, handler);
  EXPECT_EQ(wire.rest, nullptr);
  return wire.bytes;
}

// The request as its handler gets it.
api::Request asked(const api::RequestHead& head, const std::string& body = "") {
  api::Request seen;
  seen.path = "nobody was asked";
  const std::string wire = exchanged(head, body, {}, [&](const api::Request& request) {
    seen = request;
    return api::Response{};
  });
  EXPECT_THAT(wire, StartsWith("HTTP/1.1 200 OK\r\n"));
  return seen;
}

std::string answered(const std::string& method, const api::Response& response) {
  return exchanged(head_of(method, "/"), "", {}, [&](const api::Request&) { return response; });
}

TEST(Exchange, PathsAreDecodedOnce) {
  const std::map<std::string, std::string> paths{
      {"/", "/"},           {"/a%20b", "/a b"}, {"/a+b", "/a+b"},       {"/%2525", "/%25"},
      {"/%", "/%"},         {"/%4", "/%4"},     {"/%zz", "/%zz"},       {"/%u0041", "/%u0041"},
      {"/%%u41", "/%%u41"}, {"/%25u", "/%u"},   {"/%0d%0aA", "/\r\nA"}, {"/%2e%2e/", "/../"},
      {"/a//b/", "/a//b/"}, {"/%3F?x", "/?"},   {"/%C3%A9", "/\u00e9"}, {"/a??b", "/a"}};
  for (const std::string method : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    for (const auto& [target, path] : paths) {
      const api::Request request = asked(head_of(method, target));
      EXPECT_EQ(request.path, path) << method << " " << target;
      EXPECT_EQ(request.method, method == "HEAD" ? "GET" : method);
    }
  }
  EXPECT_EQ(asked(head_of("OPTIONS", "*")).path, "*");
}

TEST(Exchange, ATargetMayNameItsHost) {
  const std::map<std::string, std::string> paths{{"http://a:1/b%20c?d=/e", "/b c"},
                                                 {"HTTP://a", "/"},
                                                 {"http://a?d=/e", "/"},
                                                 {"http://a//b", "//b"}};
  for (const auto& [target, path] : paths) {
    const api::RequestHead head = head_of("GET", target);
    const api::Request request = asked(head);
    EXPECT_EQ(request.path, path) << target;
    EXPECT_EQ(request.query.count("d"), target.find('?') != std::string::npos ? 1U : 0U);
    EXPECT_THAT(*head.find("host"), StartsWith("a")) << "that of the target counts";
  }
}

TEST(Exchange, AHeadHasNoRange) {
  const std::string headers = "Range: bytes=0-1\r\nIf-Range: \"x\"\r\nIf-Match: *\r\n";
  const api::Request head = asked(head_of("HEAD", "/", headers));
  EXPECT_EQ(head.header("range") + head.header("if-range"), "");
  EXPECT_EQ(head.header("if-match"), "*");
  EXPECT_EQ(asked(head_of("GET", "/", headers)).header("range"), "bytes=0-1");
}

TEST(Exchange, QueriesLoseNothing) {
  const auto query = [](const std::string& target) { return asked(head_of("GET", target)).query; };
  using Query = std::map<std::string, std::string>;
  EXPECT_EQ(query("/x?a=b+c%20d&e&&g=&"), (Query{{"a", "b c d"}, {"e", ""}, {"g", ""}}));
  EXPECT_EQ(query("/x?a=b?c=d"), (Query{{"a", "b?c=d"}}));
  EXPECT_EQ(query("/x?a=%C3%A9%41"), (Query{{"a", "\u00e9A"}}));
  EXPECT_EQ(query("/x?"), Query());
  EXPECT_EQ(asked(head_of("GET", "/x?a=1&a=1")).repeated_query, "a") << "equal ones, too";
}

TEST(Exchange, WhatOfAQueryCannotBeReadIsKnown) {
  for (const std::string part :
       {"=f", "=", "a=%u0041", "a=%", "a=%4", "%zz=1", "a=%ff", "a=%C3", "a=%ED%A0%80"}) {
    const api::Request request = asked(head_of("GET", "/x?b=1&" + part + "&c=2"));
    EXPECT_EQ(request.unreadable_query, part);
    EXPECT_EQ(request.query.count("a"), 0U) << part;
  }
  EXPECT_EQ(asked(head_of("GET", "/x?b=1&&c")).unreadable_query, "");
}

// The library reads the body of a POST alone.
TEST(Exchange, ABodyIsSeenWithEveryMethod) {
  for (const std::string method : {"POST", "DELETE", "GET"}) {
    std::string seen;
    (void)exchanged(head_of(method, "/x"), "{\"dry_run\": true}", {},
                    [&](const api::Request& request) {
                      seen = request.body;
                      return api::Response{};
                    });
    EXPECT_EQ(seen, "{\"dry_run\": true}") << method;
  }
}

TEST(Exchange, PathsAreBounded) {
  for (const std::string method : {"GET", "POST"}) {
    const std::string longest = "/" + std::string(api::kMaxPath - 1, 'a');
    EXPECT_EQ(asked(head_of(method, longest)).path, longest);
    for (const std::string& target : {longest + "%61", "/" + std::string(8000, '%')}) {
      const std::string wire =
          exchanged(head_of(method, target), "", {},
                    [](const api::Request&) -> api::Response { throw std::exception(); });
      EXPECT_THAT(wire, StartsWith("HTTP/1.1 414 "));
      EXPECT_THAT(wire, HasSubstr("\"code\":\"path_too_long\""));
    }
  }
}

TEST(Exchange, BodiesAreTheSameBytes) {
  std::string body = "GET / HTTP/1.1\r\n\r\n0\r\n\r\n" + std::string(api::kMaxBody, '\0');
  body.resize(api::kMaxBody);
  EXPECT_EQ(asked(head_of("POST", "/x"), body).body, body);
  EXPECT_EQ(asked(head_of("POST", "/x"), "").body, "");
}

TEST(Exchange, HeadersReachTheHandlerAsSentAndTheLibraryNot) {
  const api::Response long_text{200, "text/html", std::string(50000, 'a'), {}};
  for (const std::string method : {"GET", "POST"}) {
    const api::RequestHead head =
        head_of(method, "/x",
                "Range: bytes=0-99999\r\nIf-Range: x\r\nExpect: 100-continue\r\n"
                "Connection: keep-alive\r\nAccept-Encoding: gzip, br\r\n"
                "Content-Encoding: gzip\r\nREMOTE_ADDR: 1.2.3.4\r\n"
                "Content-Type: multipart/form-data; boundary=x\r\n"
                "X: a%0d%0aY%3A b\r\nX: c\r\n");
    api::Request seen;
    const std::string wire = exchanged(head, "a body", {}, [&](const api::Request& request) {
      seen = request;
      return long_text;
    });
    EXPECT_EQ(seen.headers["x"], "a%0d%0aY%3A b, c");
    EXPECT_EQ(seen.headers["remote_addr"], "1.2.3.4");
    EXPECT_EQ(seen.headers["range"], "bytes=0-99999");
    EXPECT_EQ(seen.body, "a body");
    api::Request asked;
    asked.id = seen.id;
    asked.headers = seen.headers;
    const api::Response delivered =
        api::compressed(api::with_request_id(long_text, seen.id), asked);
    EXPECT_EQ(api::flaw_of(wire, delivered, api::Body::Sent), "") << wire.substr(0, 600);
    EXPECT_THAT(wire, StartsWith("HTTP/1.1 200 OK\r\n")) << "no 100 before it, no 206";
    EXPECT_THAT(wire, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
    EXPECT_THAT(wire, HasSubstr("\r\nConnection: close\r\n"));
  }
}

TEST(Exchange, EveryStatusHasOneWholeAnswer) {
  for (const int status : {200, 201, 202, 204, 302, 303, 304, 400, 401, 403, 404, 405, 408, 409,
                           411, 413, 414, 415, 416, 417, 422, 429, 431, 500, 501, 503, 505, 507}) {
    for (const std::string& text : {std::string(), std::string("some text\n")}) {
      const api::Response response{status, "text/plain", text, {{"X-Y", "z"}}};
      for (const std::string method : {"GET", "HEAD", "POST"}) {
        const std::string wire = answered(method, response);
        const api::Body body = method == "HEAD" ? api::Body::LeftOut : api::Body::Sent;
        EXPECT_EQ(api::flaw_of(wire, response, body), "") << wire;
        EXPECT_EQ(tests::flaw_of(wire, method == "HEAD"), "") << wire;
        EXPECT_THAT(wire, HasSubstr("\r\nX-Y: z\r\n"));
        EXPECT_THAT(wire, HasSubstr("\r\nX-Frame-Options: DENY\r\n"));
        EXPECT_THAT(wire, ContainsRegex("\r\nDate: [A-Z][a-z]+, [0-9]+ [A-Z][a-z]+ [0-9]+ "
                                        "[0-9]+:[0-9]+:[0-9]+ GMT\r\n"));
        EXPECT_THAT(wire, Not(HasSubstr("Accept-Ranges"))) << "none are served";
        EXPECT_EQ(wire.find(" Internal") != std::string::npos, status == 500) << wire;
      }
      EXPECT_EQ(api::flaw_of(api::to_wire(response, api::Body::Sent), response, api::Body::Sent),
                "");
      EXPECT_EQ(
          api::flaw_of(api::to_wire(response, api::Body::LeftOut), response, api::Body::LeftOut),
          "");
    }
  }
}

TEST(Exchange, AnswersWithAFlawAreHeldBack) {
  const std::string secret = "somebody's token";
  const std::vector<api::Response> wrong{
      {200, "text/plain", secret, {{"Content-Length", "5"}}},
      {200, "text/plain", secret, {{"content-length", "16"}}},
      {200, "text/plain", secret, {{"Transfer-Encoding", "chunked"}}},
      {304, "text/plain", "", {{"transfer-encoding", "identity"}}},
      {100, "text/plain", secret, {}},
      {0, "text/plain", secret, {}},
      {2000, "text/plain", secret, {}}};
  for (const api::Response& each : wrong) {
    for (const std::string method : {"GET", "HEAD", "POST"}) {
      const std::string wire = answered(method, each);
      EXPECT_THAT(wire, StartsWith("HTTP/1.1 500 Internal Server Error\r\n")) << each.status;
      EXPECT_EQ(tests::flaw_of(wire, method == "HEAD"), "") << wire;
      EXPECT_THAT(wire, Not(HasSubstr(secret)));
    }
  }
  const std::string thrown =
      exchanged(head_of("GET", "/"), "", {}, [](const api::Request&) -> api::Response {
        throw 1;  // what nobody catches by name
      });
  EXPECT_THAT(thrown, StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
  EXPECT_EQ(tests::flaw_of(thrown, false), "");
}

TEST(Exchange, HeadersOfAnswersEndWhereTheyShould) {
  const std::string wire = answered(
      "GET", {200, "text/plain\r\nA: b", "x", {{"C", "d\r\nE: f"}, {"G H", "i"}, {"J", "k"}}});
  EXPECT_EQ(tests::flaw_of(wire, false), "");
  for (const std::string part : {"A: b", "E: f", "G H"}) EXPECT_THAT(wire, Not(HasSubstr(part)));
  EXPECT_THAT(wire, HasSubstr("\r\nJ: k\r\n"));
}

struct Wrong {
  const char* name;
  std::string wire;
  int status;
  std::string body;
  api::Body sent;
  const char* flaw;
};

TEST(Flaws, OfAnswersAreSeen) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string four = "Content-Length: 4\r\n";
  const std::vector<Wrong> table{
      {"good", ok + four + "\r\nbody", 200, "body", api::Body::Sent, ""},
      {"good HEAD", ok + four + "\r\n", 200, "body", api::Body::LeftOut, ""},
      {"good empty", ok + "Content-Length: 0\r\n\r\n", 200, "", api::Body::Sent, ""},
      {"good 304", "HTTP/1.1 304 Not Modified\r\n\r\n", 304, "", api::Body::Sent, ""},
      {"nothing", "", 200, "", api::Body::Sent, "its head has no end"},
      {"head cut", ok + four, 200, "body", api::Body::Sent, "its head has no end"},
      {"other status", ok + four + "\r\nbody", 404, "body", api::Body::Sent, "its status line"},
      {"HTTP/1.0", "HTTP/1.0 200 OK\r\n" + four + "\r\nbody", 200, "body", api::Body::Sent,
       "its status line"},
      {"status 1", "HTTP/1.1 1 \r\n" + four + "\r\nbody", 1, "body", api::Body::Sent,
       "its status line"},
      {"100 first", "HTTP/1.1 100 Continue\r\n\r\n" + ok + four + "\r\nbody", 200, "body",
       api::Body::Sent, "its status line"},
      {"two status lines", ok + ok + four + "\r\nbody", 200, "body", api::Body::Sent,
       "a line of its head"},
      {"bare line feed", ok + "A: b\nC: d\r\n" + four + "\r\nbody", 200, "body", api::Body::Sent,
       "a line of its head"},
      {"no colon", ok + "A\r\n" + four + "\r\nbody", 200, "body", api::Body::Sent,
       "a line of its head"},
      {"no length", ok + "\r\nbody", 200, "body", api::Body::Sent, "it has 0 lengths"},
      {"two lengths", ok + four + four + "\r\nbody", 200, "body", api::Body::Sent,
       "it has 2 lengths"},
      {"two cases", ok + four + "content-LENGTH: 4\r\n\r\nbody", 200, "body", api::Body::Sent,
       "it has 2 lengths"},
      {"length and more", ok + "Content-Length: 4, 4\r\n\r\nbody", 200, "body", api::Body::Sent,
       "its length is 4, 4 and its body has 4 bytes"},
      {"the range", ok + "Content-Length: 10\r\n\r\nbody+other", 200, "body", api::Body::Sent,
       "its length is 10 and its body has 4 bytes"},
      {"too few", ok + four + "\r\nbod", 200, "body", api::Body::Sent,
       "3 bytes follow its head, not 4"},
      {"too many", ok + four + "\r\nbodyX", 200, "body", api::Body::Sent,
       "5 bytes follow its head"},
      {"second answer", ok + four + "\r\nbody" + ok + four + "\r\nbody", 200, "body",
       api::Body::Sent, "bytes follow its head"},
      {"other bytes", ok + four + "\r\nBODY", 200, "body", api::Body::Sent, "other bytes"},
      {"HEAD with body", ok + four + "\r\nbody", 200, "body", api::Body::LeftOut,
       "4 bytes follow its head, not 0"},
      {"chunked", ok + "transfer-encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", api::Body::Sent,
       "it has a Transfer-Encoding"},
      {"304 with length", "HTTP/1.1 304 x\r\n" + four + "\r\n", 304, "", api::Body::Sent,
       "it has a length and no body"},
      {"204 with body", "HTTP/1.1 204 x\r\n\r\nbody", 204, "body", api::Body::Sent,
       "bytes follow its head"}};
  for (const Wrong& each : table) {
    const std::string flaw =
        api::flaw_of(each.wire, {each.status, "text/plain", each.body, {}}, each.sent);
    if (each.flaw[0] == '\0') {
      EXPECT_EQ(flaw, "") << each.name;
    } else {
      EXPECT_THAT(flaw, HasSubstr(each.flaw)) << each.name;
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator
