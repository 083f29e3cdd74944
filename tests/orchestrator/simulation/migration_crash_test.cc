// A migration of every version that ends at every one of its writes: by a kill, by a loss of power,
// by a disk that fails.
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "orchestrator/store/migration.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/simulation/crash_vfs.h"
#include "tests/orchestrator/store/old_store.h"

namespace regatta::tests::simulation {
namespace {

using namespace orchestrator;
using Rows = std::map<std::string, std::vector<ColumnValues>>;

constexpr const char* kFile = "/s/store.sqlite";

enum class End { Kill, PowerLoss };

class Migrations : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<store::Database> file() {
    return std::make_unique<store::Database>(kFile, store::Database::Access::ReadWrite,
                                             vfs_.name());
  }
  // Whether it came to its end.
  bool migrate() {
    try {
      const store::Store opened("/s", store::StoreOptions{vfs_.name()});
      return true;
    } catch (const base::Error&) {
      return false;
    }
  }
  void make_old() {
    vfs_.remove_all();
    life_.begin();
    const auto old = file();
    make_old_store(*old, GetParam());
    before_ = all_rows(*old);
    old->execute("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  // False: it needs fewer steps.
  bool ends_at(std::int64_t step, End end) {
    make_old();
    vfs_.forget_locks();
    life_.end_at(step);
    const bool done = migrate();
    const bool died = life_.dead();
    if (end == End::PowerLoss) {
      vfs_.lose_power();
    } else {
      vfs_.forget_locks();
    }
    life_.begin();
    {
      const auto left = file();
      const std::int64_t version = store::version_of(*left);
      EXPECT_TRUE(version == GetParam() || version == store::kSchemaVersion) << version;
      if (version == GetParam()) {
        EXPECT_EQ(all_rows(*left), before_) << step;
      }
    }
    EXPECT_TRUE(migrate()) << "by the next start, after step " << step;
    {
      const auto today = file();
      EXPECT_EQ(store::version_of(*today), store::kSchemaVersion);
      EXPECT_EQ(all_rows(*today), after_) << step;
    }
    return died || !done;
  }

  Chance chance_{5};
  Life life_;
  CrashVfs vfs_{life_, chance_};
  Rows before_, after_;
};
// Every fourth of them, and all with the slow tests.
INSTANTIATE_TEST_SUITE_P(Versions, Migrations,
                         testing::Range(1, store::kSchemaVersion, REGATTA_SLOW ? 1 : 4));

TEST_P(Migrations, AreDoneOrNotDone) {
  make_old();
  ASSERT_TRUE(migrate());
  after_ = all_rows(*file());
  ASSERT_EQ(lost_by_migration(before_, after_, GetParam()), "");
  // In turn, since what is there after the one is there after the other.
  std::int64_t step = 1;
  while (ends_at(step, step % 2 == 0 ? End::Kill : End::PowerLoss) && !HasFailure()) ++step;
  EXPECT_GT(step, 5) << "it writes more than that";
}

}  // namespace
}  // namespace regatta::tests::simulation
