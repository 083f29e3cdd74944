// Any bytes are a plan.tuner that is written again just so, or one clear error; any text is a table
// of NVIDIA's example plug-in, or one clear error.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "topology/plan/tuner_table.h"
#include "topology/tuner/plan_file.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

void check_error(const regatta::base::Error& error) {
  check(error.code() == regatta::base::Code::User, "a bad table is the user's to change");
  check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
}

void read_file(std::string_view bytes) {
  try {
    const plan::TunerTable table = plan::parse_tuner_file(bytes, "plan.tuner");
    check(plan::to_tuner_file(table) == bytes, "what was read is written as it was");
    (void)plan::nccl_variables(table, 1, std::uint64_t{1} << 30);
    (void)plan::parse_example_csv(plan::to_example_csv(table), "written");
  } catch (const regatta::base::Error& error) {
    check_error(error);
  }
}

// The fuzzer cannot find a checksum: the same bytes with the right one.
void read_with_checksum(std::string bytes) {
  if (bytes.size() < sizeof(tuner::FileHead)) return;
  const std::uint64_t sum = tuner::checksum_of(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + offsetof(tuner::FileHead, checksum), &sum, sizeof sum);
  read_file(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_file(bytes);
  read_with_checksum(bytes);
  try {
    const plan::TunerTable table = plan::parse_example_csv(bytes, "table.csv");
    const std::string text = plan::to_example_csv(table);
    check(plan::to_example_csv(plan::parse_example_csv(text, "written")) == text,
          "what was written reads back");
  } catch (const regatta::base::Error& error) {
    check_error(error);
  }
  return 0;
}
