// A dry run says what would be, and leaves everything as it was; and which run a word means.
#include "orchestrator/control/preview.h"

#include <gmock/gmock.h>

#include "orchestrator/control/run_lookup.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::Not;

class PreviewTest : public ControllerFixture {
 protected:
  PreviewTest() : ControllerFixture(1) {}

  static std::string message_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
};

TEST_F(PreviewTest, SaysWhatWouldBeAndMakesNothing) {
  const std::string before = submit();
  const control::Preview preview = controller_->preview(
      "name: next\nsteps: 7\nranks: 2\ndata: {path: /nowhere}\n"
      "slurm: {nodes: 1, ranks_per_node: 2, environment: {SECRET: pass word}}\n",
      {"demo"});
  EXPECT_EQ(preview.config.steps, 7);
  EXPECT_EQ(preview.config.slurm->environment.at("SECRET"), "pass word");
  EXPECT_EQ(control::without_secrets(preview.config).slurm->environment.at("SECRET"), "(hidden)");
  EXPECT_EQ(preview.directory, (folder_.path() / "runs" / "next-xxxxxx").string());
  EXPECT_THAT(preview.after, ElementsAre(before));
  ASSERT_EQ(preview.checks.size(), 3U);
  EXPECT_EQ(preview.checks[0].name, "dataset");
  EXPECT_EQ(preview.checks[0].good, false);
  EXPECT_THAT(preview.checks[0].detail, HasSubstr("no dataset in /nowhere"));
  EXPECT_EQ(preview.checks[1].good, std::nullopt) << "without a vocabulary nobody knows";
  EXPECT_EQ(store_->ids().size(), 1U);
  std::size_t directories = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder_.path() / "runs")) {
    directories += each.is_directory() && each.path().filename().string()[0] != '.' ? 1 : 0;
  }
  EXPECT_EQ(directories, 1U);
}

TEST_F(PreviewTest, LooksAtTheDataset) {
  const base::Path data = folder_.path() / "data";
  std::filesystem::create_directory(data);
  tests::write_file(data / "dataset.json", R"({"vocabulary": {"pieces": 1000}})");
  const control::Preview preview = controller_->preview(tests::run_file(data.string()), {});
  EXPECT_EQ(preview.checks[0].good, true);
  EXPECT_EQ(preview.checks[0].detail, "1000 pieces of vocabulary");
  // BERT's own count: a published figure (110 million for base with 30,522 pieces, heads counted).
  trainer::contract::RunConfig base = preview.config;
  base.model.layers = 12;
  base.model.hidden = 768;
  base.model.heads = 12;
  base.model.feed_forward = 3072;
  const plan::DatasetFacts of_google{trainer::contract::Task::Pretraining, 30522};
  EXPECT_THAT(control::check_memory(base, of_google).detail, HasSubstr("110.1 million parameters"));
  base.sharding.optimizer = true;
  EXPECT_THAT(control::check_memory(base, of_google).detail, HasSubstr("over all ranks"));
}

TEST_F(PreviewTest, LooksAtEveryDatasetOfAMixture) {
  const auto check = [&] {
    const std::string mixture = "name: two\ndata: [{path: " + folder_.path().string() +
                                "/books, weight: 2}, {path: " + folder_.path().string() +
                                "/wiki}]\n";
    return controller_->preview(mixture, {}).checks[0];
  };
  std::filesystem::create_directory(folder_.path() / "books");
  std::filesystem::create_directory(folder_.path() / "wiki");
  tests::write_file(folder_.path() / "books" / "dataset.json",
                    R"({"vocabulary": {"pieces": 1000}})");
  EXPECT_EQ(check().good, false);
  EXPECT_THAT(check().detail, HasSubstr("no dataset in " + folder_.path().string() + "/wiki"));
  tests::write_file(folder_.path() / "wiki" / "dataset.json", R"({"vocabulary": {"pieces": 999}})");
  EXPECT_EQ(check().good, false);
  EXPECT_THAT(check().detail, HasSubstr("/wiki has a vocabulary of 999 pieces, "));
  tests::write_file(folder_.path() / "wiki" / "dataset.json",
                    R"({"vocabulary": {"pieces": 1000}})");
  EXPECT_EQ(check().good, true);
  EXPECT_EQ(check().detail, "1000 pieces of vocabulary");

  // As many pieces do not make one vocabulary.
  const auto with = [&](const std::string& name, const std::string& digest,
                        const std::string& lower_case) {
    tests::write_file(folder_.path() / name / "dataset.json",
                      R"({"tokenizer": {"lower_case": )" + lower_case +
                          R"(}, "vocabulary": {"pieces": 1000, "digest": ")" + digest + R"("}})");
  };
  with("books", "ab", "true");
  EXPECT_EQ(check().good, true) << "what one of them does not tell is not held against it";
  with("wiki", "cd", "true");
  EXPECT_EQ(check().good, false);
  EXPECT_THAT(check().detail, HasSubstr("data.mixture[1].path: "));
  EXPECT_THAT(check().detail, HasSubstr("/wiki has another vocabulary than "));
  with("wiki", "ab", "false");
  EXPECT_EQ(check().good, false);
  EXPECT_THAT(check().detail, HasSubstr("/wiki is cased, "));
  EXPECT_THAT(check().detail, HasSubstr("; prepare both without --cased"));
  with("wiki", "ab", "true");
  EXPECT_EQ(check().good, true);
  tests::write_file(folder_.path() / "wiki" / "task.json", R"({"task": "classification"})");
  EXPECT_EQ(check().good, false);
  EXPECT_THAT(check().detail, HasSubstr("is a dataset for classification; name another dataset"));
}

// Nodes may see what this machine does not: the run is made, and its user is told.
TEST_F(PreviewTest, ASubmissionTellsWhatCannotBeSeenFromHere) {
  const std::string file = "name: demo\ndata: {path: " + (folder_.path() / "text").string() + "}\n";
  const auto doubts = [&] { return controller_->submit(file, std::nullopt).doubts; };
  EXPECT_EQ(doubts(), std::vector<std::string>{
                          "no dataset in " + (folder_.path() / "text").string() +
                          " that this machine can see; `regatta-train prepare` makes one"});
  std::filesystem::create_directory(folder_.path() / "text");
  tests::write_file(folder_.path() / "text" / "dataset.json",
                    R"({"vocabulary": {"pieces": 1000}})");
  EXPECT_EQ(doubts(), std::vector<std::string>());
}

// Each is held against the first: one between that tells less hides nothing.
TEST_F(PreviewTest, HoldsEveryDatasetOfAMixtureAgainstTheFirst) {
  const std::string at = folder_.path().string() + "/";
  const auto dataset = [&](const std::string& name, const std::string& vocabulary) {
    std::filesystem::create_directory(at + name);
    tests::write_file(at + name + "/dataset.json", "{\"vocabulary\": " + vocabulary + "}");
  };
  dataset("books", R"({"pieces": 1000, "digest": "ab"})");
  dataset("untold", R"({"pieces": 1000})");
  dataset("wiki", R"({"pieces": 1000, "digest": "cd"})");
  const control::PreviewCheck check =
      controller_
          ->preview("name: three\ndata: [{path: " + at + "books}, {path: " + at +
                        "untold}, {path: " + at + "wiki}]\n",
                    {})
          .checks[0];
  EXPECT_EQ(check.good, false);
  EXPECT_EQ(check.detail, "run file: data.mixture[2].path: " + at +
                              "wiki has another vocabulary than " + at +
                              "books; prepare both with the same --vocab");
}

TEST_F(PreviewTest, RefusesWhatASubmissionRefuses) {
  for (const std::string body : {"", "steps: x\n", "name: a\n"}) {
    const std::string refused = message_of([&] { (void)controller_->submit(body, std::nullopt); });
    EXPECT_EQ(message_of([&] { (void)controller_->preview(body, {}); }), refused);
  }
  EXPECT_THAT(message_of([&] { (void)controller_->preview(tests::run_file(), {"nobody"}); }),
              HasSubstr("no run 'nobody'"));
}

TEST_F(PreviewTest, AWordMeansTheRunOfItsIdNameOrBeginningOrTheNewest) {
  const auto found = [&](const std::string& word) {
    std::string id;
    const std::string why = message_of([&] { id = control::find_run(*store_, word).id; });
    return id.empty() ? why : id;
  };
  EXPECT_THAT(found("@last"), HasSubstr("there is no run yet"));
  const std::string first = submit();
  clock_.now += 1;
  const std::string second = submit();
  EXPECT_EQ(found(first), first);
  EXPECT_EQ(found("@last"), second);
  EXPECT_THAT(found("demo"), HasSubstr("several runs are called 'demo'"));
  std::size_t same = 0;
  while (first[same] == second[same]) ++same;
  ASSERT_GE(same, 5U) << "both are demo-…";
  EXPECT_EQ(found(first.substr(0, same + 1)), first);
  EXPECT_THAT(found(first.substr(0, 4)), HasSubstr("several"));
  if (same > 5) {
    EXPECT_THAT(found(first.substr(0, same)), HasSubstr("several runs' ids begin with"));
  }
  // Of a name that has gone: another run whose name only begins so is not meant.
  const std::string large =
      controller_->submit("name: bert-large\ndata: {path: /d}\n", std::nullopt).run.id;
  EXPECT_THAT(found("bert"), HasSubstr("no run 'bert'"));
  EXPECT_THAT(found("bert-"), HasSubstr("no run 'bert-'"));
  EXPECT_THAT(found("bert-large-"), HasSubstr("no run 'bert-large-'"));
  EXPECT_EQ(found("bert-large"), large);
  EXPECT_EQ(found(large.substr(0, 12)), large);
  EXPECT_THAT(found("%"), HasSubstr("no run '%'"));
  EXPECT_THAT(found(""), HasSubstr("no run ''"));
}

}  // namespace
}  // namespace regatta::orchestrator
