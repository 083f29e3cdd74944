#include "trainer/contract/random_site.h"

#include <gtest/gtest.h>

#include <set>

#include "base/philox.h"
#include "trainer/contract/exit_code.h"

namespace regatta::trainer {
namespace {

TEST(Dropout, ThresholdsAndScales) {
  EXPECT_EQ(contract::dropout_threshold(0.0), 0U);
  EXPECT_EQ(contract::dropout_threshold(0.1), 6554U);  // 6553.6 rounded
  EXPECT_EQ(contract::dropout_threshold(0.5), 32768U);
  EXPECT_EQ(contract::dropout_threshold(0.9999),
            65529U);  // the largest that a run file may ask for
  EXPECT_EQ(contract::dropout_scale(0), 1.0F);
  EXPECT_EQ(contract::dropout_scale(32768), 2.0F);
  EXPECT_FLOAT_EQ(contract::dropout_scale(6554), 65536.0F / 58982.0F);
}

TEST(Dropout, KeepsTheExpectedShare) {
  // Eight draws of a call against t = 6554: kept with probability 58982 / 65536 = 0.89999.
  constexpr std::uint32_t kThreshold = contract::dropout_threshold(0.1);
  constexpr int kCalls = 20000;
  int kept = 0;
  for (std::uint32_t block = 0; block < kCalls; ++block) {
    const base::PhiloxCounter words =
        base::philox(1, {block, 2, 3, contract::attention_dropout_site(0)});
    for (unsigned e = 0; e < 8; ++e) {
      const std::uint32_t draw = words.at(e / 2) >> (16 * (e % 2)) & 0xFFFFU;
      kept += draw >= kThreshold ? 1 : 0;
    }
  }
  const double share = static_cast<double>(kept) / (8.0 * kCalls);
  EXPECT_NEAR(share, 58982.0 / 65536.0, 6 * 0.00075);  // √(0.9·0.1/160000) = 0.00075
}

TEST(RandomSite, NoTwoPurposesShareASite) {
  std::set<std::uint32_t> sites;
  const auto add = [&](std::uint32_t site) { EXPECT_TRUE(sites.insert(site).second) << site; };
  for (const contract::RandomSite site :
       {contract::RandomSite::Permutation, contract::RandomSite::Segments,
        contract::RandomSite::Masking, contract::RandomSite::Initialisation,
        contract::RandomSite::ShuffledLabels, contract::RandomSite::Mixture,
        contract::RandomSite::EmbeddingDropout}) {
    add(static_cast<std::uint32_t>(site));
  }
  for (int layer = 0; layer < 1024; ++layer) {
    add(contract::attention_dropout_site(layer));
    add(contract::attention_output_dropout_site(layer));
    add(contract::output_dropout_site(layer));
  }
}

TEST(RandomSite, BlocksDoNotCollide) {
  std::set<std::uint32_t> rows;
  for (std::uint32_t position = 0; position < 64; ++position) {
    for (std::uint32_t feature = 0; feature < 20; feature += 8) {
      EXPECT_TRUE(rows.insert(contract::row_block(position, feature, 20)).second);
    }
  }
  EXPECT_EQ(contract::row_block(3, 7, 128), contract::row_block(3, 0, 128))
      << "eight features share a block";
  EXPECT_NE(contract::row_block(3, 8, 128), contract::row_block(3, 7, 128));
  EXPECT_EQ(contract::attention_block(0, 0, 7), 0U);
  EXPECT_EQ(contract::attention_block(0, 0, 8), 1U);
  EXPECT_EQ(contract::attention_block(0, 1, 0), contract::attention_block(0, 0, 4095) + 1);
  EXPECT_EQ(contract::attention_block(1, 0, 0), contract::attention_block(0, 4095, 4095) + 1);
  // The largest that check_shape lets through stays within 32 bits.
  EXPECT_EQ(contract::attention_block(1023, 4095, 4095), 0x7FFFFFFFU);
  EXPECT_LT(std::uint64_t{4096} * (65536 / 8), std::uint64_t{1} << 32U);
}

TEST(ExitCode, OnePerWhoMustAct) {
  EXPECT_EQ(contract::exit_code_of(base::Code::User), contract::ExitCode::User);
  EXPECT_EQ(contract::exit_code_of(base::Code::NotFound), contract::ExitCode::User);
  EXPECT_EQ(contract::exit_code_of(base::Code::Conflict), contract::ExitCode::User);
  EXPECT_EQ(contract::exit_code_of(base::Code::Operator), contract::ExitCode::Operator);
  EXPECT_EQ(contract::exit_code_of(base::Code::Retry), contract::ExitCode::Retry);
  EXPECT_EQ(contract::exit_code_of(base::Code::Developer), contract::ExitCode::Developer);
}

}  // namespace
}  // namespace regatta::trainer
