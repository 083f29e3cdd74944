// One webhook with a receiver and a clock that do as told, across restarts of its store.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.h"
#include "orchestrator/webhooks/webhooks.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::webhooks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CourierTest : public testing::Test {
 protected:
  void SetUp() override {
    tests::write_file(folder_.path() / "secret", "0123456789abcdef\n");
    ::chmod((folder_.path() / "secret").c_str(), 0600);
    setting_ = {"pager", "https://example.org/hidden", {}, folder_.path() / "secret", false};
    settings_.body = [](const store::Event& event) { return event.words; };
    restart();
  }
  void restart() {
    courier_.reset();
    store_.reset();
    store_ =
        std::make_unique<store::Store>(folder_.path() / "state", store::StoreOptions{{}, &clock_});
    courier_ = std::make_unique<Courier>(*store_, clock_, settings_, setting_,
                                         [this](const Sending& sending, const std::stop_token&) {
                                           ++tries_;
                                           if (meanwhile_) meanwhile_();
                                           if (!answer_.empty()) return HookAnswer{answer_, wish_};
                                           headers_ = sending.headers;
                                           sent_.push_back(sending.body);
                                           return HookAnswer{};
                                         });
  }
  void note(const std::string& words, const char* kind = "run.failed") {
    store::Event event;
    event.kind = kind;
    event.words = words;
    store_->note(event);
  }
  void step() { courier_->step({}); }
  // What was sent since the last call.
  std::vector<std::string> sent() {
    step();
    return std::exchange(sent_, {});
  }
  [[nodiscard]] Status status() const { return courier_->status(); }
  std::vector<std::string> kinds() {
    std::vector<std::string> kinds;
    for (const store::Event& each : store_->events_after({}, 0, 1000).events) {
      if (each.kind.rfind("webhook.", 0) == 0) kinds.push_back(each.kind);
    }
    return kinds;
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  Settings settings_;
  site::WebhookSetting setting_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Courier> courier_;
  std::string answer_;  // of the receiver; empty: 2xx
  double wish_ = 0;     // its Retry-After
  std::function<void()> meanwhile_;
  std::vector<std::string> sent_, headers_;
  int tries_ = 0;
};

TEST_F(CourierTest, TellsWhatHappensFromNowOnInOrder) {
  EXPECT_THAT(sent(), IsEmpty());
  note("a");
  note("b");
  EXPECT_THAT(sent(), ElementsAre("a", "b"));
  EXPECT_THAT(sent(), IsEmpty());
  restart();
  note("c");
  EXPECT_THAT(sent(), ElementsAre("c"));
  EXPECT_EQ(status().waiting, 0);
  EXPECT_THAT(status().url, "https://example.org");
}

TEST_F(CourierTest, OfANewNameHasNoHistory) {
  note("a");
  setting_.name = "other";
  restart();
  EXPECT_THAT(sent(), IsEmpty());
  note("b");
  EXPECT_THAT(sent(), ElementsAre("b"));
}

TEST_F(CourierTest, TellsHundredsAtOnce) {
  for (int i = 0; i < 230; ++i) note(std::to_string(i));
  const std::vector<std::string> all = sent();
  ASSERT_EQ(all.size(), 230U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::to_string(i));
}

TEST_F(CourierTest, TellsOnlyTheKindsThatAreWanted) {
  setting_.kinds = {"node", "run.failed"};
  setting_.name = "some";
  restart();
  note("a", "run.queued");
  note("b", "node.down");
  note("c", "run.failed");
  note("d", "run.failed_not");
  EXPECT_EQ(status().waiting, 2);
  EXPECT_THAT(sent(), ElementsAre("b", "c"));
  setting_.kinds = {"run.lost"};
  EXPECT_THROW(restart(), base::Error);
}

TEST_F(CourierTest, SignsWhatItSends) {
  note("what happened");
  EXPECT_THAT(sent(), ElementsAre("what happened"));
  // python3 -c "import hmac; print(hmac.new(b'0123456789abcdef', b'1700000000.what happened',
  // 'sha256').hexdigest())"
  EXPECT_THAT(headers_, testing::Contains("X-Regatta-Timestamp: 1700000000"));
  EXPECT_THAT(
      headers_,
      testing::Contains("X-Regatta-Signature: "
                        "sha256=bdbb76b4cc861da8f1fdba7a3cb30e89382e1ffcb44145e7c4bbd74d6adcf6e0"));
  EXPECT_THAT(headers_, testing::Contains("X-Regatta-Event: run.failed"));
}

TEST_F(CourierTest, KeepsTheOrderAndPausesWhileItFails) {
  answer_ = "status 500";
  note("a");
  note("b");
  std::vector<double> pauses;
  for (int i = 0; i < 12; ++i) {
    step();
    EXPECT_EQ(tries_, i + 1);
    const double next = status().place.next_try_utc - clock_.utc_seconds();
    pauses.push_back(next);
    clock_.now += next - 0.01;
    step();
    EXPECT_EQ(tries_, i + 1) << "not before its time";
    restart();  // nor after a restart
    step();
    EXPECT_EQ(tries_, i + 1);
    clock_.now += 0.02;
  }
  for (std::size_t i = 0; i < pauses.size(); ++i) {
    const double whole = std::min(300.0, std::exp2(static_cast<double>(i)));
    EXPECT_LE(pauses[i], whole) << i;
    EXPECT_GE(pauses[i], whole / 2) << i;
  }
  EXPECT_EQ(status().place.error, "status 500");
  EXPECT_EQ(status().waiting, 2);
  answer_.clear();
  EXPECT_THAT(sent(), ElementsAre("a", "b"));
  EXPECT_EQ(status().place.failures, 0);
  EXPECT_EQ(status().place.error, "");
}

TEST_F(CourierTest, WaitsAsLongAsTheReceiverAsks) {
  answer_ = "status 429";
  note("a");
  for (const auto& [wish, least, most] :
       {std::tuple{30.0, 30.0, 30.0}, {1e6, 3600.0, 3600.0}, {0.5, 2.0, 4.0}}) {
    wish_ = wish;
    step();
    const double next = status().place.next_try_utc - clock_.utc_seconds();
    EXPECT_GE(next, least);
    EXPECT_LE(next, most);
    clock_.now += next + 0.01;
  }
}

TEST_F(CourierTest, DiesAfterThreeDaysAndIsRevived) {
  answer_ = "status 500";
  note("a");
  step();
  const int most = 3 * 24 * 3600 / 150 + 20;
  while (!status().place.dead && tries_ < most) {
    clock_.now += 300;
    step();
  }
  EXPECT_NEAR(clock_.now, 3 * 24 * 3600, 600);
  EXPECT_THAT(kinds(), ElementsAre("webhook.dead"));
  const int tries = tries_;
  restart();
  clock_.now += 24 * 3600;
  step();
  EXPECT_EQ(tries_, tries) << "dead it stays";
  answer_.clear();
  EXPECT_TRUE(courier_->redeliver("token"));
  EXPECT_THAT(sent(), testing::Contains("a"));
  EXPECT_FALSE(courier_->redeliver("token")) << "nothing fails";
  EXPECT_THAT(kinds(), ElementsAre("webhook.dead", "webhook.revived"));
}

TEST_F(CourierTest, IsTriedAnewAtAnotherAddress) {
  answer_ = "status 500";
  note("a");
  step();
  answer_.clear();
  setting_.url = "https://example.org/other";
  restart();
  EXPECT_THAT(sent(), ElementsAre("a"));
}

TEST_F(CourierTest, GoesOnWithoutAnEvent) {
  answer_ = "status 400";
  note("bad");
  note("good");
  EXPECT_FALSE(courier_->skip("token")) << "nothing has failed so far";
  step();
  restart();
  EXPECT_TRUE(courier_->skip("token"));
  answer_.clear();
  const std::vector<std::string> all = sent();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), "good");
  EXPECT_THAT(kinds(), ElementsAre("webhook.skipped"));
}

TEST_F(CourierTest, IsSkippedWhileItIsBeingTold) {
  answer_ = "status 400";
  note("bad");
  step();
  clock_.now += 10;
  meanwhile_ = [this] { (void)courier_->skip("token"); };
  step();
  meanwhile_ = nullptr;
  EXPECT_EQ(status().place.failures, 0) << "a failure of what was skipped is none";
}

TEST_F(CourierTest, NeedsASecretThatNobodyElseReads) {
  note("a");
  ::chmod((folder_.path() / "secret").c_str(), 0640);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_THAT(status().place.error, HasSubstr("chmod 600"));
  ::chmod((folder_.path() / "secret").c_str(), 0600);
  clock_.now += 10;
  EXPECT_THAT(sent(), ElementsAre("a")) << "it is read every time";
  tests::write_file(folder_.path() / "secret", "short\n");
  EXPECT_THROW((void)read_secret(folder_.path() / "secret"), base::Error);
  EXPECT_THROW((void)read_secret(folder_.path()), base::Error);
  EXPECT_THROW((void)read_secret(folder_.path() / "none"), base::Error);
}

TEST_F(CourierTest, KeepsNodesKnownForWhoWantsTheirEvents) {
  slurm::NodeTable table;
  settings_.nodes = &table;
  setting_.kinds = {"run"};
  restart();
  step();
  EXPECT_FALSE(table.is_wanted(clock_.monotonic_seconds()));
  setting_.kinds = {"node.down"};
  restart();
  step();
  EXPECT_TRUE(table.is_wanted(clock_.monotonic_seconds()));
}

TEST(Webhooks, AreRefusedWhereTheyCannotBe) {
  const tests::TemporaryDirectory folder;
  tests::write_file(folder.path() / "secret", "0123456789abcdef");
  ::chmod((folder.path() / "secret").c_str(), 0600);
  store::Store store(folder.path() / "state");
  const site::WebhookSetting good = {
      "a", "https://example.org/", {}, folder.path() / "secret", false};
  const auto refused = [&](const std::vector<site::WebhookSetting>& settings) -> std::string {
    try {
      Webhooks webhooks(store, base::system_clock(), {settings, "1", {}, nullptr, {}});
      return "";
    } catch (const base::Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refused({good}), "");
  EXPECT_EQ(store.webhooks().size(), 1U);
  EXPECT_EQ(refused({}), "");
  EXPECT_THAT(store.webhooks(), IsEmpty()) << "one that is set no more is forgotten";
  EXPECT_THAT(refused({good, good}), HasSubstr("two webhooks are called a"));
  site::WebhookSetting bad = good;
  bad.kinds = {"run.lost"};
  EXPECT_THAT(refused({bad}), HasSubstr("run.lost"));
  bad = good;
  bad.url = "http://169.254.169.254/";
  EXPECT_THAT(refused({bad}), HasSubstr("link-local"));
  bad = good;
  bad.secret_file = "/nowhere";
  EXPECT_THAT(refused({bad}), HasSubstr("/nowhere"));
  EXPECT_THAT(refused(std::vector<site::WebhookSetting>(17, good)), HasSubstr("16"));
}

}  // namespace
}  // namespace regatta::orchestrator::webhooks
