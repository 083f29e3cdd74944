// Philox, digests, time stamps and error codes: things with one right answer.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <limits>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"

namespace regatta::base {
namespace {

// The kat_vectors file of Random123: philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (PhiloxCounter{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox(0xffffffffffffffffU, {0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}),
            (PhiloxCounter{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  // Digits of pi; the key's low word is a4093822.
  EXPECT_EQ(philox(0x299f31d0a4093822U, {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}),
            (PhiloxCounter{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(PhiloxStream, DrawsTheBlocksInOrder) {
  PhiloxStream stream(7, 3, 11, 2);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox(7, {block, 3, 11, 2})) EXPECT_EQ(stream.next(), word);
  }
}

TEST(PhiloxStream, BelowIsInRangeAndEven) {
  PhiloxStream stream(1, 0, 0, 0);
  EXPECT_EQ(stream.below(1), 0U);
  std::array<int, 6> counts{};
  constexpr int kDraws = 60000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(6));
  // 10,000 each; six standard deviations of a binomial are 6·√(60000·5/36) = 548.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6, 548);
  // With the largest bound nearly half of all words would be rejected wrongly if the bias were
  // kept.
  for (int i = 0; i < 1000; ++i) EXPECT_LT(stream.below(0x80000001U), 0x80000001U);
}

TEST(PhiloxStream, UniformIsBelowOne) {
  PhiloxStream stream(9, 0, 0, 0);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = stream.uniform();
    EXPECT_GE(value, 0.0F);
    EXPECT_LT(value, 1.0F);
    sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 10000, 0.5, 6 * 0.2887 / 100);  // six standard deviations of the mean
}

TEST(Digest, KnownAnswers) {
  // xxh128sum of nothing and of "abc".
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of("abc"), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, DoesNotDependOnThePieces) {
  std::string text(100'000, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 26);
  const std::string whole = digest_of(text);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{63}, std::size_t{4097}}) {
    Digest digest;
    for (std::size_t i = 0; i < text.size(); i += piece) digest.update(text.substr(i, piece));
    EXPECT_EQ(digest.hex(), whole) << piece;
    EXPECT_EQ(digest.hex(), whole) << "asking changes nothing";
  }
  text[50'000] ^= 1;
  EXPECT_NE(digest_of(text), whole);
}

TEST(Iso8601, FormatsMilliseconds) {
  EXPECT_EQ(iso8601(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(iso8601(1795261682.125), "2026-11-21T11:48:02.125Z");
  EXPECT_EQ(iso8601(2.001), "1970-01-01T00:00:02.001Z");
  EXPECT_EQ(iso8601(59.9996), "1970-01-01T00:01:00.000Z");
  EXPECT_EQ(iso8601(951782400), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(iso8601(-5), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(iso8601(1e300), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(iso8601(std::numeric_limits<double>::quiet_NaN()), "1970-01-01T00:00:00.000Z");
}

TEST(SystemClock, GoesForward) {
  Clock& clock = system_clock();
  const double before = clock.monotonic_seconds();
  clock.sleep(std::chrono::milliseconds(2));
  EXPECT_GE(clock.monotonic_seconds() - before, 0.002);
  EXPECT_GT(clock.utc_seconds(), 1.7e9);
}

TEST(Error, OneTableForExitAndStatus) {
  EXPECT_EQ(meaning(Code::User).exit_code, 7);
  EXPECT_EQ(meaning(Code::NotFound).http_status, 404);
  EXPECT_EQ(meaning(Code::Conflict).http_status, 409);
  EXPECT_EQ(meaning(Code::Retry).http_status, 503);
  for (const Code code :
       {Code::User, Code::NotFound, Code::Conflict, Code::Operator, Code::Retry, Code::Developer}) {
    EXPECT_NE(meaning(code).exit_code, 0);
    EXPECT_GE(meaning(code).http_status, 400);
  }
}

TEST(Error, ErrnoBecomesACode) {
  const auto code_of = [](int number) {
    try {
      throw_errno(number, "cannot do it");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("cannot do it: ", 0), 0U);
      return error.code();
    }
  };
  EXPECT_EQ(code_of(ENOENT), Code::NotFound);
  EXPECT_EQ(code_of(ENOSPC), Code::Operator);
  EXPECT_EQ(code_of(EDQUOT), Code::Operator);
  EXPECT_EQ(code_of(EACCES), Code::Operator);
}

TEST(CheckDeathTest, AbortsWithTheInvariant) {
  EXPECT_DEATH(check(false, "water is wet"), "broken invariant: water is wet");
  check(true, "nothing happens");
}

}  // namespace
}  // namespace regatta::base
