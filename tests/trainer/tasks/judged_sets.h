// What tests of judged sets share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "trainer/contract/journal.h"
#include "trainer/data/vocabulary.h"

namespace regatta::tests {

// A piece for each letter, and some words.
inline trainer::data::Vocabulary letters() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwho\n?\n.\n10\nman\nstore\n##s\n";
  for (char letter = 'a'; letter <= 'z'; ++letter) text += std::string(1, letter) + "\n";
  return trainer::data::Vocabulary::parse(text, "vocab.txt");
}

// What task_samples.py prints.
inline std::string python(const std::vector<std::string>& arguments) {
  base::Command command;
  command.arguments = {"python3", "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/task_samples.py"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  const base::Output output = base::run(command, 200);
  EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  EXPECT_FALSE(output.cut);
  return output.text;
}

inline std::map<std::string, double> by_name(
    const std::vector<trainer::contract::Metric>& metrics) {
  std::map<std::string, double> out;
  for (const trainer::contract::Metric& metric : metrics) out[metric.name] = metric.value;
  return out;
}

inline std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "was done";
}

// A paragraph on which the rules turn if windows are short: answers in several windows and in none,
// long ones, a part of a word, one across what is no separator of words; and a text without pieces.
inline std::string small_squad(bool second_version) {
  const auto asked = [](const std::string& id, const std::string& answers) {
    return R"({"id": ")" + id + R"(", "question": "who a?", "answers": [)" + answers + "]";
  };
  const auto answer = [](const std::string& text, int start) {
    return R"({"text": ")" + text + R"(", "answer_start": )" + std::to_string(start) + "}";
  };
  const std::string comma = ", ";
  const std::string odd = answer(R"(10\u00A0o)", 33);
  const std::string questions =
      asked("first of two", answer("c d", 4) + comma + answer("l", 22)) + "}, " +
      asked("in a window each",
            answer("m", 24) + comma + answer("a", 0) + comma + answer("m", 24)) +
      "}, " + asked("long", answer("a b c d", 0)) + "}, " +
      asked("part of a word", answer("tore", 27)) + "}, " + asked("not in the words", odd) + "}, " +
      asked("the second is in the words", odd + comma + answer("p.", 38)) + "}, " +
      asked("longer than a window", answer("b c d e f g h i j k", 2)) + "}" +
      (second_version ? comma + asked("impossible", "") + R"(, "is_impossible": true})" : "");
  return R"({"version": ")" + std::string(second_version ? "v2.0" : "1.1") +
         R"(", "data": [{"paragraphs": [{"context": "a b c d e f g h i j k l m stores )"
         R"(10\u00A0o p.", "qas": [)" +
         questions + R"(]}, {"context": "\u0301", "qas": [)" +
         asked("nothing is left of the text", answer(R"(\u0301)", 0)) + "}]}]}]}";
}

}  // namespace regatta::tests
