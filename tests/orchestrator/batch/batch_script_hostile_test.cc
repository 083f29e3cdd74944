// Hostile texts in every place that a user can fill: they arrive as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/orchestrator/batch/batch_script_bench.h"

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using namespace regatta::tests;

struct Hostile {
  const char* name;
  std::string text;
};

std::vector<Hostile> hostile_texts() {
  std::vector<Hostile> rows = {
      {"empty", ""},
      {"space", " "},
      {"spaces around", "  a  b  "},
      {"tab", "a\tb"},
      {"newline", "a\nb"},
      {"only a newline", "\n"},
      {"trailing newlines", "a\n\n"},
      {"carriage return", "a\r\nb\r"},
      {"single quote", "it's"},
      {"double quote", "say \"x\""},
      {"quotes break out", "'; touch owned; '"},
      {"double break out", "\"; touch owned; \""},
      {"all quotes", "'\"`'\"`"},
      {"command", "$(touch owned)"},
      {"backticks", "`touch owned`"},
      {"arithmetic", "$((1+1))"},
      {"array subscript", "a[$(touch owned)]"},
      {"variable", "$HOME ${PATH} $$"},
      {"parameter operators", "${x:=1}${y?boom}${z@Q}"},
      {"SBATCH line", "\n#SBATCH --uid=0\n"},
      {"SBATCH", "#SBATCH --wrap=id"},
      {"comment", "a # b"},
      {"leading dash", "-n"},
      {"leading dashes", "--wrap=id"},
      {"two dashes", "--"},
      {"minus", "-"},
      {"tilde", "~"},
      {"tilde user", "~root/x"},
      {"star", "*"},
      {"globs", "*.sh ?? [a-z]* {a,b} !(x)"},
      {"history", "!! !$ ^a^b"},
      {"pipe", "a | touch owned"},
      {"redirect", "> owned < /etc/passwd 2>&1"},
      {"background", "touch owned &"},
      {"semicolon", "a; touch owned"},
      {"and or", "a && touch owned || touch owned"},
      {"process substitution", "<(touch owned)"},
      {"here document", "<< EOF\nx\nEOF\n"},
      {"braces", "{ touch owned; }"},
      {"parenthesis", "(touch owned)"},
      {"unbalanced", "$( ${ $(( [[ (( case if"},
      {"end of array", ") ; touch owned ; x=("},
      {"function", "() { :; }; touch owned"},
      {"backslash", "\\"},
      {"trailing backslash", "a\\"},
      {"escapes", "\\n\\t\\x41\\101\\\\"},
      {"ansi quoting", "$'a\\nb'"},
      {"translated", "$\"a\""},
      {"percent j", "%j %A_%a %% %x"},
      {"printf", "%s%n%d"},
      {"equals", "a=b=c"},
      {"comma", "a,b,c"},
      {"colon", "a:b:c"},
      {"unicode", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x9a\xa3"},
      {"right to left",
       "\xe2\x80\xae"
       "abc"},
      {"no UTF-8", "\xff\xfe\xc3"},
      {"half a character and a quote", "\xe4\xb8'"},
      {"shift-jis", "\x83\x5c\x95\x5c"},
      {"escape sequence", "\x1b[2J\x1b]0;x\x07"},
      {"control characters", "\x01\x02\x1f\x7f"},
      {"field separators",
       "a\x1f"
       "b\x1e"
       "c"},
      {"dots", "../../etc/passwd"},
      {"assignment", "PATH=/evil"},
      {"reserved word", "then"},
      {"exit", "exit 0"},
      {"very long", std::string(100'000, 'x')},
      {"very long quotes", std::string(20'000, '\'')},
      {"very long lines", std::string(20'000, '\n')},
  };
  return rows;
}

bool can_be_a_file(const std::string& text) {
  if (text.empty() || text.size() > 200 || text == "." || text == "..") return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '/' || c == '\\') return false;
  }
  return true;
}

bool passes_bash_n(const base::Path& script) {
  base::Command command;
  command.arguments = {"bash", "-n", script.string()};
  const base::Output output = base::run(command, kTimeoutSeconds);
  EXPECT_EQ(output.errors, "");
  return output.exit.code == 0;
}

// In parts, which a busy machine may run side by side.
constexpr std::size_t kParts = 4;
class HostileTexts : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(BatchScriptRun, HostileTexts, testing::Range(std::size_t{0}, kParts));

TEST_P(HostileTexts, ArriveLiterally) {
  const std::vector<Hostile> rows = hostile_texts();
  ASSERT_GE(rows.size(), 60U);
  for (std::size_t i = GetParam(); i < rows.size(); i += kParts) {
    const Hostile& row = rows[i];
    SCOPED_TRACE(row.name);
    Bench bench(can_be_a_file(row.text) ? row.text : "run");
    bench.job.run_name = row.text;
    bench.job.resources.environment = {{"HOSTILE", row.text}, {"PATH_LIKE_VALUE", row.text}};
    bench.job.plan_environment = {{"NCCL_X", row.text}};
    bench.job.resources.options = {"--constraint=" + row.text};
    bench.job.resources.partition = row.text;
    bench.job.resources.container = {"img" + row.text, {}, {"--container-name=" + row.text}};
    write_file(bench.tool("code"), "25");
    bench.job.resources.requeue = false;  // so that sbatch is called, too
    const std::string script = batch::batch_script(bench.job);
    ASSERT_EQ(("\n" + script).find("\n#SBATCH"), std::string::npos) << "sbatch would read it";
    ASSERT_EQ(bench.run(), 25) << bench.said.substr(0, 4000);
    ASSERT_TRUE(passes_bash_n(batch::script_path(bench.job)));
    const auto step = bench.trainer_step();
    ASSERT_TRUE(step.has_value());
    EXPECT_EQ(value_of(*step, "HOSTILE"), row.text);
    EXPECT_EQ(value_of(*step, "PATH_LIKE_VALUE"), row.text);
    EXPECT_EQ(value_of(*step, "NCCL_X"), row.text);
    EXPECT_THAT(step->arguments, Contains("--container-image=img" + row.text));
    EXPECT_THAT(step->arguments, Contains("--container-name=" + row.text));
    EXPECT_THAT(step->arguments, Contains(bench.job.run_directory.string()));
    EXPECT_THAT(step->arguments, Contains(bench.job.trainer.string()));
    const std::vector<Call> successors = bench.calls("sbatch");
    ASSERT_EQ(successors.size(), 1U);
    std::vector<std::string> expected = batch::sbatch_arguments(bench.job);
    expected.insert(expected.end() - 1, "--dependency=afternotok:77");
    EXPECT_EQ(successors[0].arguments, expected);
    for (const base::Path& place : {bench.tool(""), bench.job.run_directory,
                                    bench.job.run_directory / "submit", base::Path(".")}) {
      EXPECT_FALSE(std::filesystem::exists(place / "owned")) << "something was executed";
    }
  }
}

TEST(BatchScriptRun, SetupsPassBashWhateverTheyHold) {
  Bench bench;
  for (const Hostile& row : hostile_texts()) {
    SCOPED_TRACE(row.name);
    bench.job.resources.setup = row.text;
    write_file(bench.tool("setup.sh"), batch::batch_script(bench.job));
    EXPECT_TRUE(passes_bash_n(bench.tool("setup.sh")));
  }
}

}  // namespace
}  // namespace regatta::orchestrator
