// What plans gain over 25 MB buckets by measurements of other machines.
//   plan_bench [LOGS]      one JSON on stdout; LOGS: ../shared/topologies/nccl-tests
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/orchestrator/plan/judged_plans.h"

int main(int count, char** arguments) {
  try {
    const std::string logs =
        count > 1 ? arguments[1] : std::string(REGATTA_SHARED_DIR) + "/topologies/nccl-tests";
    nlohmann::ordered_json json = {{"benchmark", "plan"},
                                   {"model", "large"},
                                   {"samples_per_rank", 16},
                                   {"lengths", "lengths_wikipedia_512.csv"}};
    double worst = 1;
    for (const auto& row : regatta::tests::judge_plans(REGATTA_SOURCE_DIR, logs)) {
      worst = std::min(worst, row.gain());
      json["plans"].push_back({{"cluster", row.cluster},
                               {"nodes", row.nodes},
                               {"ranks", row.ranks},
                               {"judge", row.judge},
                               {"cut", row.cut},
                               {"buckets", row.buckets},
                               {"step_seconds", row.planned_seconds},
                               {"step_seconds_25_mb", row.standard_seconds},
                               {"gain", row.gain()},
                               {"worst_ratio", row.worst_ratio}});
    }
    json["least_gain"] = worst;
    std::printf("%s\n", json.dump(1).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_bench: %s\n", regatta::base::printable(error.what()).c_str());
    return 1;
  }
}
