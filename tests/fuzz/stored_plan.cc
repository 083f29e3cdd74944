// Any bytes are a stored plan whose text is one again, or one clear error.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "topology/plan/plan_store.h"

using regatta::base::check;
using namespace regatta::topology;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const plan::StoredPlan stored = plan::parse_stored_plan(text, "x.json", std::nullopt);
    check(stored.plan.ranks == stored.key.ranks, "plan and key agree");
    check(!stored.plan.buckets.empty(), "a stored plan cuts");
    const std::string written = plan::to_json(stored);
    const plan::StoredPlan again = plan::parse_stored_plan(written, "x.json", std::nullopt);
    check(plan::to_json(again) == written, "what was written reads back");
    check(again.key == stored.key, "of the same key");
    check(plan::plan_file_name(stored.key).size() == 37, "a file's name is 32 digits");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is nobody's bug");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
