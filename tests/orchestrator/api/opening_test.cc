// What a controller answers while it starts, and where its store does not answer.
#include "orchestrator/api/opening.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "orchestrator/api/api.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using OpeningJson = nlohmann::ordered_json;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

class OpeningTest : public ControllerFixture {
 protected:
  OpeningTest() : ControllerFixture(1) {
    ApiOptions options{folder_.path()};
    options.commit = kCommit;
    api_ = std::make_unique<Api>(*controller_, base::posix_file_system(), clock_, options);
  }
  Response get(const std::string& path) {
    Request request;
    request.method = "GET";
    request.path = path;
    return opening_.answer(request);
  }
  OpeningJson version() {
    const Response response = get("/api/v1/version");
    EXPECT_EQ(response.status, 200) << response.body;
    return OpeningJson::parse(response.body);
  }

  std::unique_ptr<Api> api_;
  Opening opening_{folder_.path() / "runs", folder_.path(), kCommit};
};

TEST_F(OpeningTest, IsAliveAndNotReadyUntilItIsOpen) {
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(OpeningJson::parse(get("/readyz").body)["ready"], false);
  opening_.open(api_.get());
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(OpeningJson::parse(get("/readyz").body)["ready"], true);
  EXPECT_EQ(get("/healthz").status, 200);
}

TEST_F(OpeningTest, TellsItsCommitBeforeAndAfter) {
  EXPECT_EQ(version()["commit"], kCommit);
  EXPECT_TRUE(version()["scheduler"].is_null());
  opening_.open(api_.get());
  EXPECT_EQ(version()["commit"], kCommit);
  EXPECT_EQ(version()["scheduler"], "scripted");
}

// All connections that read the store are in use, and who waits for one is not told to wait on.
TEST_F(OpeningTest, IsNotReadyWhereTheStoreDoesNotAnswer) {
  opening_.open(api_.get());
  {
    const std::array<store::Snapshot, 8> all = {
        store_->snapshot(), store_->snapshot(), store_->snapshot(), store_->snapshot(),
        store_->snapshot(), store_->snapshot(), store_->snapshot(), store_->snapshot()};
    EXPECT_EQ(get("/readyz").status, 503);
    EXPECT_EQ(get("/healthz").status, 200) << "nobody is to start it again for that";
  }
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(OpeningTest, RequestsWaitForIt) {
  std::thread opens([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    opening_.open(api_.get());
  });
  EXPECT_EQ(get("/api/v1/runs").status, 200);
  opens.join();
}

TEST_F(OpeningTest, OfOneThatGivesUpNobodyWaits) {
  opening_.give_up();
  const Response response = get("/api/v1/runs");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.count("Retry-After"), 1U);
}

}  // namespace
}  // namespace regatta::orchestrator::api
