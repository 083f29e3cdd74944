#include "orchestrator/api/health.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "orchestrator/api/api.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

class HealthTest : public ControllerFixture {
 protected:
  HealthTest() : ControllerFixture(1) {}
};

TEST_F(HealthTest, AWebhookThatIsGivenUpIsNotInOrder) {
  webhooks::Status pager, chat;
  pager.name = "pager";
  chat.name = "chat";
  pager.place.failures = 7;
  const auto health = [&](const std::vector<webhooks::Status>& webhooks) {
    return health_json(*controller_, 0, base::posix_file_system(), nullptr, webhooks);
  };
  EXPECT_EQ(health({pager, chat})["status"], "ok") << "it is tried again";
  pager.place.dead = true;
  const auto told = health({pager, chat});
  EXPECT_EQ(told["status"], "degraded");
  EXPECT_EQ(told["checks"].back()["name"], "webhooks");
  EXPECT_THAT(std::string(told["checks"].back()["detail"]),
              AllOf(HasSubstr("pager given up"), Not(HasSubstr("chat"))));
  EXPECT_EQ(health({})["checks"].size(), 3U) << "there are none";
}

TEST_F(HealthTest, SaysWhatAskingSlurmCosts) {
  const auto polling = [&] {
    return health_json(*controller_, 0, base::posix_file_system(), nullptr)["polling"];
  };
  EXPECT_TRUE(polling().is_null()) << "nobody is asked";
  scheduler_.asked = runs::Asking{7, 12, 0.25, 90};
  EXPECT_EQ(polling(), nlohmann::ordered_json::parse(
                           R"({"calls": 7, "most_calls": 12.0, "call_seconds": 0.25,
                               "paused_seconds": 90.0})"));
}

}  // namespace
}  // namespace regatta::orchestrator::api
