// Step rows rolled up in blocks, against a plain reading of the same rows.
#include "orchestrator/store/step_blocks.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "orchestrator/store/roll_ups.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using store::SeriesFigures;
using store::StepBlock;
using testing::IsEmpty;
using trainer::contract::JournalRecord;
using trainer::contract::StepRecord;

constexpr double kDay = 86400;

const StepRecord& step_of(const JournalRecord& record) { return std::get<StepRecord>(record.body); }

// Journals as runs write them: short steps and long ones, pauses, steps that go back, figures that
// are absent.
std::vector<JournalRecord> journal(std::mt19937* chance, int count, double seconds) {
  std::vector<JournalRecord> records;
  std::exponential_distribution<double> pause(1 / seconds);
  std::uniform_real_distribution<double> share;
  double now = 3.5;
  std::int64_t step = 1;
  for (int i = 0; i < count; ++i) {
    now += share(*chance) < 0.01 ? 40 * pause(*chance) : pause(*chance);
    JournalRecord record = step_record(2 * i + 1, step);
    record.seconds = now;
    auto& body = std::get<StepRecord>(record.body);
    body.loss = share(*chance) < 0.02 ? std::nan("") : 10 * share(*chance);
    body.samples = 1 + static_cast<std::int64_t>(64 * share(*chance));
    body.tokens = 100 * body.samples;
    body.seconds = share(*chance) < 0.02 ? 0 : seconds;
    if (share(*chance) < 0.1) body.goodput = share(*chance);
    records.push_back(record);
    step = share(*chance) < 0.004 ? std::max<std::int64_t>(1, step - 30) : step + 1;
  }
  return records;
}

// Of some rows, said again by plain means.
struct Plain {
  double low = 1e300, high = -1e300, last = 0, sum = 0;
  std::int64_t count = 0;
};
template <typename Of>
void expect_figures(const SeriesFigures& figures, const std::vector<JournalRecord>& rows,
                    const Of& of) {
  Plain plain;
  for (const JournalRecord& row : rows) {
    const double value = of(step_of(row));
    if (!std::isfinite(value)) continue;
    plain.low = std::min(plain.low, value);
    plain.high = std::max(plain.high, value);
    plain.last = value;
    plain.sum += value;
    ++plain.count;
  }
  ASSERT_EQ(figures.count, plain.count);
  if (plain.count == 0) return;
  EXPECT_EQ(figures.low, plain.low);
  EXPECT_EQ(figures.high, plain.high);
  EXPECT_EQ(figures.last, plain.last);
  EXPECT_NEAR(figures.sum, plain.sum, 1e-9 * std::fabs(plain.sum));
}

const std::vector<std::string> kAsked = {"tokens_per_second", "loss", "goodput"};

class StepBlocks : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    store_ = std::make_unique<store::Store>(folder_.path() / "state");
  }
  runs::Run add(const std::string& id) { return *store_->run(store_->add_run(new_run(id))); }
  runs::Attempt attempt_of(const runs::Run& run, int number = 1) {
    const auto row = store_->add_attempt(run.number, number, "x" + std::to_string(number));
    for (const runs::Attempt& each : store_->attempts(run.number)) {
      if (each.row == row) return each;
    }
    throw std::logic_error("the attempt is there");
  }
  void end(runs::Run* run, double utc) {
    run->state = runs::RunState::Succeeded;
    run->ended_utc = utc;
    run->drained = true;
    store_->update_run(*run);
  }
  // Until nothing is left to do.
  int roll_up(const runs::Run& run, const store::KeptSteps& kept, double now) {
    int pieces = 0;
    while (store_->roll_up(run.number, kept, now)) ++pieces;
    return pieces;
  }
  std::vector<StepBlock> rows_of(runs::AttemptNumber attempt, const StepBlock& block) {
    std::vector<StepBlock> rows;
    const auto parts = store_->parts_of(attempt, block, kAsked);
    if (parts.empty()) return {block};
    for (const StepBlock& part : parts) {
      for (const StepBlock& row : rows_of(attempt, part)) rows.push_back(row);
    }
    return rows;
  }

  tests::TemporaryDirectory folder_;
  std::unique_ptr<store::Store> store_;
};

// Every block of every level: its rows are those between its ends, in one span, growing, at most so
// many, and a row more would break one of these.
void check_block(const StepBlock& block, const std::vector<JournalRecord>& journal,
                 std::vector<JournalRecord>* rows) {
  rows->clear();
  for (const JournalRecord& record : journal) {
    if (record.sequence >= block.sequence && record.sequence <= block.last_sequence) {
      rows->push_back(record);
    }
  }
  ASSERT_EQ(static_cast<std::int64_t>(rows->size()), block.rows);
  EXPECT_EQ(step_of(rows->front()).step, block.step);
  EXPECT_EQ(step_of(rows->back()).step, block.last_step);
  EXPECT_EQ(rows->front().seconds, block.seconds);
  EXPECT_EQ(rows->back().seconds, block.last_seconds);
  for (std::size_t i = 1; i < rows->size(); ++i) {
    EXPECT_GT(step_of((*rows)[i]).step, step_of((*rows)[i - 1]).step);
  }
  expect_figures(block.figures.at(0), *rows, [](const StepRecord& step) {
    return step.seconds > 0 ? static_cast<double>(step.tokens) / step.seconds : std::nan("");
  });
  expect_figures(block.figures.at(1), *rows, [](const StepRecord& step) { return step.loss; });
  expect_figures(block.figures.at(2), *rows,
                 [](const StepRecord& step) { return step.goodput.value_or(std::nan("")); });
}

TEST_F(StepBlocks, AreWhatTheirRowsSay) {
  std::mt19937 chance(7);
  for (const double seconds : {0.02, 0.7, 25.0}) {
    const runs::Run run = add("run-" + std::to_string(seconds));
    const runs::Attempt attempt = attempt_of(run);
    const auto records = journal(&chance, 4000, seconds);
    // In reads of any length, some again, and with other controllers in between.
    for (std::size_t at = 0; at < records.size();) {
      const std::size_t begin = at > 5 && chance() % 4 == 0 ? at - 5 : at;
      const std::size_t end = std::min(records.size(), at + 1 + chance() % 400);
      store_->append(run, attempt,
                     {records.begin() + static_cast<std::ptrdiff_t>(begin),
                      records.begin() + static_cast<std::ptrdiff_t>(end)});
      at = end;
      if (chance() % 8 == 0) open();
    }
    std::vector<StepBlock> level = store_->step_blocks(attempt.row, kAsked);
    ASSERT_EQ(level.empty() ? 0 : level.front().level, 600);
    std::vector<JournalRecord> rows;
    for (int depth = 0; depth < 4; ++depth) {
      std::vector<StepBlock> next;
      std::int64_t seen = 0;
      for (std::size_t i = 0; i < level.size(); ++i) {
        const StepBlock& block = level[i];
        check_block(block, records, &rows);
        seen += block.rows;
        if (i > 0) {
          EXPECT_GT(block.sequence, level[i - 1].last_sequence);
        }
        const auto of = std::find_if(
            store::kBlockLevels.begin(), store::kBlockLevels.end(),
            [&](const store::BlockLevel& each) { return each.seconds == block.level; });
        const auto parts = store_->parts_of(attempt.row, block, kAsked);
        if (of == store::kBlockLevels.end()) {
          EXPECT_EQ(block.rows, 1);
          EXPECT_THAT(parts, IsEmpty());
          next.push_back(block);
          continue;
        }
        EXPECT_LE(block.rows, of->most_rows);
        EXPECT_EQ(std::floor(block.seconds / block.level),
                  std::floor(block.last_seconds / block.level));
        EXPECT_THAT(parts, testing::Not(IsEmpty()));
        next.insert(next.end(), parts.begin(), parts.end());
      }
      EXPECT_EQ(seen, static_cast<std::int64_t>(records.size())) << depth;
      level = next;
    }
    EXPECT_EQ(level.size(), records.size()) << "single rows";
  }
}

// As few as their rule allows: two that follow each other could not be one.
TEST_F(StepBlocks, AreAsLargeAsTheyMayBe) {
  const runs::Run run = add("a");
  const runs::Attempt attempt = attempt_of(run);
  std::vector<JournalRecord> records;
  for (int i = 0; i < 20'000; ++i) {
    records.push_back(step_record(i, i + 1));
    records.back().seconds = i * 0.05;  // 200 in 10 s
  }
  store_->append(run, attempt, records);
  const auto blocks = store_->step_blocks(attempt.row, {"loss"});
  // 600 s are 12,000 steps: 1,000 and 200 of each minute, of which eight fit into 10,000.
  ASSERT_GE(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].rows, 9600);
  EXPECT_EQ(blocks[1].rows, 2400);
  const auto minutes = store_->parts_of(attempt.row, blocks[0], {"loss"});
  ASSERT_EQ(minutes.size(), 16U);
  EXPECT_EQ(minutes[0].rows, 1000);
  EXPECT_EQ(minutes[1].rows, 200);
  EXPECT_EQ(store_->parts_of(attempt.row, minutes[0], {"loss"}).size(), 10U);
}

TEST_F(StepBlocks, AreMadeOfTheRowsOfAnOlderStore) {
  std::mt19937 chance(8);
  const runs::Run run = add("a");
  const runs::Attempt one = attempt_of(run), two = attempt_of(run, 2);
  store_->append(run, one, journal(&chance, 3000, 0.5));
  store_->append(run, two, journal(&chance, 2000, 0.5));
  const auto before = store_->step_blocks(one.row, kAsked);
  const auto after = store_->step_blocks(two.row, kAsked);
  store_.reset();
  {
    store::Database database(folder_.path() / "state" / "store.sqlite",
                             store::Database::Access::ReadWrite);
    database.execute("DELETE FROM step_blocks");
    store::Transaction transaction(database);
    store::make_blocks(database);
    transaction.commit();
  }
  open();
  EXPECT_EQ(store_->step_blocks(one.row, kAsked), before);
  EXPECT_EQ(store_->step_blocks(two.row, kAsked), after);
}

TEST_F(StepBlocks, OfABrokenStoreAreNone) {
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(4, '\xff'),
                                   std::string("\x03\0\0\0text", 8)}) {
    const auto figures = store::unpacked(bytes);
    ASSERT_EQ(figures.size(), store::step_series().size());
    for (const SeriesFigures& each : figures) EXPECT_EQ(each.count, 0);
  }
}

class RolledUp : public StepBlocks {
 protected:
  // Steps of two seconds, so far from each other, which ended at 0.
  runs::Run long_run(const std::string& id, int steps, double distance = 2) {
    runs::Run run = add(id);
    const runs::Attempt attempt = attempt_of(run);
    for (int i = 0; i < steps; ++i) {
      JournalRecord record = step_record(i, i + 1);
      record.seconds = distance * i;
      auto& body = std::get<StepRecord>(record.body);
      body.loss = i % 7;
      body.samples = 32 + i % 3;
      body.seconds = 2;
      records_.push_back(record);
    }
    store_->append(run, attempt, records_);
    end(&run, 0);
    return run;
  }
  const store::KeptSteps kept_{10, 20, 30};
  std::vector<JournalRecord> records_;
};

TEST_F(RolledUp, KeepsMeansOfTenSecondsOfALongRun) {
  runs::Run run = long_run("a", 6000);
  const auto attempt = store_->attempts(run.number).at(0);
  const auto blocks = store_->step_blocks(attempt.row, kAsked);
  const std::int64_t cursor = store_->newest_cursor(run.number);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 9.9 * kDay), IsEmpty());
  EXPECT_EQ(roll_up(run, kept_, 9.9 * kDay), 0) << "too early";
  EXPECT_EQ(store_->steps_after(run.number, 0, 10'000).size(), 6000U);

  ASSERT_EQ(store_->runs_to_roll_up(kept_, 10.1 * kDay), std::vector{run.number});
  EXPECT_GE(roll_up(run, kept_, 10.1 * kDay), 3) << "in pieces";
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 10.1 * kDay), IsEmpty());
  EXPECT_EQ(store_->step_resolution(run.number), 10);
  EXPECT_EQ(store_->newest_cursor(run.number), cursor) << "who read to here has read all";
  EXPECT_EQ(store_->step_blocks(attempt.row, kAsked), blocks) << "a chart is as it was";
  for (const store::StepBlock& block : blocks) {
    std::int64_t of_parts = 0;
    const auto parts = store_->parts_of(attempt.row, block, kAsked);
    for (const store::StepBlock& part : parts) of_parts += part.rows;
    EXPECT_TRUE(parts.empty() || of_parts == block.rows)
        << of_parts << " of " << block.rows << ": the rest would pass for the whole";
  }
  const auto rows = store_->steps_after(run.number, 0, 10'000);
  ASSERT_EQ(rows.size(), 1200U) << "five steps each";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double loss = 0, samples = 0;
    for (std::size_t j = 5 * i; j < 5 * i + 5; ++j) {
      loss += step_of(records_[j]).loss / 5;
      samples += static_cast<double>(step_of(records_[j]).samples) / 5;
    }
    ASSERT_EQ(rows[i].step, static_cast<std::int64_t>(5 * i + 5));
    ASSERT_EQ(rows[i].seconds, records_[5 * i + 4].seconds);
    ASSERT_NEAR(rows[i].loss, loss, 1e-12);
    ASSERT_EQ(rows[i].samples, std::llround(samples));
    ASSERT_EQ(rows[i].step_seconds, 2);
    ASSERT_FALSE(rows[i].goodput);
  }
  // In pages, each row once and in order.
  std::vector<store::StepRow> paged;
  for (std::int64_t after = 0;;) {
    const auto page = store_->steps_after(run.number, after, 77);
    if (page.empty()) break;
    paged.insert(paged.end(), page.begin(), page.end());
    after = page.back().cursor;
  }
  EXPECT_EQ(paged, rows);
  const auto thinned = store_->steps(run.number, 0, 100);
  EXPECT_LE(thinned.size(), 100U);
  EXPECT_GE(thinned.size(), 50U);
  EXPECT_EQ(thinned.back().step, 6000);
  EXPECT_THAT(store_->steps(run.number, cursor, 100), IsEmpty());
}

// Each of its own values, so that none passes for another.
TEST_F(RolledUp, HasTheMeansOfEverySeries) {
  runs::Run run = add("a");
  runs::Attempt attempt = attempt_of(run);
  attempt.ranks = 4;  // with one, the journal does not say the exposed time
  for (int i = 0; i < 6000; ++i) {
    JournalRecord record = step_record(i, i + 1);
    record.seconds = 2 * i;
    auto& body = std::get<StepRecord>(record.body);
    const int more = i % 5;  // of the five of a block 2, on average
    body.loss = 10 + more;
    body.mlm_loss = 20 + more;
    body.samples = 30 + more;
    body.tokens = 40 + more;
    body.seconds = 50 + more;
    body.exposed_seconds = 60 + more;
    body.imbalance = 70 + more;
    body.moved_bytes = 80 + more;
    body.goodput = 90 + more;
    body.noise_scale = 100 + more;
    body.noise_scale_low = 110 + more;
    body.noise_scale_high = 120 + more;
    body.efficiency = 130 + more;
    body.mfu = 140 + more;
    body.utilisation = 150 + more;
    body.learning_rate = 160 + more;
    body.bubble = 170 + more;
    body.bubble_predicted = 180 + more;
    records_.push_back(record);
  }
  store_->append(run, attempt, records_);
  end(&run, 0);
  roll_up(run, kept_, 10.1 * kDay);
  const auto rows = store_->steps_after(run.number, 0, 10'000);
  ASSERT_EQ(rows.size(), 1200U);
  store::StepRow expected;
  expected.cursor = rows[1].cursor;
  expected.attempt = attempt.row;
  expected.step = 10;
  expected.seconds = 18;
  expected.loss = 12;
  expected.mlm_loss = 22;
  expected.samples = 32;
  expected.tokens = 42;
  expected.step_seconds = 52;
  expected.exposed_seconds = 62;
  expected.imbalance = 72;
  expected.moved_bytes = 82;
  expected.goodput = 92;
  expected.noise_scale = 102;
  expected.noise_scale_low = 112;
  expected.noise_scale_high = 122;
  expected.efficiency = 132;
  expected.mfu = 142;
  expected.utilisation = 152;
  expected.learning_rate = 162;
  expected.bubble = 172;
  expected.bubble_predicted = 182;
  EXPECT_EQ(rows[1], expected);
}

// Else what is read again would be told twice, as a row and in its block.
TEST_F(RolledUp, LeavesARunWhoseJournalIsNotReadToItsEnd) {
  runs::Run run = long_run("a", 6000);
  run.drained = false;
  store_->update_run(run);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 1000 * kDay), IsEmpty());
  EXPECT_FALSE(store_->roll_up(run.number, kept_, 1000 * kDay));
  EXPECT_EQ(store_->steps_after(run.number, 0, 10'000).size(), 6000U);
}

TEST_F(RolledUp, GoesOnWhereAControllerWasKilled) {
  const runs::Run run = long_run("a", 7000);
  ASSERT_TRUE(store_->roll_up(run.number, kept_, 11 * kDay));
  open();
  const auto rows = store_->steps_after(run.number, 0, 20'000);
  EXPECT_EQ(rows.size(), 400U + 5000U) << "2,000 rows went, and the blocks of these are shown";
  std::int64_t step = 0;
  for (const auto& row : rows) {
    EXPECT_GT(row.step, step);
    step = row.step;
  }
  EXPECT_EQ(store_->runs_to_roll_up(kept_, 11 * kDay).size(), 1U);
  roll_up(run, kept_, 11 * kDay);
  EXPECT_EQ(store_->steps_after(run.number, 0, 20'000).size(), 1400U);
}

TEST_F(RolledUp, TakesLargerBlocksLater) {
  const runs::Run run = long_run("a", 40'000);  // 22 hours
  const auto attempt = store_->attempts(run.number).at(0);
  const auto whole = store_->step_blocks(attempt.row, kAsked);
  roll_up(run, kept_, 40 * kDay);
  EXPECT_EQ(store_->step_resolution(run.number), 60) << "134 blocks of 10 min are too few";
  const auto rows = store_->steps_after(run.number, 0, 100'000);
  EXPECT_GE(rows.size(), 1333U);
  EXPECT_LT(rows.size(), 1350U) << "and the last minute";
  EXPECT_EQ(rows.back().step, 40'000);
  EXPECT_EQ(store_->step_blocks(attempt.row, kAsked), whole);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 1000 * kDay), IsEmpty());
}

TEST_F(RolledUp, TakesTenMinutesOfAVeryLongRun) {
  const runs::Run run = long_run("a", 3300, 200);  // seven days, three steps in ten minutes
  const auto attempt = store_->attempts(run.number).at(0);
  const auto whole = store_->step_blocks(attempt.row, kAsked);
  // The newest three are in no block of ten minutes: none began after them.
  constexpr std::size_t kLarge = 1099, kAll = kLarge + 3;
  ASSERT_EQ(whole.size(), kAll);
  const std::int64_t cursor = store_->newest_cursor(run.number);
  roll_up(run, kept_, 29 * kDay);
  EXPECT_EQ(store_->step_resolution(run.number), 60) << "too early";
  roll_up(run, kept_, 31 * kDay);
  EXPECT_EQ(store_->step_resolution(run.number), 600);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 1000 * kDay), IsEmpty());
  EXPECT_EQ(store_->step_blocks(attempt.row, kAsked), whole);
  for (std::size_t i = 0; i < kLarge; ++i) {
    EXPECT_THAT(store_->parts_of(attempt.row, whole[i], kAsked), IsEmpty()) << "of " << i;
  }
  const auto rows = store_->steps_after(run.number, 0, 10'000);
  ASSERT_EQ(rows.size(), kAll);
  for (std::size_t i = 0; i < kLarge; ++i) {
    double loss = 0;
    for (std::size_t j = 3 * i; j < 3 * i + 3; ++j) loss += step_of(records_[j]).loss / 3;
    ASSERT_EQ(rows[i].step, static_cast<std::int64_t>(3 * i + 3));
    ASSERT_EQ(rows[i].seconds, records_[3 * i + 2].seconds);
    ASSERT_NEAR(rows[i].loss, loss, 1e-12);
    ASSERT_EQ(rows[i].step_seconds, 2);
  }
  EXPECT_EQ(store_->newest_cursor(run.number), cursor);
  EXPECT_EQ(store_->steps(run.number, 0, 100).back().step, 3300);
}

// A controller that takes it up again finds its attempts, and adds to what is kept of it.
TEST_F(RolledUp, AVeryLongRunGoesOn) {
  runs::Run run = long_run("a", 3300, 200);
  roll_up(run, kept_, 31 * kDay);
  store_->set_wanted(run.number, runs::Wanted::Resume);
  run = *store_->run("a");
  run.state = runs::RunState::Running;
  run.ended_utc.reset();
  ASSERT_TRUE(store_->take_up(run));
  const runs::Attempt again = attempt_of(run, 2);
  store_->append(run, again, {step_record(0, 3301), step_record(1, 3302)});
  open();
  const auto attempts = store_->attempts(run.number);
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_EQ(attempts[0].number, 1);
  EXPECT_EQ(attempts[1].number, 2);
  const auto rows = store_->steps_after(run.number, 0, 10'000);
  ASSERT_EQ(rows.size(), 1104U);
  EXPECT_EQ(rows[1101].step, 3300);
  EXPECT_EQ(rows[1102].step, 3301);
  EXPECT_EQ(rows[1103].step, 3302);
}

TEST_F(RolledUp, LeavesAShortRunAsItIs) {
  const runs::Run run = long_run("a", 4900);  // 980 blocks of 10 s
  EXPECT_EQ(roll_up(run, kept_, 1000 * kDay), 3);
  EXPECT_EQ(store_->step_resolution(run.number), 0);
  EXPECT_EQ(store_->steps_after(run.number, 0, 10'000).size(), 4900U);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 1000 * kDay), IsEmpty());
}

TEST_F(RolledUp, KeepsTheStepsOfARunThatGoesOn) {
  runs::Run run = long_run("a", 6000);
  roll_up(run, kept_, 11 * kDay);
  store_->set_wanted(run.number, runs::Wanted::Resume);
  run = *store_->run("a");
  run.state = runs::RunState::Running;
  run.ended_utc.reset();
  ASSERT_TRUE(store_->take_up(run));
  const runs::Attempt again = attempt_of(run, 2);
  std::vector<JournalRecord> more;
  for (int i = 0; i < 50; ++i) more.push_back(step_record(i, 6001 + i));
  store_->append(run, again, more);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 1000 * kDay), IsEmpty()) << "it is not over";
  EXPECT_FALSE(store_->roll_up(run.number, kept_, 1000 * kDay));
  auto rows = store_->steps_after(run.number, 0, 10'000);
  ASSERT_EQ(rows.size(), 1250U);
  EXPECT_EQ(rows[1199].step, 6000);
  EXPECT_EQ(rows[1200].step, 6001);
  const auto thinned = store_->steps(run.number, 0, 40);
  EXPECT_LE(thinned.size(), 40U);
  EXPECT_EQ(thinned.back().step, 6050);
  end(&run, 20 * kDay);
  EXPECT_THAT(store_->runs_to_roll_up(kept_, 29 * kDay), IsEmpty()) << "counted from its new end";
  roll_up(run, kept_, 31 * kDay);
  rows = store_->steps_after(run.number, 0, 10'000);
  EXPECT_EQ(rows.back().step, 6050);
  EXPECT_LT(rows.size(), 1220U);
}

TEST_F(RolledUp, GoesWithTheRun) {
  const runs::Run run = long_run("a", 6000);
  const auto attempt = store_->attempts(run.number).at(0);
  roll_up(run, kept_, 11 * kDay);
  store_->remove_run(run);
  EXPECT_THAT(store_->step_blocks(attempt.row, {"loss"}), IsEmpty());
  EXPECT_EQ(store_->step_resolution(run.number), 0);
}

}  // namespace
}  // namespace regatta::orchestrator
