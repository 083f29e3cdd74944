// What a client takes for the bytes of a file.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "orchestrator/api/server.h"
#include "orchestrator/cli/client.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  int status;
  std::uint64_t offset;
  const char* taken;  // null: an error
};

class ClientDownload : public testing::TestWithParam<Case> {};

TEST_P(ClientDownload, TakesWhatWasAskedFor) {
  api::HttpServer server({"127.0.0.1", 0, {}, {}}, [](const api::Request&) {
    api::Response response;
    response.status = GetParam().status;
    response.content_type = "text/plain";
    response.body = "bytes";
    return response;
  });
  server.start();
  const cli::Client client({server.url()}, 20);
  std::string taken, error;
  try {
    client.download("/file", GetParam().offset, [&](std::string_view bytes) { taken += bytes; });
  } catch (const base::Error& thrown) {
    EXPECT_EQ(thrown.code(), base::Code::Retry);
    error = thrown.what();
  }
  EXPECT_EQ(taken, GetParam().taken == nullptr ? "" : GetParam().taken);
  if (GetParam().taken == nullptr) {
    EXPECT_THAT(error, HasSubstr("status " + std::to_string(GetParam().status)));
  } else {
    EXPECT_EQ(error, "");
  }
}
INSTANTIATE_TEST_SUITE_P(
    Answers, ClientDownload,
    testing::Values(Case{"whole", 200, 0, "bytes"}, Case{"rest", 206, 3, "bytes"},
                    Case{"whole_for_rest", 200, 3, nullptr}, Case{"part", 206, 0, nullptr},
                    Case{"elsewhere", 302, 0, nullptr}, Case{"nothing", 204, 0, nullptr},
                    Case{"unavailable", 503, 0, nullptr}),
    [](const auto& row) { return row.param.name; });

TEST(ClientTrouble, IsToldOnce) {
  std::string trouble;
  api::HttpServer server({"127.0.0.1", 0, {}, {}}, [&](const api::Request&) {
    api::Response response;
    response.body = "{}";
    if (!trouble.empty()) response.headers[api::kTroubleHeader] = trouble;
    return response;
  });
  server.start();
  std::ostringstream told;
  cli::Client client({server.url()}, 20);
  client.tell_troubles(told);
  (void)client.get("/runs");
  EXPECT_EQ(told.str(), "");
  trouble = "the controller cannot write its store: its disk is full";
  for (int i = 0; i < 3; ++i) (void)client.get("/runs");
  EXPECT_EQ(told.str(), "regatta: " + trouble + "; what it shows stands still\n");
}

}  // namespace
}  // namespace regatta::orchestrator
