// `regatta init` and `regatta schema`: what they write, and that it is what a run file may say.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/run_file_templates.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::cli {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using trainer::contract::RunConfig;
using trainer::contract::Task;

const Program kInitProgram{{}, "regatta 1.2.3", "0123"};

struct Outcome {
  int code;
  std::string text, errors;
};

// As main() does it.
Outcome outcome_of(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome made{};
  try {
    made.code = run_command_line("regatta", words, kInitProgram);
  } catch (const base::Error& error) {
    made.code = base::meaning(error.code()).exit_code;
    std::cerr << "regatta: " << error.what() << "\n";
  }
  made.text = testing::internal::GetCapturedStdout();
  made.errors = testing::internal::GetCapturedStderr();
  return made;
}

void write(const base::Path& path, const std::string& text) {
  base::replace_file(base::posix_file_system(), path, text);
}

// With all keys that are off, which takes a GPU.
std::string switched_on(std::string_view text) {
  static const std::regex off(R"(^#((  )*[a-z_]+:( .*)?)$)"), device("^device: cpu ");
  std::string all;
  for (const std::string& line : base::split(text, '\n')) {
    all += std::regex_replace(std::regex_replace(line, off, "$1"), device, "device: cuda ") + "\n";
  }
  return all;
}

// Every key of the text has a place in the schema.
void expect_keys(base::Table table, const json& schema, const std::string& path, int* count) {
  for (const std::string& key : table.keys()) {
    ++*count;
    ASSERT_TRUE(schema.contains("properties")) << path;
    ASSERT_TRUE(schema["properties"].contains(key)) << path << key;
    if (table.is_table(key)) {
      expect_keys(table.table(key), schema["properties"][key], path + key + ".", count);
    }
  }
}

TEST(RunFileTemplates, AreRunFiles) {
  const json schema = json::parse(trainer::contract::run_file_schema());
  ASSERT_EQ(run_file_templates().size(), 4U);
  for (const RunFileTemplate& each : run_file_templates()) {
    SCOPED_TRACE(each.name);
    const std::string on = switched_on(each.text);
    EXPECT_NE(on, each.text);
    for (const std::string& text : {std::string(each.text), on}) {
      const RunConfig config = trainer::contract::parse_run_config(text, "run.yaml");
      EXPECT_EQ(config.name, each.name);
      EXPECT_EQ(config.model.layers, 2);  // small enough for the CPU of a laptop
      EXPECT_LE(config.steps * config.batch_size, 100'000);
      EXPECT_EQ(config.checkpoint_every % config.evaluate_every, 0);
      EXPECT_EQ(config.from.has_value(), each.name != "pretrain");
    }
    int plain = 0, all = 0;
    expect_keys(base::Table::parse(each.text, "f"), schema, "", &plain);
    expect_keys(base::Table::parse(on, "f"), schema, "", &all);
    EXPECT_GT(plain, 20);
    EXPECT_GE(all, plain + 7);
    EXPECT_EQ(trainer::contract::parse_run_config(each.text, "f").device,
              trainer::contract::DeviceKind::Cpu);
  }
}

TEST(RunFileTemplates, AreOfTheirTask) {
  const std::vector<Task> tasks{Task::Pretraining, Task::Pretraining, Task::QuestionAnswering,
                                Task::Classification};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::string text(run_file_templates()[i].text);
    EXPECT_EQ(trainer::contract::parse_run_config(text, "f").model.task, tasks[i]);
  }
}

// A beginner reads them from the top.
TEST(RunFileTemplates, ExplainThemselves) {
  for (const RunFileTemplate& each : run_file_templates()) {
    SCOPED_TRACE(each.name);
    const std::string text(each.text);
    EXPECT_THAT(text, StartsWith("# yaml-language-server: $schema=run.schema.json\n# "));
    EXPECT_THAT(text, HasSubstr("regatta schema --output run.schema.json\n"));
    EXPECT_THAT(text, HasSubstr("#     " + std::string(each.prepare) + "\n"));
    EXPECT_THAT(text, EndsWith("\n"));
    for (const std::string& line : base::split(text, '\n')) {
      EXPECT_LE(line.size(), 102U) << line;  // bytes, of 100 characters
      EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    }
  }
}

TEST(Init, WritesWhatIsAskedFor) {
  const tests::TemporaryDirectory directory;
  for (const RunFileTemplate& each : run_file_templates()) {
    const std::string name(each.name);
    const std::string path = (directory.path() / (name + ".yaml")).string();
    const Outcome made = outcome_of({"init", name, "--output", path});
    EXPECT_EQ(made.code, 0) << made.errors;
    EXPECT_EQ(made.text, "");
    EXPECT_EQ(tests::file_text(path), each.text);
    EXPECT_EQ(made.errors, "regatta: wrote " + path + "; next, in " + directory.path().string() +
                               ": " + std::string(each.prepare) + ", then regatta submit " + name +
                               ".yaml\n");
    const Outcome printed = outcome_of({"init", name, "--output", "-"});
    EXPECT_EQ(printed.code, 0) << printed.errors;
    EXPECT_EQ(printed.text, each.text);
    EXPECT_EQ(printed.errors,
              "regatta: next: " + std::string(each.prepare) + ", then regatta submit run.yaml\n");
  }
}

TEST(Init, PretrainsAndListsTheOthersWhereNoneIsNamed) {
  const tests::TemporaryDirectory directory;
  const std::string path = (directory.path() / "a run.yaml").string();
  const Outcome made = outcome_of({"init", "--output", path});
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(tests::file_text(path), run_file_templates().front().text);
  EXPECT_THAT(made.errors,
              HasSubstr(" for pretrain (there are also: continue, squad, classify); "));
  EXPECT_THAT(made.errors, EndsWith("then regatta submit 'a run.yaml'\n"));
  EXPECT_EQ(std::count(made.errors.begin(), made.errors.end(), '\n'), 1);
  EXPECT_THAT(outcome_of({"init", "-o", "-"}).errors,
              StartsWith("regatta: this is pretrain (there are also: continue, squad, classify); "
                         "next: regatta-train prepare "));
}

TEST(Init, ReplacesAFileOnlyWhereItIsTold) {
  const tests::TemporaryDirectory directory;
  const base::Path path = directory.path() / "run.yaml";
  write(path, "mine\n");
  const Outcome refused = outcome_of({"init", "--output", path.string()});
  EXPECT_EQ(refused.code, 5) << refused.errors;
  EXPECT_EQ(refused.errors, "regatta: " + path.string() +
                                " is there already; --force replaces it, --output writes "
                                "another\n");
  EXPECT_EQ(tests::file_text(path), "mine\n");
  const Outcome forced = outcome_of({"init", "squad", "--output", path.string(), "--force"});
  EXPECT_EQ(forced.code, 0) << forced.errors;
  EXPECT_EQ(tests::file_text(path), run_file_templates()[2].text);
  // A link to nowhere is there, too: what it names is not made.
  const base::Path link = directory.path() / "link.yaml";
  std::filesystem::create_symlink(directory.path() / "nowhere", link);
  EXPECT_EQ(outcome_of({"init", "--output", link.string()}).code, 5);
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "nowhere"));
  EXPECT_EQ(base::posix_file_system().list(directory.path()),
            (std::vector<std::string>{"link.yaml", "run.yaml"}));
}

// Files of at most 1 KB: as on a disk that fills up behind that.
TEST(Init, LeavesNoPartOfAFile) {
  const tests::TemporaryDirectory directory;
  const std::string path = (directory.path() / "run.yaml").string();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1024, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Outcome made = outcome_of({"init", "--output", path});
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, ignored);
  EXPECT_NE(made.code, 0);
  EXPECT_THAT(made.errors, HasSubstr("run.yaml"));
  EXPECT_TRUE(base::posix_file_system().list(directory.path()).empty());
  EXPECT_EQ(outcome_of({"init", "--output", path}).code, 0) << "again, with room";
}

TEST(Init, AndSchemaSayWhatIsWrong) {
  const tests::TemporaryDirectory directory;
  struct Case {
    std::vector<std::string> words;
    int code;
    const char* why;
  };
  const std::string absent = (directory.path() / "absent" / "f").string();
  for (const Case& each : std::vector<Case>{
           {{"init", "tasks"}, 2, "kind is 'tasks'; use pretrain, continue, squad or classify"},
           {{"init", ""}, 2, "kind is ''; use pretrain"},
           {{"init", "squad", "classify"}, 2, "'classify' is one word too many"},
           {{"init", "--output", ""}, 2, "--output is ''; name a file"},
           {{"init", "--output", "-", "--force"}, 2, "--force is for a file"},
           {{"init", "--output", absent}, 3, "absent"},
           {{"schema", "--output", ""}, 2, "--output is ''; name a file"},
           {{"schema", "runs"}, 2, "'runs'"},
           {{"schema", "--output", absent}, 3, "absent"}}) {
    const Outcome made = outcome_of(each.words);
    EXPECT_EQ(made.code, each.code) << made.errors;
    EXPECT_EQ(made.text, "");
    EXPECT_THAT(made.errors, StartsWith("regatta: "));
    EXPECT_THAT(made.errors, HasSubstr(each.why));
    EXPECT_EQ(std::count(made.errors.begin(), made.errors.end(), '\n'), 1) << made.errors;
  }
  EXPECT_TRUE(base::posix_file_system().list(directory.path()).empty());
}

TEST(Schema, IsThatOfTheReader) {
  const tests::TemporaryDirectory directory;
  const std::string path = (directory.path() / "run.schema.json").string();
  const std::string schema = trainer::contract::run_file_schema();
  EXPECT_EQ(outcome_of({"schema"}).text, schema);
  EXPECT_EQ(outcome_of({"config", "schema"}).text, schema);
  for (int i = 0; i < 2; ++i) {  // a newer program writes it anew
    const Outcome made = outcome_of({"schema", "--output", path});
    EXPECT_EQ(made.code, 0) << made.errors;
    EXPECT_EQ(made.text + made.errors, "");
    EXPECT_EQ(tests::file_text(path), schema);
    write(path, i == 0 ? "{}" : schema);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::cli
