// Any bytes are a journal: nothing crashes, every byte is consumed or waits for its line's end, and
// a record that was read is written and read again unchanged.
#include "trainer/contract/journal.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

using regatta::base::check;
using regatta::trainer::contract::JournalChunk;
using regatta::trainer::contract::JournalRecord;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const JournalChunk chunk = regatta::trainer::contract::parse_journal(bytes);
  check(chunk.consumed <= size, "no more is consumed than there is");
  for (const JournalRecord& record : chunk.records) {
    const std::string line = regatta::trainer::contract::to_line(record);
    check(line.find('\n') == line.size() - 1, "a record is one line");
    const auto again =
        regatta::trainer::contract::parse_record(std::string_view(line).substr(0, line.size() - 1));
    check(again.has_value(), "what was written is a record");
    check(regatta::trainer::contract::to_line(*again) == line,
          "a record does not change by being copied");
  }
  return 0;
}
