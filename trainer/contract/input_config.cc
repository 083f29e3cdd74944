#include "trainer/contract/input_config.h"

#include <nlohmann/json.hpp>

#include "base/document.h"
#include "trainer/contract/read_range.h"

namespace regatta::trainer::contract {

void read_input(base::Table& root, InputConfig* input) {
  base::Table table = root.table("input");
  read_range(table, "workers", &input->workers, 0, kMostInputWorkers);
  read_range(table, "prefetch", &input->prefetch, 0, kMostPrefetch);
  table.finish();
}

nlohmann::ordered_json input_json(const InputConfig& input) {
  return {{"workers", input.workers}, {"prefetch", input.prefetch}};
}

}  // namespace regatta::trainer::contract
