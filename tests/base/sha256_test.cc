#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace regatta::base {
namespace {

std::string hex(const Sha256& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : hash) {
    out.push_back(kDigits[byte >> 4U]);
    out.push_back(kDigits[byte & 15U]);
  }
  return out;
}

// FIPS 180-4's examples; the others by sha256sum: lengths around the end of a block.
TEST(Sha256, IsThePublishedFunction) {
  struct Row {
    std::string text;
    const char* hash;
  };
  for (const Row& row : {
           Row{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
           Row{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
           Row{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
           Row{std::string(1'000'000, 'a'),
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
           Row{std::string(55, 'a'),
               "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
           Row{std::string(56, 'a'),
               "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
           Row{std::string(63, 'a'),
               "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
           Row{std::string(64, 'a'),
               "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
           Row{std::string(55, '\xff'),
               "aadaed00a3c5fbb8072ae7f1984ba8199fbe5272de427d11eaf31583af37db51"},
       }) {
    EXPECT_EQ(hex(sha256(row.text)), row.hash) << row.text.size();
  }
}

TEST(Sha256, OneBitMakesHashesDifferent) {
  const Sha256 hash = sha256("token");
  EXPECT_TRUE(equal_in_constant_time(hash, sha256("token")));
  for (std::size_t byte = 0; byte < hash.size(); ++byte) {
    Sha256 other = hash;
    other[byte] ^= 0x10;
    EXPECT_FALSE(equal_in_constant_time(hash, other)) << byte;
  }
}

}  // namespace
}  // namespace regatta::base
