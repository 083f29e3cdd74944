// A run of thousands of launches and attempts: nothing of it is left out, by the controller or by
// what it answers.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/api/api.h"
#include "orchestrator/store/database.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

constexpr int kManyAttempts = 3000;

class ManyAttempts : public ControllerFixture {
 protected:
  ManyAttempts() : ControllerFixture(1) {}

  // Its only launch becomes the newest of many, of which each had an attempt.
  void give_it_a_past(const std::string& id) {
    const std::string number = std::to_string(runs::row_of(run(id).number));
    const std::string count = std::to_string(kManyAttempts);
    close();
    {
      store::Database database(folder_.path() / "state" / "store.sqlite",
                               store::Database::Access::ReadWrite);
      store::Transaction transaction(database);
      const std::string each = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n ";
      database.execute("UPDATE launches SET number = " + count + ", attempts_before = " + count +
                       " - 1 WHERE run = " + number);
      database.execute(each + "WHERE i < " + count + " - 1) " +
                       "INSERT INTO launches(run, number, token, handle, attempts_before, "
                       "started_utc, over, exit_code) SELECT " +
                       number + ", i, 'past' || i, 'past' || i, i - 1, 1.7e9 - " + count +
                       " + i, 1, 75 FROM n");
      database.execute(each + "WHERE i < " + count + ") " +
                       "INSERT INTO attempts(run, number, execution, started, start_utc, "
                       "first_step_begin, last_seconds, training_seconds) SELECT " +
                       number + ", i, printf('%016x', i), 1, 1.7e9 - " + count +
                       " + i, 0, 0.5, 0.5 FROM n");
      transaction.commit();
    }
    open();
  }
};

TEST_F(ManyAttempts, AreAllThere) {
  const std::string id = submit();
  ticks();
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  give_it_a_past(id);
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "its newest launch is the one that goes on";
  EXPECT_EQ(store_->launches(run(id).number).size(), static_cast<std::size_t>(kManyAttempts));
  EXPECT_EQ(store_->attempts(run(id).number).size(), static_cast<std::size_t>(kManyAttempts));
  Api api(*controller_, base::posix_file_system(), clock_, {folder_.path()});
  Request request;
  request.method = "GET";
  request.path = "/api/v1/runs/" + id + "/attempts";
  const Response response = api.handle(request);
  ASSERT_EQ(response.status, 200) << response.body;
  const auto attempts = nlohmann::ordered_json::parse(response.body)["attempts"];
  ASSERT_EQ(attempts.size(), static_cast<std::size_t>(kManyAttempts));
  for (int i = 0; i < kManyAttempts; ++i) {
    ASSERT_EQ(attempts[static_cast<std::size_t>(i)]["attempt"], i + 1);
    ASSERT_EQ(attempts[static_cast<std::size_t>(i)]["launch"], i + 1);
  }
}

}  // namespace
}  // namespace regatta::orchestrator::api
