// What other users of the machine try against a real `regatta serve`. They can reach loopback; they
// must get nothing from it.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/process.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/site/data_directory.h"
#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::eventually;
using tests::RawAnswer;
using tests::request_text;
using Json = nlohmann::ordered_json;

const std::string kRegatta = REGATTA_BINARY_DIR "/orchestrator/regatta";
const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";
constexpr uid_t kNobody = 65534;
constexpr double kDeadline = 60;

std::string read_all(const base::Path& path) {
  try {
    return base::posix_file_system().read(path, 1 << 26);
  } catch (const base::Error&) {
    return "";
  }
}

// What `attack` returns when it is done by user nobody.
std::string as_nobody(const std::function<std::string()>& attack) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const base::UniqueFd from(ends[0]);
  base::UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool nobody =
        ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
    const std::string result = nobody ? attack() : "still root";
    (void)!::write(to.get(), result.data(), result.size());
    ::_exit(0);
  }
  to.reset();
  std::string result;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(from.get(), block, sizeof block)) > 0;) {
    result.append(block, static_cast<std::size_t>(count));
  }
  ::waitpid(child, nullptr, 0);
  return result;
}

class AttackTest : public testing::Test {
 protected:
  AttackTest() {
    ::chmod(folder_.path().c_str(), 0755);  // strangers come as far as the controller's own folder
    std::filesystem::create_directories(folder_.path() / "data");
    tests::write_file(folder_.path() / "data" / "script", "pause_ms 1");
  }
  ~AttackTest() override { stop(SIGKILL); }

  base::Path state() const { return folder_.path() / "state"; }
  base::Path log() const { return folder_.path() / "serve.log"; }
  std::string server() const { return "unix:" + site::socket_path(state()).string(); }
  std::string token() const { return site::read_token(site::token_path(state())); }
  int port() const { return std::stoi(url_.substr(url_.rfind(':') + 1)); }

  void serve() {
    base::Command command;
    command.arguments = {kRegatta,    "serve",  "--port",
                         "0",         "--data", state().string(),
                         "--trainer", kTrainer, "--allow-privileged"};
    command.output_path = log();
    const std::size_t before = read_all(log()).size();
    server_ = base::spawn(command);
    url_.clear();
    ASSERT_TRUE(eventually([&] {
      for (const std::string& line : base::split(read_all(log()).substr(before), '\n')) {
        if (line.rfind("http://", 0) == 0) url_ = line;
      }
      return !url_.empty();
    })) << read_all(log());
  }
  void stop(int signal) {
    if (server_ == 0) return;
    ::kill(server_, signal);
    (void)base::wait_exit(server_);
    server_ = 0;
  }
  base::Output regatta(const std::vector<std::string>& arguments,
                       const std::map<std::string, std::string>& environment = {}) {
    base::Command command;
    command.arguments = {kRegatta};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment = environment;
    if (command.environment.count("REGATTA_SERVER") == 0) {
      command.environment["REGATTA_SERVER"] = server();
    }
    command.directory = folder_.path();
    return base::run(command, kDeadline);
  }
  std::string submit() {
    const base::Path file = folder_.path() / "run.yaml";
    tests::write_file(file, "name: secret-run\nsteps: 20\ndata: {path: data}\nbatch: {size: 8}\n");
    const base::Output output = regatta({"submit", file.string()});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text.substr(0, output.text.find('\n'));
  }
  RawAnswer send(const std::string& method, const std::string& path,
                 const std::string& headers = "", const std::string& body = "") {
    return tests::send_raw(port(), request_text(method, path, headers, body));
  }
  static std::string bearer(const std::string& token) {
    return "Authorization: Bearer " + token + "\r\n";
  }
  // The ticket of a new link.
  std::string ticket() {
    const base::Output output = regatta({"open"});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    std::smatch match;
    EXPECT_TRUE(std::regex_match(
        output.text, match, std::regex("http://127\\.0\\.0\\.1:[0-9]+/#ticket=([0-9a-f]{32,})\n")))
        << output.text;
    return match[1];
  }
  RawAnswer exchange(const std::string& ticket) {
    return send("POST", "/api/v1/session", "", Json{{"ticket", ticket}}.dump());
  }

  tests::TemporaryDirectory folder_;
  std::string url_;
  pid_t server_ = 0;
};

TEST_F(AttackTest, AnotherUserReadsNothingOverTcp) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  serve();
  const std::string id = submit();
  for (const std::string path : {"/api/v1/runs", "/api/v1/version", "/api/v1/nodes"}) {
    const std::string answer = as_nobody([&] {
      const RawAnswer got = send("GET", path);
      return std::to_string(got.status) + got.headers + got.body;
    });
    EXPECT_EQ(answer.substr(0, 3), "401") << path;
    EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_THAT(answer, Not(HasSubstr("secret-run")));
    EXPECT_THAT(answer, Not(HasSubstr(folder_.path().string()))) << "no path of the user's";
  }
  EXPECT_EQ(as_nobody([&] { return std::to_string(send("GET", "/api/v1/runs/" + id).status); }),
            "401");
  // Other spellings reach the page's files at most.
  for (const std::string path :
       {"//api/v1/runs", "/./api/v1/runs", "/x/../api/v1/runs", "/%61pi/v1/runs", "/api%2fv1/runs",
        "/API/v1/runs", "/api/v1/runs?token=x", "/;/api/v1/runs", "http://localhost/api/v1/runs",
        "/api/v1/runs#ticket", "/api/v1/../v1/runs", "/api\\v1\\runs"}) {
    const RawAnswer got = send("GET", path);
    EXPECT_THAT(got.body, Not(HasSubstr("secret-run"))) << path;
    EXPECT_THAT(got.body, Not(HasSubstr("\"runs\""))) << path;
  }
}

TEST_F(AttackTest, AnotherUserStartsAndCancelsNothingOverTcp) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  serve();
  tests::write_file(folder_.path() / "data" / "script", "hold_at 5");
  const std::string id = submit();
  const auto statuses = as_nobody([&] {
    return std::to_string(
               send("POST", "/api/v1/runs", "", "{\"data\": {\"path\": \"/etc\"}}").status) +
           std::to_string(send("POST", "/api/v1/runs/" + id + "/cancel").status) +
           std::to_string(send("POST", "/api/v1/runs/" + id + "/checkpoints/gc").status) +
           std::to_string(send("POST", "/api/v1/tickets").status);
  });
  EXPECT_EQ(statuses, "401401401401");
  const Json runs = Json::parse(regatta({"ls", "-o", "json"}).text).at("runs");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_NE(runs[0].at("state"), "stopping");
  EXPECT_NE(runs[0].at("state"), "cancelled");
  tests::write_file(folder_.path() / "data" / "go", "");
  EXPECT_EQ(regatta({"watch", id, "--exit-status"}).exit.code, 0);
}

TEST_F(AttackTest, AnotherUserReachesNeitherSocketNorToken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  serve();
  const auto attack = [&] {
    std::string out;
    const auto say = [&](int result) {
      out += result >= 0 ? "reached " : std::string(std::strerror(errno)) + "; ";
    };
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, site::socket_path(state()).c_str(), sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    say(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
    say(::open(site::token_path(state()).c_str(), O_RDONLY));
    say(::open(site::token_path(state()).c_str(), O_WRONLY));
    say(::unlink(site::socket_path(state()).c_str()));
    say(::rename(site::socket_path(state()).c_str(), "/tmp/taken.sock"));
    return out;
  };
  const std::string denied = "Permission denied; ";
  EXPECT_EQ(as_nobody(attack), denied + denied + denied + denied + denied);
  EXPECT_EQ(as_nobody([&] {
              return std::string(::opendir(state().c_str()) == nullptr ? "closed" : "listed");
            }),
            "closed");
  // Also where the user once opened the directory for reading.
  ::chmod(state().c_str(), 0755);
  EXPECT_EQ(as_nobody(attack), denied + denied + denied + denied + denied);
  EXPECT_EQ(regatta({"ls"}).exit.code, 0);
}

// From the table of docs/api.md, which names every route; and Access stands before them all.
TEST_F(AttackTest, EveryRouteAnswers401WithoutACredential) {
  serve();
  const std::string readme = read_all(REGATTA_SOURCE_DIR "/docs/api.md");
  const std::regex route("\n\\| `(GET|POST|DELETE) ([^`]+)`");
  int routes = 0;
  for (std::sregex_iterator it(readme.begin(), readme.end(), route), end; it != end; ++it) {
    std::string path = std::regex_replace((*it)[2].str(), std::regex("\\{id\\}"), "some-run");
    path = std::regex_replace(path, std::regex("\\{name\\}"), "latest");
    path = std::regex_replace(path, std::regex("^…"), "/runs/some-run");
    const std::string method = (*it)[1];
    if (path == "/session") continue;
    if (path == "/events/stream") path += "?since=never";  // or it would not end
    ++routes;
    EXPECT_EQ(send(method, "/api/v1" + path).status, 401) << method << " " << path;
    EXPECT_EQ(send(method, "/api/v1" + path, bearer(std::string(64, 'a'))).status, 401) << path;
    EXPECT_NE(send(method, "/api/v1" + path, bearer(token())).status, 401) << path;
  }
  EXPECT_GE(routes, 15) << "the table was found";
}

TEST_F(AttackTest, ATicketIsUsedOnceAndOnlyAtItsController) {
  serve();
  const std::string first = ticket();
  const RawAnswer opened = exchange(first);
  ASSERT_EQ(opened.status, 201) << opened.body;
  const std::string session = Json::parse(opened.body).at("token");
  EXPECT_EQ(send("GET", "/api/v1/runs", bearer(session)).status, 200);
  EXPECT_EQ(exchange(first).status, 401);
  EXPECT_EQ(send("POST", "/api/v1/tickets", bearer(session)).status, 403);
  const std::string unused = ticket();
  const std::string kept = token();
  stop(SIGTERM);
  serve();
  EXPECT_EQ(exchange(unused).status, 401) << "of a controller that is gone";
  EXPECT_EQ(send("GET", "/api/v1/runs", bearer(session)).status, 401) << "sessions end with it";
  EXPECT_EQ(token(), kept);
  EXPECT_EQ(send("GET", "/api/v1/runs", bearer(kept)).status, 200);
}

TEST_F(AttackTest, OtherSitesAndPortsGetNothingEvenWithTheToken) {
  serve();
  const std::string own = "localhost:" + std::to_string(port());
  const auto status = [&](const std::string& host, const std::string& headers) {
    return tests::send_raw(port(), "GET /api/v1/runs HTTP/1.1\r\nHost: " + host + "\r\n" +
                                       bearer(token()) + headers + "\r\n")
        .status;
  };
  EXPECT_EQ(status(own, ""), 200);
  EXPECT_EQ(status(own, "Origin: http://" + own + "\r\n"), 200);
  EXPECT_EQ(status("evil.example", ""), 403) << "DNS rebinding";
  EXPECT_EQ(status("evil.example:" + std::to_string(port()), ""), 403);
  EXPECT_EQ(status(own, "Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(status(own, "Origin: http://localhost:" + std::to_string(port() ^ 1) + "\r\n"), 403);
  EXPECT_EQ(status(own, "Origin: null\r\n"), 403);
  // A page of another port may not even ask whether it may: no answer allows it.
  const RawAnswer preflight = send(
      "OPTIONS", "/api/v1/runs",
      "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization\r\n");
  EXPECT_NE(preflight.status, 200);
  EXPECT_THAT(preflight.headers, Not(HasSubstr("Access-Control-Allow")));
  EXPECT_THAT(send("GET", "/").headers, Not(HasSubstr("Set-Cookie")));
}

TEST_F(AttackTest, TheTokenIsNowhereButInItsFile) {
  serve();
  const std::string secret = token();
  const base::Path copy = folder_.path() / "token-copy";
  tests::write_file(copy, secret + "\n");
  ::chmod(copy.c_str(), 0600);
  std::string seen;
  const auto add = [&](const base::Output& output) { seen += output.text + output.errors; };
  const std::string id = submit();
  for (const std::vector<std::string>& call : std::vector<std::vector<std::string>>{
           {"ls", "--server", url_, "--token-file", copy.string(), "-o", "json"},
           {"watch", id, "--server", url_, "--token-file", copy.string()},
           {"show", id, "-o", "json"},
           {"open", id},
           {"open", "-o", "json"},
           {"version", "-o", "json"},
           {"--help"},
           {"serve", "--data", state().string(), "--port", "0", "--allow-privileged"}}) {
    add(regatta(call));
  }
  EXPECT_THAT(seen, HasSubstr(id)) << "the token in a file lets one in";
  for (const std::string path : {"/", "/api/v1/runs", "/api/v1/version", "/api/v1/none"}) {
    const RawAnswer answer = send("GET", path, bearer(secret));
    seen += answer.headers + answer.body;
  }
  (void)send("GET", "/api/v1/runs", bearer(secret.substr(0, 63)));
  seen += read_all(log());
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    seen += read_all(entry.path() / "cmdline");
  }
  seen += read_all("/proc/" + std::to_string(server_) + "/environ");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state())) {
    if (entry.is_regular_file() && entry.path().filename() != "token") {
      seen += read_all(entry.path());
    }
  }
  EXPECT_EQ(seen.find(secret), std::string::npos);
  EXPECT_EQ(seen.find(secret.substr(0, 63)), std::string::npos) << "nor a wrong one in the log";
}

TEST_F(AttackTest, ManyWrongTokensAreOneLineInTheLog) {
  serve();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(send("GET", "/api/v1/runs", bearer(base::random_hex(32))).status, 401);
  }
  const std::string text = read_all(log());
  const std::size_t first = text.find("without a valid token");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("without a valid token", first + 1), std::string::npos) << text;
}

TEST_F(AttackTest, ServeRefusesATokenThatOthersMayKnow) {
  serve();
  stop(SIGTERM);
  const auto refusal = [&] {
    const base::Output output = regatta({"serve", "--port", "0", "--data", state().string(),
                                         "--trainer", kTrainer, "--allow-privileged"});
    EXPECT_EQ(output.exit.code, 1) << output.errors;
    EXPECT_EQ(output.text, "");
    return output.errors;
  };
  ::chmod(site::token_path(state()).c_str(), 0644);
  EXPECT_THAT(refusal(), HasSubstr("can be read or written by others"));
  tests::write_file(site::token_path(state()), "password\n");
  ::chmod(site::token_path(state()).c_str(), 0600);
  EXPECT_THAT(refusal(), HasSubstr("is damaged"));
  std::filesystem::remove(site::token_path(state()));
  ::chmod(state().c_str(), 0777);
  EXPECT_THAT(refusal(), HasSubstr("others can write into the data directory"));
  EXPECT_FALSE(std::filesystem::exists(site::token_path(state())));
  ::chmod(state().c_str(), 0700);
  serve();
  EXPECT_EQ(regatta({"ls"}).exit.code, 0);
}

TEST_F(AttackTest, TheDefaultPlacesAreFoundAndSaid) {
  const std::map<std::string, std::string> home{{"XDG_STATE_HOME", folder_.path().string()},
                                                {"REGATTA_SERVER", ""}};
  std::filesystem::create_directory(folder_.path() / "regatta");
  ::chmod((folder_.path() / "regatta").c_str(), 0700);
  std::filesystem::create_symlink("regatta", state());  // what serve() below calls DATA
  const base::Output none = regatta({"ls"}, home);
  EXPECT_EQ(none.exit.code, 6);
  EXPECT_THAT(none.errors, HasSubstr("start it with 'regatta serve'"));
  serve();
  EXPECT_EQ(regatta({"ls"}, home).exit.code, 0) << "the socket in the default directory";
  auto tcp = home;
  tcp["REGATTA_SERVER"] = url_;
  EXPECT_EQ(regatta({"ls"}, tcp).exit.code, 0) << "the token in the default directory";
  tcp["XDG_STATE_HOME"] = (folder_.path() / "elsewhere").string();
  const base::Output stranger = regatta({"ls"}, tcp);
  EXPECT_EQ(stranger.exit.code, 4);
  EXPECT_THAT(stranger.errors, HasSubstr("answers its own user only"));
  tcp["REGATTA_TOKEN_FILE"] = site::token_path(state()).string();
  EXPECT_EQ(regatta({"ls"}, tcp).exit.code, 0);
  EXPECT_THAT(regatta({"open"}, tcp).errors, HasSubstr("over the controller's socket"));
}

TEST_F(AttackTest, TheSocketMayLieDeep) {
  const base::Path deep = folder_.path() / std::string(120, 'd');
  std::filesystem::create_directory(deep);
  std::filesystem::create_directory_symlink(deep, folder_.path() / "link");
  base::Command command;
  command.arguments = {kRegatta,    "serve",  "--port",
                       "0",         "--data", (deep / "state").string(),
                       "--trainer", kTrainer, "--allow-privileged"};
  command.output_path = log();
  server_ = base::spawn(command);
  const std::string address = "unix:" + site::socket_path(deep / "state").string();
  EXPECT_TRUE(eventually([&] {
    return regatta({"ls", "--server", address}).exit.code == 0;
  })) << read_all(log());
}

TEST_F(AttackTest, TheLinkForTheBrowserIsInNoProcessList) {
  serve();
  const std::string id = submit();
  const base::Path programs = folder_.path() / "programs";
  std::filesystem::create_directory(programs);
  const base::Path seen = folder_.path() / "seen";
  tests::write_file(
      programs / "xdg-open",
      "#!/bin/sh\n{ echo \"$@\"; stat -c %a \"$1\"; cat \"$1\"; } >" + seen.string() + "\n");
  ::chmod((programs / "xdg-open").c_str(), 0755);
  const base::Output output =
      regatta({"open", id, "--browser"}, {{"PATH", programs.string() + ":/usr/bin:/bin"}});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  const std::vector<std::string> lines = base::split(read_all(seen), '\n');
  ASSERT_GE(lines.size(), 3U);
  EXPECT_EQ(lines[0], (state() / "open.html").string()) << "all that stands in the process list";
  EXPECT_EQ(lines[1], "600");
  const std::string link = output.text.substr(0, output.text.find('\n'));
  EXPECT_THAT(link, HasSubstr("/runs/" + id));
  EXPECT_THAT(read_all(seen), HasSubstr("url=" + link + "\""));
  EXPECT_FALSE(std::filesystem::exists(state() / "open.html"));
}

}  // namespace
}  // namespace regatta::orchestrator
