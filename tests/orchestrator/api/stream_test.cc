// Answers that go out piece by piece, and files that are sent.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/download.h"
#include "orchestrator/api/server.h"
#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::RawAnswer;
using tests::request_text;
using tests::TemporaryDirectory;

// Pieces that the test gives it, one after the other.
class ToldStream final : public api::BodyStream {
 public:
  explicit ToldStream(std::optional<std::uint64_t> size) : size_(size) { ++alive; }
  ~ToldStream() override { --alive; }

  void tell(std::string bytes, bool last = false) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(bytes), last});
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    fails_ = true;
  }

  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }
  Piece next() override {
    const std::lock_guard lock(mutex_);
    ++asked;
    if (pieces_.empty() && fails_) throw base::Error(base::Code::Retry, "the file is gone");
    if (pieces_.empty()) return {};
    Piece piece = pieces_.front();
    pieces_.erase(pieces_.begin());
    return piece;
  }

  static inline std::atomic<int> alive = 0;
  std::atomic<int> asked = 0;

 private:
  const std::optional<std::uint64_t> size_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  bool fails_ = false;
};

class StreamTest : public testing::Test {
 protected:
  void start(const api::ConnectionLimits& limits = {}) {
    server_.emplace(api::ServerOptions{"127.0.0.1", 0, {}, limits},
                    [this](const api::Request& request) {
                      api::Response response;
                      response.content_type = "text/plain";
                      if (request.path == "/plain") {
                        response.body = "plain";
                      } else {
                        response.stream = stream_;
                      }
                      return response;
                    });
    server_->start();
  }
  [[nodiscard]] base::UniqueFd open(const std::string& method = "GET") const {
    base::UniqueFd fd = tests::connect_tcp(server_->port());
    tests::send_bytes(fd, request_text(method, "/stream"));
    return fd;
  }
  // What comes until it has this text.
  static std::string receive_until(const base::UniqueFd& fd, const std::string& text) {
    std::string got;
    char block[1 << 16];
    while (got.find(text) == std::string::npos) {
      const ssize_t count = ::recv(fd.get(), block, sizeof block, 0);
      if (count <= 0) break;
      got.append(block, static_cast<std::size_t>(count));
    }
    return got;
  }

  std::shared_ptr<ToldStream> stream_ = std::make_shared<ToldStream>(std::nullopt);
  std::optional<api::HttpServer> server_;
};

TEST_F(StreamTest, PiecesComeAsTheyAreTold) {
  start();
  const base::UniqueFd fd = open();
  stream_->tell("one\n");
  const std::string first = receive_until(fd, "one\n");
  EXPECT_THAT(first, HasSubstr("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(first, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(first, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(first, Not(HasSubstr("Transfer-Encoding")));
  const int asked = stream_->asked;
  EXPECT_TRUE(tests::eventually([&] { return stream_->asked > asked + 2; })) << "asked again";
  stream_->tell("two\n");
  EXPECT_EQ(receive_until(fd, "two\n"), "two\n");
  stream_->tell("three\n", true);
  EXPECT_EQ(tests::receive_all(fd), "three\n") << "and then the end";
}

TEST_F(StreamTest, OfKnownLengthHasThatLength) {
  stream_ = std::make_shared<ToldStream>(9);
  stream_->tell("one, ");
  stream_->tell("two.", true);
  start();
  const std::string answer = tests::receive_all(open());
  EXPECT_EQ(tests::flaw_of(answer, false), "") << answer;
  EXPECT_EQ(tests::parse_answer(answer).body, "one, two.");
  const std::string head = tests::receive_all(open("HEAD"));
  EXPECT_EQ(tests::flaw_of(head, true), "") << head;
  EXPECT_EQ(tests::parse_answer(head).header("Content-Length"), "9");
}

TEST_F(StreamTest, OfKnownLengthGoesToAPeerThatHasClosedItsSide) {
  stream_ = std::make_shared<ToldStream>(9);
  start();
  const base::UniqueFd fd = open();
  ASSERT_EQ(::shutdown(fd.get(), SHUT_WR), 0);
  EXPECT_TRUE(tests::eventually([&] { return stream_->asked > 2; })) << "it is still there";
  stream_->tell("one, ");
  stream_->tell("two.", true);
  EXPECT_EQ(tests::parse_answer(tests::receive_all(fd)).body, "one, two.");
}

TEST_F(StreamTest, ThatFailsBreaksOff) {
  stream_ = std::make_shared<ToldStream>(100);
  stream_->tell("a part");
  stream_->fail();
  start();
  const std::string answer = tests::receive_all(open());
  EXPECT_EQ(tests::flaw_of(answer, false), "100 said, 6 sent");
}

TEST_F(StreamTest, IsDroppedWhenItsPeerIsGone) {
  start();
  const int before = ToldStream::alive;
  auto fd = std::make_unique<base::UniqueFd>(open());
  stream_->tell("one");
  (void)receive_until(*fd, "one");
  stream_ = std::make_shared<ToldStream>(std::nullopt);  // the server alone has the first
  EXPECT_EQ(ToldStream::alive, before + 1);
  fd.reset();
  EXPECT_TRUE(tests::eventually([&] { return ToldStream::alive == before; }));
}

TEST_F(StreamTest, ThereAreOnlySoMany) {
  api::ConnectionLimits limits;
  limits.streams = 3;
  start(limits);
  std::vector<base::UniqueFd> open_ones;
  for (int i = 0; i < 3; ++i) {
    stream_->tell("hello");
    open_ones.push_back(open());
    EXPECT_THAT(receive_until(open_ones.back(), "hello"), HasSubstr("200 OK"));
  }
  const RawAnswer refused = tests::parse_answer(tests::receive_all(open()));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.header("Retry-After"), "");
  EXPECT_NE(refused.header("X-Request-Id"), "");
  EXPECT_THAT(refused.body, HasSubstr("event streams or downloads"));
  EXPECT_EQ(tests::send_raw(server_->port(), request_text("GET", "/plain")).body, "plain")
      << "others are served";
  open_ones.pop_back();
  EXPECT_TRUE(tests::eventually([&] {
    stream_->tell("again");
    const base::UniqueFd fd = open();
    return receive_until(fd, "again").find("200 OK") != std::string::npos;
  })) << "a seat is free";
}

TEST_F(StreamTest, IsNoPeerThatSaysNothing) {
  api::ConnectionLimits limits;
  limits.connections = 3;
  start(limits);
  const base::UniqueFd fd = open();
  stream_->tell("one\n");
  (void)receive_until(fd, "one\n");
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(tests::connect_tcp(server_->port()));
  EXPECT_EQ(tests::send_raw(server_->port(), request_text("GET", "/plain")).body, "plain")
      << "all of them were taken";
  stream_->tell("two\n");
  EXPECT_EQ(receive_until(fd, "two\n"), "two\n");
}

TEST_F(StreamTest, WhoDoesNotReadIsDroppedAndHoldsUpNobody) {
  api::ConnectionLimits limits;
  limits.answer_seconds = 1;
  stream_ = std::make_shared<ToldStream>(std::uint64_t{1} << 40U);
  for (int i = 0; i < 64; ++i) stream_->tell(std::string(1U << 20U, 'x'));
  start(limits);
  const base::UniqueFd fd = open();
  EXPECT_EQ(tests::send_raw(server_->port(), request_text("GET", "/plain")).body, "plain");
  const int before = ToldStream::alive;
  stream_.reset();
  stream_ = std::make_shared<ToldStream>(std::nullopt);
  EXPECT_TRUE(tests::eventually([&] { return ToldStream::alive == before; }));
  EXPECT_LT(tests::receive_all(fd).size(), std::size_t{64} << 20U);
}

TEST_F(StreamTest, TheServersEndWaitsForNoEndlessOne) {
  api::ConnectionLimits limits;
  limits.stop_seconds = 200;  // what it would wait for an answer under way
  start(limits);
  const base::UniqueFd fd = open();
  stream_->tell("one\n");
  (void)receive_until(fd, "one\n");  // the head has a 'none'
  const auto begin = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(tests::receive_all(fd), "");
}

// ---- Files

class DownloadTest : public testing::Test {
 protected:
  base::Path write(const std::string& name, const std::string& bytes) {
    const base::Path path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // All of what `send` answers.
  static std::string body_of(const api::Response& response) {
    if (!response.stream) return response.body;
    std::string body;
    for (;;) {
      api::BodyStream::Piece piece = response.stream->next();
      body += piece.bytes;
      if (piece.is_last) break;
    }
    EXPECT_EQ(response.stream->size(), body.size());
    return body;
  }
  api::Response send(const api::Download& download, const std::string& range = "",
                     const std::string& if_range = "") {
    api::Request request;
    if (!range.empty()) request.headers["range"] = range;
    if (!if_range.empty()) request.headers["if-range"] = if_range;
    return api::send(request, base::posix_file_system(), nullptr, download);
  }

  // What tar says.
  std::string tar(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tar");
    base::Command command;
    command.arguments = std::move(arguments);
    command.output_path = folder_.path() / "said";
    (void)base::wait_exit(base::spawn(command));
    std::ostringstream said;
    said << std::ifstream(command.output_path).rdbuf();
    return said.str();
  }

  TemporaryDirectory folder_;
};

TEST_F(DownloadTest, RangesAreThoseOfTheWhole) {
  std::string bytes(2'000'003, ' ');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 31) >> 3U);
  api::Download download{
      folder_.path(), {{"head"}, {"", write("a", bytes), bytes.size()}, {"tail"}}, "a b\"\r\n.bin"};
  download.digest = "0123";
  const std::string whole = "head" + bytes + "tail";
  const api::Response all = send(download);
  EXPECT_EQ(all.status, 200);
  EXPECT_EQ(body_of(all), whole);
  EXPECT_EQ(all.headers.at("ETag"), "\"0123\"");
  EXPECT_EQ(all.headers.at("X-Digest-XXH3-128"), "0123");
  EXPECT_EQ(all.headers.at("Content-Disposition"), "attachment; filename=\"a_b___.bin\"");
  struct Case {
    const char* range;
    std::uint64_t begin, end;
  };
  for (const Case& each :
       {Case{"bytes=0-0", 0, 1}, Case{"bytes=2-5", 2, 6}, Case{"bytes=3-", 3, 2'000'011},
        Case{"bytes=-6", 2'000'005, 2'000'011}, Case{"bytes=-99999999", 0, 2'000'011},
        Case{"bytes=1000-1500000", 1000, 1'500'001},
        Case{"bytes=2000010-9223372036854775807", 2'000'010, 2'000'011},
        Case{"bytes=0-99999999999999999999", 0, 2'000'011},
        Case{"bytes=-99999999999999999999", 0, 2'000'011}}) {
    const api::Response part = send(download, each.range);
    EXPECT_EQ(part.status, 206) << each.range;
    EXPECT_EQ(body_of(part), whole.substr(each.begin, each.end - each.begin)) << each.range;
    EXPECT_EQ(part.headers.at("Content-Range"), "bytes " + std::to_string(each.begin) + "-" +
                                                    std::to_string(each.end - 1) + "/2000011");
  }
  for (const char* none : {"bytes=2000011-", "bytes=-0", "bytes=9223372036854775807-",
                           "bytes=99999999999999999999-"}) {
    const api::Response refused = send(download, none);
    EXPECT_EQ(refused.status, 416) << none;
    EXPECT_EQ(refused.headers.at("Content-Range"), "bytes */2000011");
  }
  for (const char* ignored :
       {"bytes=0-1,3-4", "lines=1-2", "bytes=5-2", "bytes=a-b", "bytes=", "bytes=-", "bytes=--5"}) {
    EXPECT_EQ(send(download, ignored).status, 200) << ignored;
  }
  EXPECT_EQ(send(download, "bytes=1-2", "\"0123\"").status, 206);
  EXPECT_EQ(send(download, "bytes=1-2", "\"another\"").status, 200) << "it changed meanwhile";
}

TEST_F(DownloadTest, WhatHasGrownIsAnotherAnswerAndGoesOn) {
  const auto log = [&](std::size_t size) {
    const std::string bytes(size, 'x');
    api::Download download{folder_.path(), {{"", write("log", bytes), size}}, "log"};
    download.version = "a-log";
    download.grows = true;
    return download;
  };
  const auto status_for = [&](std::size_t size, const std::string& known) {
    api::Request request;
    request.method = "GET";
    request.headers["if-none-match"] = known;
    return api::with_tag(send(log(size)), request).status;
  };
  const std::string tag = send(log(300)).headers.at("ETag");
  EXPECT_EQ(status_for(300, tag), 304);
  EXPECT_EQ(status_for(301, tag), 200);
  EXPECT_EQ(status_for(299, tag), 200);
  const api::Response rest = send(log(350), "bytes=300-", tag);
  EXPECT_EQ(rest.status, 206);
  EXPECT_EQ(body_of(rest).size(), 50U);
  EXPECT_EQ(send(log(299), "bytes=200-", tag).status, 200) << "it began anew";
  for (const char* const other : {"\"a-log\"", "\"another-300\"", "\"a-log--1\"", "\"a-log-\"",
                                  "a-log-300", "\"a-log-+300\"", "-", "\"", "W/\"a-log-300\""}) {
    EXPECT_EQ(send(log(350), "bytes=300-", other).status, 200) << other;
  }
}

TEST_F(DownloadTest, WhatIsKnownIsNotSentInParts) {
  const base::Path path = write("a", "0123456789");
  api::Download download{folder_.path(), {{"", path, 10}}, "a"};
  download.digest = "ab";
  const auto status = [&](std::map<std::string, std::string> headers) {
    api::Request request;
    request.method = "GET";
    request.headers = std::move(headers);
    request.headers["range"] = "bytes=2-3";
    return api::with_tag(api::send(request, base::posix_file_system(), nullptr, download), request)
        .status;
  };
  EXPECT_EQ(status({}), 206);
  for (const char* const known : {"\"ab\"", "*", "\"x\", W/\"ab\""}) {
    EXPECT_EQ(status({{"if-none-match", known}}), 304) << known;
  }
  EXPECT_EQ(status({{"if-none-match", "\"x\""}}), 206);
  for (const char* const same : {"\"ab\"", "*", "\"x\" , \"ab\""}) {
    EXPECT_EQ(status({{"if-match", same}}), 206) << same;
  }
  for (const char* const other : {"\"x\"", "W/\"ab\"", "ab", "\"ab", "\"x\",\"y\""}) {
    EXPECT_EQ(status({{"if-match", other}}), 412) << other;
    EXPECT_EQ(status({{"if-match", other}, {"if-none-match", "*"}}), 412) << other;
  }
}

TEST_F(DownloadTest, AShorterFileBreaksOff) {
  const base::Path path = write("a", std::string(1'000'000, 'x'));
  const api::Response response = send({folder_.path(), {{"", path, 1'000'000}}, "a"});
  (void)response.stream->next();
  std::filesystem::resize_file(path, 600'000);
  EXPECT_THROW((void)response.stream->next(), base::Error);
}

TEST_F(DownloadTest, AFileThatIsShortFromTheStartIsAProblem) {
  const auto refusal = [&](const base::Path& path) -> std::string {
    try {
      api::check_sizes(base::posix_file_system(),
                       {folder_.path(), {{"head"}, {"", path, 1000}}, "a"});
      return "";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Conflict);
      return error.what();
    }
  };
  EXPECT_EQ(refusal(write("whole", std::string(1000, 'x'))), "");
  EXPECT_THAT(refusal(write("short", std::string(999, 'x'))),
              HasSubstr("has 999 bytes and should have 1000"));
  EXPECT_THAT(refusal(folder_.path() / "none"), HasSubstr("is missing"));
}

TEST_F(DownloadTest, AnEmptyFileIsAnAnswerWithoutBytes) {
  const api::Response response = send({folder_.path(), {{"", write("a", ""), 0}}, "a"});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.stream, nullptr);
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(send({folder_.path(), {{"", write("a", ""), 0}}, "a"}, "bytes=0-").status, 416);
}

// tar itself is asked what is in it.
TEST_F(DownloadTest, TarReadsTheArchive) {
  std::vector<api::ArchivedFile> files;
  for (const std::size_t size : {0U, 1U, 511U, 512U, 513U, 1'000'000U}) {
    const std::string name = "file" + std::to_string(size);
    files.push_back({"model/" + name, write(name, std::string(size, 'y')), size});
  }
  const api::Response response =
      send({folder_.path(), api::tar_archive(files, 1'700'000'000), "a.tar"});
  const base::Path archive = write("a.tar", body_of(response));
  const base::Path out = folder_.path() / "out";
  std::filesystem::create_directory(out);
  EXPECT_EQ(tar({"--warning=all", "-xf", archive.string(), "-C", out.string()}), "");
  for (const api::ArchivedFile& file : files) {
    EXPECT_EQ(std::filesystem::file_size(out / file.name), file.size) << file.name;
  }
  EXPECT_THROW((void)api::tar_archive({{std::string(101, 'n'), files[0].path, 0}}, 0), base::Error);
}

TEST_F(DownloadTest, TarReadsWhenItWasWritten) {
  const auto segments = api::tar_archive({{"file", write("file", "y"), 1}}, 1'700'000'000);
  const base::Path archive = write("a.tar", body_of(send({folder_.path(), segments, "a.tar"})));
  const base::Path out = folder_.path() / "out";
  std::filesystem::create_directory(out);
  EXPECT_EQ(tar({"-xf", archive.string(), "-C", out.string()}), "");
  struct stat status {};
  ASSERT_EQ(::stat((out / "file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtime, 1'700'000'000);
}

TEST_F(DownloadTest, TarReadsSizesOfTerabytes) {
  const std::uint64_t size = 5'000'000'000'123;
  const auto segments = api::tar_archive({{"large", "/nowhere", size}}, 0);
  const base::Path archive = write("head", segments[0].bytes);
  EXPECT_THAT(tar({"-tvf", archive.string()}), HasSubstr(" " + std::to_string(size) + " "));
}

}  // namespace
}  // namespace regatta::orchestrator
