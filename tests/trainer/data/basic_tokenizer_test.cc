// The first half of the tokenizer against Python's own Unicode functions, by digest: every code
// point, and mixtures of the difficult ones. basic_tokenizer_digests.py makes the expected values.
#include "trainer/data/basic_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/data/sha256.h"

namespace regatta::trainer {
namespace {

std::vector<std::string> words(std::string_view text, bool lower_case) {
  data::BasicTokenizer tokenizer(lower_case);
  std::vector<std::string> words;
  for (const data::BasicTokenizer::Word& word : tokenizer.split(text))
    words.emplace_back(word.text);
  return words;
}

// As in basic_tokenizer_digests.py.
const char32_t kPool[] = {
    0x3A3,  0x3A3,  0x3A3,    0x3C3,  0x3C2,   0x41,   0x62,    0x20,    0x2E,    0x27,    0xB7,
    0xAD,   0x5E,   0x24,     0x301,  0x323,   0x345,  0x334,   0x315,   0x35C,   0x1D165, 0x1D16D,
    0x302E, 0x1B44, 0x34F,    0x483,  0x130,   0x131,  0x1E9E,  0xDF,    0x1F80,  0x1FB7,  0xC5,
    0x212B, 0x1EA8, 0x1D5E,   0x385,  0x37E,   0xAC00, 0xAC01,  0xD7A3,  0x1100,  0x1161,  0x11A8,
    0x85,   0xA0,   0x2028,   0x2029, 0x3000,  0x1680, 0x200B,  0x200D,  0xFEFF,  0xFFFD,  0x0B,
    0x1C,   0x7F,   0x4E00,   0xF900, 0x2F800, 0x3042, 0x1F600, 0x10400, 0x1E900, 0x2B0,   0x2C6,
    0x378,  0xE000, 0x10FFFF, 0xBF,   0x2019,  0x3002};

class WordDigest {
 public:
  explicit WordDigest(bool lower_case) : tokenizer_(lower_case) {}
  explicit WordDigest(const data::WordRules& rules) : tokenizer_(rules) {}
  void add(std::string_view text) {
    std::string line;
    for (const data::BasicTokenizer::Word& word : tokenizer_.split(text)) {
      if (!line.empty()) line += '\x1f';
      line += word.text;
    }
    sha_.update(line + "\n");
  }
  [[nodiscard]] std::string hex() const { return sha_.hex(); }

 private:
  data::BasicTokenizer tokenizer_;
  tests::Sha256 sha_;
};

std::string digest_of_every_code_point(bool lower_case) {
  WordDigest digest(lower_case);
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text = "A";
    data::unicode::append_utf8(c, text);
    text += "\u03A3";
    data::unicode::append_utf8(c, text);
    text += "B ";
    data::unicode::append_utf8(c, text);
    digest.add(text);
  }
  return digest.hex();
}

template <typename Rules>
std::string digest_of_mixtures(const Rules& rules, int count = 50000) {
  std::uint64_t state = 1;
  const auto draw = [&state](std::uint64_t bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>((state >> 33U) % bound);
  };
  WordDigest digest(rules);
  for (int i = 0; i < count; ++i) {
    std::string text;
    const std::size_t length = 1 + draw(16);
    for (std::size_t k = 0; k < length; ++k) {
      data::unicode::append_utf8(kPool[draw(std::size(kPool))], text);
    }
    digest.add(text);
  }
  return digest.hex();
}

TEST(BasicTokenizer, EveryCodePointAsPythonLowerCased) {
  EXPECT_EQ(digest_of_every_code_point(true),
            "352015cbc70345b26a6bac659ea04951177cb74143a8cdf6716a50be4f4f3238");
}
TEST(BasicTokenizer, EveryCodePointAsPythonCased) {
  EXPECT_EQ(digest_of_every_code_point(false),
            "d6da44120a2fce4c790a91e6a6db9123608cdc4b5240357d6a89407ab3880419");
}
TEST(BasicTokenizer, MixturesAsPythonLowerCased) {
  EXPECT_EQ(digest_of_mixtures(true),
            "6a896583e1415c46b8693fc3849268e250ef3dfdddb5dcfaff587f96cbfdd477");
}
TEST(BasicTokenizer, MixturesAsPythonCased) {
  EXPECT_EQ(digest_of_mixtures(false),
            "fa2915f2e46f2b284ddbb8bed591d50e292b28be65010775c50a7a2dc9b2970d");
}

// Hugging Face's BertNormalizer can leave out each step by itself.
TEST(BasicTokenizer, EveryChoiceOfRulesAsPython) {
  struct Case {
    data::WordRules rules;
    const char* digest;
  };
  const Case cases[] = {
      {{false, false, false, false},
       "015a76a6dd0aefb9df3b48fb19fbba1f5d4b8cf4ae30e406241cee73e24a3a18"},
      {{true, false, false, false},
       "dae933955ff3d0884673e228fd334ba1bfd9ef895e82418e3a85363ab2f287d7"},
      {{false, true, false, false},
       "0272b49d2a42b9075573bf946eef25dbdba729a5411fe2a6654a284a57530504"},
      {{true, true, false, false},
       "b898a48ba9cd54021e478f1e5c07612ba4efff5934e5d72e7cdc1740b850e5ec"},
      {{false, false, true, false},
       "59a5a1701cd944694018f4bf631ead206b8afb29e76e16e614c1d0ec2c814cc6"},
      {{true, false, true, false},
       "e065130f27f76d2edc92c0ab63387ca2b65039348c12b7704afaae0e63d07a13"},
      {{false, true, true, false},
       "2f61c2990d1f248cfe4b9cb662fc76801f9b2ae584b367f4c4d6f467c4687537"},
      {{true, true, true, false},
       "683efeee528bb880a87f780e0d19093a3588b8e1a2937fd0fcc1b75710b7eb49"},
      {{false, false, false, true},
       "be5198e0b673d9b67328ee95da45d01200d541daa43117f1deeb3a56b2ae67ca"},
      {{true, false, false, true},
       "80ebc433f42935a1631540e4dd8a72b3d9e072e5c5841434d409646e527060b5"},
      {{false, true, false, true},
       "27cf2384bd9f229276665593713aa665db376b541c0ecd71d94152b538c140ab"},
      {{true, true, false, true},
       "5e8e8520a51e1dfec9d59730344110ceb9b2c2de2759c29e8f8e77d88270bb91"},
      {{false, false, true, true},
       "7a86ec3ef1deeb59b0ab07bc15d8c7b50e2092602dbac074fbb1722f219abc6d"},
      {{true, false, true, true},
       "0b1500b23a7aae9adcff17c8eb74f0f3044394d7a6adef0a0a91c95ae1d8d36a"},
      {{false, true, true, true},
       "0ccf1e76c5eb6d1df5122b6e7c3bdcd7432d98f7469820083d70f16ae3bbe29d"},
      {{true, true, true, true},
       "85677c67b721dc382ddec7647db9619a4106de06e930e11d15f7bd0998be3e2c"},
  };
  for (const Case& each : cases) {
    const data::WordRules& rules = each.rules;
    EXPECT_EQ(digest_of_mixtures(rules, 10000), each.digest)
        << rules.clean_text << rules.ideographs_apart << rules.lower_case << rules.strip_accents;
  }
}

struct WordsCase {
  const char* name;
  std::string text;
  bool lower_case;
  std::vector<std::string> expected;
};

TEST(BasicTokenizer, NamedCases) {
  const WordsCase cases[] = {
      {"empty", "", true, {}},
      {"white space only", " \t\r\n\u3000\u2028", true, {}},
      {"control characters vanish",
       std::string("a\x01"
                   "b\x7f"
                   "c\0d",
                   7),
       true,
       {"abcd"}},
      {"soft hyphen and joiners vanish", "so\u00ADft zero\u200Dwidth", true, {"soft", "zerowidth"}},
      {"accents go when lower-casing", "Ca\u00F1\u00F3n", true, {"canon"}},
      {"and stay otherwise", "Ca\u00F1\u00F3n", false, {"Ca\u00F1\u00F3n"}},
      {"final sigma",
       "\u039F\u0394\u039F\u03A3 \u03A3\u0391\u03A3",
       true,
       {"\u03BF\u03B4\u03BF\u03C2", "\u03C3\u03B1\u03C2"}},
      {"sigma before punctuation and a letter",
       "\u0391\u03A3.\u0391",
       true,
       {"\u03B1\u03C3", ".", "\u03B1"}},
      {"sigma before a hyphen is final",
       "\u0391\u03A3-\u0391",
       true,
       {"\u03B1\u03C2", "-", "\u03B1"}},
      {"Turkish dotted I", "\u0130stanbul", true, {"istanbul"}},
      {"Hangul to jamo", "\uAC01", true, {"\u1100\u1161\u11A8"}},
      {"Hangul kept cased", "\uAC01", false, {"\uAC01"}},
      {"ideographs stand alone", "ab\u4E2D\u6587c", true, {"ab", "\u4E2D", "\u6587", "c"}},
      {"kana do not", "\u306E\u30AB\u30CA", true, {"\u306E\u30AB\u30CA"}},
      {"symbols of ASCII are punctuation", "a$b^c~", true, {"a", "$", "b", "^", "c", "~"}},
      {"other symbols are not", "a\u20ACb", true, {"a\u20ACb"}},
      {"a lone mark leaves nothing", "a \u0301 b", true, {"a", "b"}},
      {"unassigned code points stay", "a\u0378b", true, {"a\u0378b"}},
      {"ill-formed UTF-8 vanishes",
       "a\xFF"
       "b\xE2\x82",
       true,
       {"ab"}},
  };
  for (const WordsCase& c : cases) EXPECT_EQ(words(c.text, c.lower_case), c.expected) << c.name;
}

TEST(BasicTokenizer, CountsCodePointsAndIllFormedSequences) {
  data::BasicTokenizer tokenizer(false);
  const auto& split = tokenizer.split("\u00E4\u00F6 \xFF\xFE x\xC3");
  ASSERT_EQ(split.size(), 2U);
  EXPECT_EQ(split[0].code_points, 2);
  EXPECT_EQ(split[1].code_points, 1);
  EXPECT_EQ(tokenizer.invalid_sequences(), 3);
}

TEST(ByteClasses, SplitPlainText) {
  std::vector<std::string> found;
  data::for_each_chunk("ab-c\t\td\x01 \u00E9", [&](std::string_view chunk, bool plain) {
    if (!plain) return found.push_back("<" + std::string(chunk) + ">");
    data::for_each_plain_word(chunk, [&](std::string_view word) { found.emplace_back(word); });
  });
  EXPECT_EQ(found, (std::vector<std::string>{"ab", "-", "c", "<d\x01>", "<\u00E9>"}));
}

}  // namespace
}  // namespace regatta::trainer
