#include "orchestrator/webhooks/address_guard.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/error.h"
#include "orchestrator/webhooks/post.h"

namespace regatta::orchestrator::webhooks {
namespace {

using testing::HasSubstr;

std::string why(const char* address, Private private_addresses) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address, "80", &hints, &found) != 0) return "no address";
  const std::string why = why_forbidden(found->ai_addr, private_addresses);
  ::freeaddrinfo(found);
  return why;
}

TEST(AddressGuard, LetsPublicAddressesPass) {
  for (const char* address : {"1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.128.0.1",
                              "11.0.0.1", "169.253.1.1", "223.255.255.255", "2606:4700::1111",
                              "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"}) {
    EXPECT_EQ(why(address, Private::Refused), "") << address;
  }
}

TEST(AddressGuard, RefusesSomeAddressesAlways) {
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "169.254.169.254",
                              "169.254.0.1",
                              "100.100.100.200",
                              "168.63.129.16",
                              "224.0.0.1",
                              "239.255.255.255",
                              "255.255.255.255",
                              "240.0.0.1",
                              "::",
                              "fe80::1",
                              "febf::1",
                              "ff02::1",
                              "fd00:ec2::254",
                              "::ffff:169.254.169.254",
                              "::ffff:0.0.0.0",
                              "::169.254.169.254",
                              "64:ff9b::169.254.169.254",
                              "2002:a9fe:a9fe::1",
                              "::ffff:224.0.0.1",
                              "2852039166",
                              "0xa9fea9fe",
                              "0251.0376.0251.0376"}) {
    EXPECT_THAT(why(address, Private::Allowed), HasSubstr("no webhook may use")) << address;
    EXPECT_THAT(why(address, Private::Refused), HasSubstr("no webhook may use")) << address;
  }
}

TEST(AddressGuard, AsksForPrivateOnes) {
  for (const char* address :
       {"127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "100.64.0.1", "198.18.0.1", "::1", "fc00::1", "fdff::1", "::ffff:127.0.0.1",
        "::ffff:10.1.1.1", "2002:7f00:1::1", "64:ff9b::10.0.0.1", "2130706433", "127.1"}) {
    EXPECT_THAT(why(address, Private::Refused), HasSubstr("allow_private")) << address;
    EXPECT_EQ(why(address, Private::Allowed), "") << address;
  }
}

TEST(AddressGuard, KnowsNoOtherFamily) {
  sockaddr address{};
  address.sa_family = AF_UNIX;
  EXPECT_THAT(why_forbidden(&address, Private::Allowed), HasSubstr("neither IPv4 nor IPv6"));
}

TEST(HookUrl, ShowsNeitherPathNorQuery) {
  const HookUrl url =
      parse_hook_url("https://example.org:8443/T123/secret?token=x#y", Private::Refused);
  EXPECT_EQ(url.shown, "https://example.org:8443");
}

TEST(HookUrl, IsRefusedInOneLineThatDoesNotRepeatIt) {
  for (const char* url :
       {"", "example.org", "ftp://example.org/hidden", "file:///etc/hidden", "gopher://x/hidden",
        "https://", "http://me:hidden@example.org/", "http://me@example.org/",
        "http://example.org/hid den", "http://example.org/hidden\r\nX: y", "unix:/hidden",
        "http://127.0.0.1/hidden", "http://[::1]/hidden", "http://0x7f.1/hidden",
        "http://169.254.169.254/hidden", "http://[::ffff:169.254.169.254]/hidden",
        "http://0.0.0.0/hidden"}) {
    try {
      (void)parse_hook_url(url, Private::Refused);
      ADD_FAILURE() << url;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << url;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("hidden"))) << url;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    }
  }
  EXPECT_EQ(parse_hook_url("http://127.0.0.1:80/x", Private::Allowed).shown, "http://127.0.0.1:80");
  EXPECT_THROW((void)parse_hook_url("http://169.254.169.254/", Private::Allowed), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator::webhooks
