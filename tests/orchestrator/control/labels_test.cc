// Tags and notes: what they may be, and that they last.
#include "orchestrator/runs/labels.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/api/label_api.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Labels, ChangeAsTold) {
  const runs::Labels before{{"a", "b"}, "why"};
  EXPECT_EQ(runs::changed(before, {}), before);
  EXPECT_EQ(runs::changed(before, {{{"z", "c", "z"}}, {}, {}, {}}),
            (runs::Labels{{"c", "z"}, "why"}));
  EXPECT_EQ(runs::changed(before, {{}, {"c", "a"}, {"b", "nobody"}, "new"}),
            (runs::Labels{{"a", "c"}, "new"}));
  EXPECT_EQ(runs::changed(before, {{{}}, {}, {}, ""}), runs::Labels());
  for (const char* const good : {"A", "0", "a.b_c:d=e+f-g", "lr=1e-4"}) {
    EXPECT_THAT(runs::changed({}, {{}, {good}, {}, {}}).tags, ElementsAre(good));
  }
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a/b"), std::string("a,b"), std::string("é"),
        std::string(65, 'a'), std::string("a\0b", 3)}) {
    EXPECT_THROW((void)runs::changed({}, {{}, {bad}, {}, {}}), base::Error) << bad;
  }
  runs::LabelChange many;
  for (std::size_t i = 0; i < runs::kMostTags; ++i) many.add_tags.push_back(std::to_string(i));
  EXPECT_EQ(runs::changed({}, many).tags.size(), runs::kMostTags);
  EXPECT_THROW((void)runs::changed({{"one"}, ""}, many), base::Error);
  EXPECT_EQ(runs::changed({}, {{}, {}, {}, std::string(4096, 'n')}).note.size(), 4096U);
  EXPECT_THROW((void)runs::changed({}, {{}, {}, {}, std::string(4097, 'n')}), base::Error);
}

TEST(Labels, AreReadFromABody) {
  const runs::LabelChange change =
      api::parse_labels(R"({"add_tags": ["a"], "remove_tags": ["b", "c"], "note": "n"})");
  EXPECT_THAT(change.add_tags, ElementsAre("a"));
  EXPECT_THAT(change.remove_tags, ElementsAre("b", "c"));
  EXPECT_EQ(change.note, "n");
  EXPECT_FALSE(change.tags);
  EXPECT_EQ(api::parse_labels(R"({"note": null})").note, "");
  EXPECT_TRUE(api::parse_labels(R"({"tags": []})").tags);
  for (const char* const bad :
       {"", "x", "[]", "{}", R"({"tag": "a"})", R"({"tags": "a"})", R"({"tags": [1]})",
        R"({"note": 1})", R"({"note": "n", "other": 1})", R"({"tags": [["a"]]})"}) {
    EXPECT_THROW((void)api::parse_labels(bad), base::Error) << bad;
  }
}

TEST(Labels, RefusalsNameTheKeyOfTheBody) {
  const auto key_of = [](const char* body) {
    try {
      (void)runs::changed({}, api::parse_labels(body));
    } catch (const base::Error& error) {
      return error.key();
    }
    return std::string("no error");
  };
  EXPECT_EQ(key_of(R"({"tag": "a"})"), "tag");
  EXPECT_EQ(key_of(R"({"note": 1})"), "note");
  EXPECT_EQ(key_of(R"({"tags": ["a b"]})"), "tags");
  EXPECT_EQ(key_of(R"({"add_tags": ["a b"]})"), "add_tags");
  EXPECT_EQ(key_of("[]"), "");
  EXPECT_EQ(key_of(R"({"tags": ["a"]})"), "no error");
}

class LabelsTest : public ControllerFixture {
 protected:
  LabelsTest() : ControllerFixture(1) {}
  std::vector<std::string> ids(const store::RunFilter& filter) {
    std::vector<std::string> ids;
    for (const store::RunRow& row : store_->list(filter).rows) ids.push_back(row.run.id);
    return ids;
  }
  static store::RunFilter of_tag(const std::string& tag) {
    store::RunFilter filter;
    filter.tags = {tag};
    return filter;
  }
};

TEST_F(LabelsTest, LastWhateverIsLost) {
  const std::string id =
      controller_->submit(tests::run_file(), std::nullopt, {}, "uid 7", {{{"first"}}, {}, {}, {}})
          .run.id;
  EXPECT_THAT(run(id).tags, ElementsAre("first"));
  EXPECT_EQ(run(id).owner, "uid 7");
  ticks();
  const runs::LabelChange change{{}, {"best", "lamb"}, {"first"}, "warm-up\ntwice as long"};
  EXPECT_THAT(controller_->label(id, change, "uid 8").tags, ElementsAre("best", "lamb"));
  ticks();
  lose_the_store();
  ticks();
  EXPECT_THAT(run(id).tags, ElementsAre("best", "lamb"));
  EXPECT_EQ(run(id).note, "warm-up\ntwice as long");
  EXPECT_EQ(run(id).owner, "uid 7");
  EXPECT_THAT(ids(of_tag("lamb")), ElementsAre(id));
  EXPECT_THAT(ids(of_tag("first")), IsEmpty());

  // What the controller writes of the run later has them, too.
  controller_->label(id, {{{"last"}}, {}, {}, ""});
  controller_->cancel(id);
  ticks(8);
  const auto submission = runs::read_submission(base::posix_file_system(), run(id).directory);
  ASSERT_TRUE(submission);
  EXPECT_EQ(submission->wanted, runs::Wanted::Cancel);
  EXPECT_THAT(submission->tags, ElementsAre("last"));
  EXPECT_EQ(submission->note, "");
  EXPECT_EQ(submission->owner, "uid 7");
}

// A visit that began before had the old ones to write.
TEST_F(LabelsTest, AreWrittenAgainWhereSomethingElseWroteTheOldOnes) {
  const std::string id = submit();
  ticks();
  controller_->label(id, {{{"new"}}, {}, {}, {}});
  auto submission = runs::read_submission(base::posix_file_system(), run(id).directory);
  submission->tags = {"old"};
  runs::write_submission(base::posix_file_system(), run(id).directory, *submission);
  ticks();
  submission = runs::read_submission(base::posix_file_system(), run(id).directory);
  EXPECT_THAT(submission->tags, ElementsAre("new"));
}

TEST_F(LabelsTest, AreAnEventOnceAndOfAnyRun) {
  const std::string id = submit();
  ticks();
  scheduler_.end("h1", 0);
  ticks(8);
  ASSERT_TRUE(runs::is_over(state(id)));
  for (int i = 0; i < 2; ++i) controller_->label(id, {{}, {"a"}, {}, "n"}, "uid 8");
  store::EventFilter labelled;
  labelled.kinds = {"run.labelled"};
  const std::vector<store::Event> events = store_->events_after(labelled, 0, 10).events;
  ASSERT_EQ(events.size(), 1U) << "the second changed nothing";
  EXPECT_EQ(events[0].words, "tags: a; n");
  EXPECT_EQ(events[0].by, "uid 8");
  EXPECT_THROW((void)controller_->label(id, {{}, {"a b"}, {}, {}}), base::Error);
  EXPECT_THROW((void)controller_->label("nobody", {}), base::Error);
  controller_->remove(id, {});
  EXPECT_THAT(ids(of_tag("a")), IsEmpty());
}

}  // namespace
}  // namespace regatta::orchestrator
