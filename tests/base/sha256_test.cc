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

// RFC 4231, test cases 1 to 4, 6 and 7 (5 is of a cut one); keys of 64 bytes by Python's hmac.
TEST(Sha256, SignsAsPublished) {
  struct Row {
    std::string key, text;
    const char* signature;
  };
  std::string counting;
  for (char byte = 1; byte <= 25; ++byte) counting.push_back(byte);
  for (const Row& row : {
           Row{std::string(20, '\x0b'), "Hi There",
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
           Row{"Jefe", "what do ya want for nothing?",
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
           Row{std::string(20, '\xaa'), std::string(50, '\xdd'),
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
           Row{counting, std::string(50, '\xcd'),
               "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
           Row{std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
           Row{std::string(131, '\xaa'),
               "This is a test using a larger than block-size key and a larger than block-size "
               "data. The key needs to be hashed before being used by the HMAC algorithm.",
               "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
           Row{std::string(64, 'k'), "",
               "83026a325aaee70e36cfe607536aa1054104ad1077c36134810d4ccded1ccd3b"},
           Row{std::string(65, 'k'), "",
               "41f1c4cc3107cd5b8d92460f61032902bfdb06484eef17e861b83a5012d3b7f3"},
       }) {
    EXPECT_EQ(hex(hmac_sha256(row.key, row.text)), row.signature) << row.key.size();
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
