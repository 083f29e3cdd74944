#include "tests/orchestrator/store/filled_stack.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace regatta::tests {

nlohmann::ordered_json FilledStack::json(const std::string& path,
                                         const std::map<std::string, std::string>& query) {
  const orchestrator::api::Response response = get(path, query);
  EXPECT_EQ(response.status, 200) << path << response.body;
  return nlohmann::ordered_json::parse(response.body);
}

}  // namespace regatta::tests
