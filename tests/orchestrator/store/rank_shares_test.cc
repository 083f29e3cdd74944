// What the store keeps of what each rank did.
#include <gtest/gtest.h>

#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

TEST(RankShares, TheNewestOfEachAttemptAreKept) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  const runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempts[2];
  for (int i = 0; i < 2; ++i) {
    attempts[i].row = store.add_attempt(run.number, i + 1, "0123456789abcdef");
    EXPECT_FALSE(store.rank_shares(attempts[i].row));
    std::vector<trainer::contract::JournalRecord> records(3);
    for (int step = 0; step < 2; ++step) {
      records[static_cast<std::size_t>(step)].body =
          trainer::contract::RanksRecord{step + 1, {100, 200 + i}, {0.5, 0.25 * step}};
    }
    records[2] = step_record(3, 3);  // says nothing of ranks, and changes nothing
    store.append(run, attempts[i], records);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(store.rank_shares(attempts[i].row),
              (store::RankShares{2, {100.0, 200.0 + i}, {0.5, 0.25}}));
  }
  trainer::contract::JournalRecord uneven;
  uneven.sequence = 9;
  uneven.body = trainer::contract::RanksRecord{4, {1, 2, 3}, {0.5}};
  store.append(run, attempts[1], {uneven});
  EXPECT_EQ(store.rank_shares(attempts[1].row), (store::RankShares{4, {1.0}, {0.5}}));
}

}  // namespace
}  // namespace regatta::orchestrator
