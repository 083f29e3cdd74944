#include "orchestrator/cli/node_pages.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kNodesPause = std::chrono::milliseconds(500);
constexpr const char* kWholePage = "/nodes?full=true&limit=1000";

std::string next_of(const Json& answer) {
  const auto next = answer.find("next");
  return next != answer.end() && next->is_string() ? next->get<std::string>() : "";
}

}  // namespace

bool is_fresh(const Json& answer, const Patience& patience) {
  const auto age = answer.find("age_seconds");
  return age != answer.end() && age->is_number() && age->get<double>() <= patience.age_seconds;
}

Json fetch_nodes(const Client& client, const NodeFilters& filters, const Patience& patience) {
  std::string query = kWholePage;
  for (const auto& [name, value] : filters) query += "&" + name + "=" + path_part(value);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(patience.wait_seconds);
  Json answer = client.get(query);
  while (!is_fresh(answer, patience) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kNodesPause);
    answer = client.get(query);
  }
  std::string next = next_of(answer);
  while (!next.empty()) {
    Json page = client.get(query + "&after=" + path_part(next));
    for (Json& node : page.at("nodes")) answer["nodes"].push_back(std::move(node));
    const std::string after = next_of(page);
    next = after > next ? after : "";  // of a controller that goes in circles
  }
  answer.erase("next");
  return answer;
}

}  // namespace regatta::orchestrator::cli
