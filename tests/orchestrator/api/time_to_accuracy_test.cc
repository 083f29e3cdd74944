// How earlier predictions turned out, from a run's journal to the answer of the API.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "orchestrator/api/api.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using AccuracyJson = nlohmann::ordered_json;

// A run whose accuracy grows by 0.025 every 50 s, to 0.475 of its target of 0.5 after 950 s.
class EarlierPredictionsTest : public ControllerFixture {
 protected:
  EarlierPredictionsTest() : ControllerFixture(1) {
    run_ = asked("POST", "/api/v1/runs", tests::run_file());
    tick();
    auto directory = trainer::contract::RunDirectory::open(base::posix_file_system(),
                                                           run_["directory"].get<std::string>());
    journal_.emplace(directory, clock_.utc_seconds());
    journal_->start(0);
    journal_->step(1, 1, 1.0);  // so that seconds of the run are those of the journal
    for (int i = 1; i <= 19; ++i) journal_->evaluation(50 * i, i + 1, 0.025 * i);
    tick();
  }
  void tick() { ticks(5); }
  AccuracyJson asked(const std::string& method, const std::string& path,
                     const std::string& body = "") {
    Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    const Response response = api_.handle(request);
    EXPECT_LT(response.status, 300) << response.body;
    return AccuracyJson::parse(response.body, nullptr, false);
  }
  AccuracyJson account() {
    return asked("GET", "/api/v1/runs/" + run_["id"].get<std::string>() + "/time_to_accuracy");
  }

  Api api_{*controller_, base::posix_file_system(), clock_, {}};
  AccuracyJson run_;
  std::optional<tests::JournalAuthor> journal_;
};

TEST_F(EarlierPredictionsTest, HoldWhereTheRunCrossesWithin) {
  const AccuracyJson open = account()["earlier_predictions"];
  ASSERT_FALSE(open.empty());
  for (const AccuracyJson& each : open) EXPECT_TRUE(each["held"].is_null()) << each;
  const double predicted = open.back()["seconds"];
  ASSERT_GT(predicted, 950);
  journal_->evaluation(predicted, 30, 0.5);
  tick();
  const AccuracyJson told = account();
  const double crossed = told["time_to_accuracy_seconds"];
  EXPECT_NEAR(crossed, predicted, 1e-3);
  ASSERT_EQ(told["earlier_predictions"].size(), open.size());
  for (const AccuracyJson& each : told["earlier_predictions"]) {
    EXPECT_EQ(each["held"],
              each["low"].get<double>() <= crossed && crossed <= each["high"].get<double>())
        << each;
  }
  EXPECT_EQ(told["earlier_predictions"].back()["held"], true);
}

TEST_F(EarlierPredictionsTest, DoNotHoldWhereTheRunStandsStill) {
  ASSERT_FALSE(account()["earlier_predictions"].empty());
  journal_->evaluation(90'000, 30, 0.476);
  tick();
  const AccuracyJson past = account()["earlier_predictions"];
  EXPECT_EQ(past.back()["held"], false) << "the run is past it, wherever it will cross";
  journal_->evaluation(90'050, 31, 0.5);
  tick();
  EXPECT_EQ(account()["earlier_predictions"].back()["held"], false);
}

// An attempt that is over, and a job that pends for ten hours until the run is cancelled, which
// Slurm has not confirmed.
class WaitingOfAStoppingRunTest : public EarlierPredictionsTest {
 protected:
  WaitingOfAStoppingRunTest() {
    clock_.now += 1000;
    tick();
  }
  AccuracyJson time_once_cancelled() {
    const std::string handle = "h" + std::to_string(scheduler_.launches.size());
    scheduler_.reports[handle].state = runs::ProcessState::Waiting;
    tick();
    clock_.now += 36'000;
    controller_->cancel(run_["id"].get<std::string>());
    tick();
    EXPECT_EQ(state(run_["id"].get<std::string>()), runs::RunState::Stopping);
    return account()["time"];
  }
};

TEST_F(WaitingOfAStoppingRunTest, IsNoOtherTimeOfAnEarlierLaunch) {
  EXPECT_LT(account()["time"]["waiting_seconds"].get<double>(), 10) << "the attempt goes on";
  scheduler_.end_by_signal("h1", 9);
  tick();
  clock_.now += 100;
  tick();
  ASSERT_EQ(scheduler_.launches.size(), 2U);
  const AccuracyJson time = time_once_cancelled();
  EXPECT_GE(time["waiting_seconds"].get<double>(), 36'000) << time;
  EXPECT_LT(time["other_seconds"].get<double>(), 1000) << time;
}

TEST_F(WaitingOfAStoppingRunTest, IsNoOtherTimeOfAnAttemptThatEnded) {
  journal_->end(951, 22);
  const AccuracyJson time = time_once_cancelled();
  EXPECT_GE(time["waiting_seconds"].get<double>(), 36'000) << time;
  EXPECT_LT(time["other_seconds"].get<double>(), 1000) << time;
}

}  // namespace
}  // namespace regatta::orchestrator::api
