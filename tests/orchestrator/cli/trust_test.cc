// What a client trusts: files with a token, sockets and ports.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/files/trusted_peer.h"
#include "orchestrator/site/data_directory.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uid_t kNobody = 65534;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::Error& error) {
    return std::string(base::meaning(error.code()).name) + ": " + error.what();
  }
  return "";
}

class TrustTest : public testing::Test {
 protected:
  TrustTest() { ::chmod(folder_.path().c_str(), 0755); }
  base::Path path(const std::string& name) const { return folder_.path() / name; }
  base::Path token_file(const std::string& text, mode_t mode = 0600) {
    const base::Path file = path("token");
    tests::write_file(file, text);
    ::chmod(file.c_str(), mode);
    return file;
  }

  tests::TemporaryDirectory folder_;
};

TEST_F(TrustTest, ATokenIsKeptOverRestarts) {
  base::FileSystem& files = base::posix_file_system();
  ::chmod(folder_.path().c_str(), 0700);
  const std::string first = site::keep_token(files, folder_.path());
  EXPECT_EQ(first.size(), 64U);
  struct stat status {};
  ASSERT_EQ(::stat(path("token").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(site::keep_token(files, folder_.path()), first);
  EXPECT_EQ(site::read_token(path("token")), first);
  files.remove_file(path("token"));
  EXPECT_NE(site::keep_token(files, folder_.path()), first);
}

TEST_F(TrustTest, TokenFilesThatMayBeKnownAreRefused) {
  const std::string good(64, 'a');
  for (const mode_t mode : {0640U, 0604U, 0660U, 0602U, 0610U, 0644U}) {
    EXPECT_THAT(error_of([&] { (void)site::read_token(token_file(good + "\n", mode)); }),
                HasSubstr("operator: the token " + path("token").string() +
                          " can be read or written by others"))
        << std::oct << mode;
  }
  for (const std::string& text :
       {std::string(), std::string("\n"), good.substr(1), good + "a", std::string(64, 'A'),
        good + "\n\n", "\n" + good, std::string(64, '\0'), std::string(1 << 20, 'a')}) {
    EXPECT_THAT(error_of([&] { (void)site::read_token(token_file(text)); }),
                HasSubstr("is damaged"));
  }
  EXPECT_EQ(site::read_token(token_file(good)), good)
      << "without a line break, as a text editor may";

  std::filesystem::create_symlink(path("token"), path("link"));
  EXPECT_THAT(error_of([&] { (void)site::read_token(path("link")); }), HasSubstr("symbolic link"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { (void)site::read_token(path("pipe")); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { (void)site::read_token(folder_.path()); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { (void)site::read_token(path("absent")); }), HasSubstr("not_found: "));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's file";
  ASSERT_EQ(::chown(path("token").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(error_of([&] { (void)site::read_token(path("token")); }),
              HasSubstr("belongs to user 65534, not to you"));
}

TEST_F(TrustTest, ADirectoryThatOthersWriteToHoldsNoToken) {
  for (const mode_t mode : {0777U, 0770U, 0702U, 01777U}) {
    ::chmod(folder_.path().c_str(), mode);
    EXPECT_THAT(
        error_of([&] { (void)site::keep_token(base::posix_file_system(), folder_.path()); }),
        HasSubstr("others can write into the data directory"))
        << std::oct << mode;
  }
  EXPECT_FALSE(std::filesystem::exists(path("token")));
}

// A program of another user that listens where the controller would, and tells what it was sent.
class PlantedSocket {
 public:
  explicit PlantedSocket(const base::Path& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    int heard[2];
    EXPECT_EQ(::pipe(heard), 0);
    heard_ = base::UniqueFd(heard[0]);
    const base::UniqueFd tell(heard[1]);
    child_ = ::fork();
    if (child_ == 0) {
      // Listening as another user: that is whom the kernel names to those who connect.
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
      const bool listens =
          ::setuid(kNobody) == 0 &&
          ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
          ::chmod(path.c_str(), 0777) == 0 && ::listen(fd_.get(), 5) == 0;
      (void)!::write(tell.get(), listens ? "L" : "-", 1);
      const int client = listens ? ::accept(fd_.get(), nullptr, nullptr) : -1;
      char bytes[4096];
      const ssize_t count = ::read(client, bytes, sizeof bytes);
      if (count > 0) (void)!::write(tell.get(), bytes, static_cast<std::size_t>(count));
      ::_exit(0);
    }
    fd_.reset();
    char first = 0;
    EXPECT_EQ(::read(heard_.get(), &first, 1), 1);
    EXPECT_EQ(first, 'L');
  }
  std::string heard() {
    ::waitpid(child_, nullptr, 0);
    char bytes[4096];
    const ssize_t count = ::read(heard_.get(), bytes, sizeof bytes);
    return {bytes, count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  base::UniqueFd fd_;
  base::UniqueFd heard_;
  pid_t child_ = 0;
};

TEST_F(TrustTest, NothingIsSentToASocketThatAnotherUserPlanted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const base::Path open = path("open");
  std::filesystem::create_directory(open);
  ::chmod(open.c_str(), 0777);
  PlantedSocket planted(open / "controller.sock");
  const cli::Client client({"unix:" + (open / "controller.sock").string()}, 5);
  EXPECT_THAT(error_of([&] { client.post("/runs", "secret", {}); }),
              HasSubstr("nothing was sent to unix:"));
  EXPECT_EQ(planted.heard(), "");
}

TEST_F(TrustTest, SocketsThatNobodyAnswersAreSaidPlainly) {
  const auto ask = [](const base::Path& socket) {
    return error_of([&] { (void)cli::Client({"unix:" + socket.string()}, 60).get("/version"); });
  };
  EXPECT_THAT(ask(path("absent.sock")), HasSubstr("retry: cannot reach the controller at unix:"));
  EXPECT_THAT(ask(path("absent.sock")), HasSubstr("start it with 'regatta serve'"));
  tests::write_file(path("file"), "");
  EXPECT_THAT(ask(path("file")), HasSubstr("cannot reach the controller"));
  const base::Path deep = path(std::string(200, 'd'));
  EXPECT_THAT(ask(deep / "controller.sock"), HasSubstr("cannot reach the controller"));
  EXPECT_THAT(error_of([] { const cli::Client client({}, 5); }),
              HasSubstr("name it with --server"));
}

TEST_F(TrustTest, ATokenNeverLeavesTheMachineInTheClear) {
  const base::Path file = token_file(std::string(64, 'a'));
  for (const char* server : {"http://10.0.0.1:8420", "http://127.0.0.1.evil.example",
                             "http://127.0.0.1@evil.example", "http://0.0.0.0:1"}) {
    EXPECT_THAT(error_of([&] {
                  const cli::Client client({server, file.string()}, 1);
                }),
                HasSubstr("the token is not sent to"))
        << server;
  }
  for (const char* server : {"http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1/"}) {
    EXPECT_EQ(error_of([&] {
                const cli::Client client({server, file.string()}, 1);
              }),
              "")
        << server;
  }
}

// One that serves once on a port of its own and returns what it was sent.
TEST_F(TrustTest, NoTokenIsSentToAPortOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(1);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd, 5);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    const int port = ntohs(address.sin_port);
    (void)!::write(told[1], &port, sizeof port);
    const int client = ::accept(fd, nullptr, nullptr);
    char bytes[4096];
    const ssize_t count = ::read(client, bytes, sizeof bytes);
    ::_exit(count > 0 ? 2 : 0);
  }
  int port = 0;
  ASSERT_EQ(::read(told[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const base::Path file = token_file(std::string(64, 'a'));
  const cli::Client client({"http://127.0.0.1:" + std::to_string(port), file.string()}, 5);
  EXPECT_THAT(error_of([&] { (void)client.get("/runs"); }),
              HasSubstr("nothing was sent to http://127.0.0.1:"));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "not a byte of the request came";
}

TEST(Listeners, EveryoneOnThePortMustBeOurs) {
  const std::string head =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
  const auto row = [](const std::string& local, const std::string& state, int uid) {
    return "   0: " + local + " 00000000:0000 " + state +
           " 00000000:00000000 00:00000000 00000000  " + std::to_string(uid) +
           "        0 31415 1 0\n";
  };
  const std::string v6 = "00000000000000000000000001000000:20E4";
  struct Row {
    const char* name;
    std::string table;
    std::string address;
    bool ours;
  };
  for (const Row& each : {
           Row{"ours", row("0100007F:20E4", "0A", 1000), "127.0.0.1", true},
           Row{"root's", row("0100007F:20E4", "0A", 0), "127.0.0.1", true},
           Row{"a stranger's", row("0100007F:20E4", "0A", 1001), "127.0.0.1", false},
           Row{"any address, ours", row("00000000:20E4", "0A", 1000), "127.0.0.1", true},
           Row{"any address, a stranger's", row("00000000:20E4", "0A", 1001), "127.0.0.1", false},
           Row{"IPv6's any", row(std::string(32, '0') + ":20E4", "0A", 1001), "127.0.0.1", false},
           Row{"both", row("0100007F:20E4", "0A", 1000) + row("00000000:20E4", "0A", 1001),
               "127.0.0.1", false},
           Row{"a stranger at another address",
               row("0100007F:20E4", "0A", 1000) + row("0200007F:20E4", "0A", 1001), "127.0.0.1",
               true},
           Row{"another port", row("0100007F:20E5", "0A", 1000), "127.0.0.1", false},
           Row{"a connection, no listener", row("0100007F:20E4", "01", 1000), "127.0.0.1", false},
           Row{"IPv6, ours", row(v6, "0A", 1000), "::1", true},
           Row{"IPv6, a stranger's", row(v6, "0A", 1001), "::1", false},
           Row{"damage", "0: x y z\n\n0: 0100007G:20E4 0 0A 0 0 0 1000\n", "127.0.0.1", false},
           Row{"nothing", "", "127.0.0.1", false},
       }) {
    const std::string why =
        files::why_not_own_listener(head + each.table, each.address, 8420, 1000);
    EXPECT_EQ(why.empty(), each.ours) << each.name << ": " << why;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
