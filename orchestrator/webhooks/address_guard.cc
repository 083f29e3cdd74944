// Ranges after IANA's special-purpose registries (RFC 6890 and later).
#include "orchestrator/webhooks/address_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

namespace regatta::orchestrator::webhooks {
namespace {

struct Range {
  const char* network;
  unsigned bits;
  const char* what;
  bool may_be_allowed = false;
};

// The first that holds counts.
constexpr Range kRanges4[] = {
    {"0.0.0.0", 8, "an address of no host"},
    {"169.254.0.0", 16, "a link-local address, such as those of metadata services"},
    {"100.100.100.200", 32, "the address of a metadata service"},
    {"168.63.129.16", 32, "the address of a metadata service"},
    {"192.0.0.0", 24, "an address of no host"},
    {"224.0.0.0", 4, "a multicast address"},
    {"240.0.0.0", 4, "an address of no host"},
    {"127.0.0.0", 8, "a loopback address", true},
    {"10.0.0.0", 8, "a private address", true},
    {"172.16.0.0", 12, "a private address", true},
    {"192.168.0.0", 16, "a private address", true},
    {"100.64.0.0", 10, "a private address", true},
    {"198.18.0.0", 15, "a private address", true},
};
constexpr Range kRanges6[] = {
    {"::", 128, "an address of no host"},
    {"::1", 128, "a loopback address", true},
    {"fd00:ec2::254", 128, "the address of a metadata service"},
    {"fe80::", 10, "a link-local address"},
    {"ff00::", 8, "a multicast address"},
    {"fc00::", 7, "a private address", true},
    {"fec0::", 10, "a private address", true},
    {"100::", 64, "an address of no host"},
};
// An IPv4 address stands behind these, at this byte.
struct Embedding {
  const char* network;
  unsigned bits;
  std::size_t at;
};
constexpr Embedding kEmbeddings[] = {
    {"::ffff:0:0", 96, 12},  {"::ffff:0:0:0", 96, 12}, {"64:ff9b::", 96, 12},
    {"64:ff9b:1::", 48, 12}, {"2002::", 16, 2},        {"::", 96, 12},
};

template <std::size_t N>
std::array<std::uint8_t, N> bytes_of(int family, const char* text) {
  std::array<std::uint8_t, N> bytes{};
  ::inet_pton(family, text, bytes.data());
  return bytes;
}

template <std::size_t N>
bool is_in(const std::array<std::uint8_t, N>& address, const std::array<std::uint8_t, N>& network,
           unsigned bits) {
  for (std::size_t i = 0; i < N && bits > 0; ++i) {
    const unsigned part = bits < 8 ? bits : 8;
    if (((address[i] ^ network[i]) >> (8 - part)) != 0) return false;
    bits -= part;
  }
  return true;
}

template <std::size_t N, std::size_t Rows>
std::optional<Range> range_of(int family, const std::array<std::uint8_t, N>& address,
                              const Range (&ranges)[Rows]) {
  for (const Range& range : ranges) {
    if (is_in(address, bytes_of<N>(family, range.network), range.bits)) return range;
  }
  return std::nullopt;
}

std::optional<Range> range_of(const std::array<std::uint8_t, 16>& address) {
  if (const auto range = range_of(AF_INET6, address, kRanges6)) return range;
  for (const Embedding& each : kEmbeddings) {
    if (!is_in(address, bytes_of<16>(AF_INET6, each.network), each.bits)) continue;
    std::array<std::uint8_t, 4> inside{};
    std::memcpy(inside.data(), address.data() + each.at, inside.size());
    return range_of(AF_INET, inside, kRanges4);
  }
  return std::nullopt;
}

}  // namespace

std::string why_forbidden(const sockaddr* address, Private private_addresses) {
  std::optional<Range> range;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    std::array<std::uint8_t, 4> bytes{};
    const auto* const whole = reinterpret_cast<const sockaddr_in*>(address);
    std::memcpy(bytes.data(), &whole->sin_addr, bytes.size());
    ::inet_ntop(AF_INET, bytes.data(), text.data(), text.size());
    range = range_of(AF_INET, bytes, kRanges4);
  } else if (address->sa_family == AF_INET6) {
    std::array<std::uint8_t, 16> bytes{};
    const auto* const whole = reinterpret_cast<const sockaddr_in6*>(address);
    std::memcpy(bytes.data(), &whole->sin6_addr, bytes.size());
    ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
    range = range_of(bytes);
  } else {
    return "its address is neither IPv4 nor IPv6";
  }
  if (!range || (range->may_be_allowed && private_addresses == Private::Allowed)) return "";
  return std::string(text.data()) + " is " + range->what +
         (range->may_be_allowed ? "; allow_private lets a webhook use it"
                                : ", which no webhook may use");
}

}  // namespace regatta::orchestrator::webhooks
