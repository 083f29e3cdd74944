#include "base/shell_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/process.h"

namespace regatta::base {
namespace {

// What bash makes of the words: each with a 0x1e behind it, which no test word holds.
std::string read_by_bash(const std::string& words, const std::string& locale) {
  Command command;
  command.arguments = {"bash", "-c", "printf '%s\\036' " + words};
  command.environment["LC_ALL"] = locale;
  const Output output = run(command, 60);
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  return output.text;
}

TEST(ShellWords, AreReadAsTheyWereGiven) {
  struct Row {
    const char* text;
    const char* word;
  };
  for (const Row& row :
       {Row{"", "''"}, Row{"a", "'a'"}, Row{"a b", "'a b'"}, Row{"it's", "'it'\\''s'"},
        Row{"$(id)", "'$(id)'"}, Row{"`id`", "'`id`'"}, Row{"\\", "'\\'"}, Row{"~", "'~'"},
        Row{"a\nb", "$'a\\012b'"}, Row{"\n'\\7", "$'\\012\\047\\1347'"},
        Row{"\xc3\xa9", "$'\\303\\251'"}, Row{"!", "'!'"}, Row{"-n", "'-n'"}, Row{"a=b", "'a=b'"},
        Row{"*?[", "'*?['"}}) {
    EXPECT_EQ(shell_word(row.text), row.word);
    EXPECT_EQ(read_by_bash(shell_word(row.text), "C"), std::string(row.text) + "\x1e");
  }
  EXPECT_EQ(shell_words({}), "");
  EXPECT_EQ(shell_words({"a", "", "b c"}), "'a' '' 'b c'");
}

TEST(ShellWords, HoldEveryByteAndRandomBytesInEveryLocale) {
  std::mt19937_64 random(20261121);
  std::vector<std::string> texts;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte == 0x1e) continue;
    const char c = static_cast<char>(byte);
    texts.push_back(std::string(1, c));
    texts.push_back("7" + std::string(1, c) + "'0");
  }
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (auto length = random() % 40; length > 0; --length) {
      const auto byte = 1 + random() % 255;
      text += byte == 0x1e ? '\'' : static_cast<char>(byte);
    }
    texts.push_back(text);
  }
  std::string expected;
  for (const std::string& text : texts) expected += text + "\x1e";
  const std::string words = shell_words(texts);
  EXPECT_TRUE(
      std::all_of(words.begin(), words.end(), [](char c) { return c >= 0x20 && c < 0x7F; }));
  for (const char* locale : {"C", "C.UTF-8"}) {
    EXPECT_EQ(read_by_bash(words, locale), expected) << locale;
  }
}

TEST(ShellWords, AreAsAPersonTypesThem) {
  EXPECT_EQ(shown_command("regatta resume", "demo-4f2a91"), "regatta resume demo-4f2a91");
  EXPECT_EQ(shown_command("regatta resume", "hand made"), "regatta resume 'hand made'");
  EXPECT_EQ(shown_command("regatta resume", "Übung"), "regatta resume 'Übung'");
  EXPECT_EQ(shown_command("regatta resume", "a\u202Eb"), "regatta resume $'a\\342\\200\\256b'");
  EXPECT_EQ(shown_command("regatta diff", "-rf"), "regatta diff -- -rf");
  EXPECT_EQ(shown_command("regatta submit", "-"), "regatta submit -");
  EXPECT_EQ(shown_command("regatta diff", "-r f"), "regatta diff -- '-r f'");
  EXPECT_EQ(shown_command("regatta ckpt gc --directory", "-r"), "regatta ckpt gc --directory -r");
  EXPECT_EQ(shown_command("regatta cancel", ""), "regatta cancel ''");
  EXPECT_EQ(shown_command("regatta cancel", std::string("a\0b", 3)), "regatta cancel 'a\\x00b'");
  for (const char* name :
       {"a b", "it's", "$(id)", "~", "#", "a;b", "a\nb", "*", "\xff", "a&b", "Übung"}) {
    EXPECT_EQ(read_by_bash(shown_command("", name), "C"), std::string(name) + "\x1e");
  }
}

TEST(ShellWords, HoldAMegabyte) {
  std::string text;
  while (text.size() < 1'000'000) text += "a'\n\xff";
  const std::string word = shell_word(text);
  EXPECT_LT(word.size(), 4 * text.size());
}

TEST(ShellWords, RefuseNul) {
  for (const std::string& text :
       {std::string(1, '\0'), std::string("a\0b", 3), std::string("a\0", 2)}) {
    try {
      (void)shell_word(text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::User);
      EXPECT_NE(std::string(error.what()).find("NUL"), std::string::npos);
    }
  }
  EXPECT_THROW((void)shell_words({"a", std::string("\0", 1)}), Error);
}

}  // namespace
}  // namespace regatta::base
