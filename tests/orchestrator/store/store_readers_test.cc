// Kept statements, and several readers beside a writer.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::TemporaryDirectory;

TEST(Database, KeepsStatementsForTheNextTime) {
  const TemporaryDirectory folder;
  store::Database database(folder.path() / "x", store::Database::Access::ReadWrite);
  database.execute("CREATE TABLE numbers(value INTEGER PRIMARY KEY)");
  for (int i = 0; i < 500; ++i) {
    database.prepare("INSERT INTO numbers VALUES(?1)").bind(i).run();
  }
  ASSERT_EQ(database.figures().size(), 1U);
  EXPECT_GT(database.figures()[0].steps, 500);
  // Every text is another one: the number that is kept is bounded.
  for (int i = 0; i < 500; ++i) database.prepare("SELECT " + std::to_string(i)).run();
  EXPECT_LE(database.figures().size(), 80U);
}

TEST(Database, KeptStatementsAreReset) {
  const TemporaryDirectory folder;
  store::Database writer(folder.path() / "x", store::Database::Access::ReadWrite);
  writer.execute("CREATE TABLE numbers(value INTEGER PRIMARY KEY)");
  const char* const insert = "INSERT INTO numbers VALUES(?1)";
  for (int i = 0; i < 10; ++i) writer.prepare(insert).bind(i).run();
  store::Database reader(folder.path() / "x", store::Database::Access::ReadOnly);
  const char* const select = "SELECT value FROM numbers WHERE value >= ?1 ORDER BY value";
  const auto count = [&] {
    return store::all<std::int64_t>(
               *std::make_unique<store::Statement>(reader.prepare("SELECT value FROM numbers")),
               [](const store::Statement& row) { return row.integer(0); })
        .size();
  };
  for (int i = 0; i < 3; ++i) {
    store::Statement early = reader.prepare(select);  // left after its first row
    EXPECT_TRUE(early.bind(4).step());
    store::Statement same = reader.prepare(select);  // while the other is in use
    EXPECT_TRUE(same.bind(7).step());
    EXPECT_EQ(early.integer(0), 4);
    EXPECT_EQ(same.integer(0), 7);
  }
  EXPECT_THROW(writer.prepare(insert).bind(5).run(), base::Error) << "is there already";
  try {
    store::Statement thrown = reader.prepare(select);
    (void)thrown.bind(2).step();
    throw std::runtime_error("in the middle of the rows");
  } catch (const std::runtime_error&) {
  }
  // Nothing holds an old state of the file, and no value stays bound.
  EXPECT_EQ(count(), 10U);
  writer.prepare(insert).bind(10).run();
  EXPECT_EQ(count(), 11U);
  EXPECT_FALSE(reader.prepare(select).step()) << "NULL is larger than nothing";
}

// What append() writes together a snapshot reads together, however many read.
TEST(Store, SnapshotsSeeOneState) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  std::atomic<bool> done = false;
  std::atomic<int> reads = 0;
  const auto read = [&] {
    do {
      store::Snapshot snapshot = store.snapshot();
      const std::int64_t step = snapshot.run("a")->summary.step;
      const auto rows = snapshot.steps(run.number, 0, 100000);
      EXPECT_EQ(static_cast<std::int64_t>(rows.size()), step);
      EXPECT_EQ(snapshot.list({}).rows.at(0).run.summary.step, step);
      EXPECT_GE(store.run("a")->summary.step, step) << "beside it, the controller's own";
      ++reads;
    } while (!done);
  };
  std::vector<std::jthread> readers;
  for (int i = 0; i < 12; ++i) readers.emplace_back(read);  // more than connections
  for (int i = 1; i <= 200; ++i) {
    run.summary.step = i;
    store.append(run, attempt, {step_record(i, i)});
  }
  done = true;
  readers.clear();
  EXPECT_GE(reads, 12);
}

// Requests that overlap without end keep SQLite from beginning it anew.
TEST(Store, TheLogOfWritesIsBoundedWhateverIsRead) {
  const tests::TemporaryDirectory folder;
  store::StoreOptions options;
  options.longest_log = 1U << 20U;
  store::Store store(folder.path(), options);
  const runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  std::atomic<bool> stop = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&store, &stop] {
      while (!stop) {
        store::Snapshot snapshot = store.snapshot();
        EXPECT_TRUE(snapshot.run("a"));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  const auto bytes = [&] { return std::filesystem::file_size(folder.path() / "store.sqlite-wal"); };
  // What is written between two looks, a second apart, comes on top.
  std::uintmax_t longest = 0;
  int began_anew = 0;
  std::int64_t sequence = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (began_anew < 2 && std::chrono::steady_clock::now() < end) {
    std::vector<trainer::contract::JournalRecord> records;
    for (int i = 0; i < 20; ++i, ++sequence) records.push_back(step_record(sequence, sequence));
    store.append(run, attempt, records);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (bytes() < longest / 2) {
      ++began_anew;
      longest = 0;
    }
    longest = std::max(longest, bytes());
  }
  stop = true;
  EXPECT_EQ(began_anew, 2);
}

TEST(Store, ALogThatWasLeftIsFoldedInByTheNextStart) {
  const TemporaryDirectory folder;
  const base::Path log = folder.path() / "store.sqlite-wal";
  const pid_t child = ::fork();
  if (child == 0) {
    store::Store store(folder.path());
    for (int i = 0; i < 20; ++i) store.add_run(new_run("run-" + std::to_string(i)));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_GT(std::filesystem::file_size(log), 0U);
  store::Store store(folder.path());
  std::error_code absent;
  const std::uintmax_t left = std::filesystem::file_size(log, absent);
  EXPECT_TRUE(absent || left == 0) << left << " bytes";
  EXPECT_EQ(store.ids().size(), 20U);
}

TEST(Store, ReadsOnePageOfEvaluations) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  const orchestrator::runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  std::vector<trainer::contract::JournalRecord> records(5);
  for (std::size_t i = 0; i < records.size(); ++i) {
    trainer::contract::EvalRecord evaluation;
    evaluation.step = static_cast<std::int64_t>(i) + 1;
    records[i].sequence = static_cast<std::int64_t>(i);
    records[i].body = evaluation;
  }
  store.append(run, attempt, records);
  const auto page = store.evaluations(run.number, 0, 2);
  ASSERT_EQ(page.size(), 2U);
  const auto next = store.evaluations(run.number, page.back().cursor, 2);
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next.front().step, 3);
  EXPECT_EQ(store.evaluations(run.number, 0).size(), 5U);
}

TEST(Store, RequestsDoNotUseUpTheControllersConnections) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  store.add_run(new_run("a"));
  std::vector<std::unique_ptr<store::Snapshot>> held;
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    for (int i = 0; i < 100; ++i) {
      held.emplace_back(new store::Snapshot(store.snapshot()));
      EXPECT_TRUE(held.back()->run("a"));
    }
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Retry);
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("too many requests"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "bounded";
  EXPECT_EQ(held.size(), 8U);
  EXPECT_TRUE(store.run("a"));
  store.set_wanted(store.run("a")->number, runs::Wanted::Cancel);
  EXPECT_EQ(store.run("a")->wanted, runs::Wanted::Cancel);
  EXPECT_EQ(held.front()->run("a")->wanted, runs::Wanted::Run) << "of its own time";
}

}  // namespace
}  // namespace regatta::orchestrator
