#include "trainer/data/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace regatta::trainer {
namespace {

using testing::HasSubstr;

const std::string kSpecials = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

TEST(Vocabulary, NumbersPiecesByLine) {
  const data::Vocabulary vocabulary = data::Vocabulary::parse("the\n" + kSpecials + "##s\n", "v");
  EXPECT_EQ(vocabulary.size(), 7);
  EXPECT_EQ(vocabulary.find("the"), 0);
  EXPECT_EQ(vocabulary.find("##s"), 6);
  EXPECT_EQ(vocabulary.find("absent"), -1);
  EXPECT_EQ(vocabulary.special().pad, 1);
  EXPECT_EQ(vocabulary.special().unknown, 2);
  EXPECT_EQ(vocabulary.special().classify, 3);
  EXPECT_EQ(vocabulary.special().separator, 4);
  EXPECT_EQ(vocabulary.special().mask, 5);
  EXPECT_TRUE(vocabulary.is_special(5));
  EXPECT_FALSE(vocabulary.is_special(0));
  EXPECT_EQ(vocabulary.text(), "the\n" + kSpecials + "##s\n");
}

TEST(Vocabulary, LineEndsDoNotMatter) {
  const std::string unix_text = kSpecials + "a";
  std::string dos_text;
  for (const char c : unix_text) dos_text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(data::Vocabulary::parse(unix_text, "v").digest(),
            data::Vocabulary::parse(dos_text + "\r\n\r\n", "v").digest());
  EXPECT_NE(data::Vocabulary::parse(unix_text, "v").digest(),
            data::Vocabulary::parse(unix_text + "\nb", "v").digest());
}

TEST(Vocabulary, SaysWhatIsWrong) {
  struct BadCase {
    std::string text;
    const char* message;
  };
  const BadCase cases[] = {
      {"", "has no pieces"},
      {"\n\n", "has no pieces"},
      {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "no piece [MASK]"},
      {"[PAD]\n[UNK]\n[SEP]\n[MASK]\n", "no piece [CLS]"},
      {"[PAD]\n[UNK]\n[CLS]\n[MASK]\n", "no piece [SEP]"},
      {"[UNK]\n[CLS]\n[SEP]\n[MASK]\n", "no piece [PAD]"},
      {"[PAD]\n[CLS]\n[SEP]\n[MASK]\n", "no piece [UNK]"},
      {"[pad]\n[unk]\n[cls]\n[sep]\n[mask]\n", "no piece [PAD]"},
      {kSpecials + "a\nb\na\n", "line 8: 'a' is already on line 6"},
      {kSpecials + "\nb\n", "line 6: blank line"},
      {kSpecials + "caf\xE9\n", "line 6: not UTF-8: 'caf"},
  };
  for (const BadCase& c : cases) {
    try {
      (void)data::Vocabulary::parse(c.text, "v.txt");
      ADD_FAILURE() << c.message;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(c.message));
      EXPECT_THAT(error.what(), HasSubstr("v.txt"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    }
  }
}

TEST(Vocabulary, AbsentFile) {
  try {
    (void)data::Vocabulary::load("/nonexistent/vocab.txt", base::posix_file_system());
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/vocab.txt"));
  }
}

}  // namespace
}  // namespace regatta::trainer
