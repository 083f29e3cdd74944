// The server under attack: what it refuses, what it waits for, and that no byte leaves it that is
// not the answer's.
#include "orchestrator/api/server.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <memory>

#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::RawAnswer;
using tests::request_text;

// Answers who asks and with what.
api::Response echo(const api::Request& request) {
  api::Response response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " " + request.body + "\n" +
                  (request.peer.local_socket ? "uid " + std::to_string(request.peer.uid) + " pid " +
                                                   std::to_string(request.peer.pid)
                                             : "address " + request.peer.address);
  return response;
}

std::string refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& error) {
    return std::string(base::meaning(error.code()).name) + ": " + error.what();
  }
  return "nothing";
}

api::ServerOptions only_unix(const base::Path& path) { return {"127.0.0.1", api::kNoPort, path}; }

TEST(UnixSocket, TellsWhoAsks) {
  const tests::TemporaryDirectory folder;
  const base::Path path = folder.path() / "s";
  api::HttpServer server({"127.0.0.1", 0, path}, echo);
  server.start();
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0600U);
  const std::string who =
      "uid " + std::to_string(::getuid()) + " pid " + std::to_string(::getpid());
  EXPECT_THAT(tests::send_unix(path.string(), request_text("GET", "/x")).body,
              HasSubstr("GET /x \n" + who));
  EXPECT_THAT(tests::send_raw(server.port(), request_text("GET", "/x")).body,
              HasSubstr("address 127.0.0.1"));
}

TEST(UnixSocket, TakesAnyHostAndNoOrigin) {
  const tests::TemporaryDirectory folder;
  const base::Path path = folder.path() / "s";
  api::HttpServer server(only_unix(path), echo);
  server.start();
  EXPECT_EQ(server.port(), 0);
  EXPECT_EQ(server.url(), "");
  const auto status = [&](const std::string& headers) {
    return tests::send_unix(path.string(), "GET / HTTP/1.1\r\n" + headers + "\r\n").status;
  };
  EXPECT_EQ(status("Host: regatta\r\n"), 200);
  EXPECT_EQ(status("Host: regatta\r\nOrigin: http://regatta\r\n"), 403);
  EXPECT_EQ(status("Host: regatta\r\nOrigin:\r\n"), 403);
}

TEST(Hosts, AreTakenWholeOrNotAtAll) {
  for (const char* const good : {"localhost", "LOCALHOST:8420", "127.0.0.1", "127.0.0.1:18420",
                                 "127.0.0.1:", "127.0.0.2:1", "[::1]", "[::1]:65535"}) {
    EXPECT_TRUE(api::host_is_allowed(good, "127.0.0.2")) << good;
  }
  for (const char* const bad :
       {"", "evil", "127.0.0.1:18420.evil.com", "127.0.0.1:18420@evil", "127.0.0.1@evil",
        "127.0.0.1:8420:8420", "127.0.0.1:x", "127.0.0.1:999999", "127.0.0.1.evil.com", "[::1",
        "[::1]evil", "[::1].evil:80", "[::1]:80@evil", "::1", "localhost:-1", "127.0.0.3",
        "localhost, evil"}) {
    EXPECT_FALSE(api::host_is_allowed(bad, "127.0.0.2")) << bad;
  }
}

TEST(UnixSocket, LongPathsWork) {
  const tests::TemporaryDirectory folder;
  const base::Path deep = folder.path() / std::string(100, 'a') / std::string(100, 'b');
  std::filesystem::create_directories(deep);
  api::HttpServer server(only_unix(deep / "socket"), echo);
  server.start();
  std::filesystem::create_symlink(deep, folder.path() / "d");
  EXPECT_EQ(
      tests::send_unix((folder.path() / "d" / "socket").string(), request_text("GET", "/")).status,
      200);
  EXPECT_THAT(refusal_of([&] {
                const api::HttpServer other(only_unix(deep / std::string(65, 's')), echo);
              }),
              HasSubstr("operator: the socket's name"));
}

TEST(UnixSocket, ReplacesADeadServersAndNoOther) {
  const tests::TemporaryDirectory folder;
  const base::Path path = folder.path() / "s";
  {
    api::HttpServer first(only_unix(path), echo);
    first.start();
    EXPECT_THAT(refusal_of([&] { const api::HttpServer second(only_unix(path), echo); }),
                HasSubstr("operator: a controller already answers on " + path.string()));
    EXPECT_EQ(tests::send_unix(path.string(), request_text("GET", "/")).status, 200);
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "removed at the end";
  {
    // As a killed server leaves it: the file stays, nobody listens.
    const base::UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.string().size());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  api::HttpServer again(only_unix(path), echo);
  again.start();
  EXPECT_EQ(tests::send_unix(path.string(), request_text("GET", "/")).status, 200);
  // Somebody else's file at the same place is left alone.
  std::filesystem::remove(path);
  tests::write_file(path, "mine");
  EXPECT_THAT(refusal_of([&] { const api::HttpServer other(only_unix(path), echo); }),
              HasSubstr("is not a socket"));
}

TEST(UnixSocket, NeedsItsFolder) {
  EXPECT_THAT(
      refusal_of([] { const api::HttpServer server(only_unix("/no/such/folder/s"), echo); }),
      HasSubstr("/no/such/folder/s"));
}

// What tests of connections share: a server with short limits, and connections held open.
struct Held {
  explicit Held(const api::ConnectionLimits& limits, api::HttpServer::Handler handler = echo)
      : server({"127.0.0.1", 0, {}, limits}, std::move(handler)) {
    server.start();
  }
  base::UniqueFd open(const std::string& bytes = "") const {
    base::UniqueFd fd = tests::connect_tcp(server.port());
    tests::send_bytes(fd, bytes);
    return fd;
  }
  RawAnswer get(const std::string& target) const {
    return tests::send_raw(server.port(), request_text("GET", target));
  }
  // Seconds until an answer with status 200; 1000 for any other.
  double seconds_to_answer(const std::string& request) const {
    const auto begin = std::chrono::steady_clock::now();
    if (tests::send_raw(server.port(), request).status != 200) return 1000;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  api::HttpServer server;
};
const std::string kVersion = request_text("GET", "/api/v1/version");
// A machine may be busy; the version before let nobody through for a minute.
constexpr double kSoon = 40;

// ---- No byte that is not the answer's

struct Request1 {
  std::string name;
  std::string bytes;  // up to the place of further headers
  std::string rest;
};

TEST(Ranges, NeverMakeAnAnswerLongerThanItsBody) {
  const Held held({}, [](const api::Request& request) {
    api::Response response;
    response.body = "an answer of 23 bytes.\n";
    if (request.path == "/none") response.body.clear();
    if (request.path == "/same") response.status = 304;
    if (request.path == "/missing") response.status = 404;
    if (request.path == "/wrong") response.status = 405;
    if (request.path == "/broken") throw std::runtime_error("a detail");
    return response;
  });
  std::vector<Request1> requests;
  for (const std::string path : {"/", "/none", "/same", "/missing", "/wrong", "/broken"}) {
    for (const std::string method : {"GET", "HEAD", "POST", "DELETE"}) {
      const std::string length = method == "POST" ? "Content-Length: 4\r\n" : "";
      requests.push_back({method + path, method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n",
                          length + "\r\n" + (method == "POST" ? "body" : "")});
    }
  }
  const std::string post = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  requests.push_back({"403", "GET / HTTP/1.1\r\nHost: evil\r\n", "\r\n"});
  requests.push_back({"411", post, "Transfer-Encoding: chunked\r\n\r\n"});
  requests.push_back({"413", post, "Content-Length: 1048577\r\n\r\n"});
  requests.push_back(
      {"414", "GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n", "\r\n"});
  requests.push_back({"415", post, "Content-Encoding: br\r\nContent-Length: 0\r\n\r\n"});
  requests.push_back({"400", "GET  HTTP/1.1\r\nHost: localhost\r\n", "\r\n"});
  requests.push_back({"501", "BREW / HTTP/1.1\r\nHost: localhost\r\n", "\r\n"});
  for (const std::string range :
       {"", "Range: bytes=0-99999\r\n", "Range: bytes=-5\r\n", "Range: bytes=5-\r\n",
        "Range: bytes=0-1,2-3,4-99999\r\n", "Range: bytes=99999-1\r\n", "Range: bytes=-99999\r\n",
        "Range: bytes=0-9223372036854775807\r\n", "Range: lines=1-2\r\n",
        "Range: bytes=0-3\r\nIf-Range: \"x\"\r\n"}) {
    for (const Request1& each : requests) {
      const base::UniqueFd fd = held.open(each.bytes + range + each.rest);
      const std::string answer = tests::receive_all(fd);
      EXPECT_EQ(tests::flaw_of(answer, each.name.rfind("HEAD", 0) == 0), "")
          << each.name << " " << range << answer.substr(0, 400);
      EXPECT_THAT(answer, Not(HasSubstr("206 "))) << "every answer is the whole one";
    }
  }
}

TEST(Requests, PipelinedSecondIsNeverRead) {
  std::atomic<int> calls = 0;
  const Held held({}, [&](const api::Request& request) {
    ++calls;
    return echo(request);
  });
  const std::string second = request_text("POST", "/second", "", "x");
  for (const std::string& first :
       {request_text("GET", "/first"), request_text("POST", "/first", "", "abc"),
        request_text("GET", "/first",
                     "Content-Length: " + std::to_string(second.size()) + "\r\n")}) {
    calls = 0;
    const base::UniqueFd fd = held.open(first + second);
    const std::string answer = tests::receive_all(fd);
    EXPECT_EQ(tests::flaw_of(answer, false), "");
    EXPECT_THAT(answer, Not(HasSubstr("/second")));
    EXPECT_EQ(calls, 1);
  }
}

TEST(Requests, CutAtEveryByteAreTheSame) {
  const Held held({});
  const std::string request = request_text("POST", "/a%20b?x=1", "X-Request-Id: t\r\n", "the body");
  const std::string whole = tests::receive_all(held.open(request));
  ASSERT_THAT(whole, HasSubstr("POST /a b the body"));
  for (std::size_t i = 1; i < request.size(); ++i) {
    const base::UniqueFd fd = held.open(request.substr(0, i));
    ASSERT_TRUE(tests::send_bytes(fd, request.substr(i)));
    EXPECT_EQ(tests::receive_all(fd), whole) << i;
  }
}

// ---- What is refused

struct Refused {
  const char* name;
  std::string request;
  int status;
  const char* code;
  friend void PrintTo(const Refused& each, std::ostream* out) { *out << each.name; }
};
class Refusals : public testing::TestWithParam<Refused> {};
TEST_P(Refusals, HaveWordsOfTheirOwn) {
  const Held held(
      {}, [](const api::Request&) -> api::Response { throw std::runtime_error("was let in"); });
  const std::string answer = tests::receive_all(held.open(GetParam().request));
  EXPECT_EQ(tests::flaw_of(answer, false), "") << answer;
  const RawAnswer parsed = tests::parse_answer(answer);
  EXPECT_EQ(parsed.status, GetParam().status) << answer;
  EXPECT_EQ(parsed.header("Content-Type"), "application/problem+json");
  EXPECT_THAT(parsed.body, HasSubstr("\"code\":\"" + std::string(GetParam().code) + "\""));
  EXPECT_THAT(parsed.body, HasSubstr("\"request_id\":\"" + parsed.header("X-Request-Id") + "\""));
}
const std::string kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n";
const std::string kPost = "POST / HTTP/1.1\r\nHost: localhost\r\n";
std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}
INSTANTIATE_TEST_SUITE_P(
    Table, Refusals,
    testing::Values(
        Refused{"empty_line", "\r\n", 400, "bad_request"},
        Refused{"one_word", "GET\r\n\r\n", 400, "bad_request"},
        Refused{"two_words", "GET /\r\n\r\n", 400, "bad_request"},
        Refused{"no_version", "GET / FTP/1.1\r\n\r\n", 400, "bad_request"},
        Refused{"version_2", "GET / HTTP/2.0\r\n\r\n", 505, "version_not_supported"},
        Refused{"version_text", "GET / HTTP/1.11\r\n\r\n", 505, "version_not_supported"},
        Refused{"space_in_target", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
                "bad_request"},
        Refused{"tab_in_target", "GET /a\tb HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
                "bad_request"},
        Refused{"fragment", "GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "bad_request"},
        Refused{"other_scheme", "GET ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
                "bad_request"},
        Refused{"absolute_without_host", "GET http:/// HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
                "bad_request"},
        Refused{"absolute_foreign", "GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403,
                "forbidden"},
        Refused{"absolute_as_user",
                "GET http://localhost@evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403, "forbidden"},
        Refused{"method_bytes", "G\"T / HTTP/1.1\r\n\r\n", 400, "bad_request"},
        Refused{"garbage_method", "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501,
                "not_implemented"},
        Refused{"lower_case", "get / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, "not_implemented"},
        Refused{"connect", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405,
                "method_not_allowed"},
        Refused{"trace", "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed"},
        Refused{"bare_line_feed", "GET / HTTP/1.1\nHost: localhost\n\n", 400, "bad_request"},
        Refused{"line_feed_between", kGet + "A: b\nC: d\r\n\r\n", 400, "bad_request"},
        Refused{"bare_return", kGet + "A: b\rC: d\r\n\r\n", 400, "bad_request"},
        Refused{"nul", kGet + "A: b" + std::string(1, '\0') + "\r\n\r\n", 400, "bad_request"},
        Refused{"control", kGet + "A: b\x01\r\n\r\n", 400, "bad_request"},
        Refused{"folded", kGet + "A: b\r\n c\r\n\r\n", 400, "bad_request"},
        Refused{"folded_first", "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", 400, "bad_request"},
        Refused{"space_before_colon", kGet + "A : b\r\n\r\n", 400, "bad_request"},
        Refused{"no_colon", kGet + "A\r\n\r\n", 400, "bad_request"},
        Refused{"no_name", kGet + ": b\r\n\r\n", 400, "bad_request"},
        Refused{"two_hosts", kGet + "Host: localhost\r\n\r\n", 400, "bad_request"},
        Refused{"foreign_host", "GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 403, "forbidden"},
        Refused{"host_and_more", "GET / HTTP/1.1\r\nHost: 127.0.0.1:18420.evil.com\r\n\r\n", 403,
                "forbidden"},
        Refused{"host_as_user", "GET / HTTP/1.1\r\nHost: 127.0.0.1:18420@evil\r\n\r\n", 403,
                "forbidden"},
        Refused{"no_host_1_1", "GET / HTTP/1.1\r\n\r\n", 400, "bad_request"},
        Refused{"no_host", "GET / HTTP/1.0\r\n\r\n", 403, "forbidden"},
        Refused{"foreign_origin", kGet + "Origin: http://evil\r\n\r\n", 403, "forbidden"},
        Refused{"empty_origin", kGet + "Origin:\r\n\r\n", 403, "forbidden"},
        Refused{"chunked", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 411,
                "length_required"},
        Refused{"chunked_get", kGet + "Transfer-Encoding: identity\r\n\r\n", 411,
                "length_required"},
        Refused{"length_plus", kPost + "Content-Length: +5\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_hex", kPost + "Content-Length: 0x5\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_space", kPost + "Content-Length: 5 5\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_list", kPost + "Content-Length: 5, 5\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_empty", kPost + "Content-Length:\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_minus", kPost + "Content-Length: -1\r\n\r\nabcde", 400, "bad_request"},
        Refused{"length_long", kPost + "Content-Length: 99999999999999999999\r\n\r\n", 400,
                "bad_request"},
        Refused{"two_lengths", kPost + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 400,
                "bad_request"},
        Refused{"too_large", kPost + "Content-Length: 1048577\r\n\r\n", 413, "too_large"},
        Refused{"too_large_and_sent",
                kPost + "Content-Length: 8388608\r\n\r\n" + std::string(8388608, 'x'), 413,
                "too_large"},
        Refused{"too_large_expects",
                kPost + "Content-Length: 1048577\r\nExpect: 100-continue\r\n\r\n", 413,
                "too_large"},
        Refused{"expects_more", kPost + "Content-Length: 1\r\nExpect: tea\r\n\r\n", 417,
                "expectation_failed"},
        Refused{"compressed", kPost + "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", 415,
                "unsupported_media_type"},
        Refused{
            "a_form",
            kPost + "Content-Type: Multipart/form-data; boundary=x\r\nContent-Length: 0\r\n\r\n",
            415, "unsupported_media_type"},
        Refused{"long_path",
                "GET /" + std::string(1024, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414,
                "path_too_long"},
        Refused{"endless_line", "GET /" + std::string(100000, 'a'), 414, "path_too_long"},
        Refused{"endless_header", kGet + "A: " + std::string(100000, 'a'), 431,
                "headers_too_large"},
        Refused{"headers_100000", kGet + repeated("A: b\r\n", 100000) + "\r\n", 431,
                "headers_too_large"},
        Refused{"headers_101", kGet + repeated("A: b\r\n", 100) + "\r\n", 431, "headers_too_large"},
        Refused{"headers_40_kib",
                kGet + repeated("A: " + std::string(4000, 'b') + "\r\n", 10) + "\r\n", 431,
                "headers_too_large"}),
    [](const auto& each) { return each.param.name; });

TEST(Requests, UpToTheLimitsAreTaken) {
  const Held held({});
  const auto status = [&](const std::string& bytes) {
    return tests::send_raw(held.server.port(), bytes).status;
  };
  EXPECT_EQ(status(kGet + repeated("A: b\r\n", 99) + "\r\n"), 200);
  EXPECT_EQ(status(kGet + "A: " + std::string(8000, 'a') + "\r\n\r\n"), 200);
  EXPECT_EQ(status("GET /" + std::string(1023, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
  EXPECT_EQ(status(kPost + "Content-Length: 0\r\n\r\n"), 200);
  EXPECT_EQ(status(kPost + "\r\n"), 200) << "an address says whether it needs a body";
  EXPECT_EQ(status(request_text("POST", "/", "", std::string(1U << 20U, 'x'))), 200);
  EXPECT_EQ(status("GET / HTTP/1.0\r\nhOST:localhost \r\nEmpty:\r\n\r\n"), 200);
}

TEST(Requests, ABodyIsAskedForWhenItsSenderWaits) {
  const Held held({});
  const base::UniqueFd fd = held.open(kPost + "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  char block[64] = "";
  ASSERT_GT(::recv(fd.get(), block, sizeof block - 1, 0), 0);
  EXPECT_STREQ(block, "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(tests::send_bytes(fd, "body"));
  EXPECT_THAT(tests::receive_all(fd), HasSubstr("POST / body"));
}

// ---- Who keeps whom waiting

TEST(SlowConnections, KeepNobodyWaiting) {
  for (const int count : {16, 200, 400}) {
    const Held held({});
    std::vector<base::UniqueFd> slow;
    for (int i = 0; i < count; ++i) slow.push_back(held.open("GET / HT"));
    for (const base::UniqueFd& fd : slow) tests::send_bytes(fd, "T");
    double longest = 0;
    for (int i = 0; i < 10; ++i) longest = std::max(longest, held.seconds_to_answer(kVersion));
    EXPECT_LT(longest, kSoon) << count;
    EXPECT_LT(held.seconds_to_answer(request_text("POST", "/x", "", "y")), kSoon) << count;
    RecordProperty("milliseconds_among_" + std::to_string(count), static_cast<int>(longest * 1000));
  }
}

TEST(SlowConnections, AreEndedInTime) {
  api::ConnectionLimits limits;
  limits.first_byte_seconds = 2;
  limits.head_seconds = 3;
  limits.request_seconds = 4;
  const Held held(limits);
  const base::UniqueFd silent = held.open();
  const base::UniqueFd head = held.open("GET / HTTP/1.1\r\nHost: loc");
  const base::UniqueFd body = held.open(kPost + "Content-Length: 5\r\n\r\nab");
  EXPECT_EQ(tests::receive_all(silent), "");
  const std::string late = tests::receive_all(head);
  EXPECT_THAT(late, HasSubstr("HTTP/1.1 408 "));
  EXPECT_THAT(late, HasSubstr("\"code\":\"timeout\""));
  EXPECT_EQ(tests::flaw_of(late, false), "");
  EXPECT_THAT(tests::receive_all(body), HasSubstr("HTTP/1.1 408 "));
}

TEST(SlowConnections, WhoNeverReadsIsDropped) {
  api::ConnectionLimits limits;
  limits.answer_seconds = 10;
  limits.unsent_bytes = std::size_t{48} << 20U;
  const Held held(limits, [](const api::Request& request) {
    return api::Response{
        200, "text/plain", std::string(request.path == "/big" ? 16U << 20U : 2U, 'x'), {}};
  });
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  std::vector<base::UniqueFd> readers;
  for (int i = 0; i < 8; ++i) readers.push_back(held.open(request_text("GET", "/big")));
  EXPECT_LT(held.seconds_to_answer(kVersion), kSoon);
  // All have their answers, or what of them is left after the limit of untaken bytes.
  ASSERT_TRUE(tests::eventually([&] {
    return std::all_of(readers.begin(), readers.end(), [](const base::UniqueFd& fd) {
      pollfd waiting{fd.get(), POLLIN, 0};
      return ::poll(&waiting, 1, 0) == 1;
    });
  }));
  EXPECT_EQ(held.get("/big").body.size(), 16U << 20U) << "who reads gets all of it";
  ASSERT_TRUE(tests::eventually([&] { return descriptors() == before + 8; })) << "only their own";
  for (const base::UniqueFd& fd : readers) {
    EXPECT_LT(tests::receive_all(fd).size(), 16U << 20U) << "what was in the sockets' buffers";
  }
}

TEST(Connections, OfOnePeerGiveWayLongestIdleFirst) {
  api::ConnectionLimits limits;
  limits.per_peer = 8;
  const Held held(limits);
  std::vector<base::UniqueFd> idle;
  idle.push_back(held.open("GET /"));
  EXPECT_EQ(held.get("/x").status, 200) << "so the first one has been read";
  for (int i = 1; i < 8; ++i) idle.push_back(held.open("GET /"));
  EXPECT_EQ(held.get("/x").status, 200);
  EXPECT_EQ(tests::receive_all(idle[0]), "") << "the first one went";
  ASSERT_TRUE(tests::send_bytes(idle[7], "x HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_THAT(tests::receive_all(idle[7]), HasSubstr("200 OK")) << "the last one stays";
}

// A handler that waits until it is told to go on.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
  std::atomic<int> inside = 0;
  api::HttpServer::Handler handler() {
    return [this](const api::Request& request) {
      if (request.path == "/wait") {
        ++inside;
        open.wait();
      }
      return echo(request);
    };
  }
};

TEST(Lanes, SlowReadsKeepNeitherWritesNorTheVersionWaiting) {
  Gate gate;
  const Held held({}, gate.handler());
  std::vector<base::UniqueFd> reads;
  for (int i = 0; i < 8; ++i) reads.push_back(held.open(request_text("GET", "/wait")));
  ASSERT_TRUE(tests::eventually([&] { return gate.inside == 8; }));
  for (int i = 8; i < 120; ++i) reads.push_back(held.open(request_text("GET", "/wait")));
  const auto refused = [&] {
    return std::count_if(reads.begin(), reads.end(), [](const base::UniqueFd& fd) {
      pollfd waiting{fd.get(), POLLIN, 0};
      return ::poll(&waiting, 1, 0) == 1;
    });
  };
  // 8 at work, 96 in the queue.
  EXPECT_TRUE(tests::eventually([&] { return gate.inside == 8 && refused() == 16; }))
      << gate.inside << " inside, refused " << refused();
  EXPECT_LT(held.seconds_to_answer(request_text("POST", "/runs", "", "x")), kSoon);
  EXPECT_LT(held.seconds_to_answer(kVersion), kSoon);
  const std::string busy = tests::receive_all(held.open(request_text("GET", "/x")));
  EXPECT_THAT(busy, HasSubstr("HTTP/1.1 503 "));
  EXPECT_THAT(busy, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(busy, HasSubstr("\"code\":\"busy\""));
  gate.opened.set_value();
  int answered = 0;
  for (const base::UniqueFd& fd : reads) {
    answered += tests::receive_all(fd).rfind("HTTP/1.1 200 ", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(answered, 104) << "whoever was let in is answered";
}

TEST(Lanes, WhatIsUnderWayIsAnsweredAtTheEnd) {
  Gate gate;
  auto held = std::make_unique<Held>(api::ConnectionLimits{}, gate.handler());
  const base::UniqueFd working = held->open(request_text("POST", "/wait", "", "x"));
  const base::UniqueFd idle = held->open("GET /");
  EXPECT_TRUE(tests::eventually([&] { return gate.inside == 1; }));
  (void)held->get("/api/v1/version");  // comes after it, so it was accepted
  std::thread ends([&] { held.reset(); });
  EXPECT_EQ(tests::receive_all(idle), "") << "no more requests begin";
  gate.opened.set_value();
  EXPECT_THAT(tests::receive_all(working), HasSubstr("POST /wait x"));
  ends.join();
}

TEST(Lanes, ManyAtOnceAreAllAnswered) {
  const Held held({});
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 25; ++j) good += held.get("/x").status == 200 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 32 * 25);
}

}  // namespace
}  // namespace regatta::orchestrator
