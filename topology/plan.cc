#include "topology/plan.h"

#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::topology {

Plan default_plan(int tensor_count) {
  Plan plan;
  plan.buckets = {{0, tensor_count}};
  plan.why = "one rank reduces nothing, so one bucket holds every gradient";
  return plan;
}

std::string to_json(const Plan& plan) {
  nlohmann::ordered_json json;
  json["ranks"] = plan.ranks;
  auto ends = nlohmann::ordered_json::array();
  for (const Bucket& bucket : plan.buckets) ends.push_back(bucket.end_tensor);
  json["bucket_ends"] = ends;
  json["why"] = plan.why;
  json["measured"] = plan.measured;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Plan parse_plan(const std::string& text, const std::string& source, int tensor_count) {
  base::Table table = base::Table::parse(text, source);
  Plan plan;
  table.read("ranks", &plan.ranks);
  if (plan.ranks < 1) table.fail("ranks", "use at least 1");
  std::vector<std::string> ends;
  table.read("bucket_ends", &ends);
  table.read("why", &plan.why);
  table.read("measured", &plan.measured);
  table.finish();
  int begin = 0;
  for (const std::string& text_end : ends) {
    const auto end = base::parse_integer(text_end);
    if (!end) {
      table.fail("bucket_ends",
                 "expected whole numbers, found '" + base::printable(text_end.substr(0, 80)) + "'");
    }
    if (*end <= begin || *end > tensor_count) {
      table.fail("bucket_ends", "must grow from 1 to the number of tensors, " +
                                    std::to_string(tensor_count) + "; found " + text_end);
    }
    plan.buckets.push_back({begin, static_cast<int>(*end)});
    begin = static_cast<int>(*end);
  }
  if (begin != tensor_count) {
    table.fail("bucket_ends", "must end at the number of tensors, " + std::to_string(tensor_count));
  }
  return plan;
}

}  // namespace regatta::topology
