// Any text is a cursor of a list or of a search, or a moment, which is written again just so, or
// none. The first byte chooses how the list is sorted.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/api/run_list.h"
#include "orchestrator/control/log_search.h"

using regatta::base::check;
using namespace regatta::orchestrator;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::array kSorts = {store::RunSort::Created, store::RunSort::Ended,
                                 store::RunSort::TimeToAccuracy, store::RunSort::Name};
  store::RunFilter filter;
  filter.sort = kSorts[data[0] % kSorts.size()];
  filter.order =
      data[0] / kSorts.size() % 2 == 0 ? store::SortOrder::Descending : store::SortOrder::Ascending;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const auto place = api::parse_cursor(filter, text)) {
    check(api::cursor_text(filter, *place) == text, "a cursor of a list comes back");
    filter.sort = kSorts[(data[0] + 1) % kSorts.size()];
    check(!api::parse_cursor(filter, text), "and is of no list that is sorted in another way");
  }
  if (const auto place = control::parse_place(text)) {
    check(place->text() == text, "a place of a search comes back");
    check(place->line >= 1 && place->wanted >= 0, "and is in a log");
  }
  if (const auto moment = api::parse_moment(text)) {
    check(*moment > -1e12 && *moment < 1e12, "a year has four digits");
  }
  return 0;
}
