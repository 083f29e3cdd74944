// Backups that are made while a controller writes, and put back; killed and on full disks, too.
#include "orchestrator/store/backup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/descriptor_file_system.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/runs/run_records.h"
#include "orchestrator/store/integrity.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/old_store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using store::Database;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BackupTest : public testing::Test {
 protected:
  base::Path data() const { return folder_.path() / "data"; }
  base::Path runs() const { return folder_.path() / "runs"; }
  base::Path file() const { return folder_.path() / "backup.sqlite"; }
  // Runs that have ended, with directories that say so.
  void add_runs(store::Store* store, int first, int count) {
    store->place_runs(runs());
    std::filesystem::create_directories(runs());
    for (int i = first; i < first + count; ++i) {
      store::NewRun run = new_run("run-" + std::to_string(i), i);
      run.directory = (runs() / run.id).string();
      run.state = runs::RunState::Succeeded;
      run.ended_utc = i + 5;
      run.drained = run.settled = true;
      store->add_run(run);
      std::filesystem::create_directory(run.directory);
      tests::write_file(base::Path(run.directory) / "run.json", "{}");
      runs::write_state(base::posix_file_system(), run.directory,
                        {run.state, "", run.ended_utc, 0, -1, 0});
    }
  }
  store::Restored restore() {
    return store::restore(file(), data(), base::posix_file_system(), runs());
  }
  template <typename Work>
  static std::string refusal(Work work) {
    try {
      (void)work();
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      return error.what();
    }
    return "";
  }
  std::string refused_restore() {
    return refusal([this] { return restore(); });
  }
  static std::vector<std::string> ids_in(const base::Path& path) {
    Database database(path, Database::Access::ReadOnly);
    store::Statement ask = database.prepare("SELECT id FROM runs ORDER BY number");
    return store::all<std::string>(ask, [](const store::Statement& row) { return row.text(0); });
  }
  // But for the store's own.
  std::vector<std::string> strange_files(const base::Path& folder) {
    std::vector<std::string> names;
    for (const std::string& name : base::posix_file_system().list(folder)) {
      const bool of_store = name.rfind("store.sqlite", 0) == 0;
      const bool known =
          name == "lock" || name == "reserve" || (of_store && name.find("restoring") == name.npos);
      if (!known) names.push_back(name);
    }
    return names;
  }

  tests::TemporaryDirectory folder_;
};

TEST_F(BackupTest, IsOfOneMomentWhileAControllerWrites) {
  store::Store store(data());
  add_runs(&store, 1, 4);
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> written = 0;
  // As a follower: rows, offset and figures of a run together.
  std::jthread writer([&] {
    std::vector<runs::Attempt> attempts(4);
    for (int i = 0; i < 4; ++i) {
      attempts[static_cast<std::size_t>(i)].row =
          store.add_attempt(runs::RunNumber{i + 1}, 1, "0123456789abcdef");
    }
    for (std::int64_t step = 1; !stop; ++step) {
      const int which = static_cast<int>(step % 4);
      runs::Attempt& attempt = attempts[static_cast<std::size_t>(which)];
      runs::Run run = *store.run(runs::RunNumber{which + 1});
      ++attempt.offset;
      run.summary.step = attempt.offset;
      store.append(run, attempt, {step_record(attempt.offset, attempt.offset)});
      written = step;
    }
  });
  for (int i = 0; i < 8; ++i) {
    const std::int64_t before = written;
    std::filesystem::remove(file());
    EXPECT_EQ(store::back_up(data(), file()).runs, 4);
    Database copy(file(), Database::Access::ReadOnly);
    store::Statement ask = copy.prepare(
        "SELECT attempts.offset, runs.step, (SELECT count(*) FROM steps WHERE run = runs.number) "
        "FROM attempts JOIN runs ON runs.number = attempts.run");
    std::int64_t all = 0;
    while (ask.step()) {
      EXPECT_EQ(ask.integer(0), ask.integer(1));
      EXPECT_EQ(ask.integer(0), ask.integer(2));
      all += ask.integer(0);
    }
    EXPECT_GE(all, before) << "what was committed before it began is in it";
    EXPECT_TRUE(tests::eventually([&] { return written > before + 20; })) << "the writer goes on";
  }
  stop = true;
}

TEST_F(BackupTest, IsOneFileForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  {
    store::Store store(data());
    add_runs(&store, 1, 3);
    const store::Backup backup = store::back_up(data(), file());
    EXPECT_EQ(backup.runs, 3);
    EXPECT_EQ(backup.bytes, std::filesystem::file_size(file()));
  }
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U) << "passwords may be in it";
  EXPECT_THAT(base::posix_file_system().list(folder_.path()),
              ElementsAre("backup.sqlite", "data", "runs"));
}

// What a killed controller has committed is in its log alone.
TEST_F(BackupTest, HasWhatAKilledControllerLeftInItsLog) {
  const pid_t child = ::fork();
  if (child == 0) {
    store::Store store(data());
    add_runs(&store, 1, 5);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(data() / "store.sqlite-wal"));
  EXPECT_EQ(store::back_up(data(), file()).runs, 5);
  EXPECT_EQ(ids_in(file()).size(), 5U);
}

TEST_F(BackupTest, ReplacesNothingAndNeedsAStore) {
  const auto back_up = [&] { return store::back_up(data(), file()); };
  EXPECT_THAT(refusal(back_up), HasSubstr("there is no store in"));
  EXPECT_FALSE(std::filesystem::exists(data())) << "and none is made";
  { const store::Store store(data()); }
  tests::write_file(file(), "mine");
  EXPECT_THAT(refusal(back_up), HasSubstr("exists already"));
  EXPECT_EQ(base::posix_file_system().read(file(), 10), "mine");
}

TEST_F(BackupTest, IsPutBackAndTheStoreThatWasThereKept) {
  {
    store::Store store(data());
    add_runs(&store, 1, 3);
    (void)store::back_up(data(), file());
    add_runs(&store, 4, 2);
  }
  const store::Restored restored = restore();
  EXPECT_EQ(restored.runs, 3);
  EXPECT_EQ(restored.dropped, 0);
  EXPECT_THAT(ids_in(data() / "store.sqlite"), ElementsAre("run-1", "run-2", "run-3"));
  EXPECT_THAT(ids_in(restored.kept), ElementsAre("run-1", "run-2", "run-3", "run-4", "run-5"));
  EXPECT_EQ(restored.kept.parent_path(), data());
  EXPECT_THAT(strange_files(data()), IsEmpty());
  const store::Store opened(data());
}

// Who has read the rows of a run to its newest, and asks for what came since, misses none that
// comes after the restore.
TEST_F(BackupTest, RowsThatComeAfterARestoreFollowAllThatWereRead) {
  const auto train = [this](store::Store& store, std::int64_t first, std::int64_t last) {
    const runs::Run run = *store.run(runs::RunNumber{1});
    const runs::Attempt attempt = store.attempts(run.number).at(0);
    for (std::int64_t step = first; step <= last; ++step) {
      store.append(run, attempt, {step_record(step, step)});
    }
  };
  std::int64_t read = 0;
  {
    store::Store store(data());
    add_runs(&store, 1, 1);
    store.add_attempt(runs::RunNumber{1}, 1, "0123456789abcdef");
    train(store, 1, 5);
    (void)store::back_up(data(), file());
    train(store, 6, 90);
    read = store.steps_after(runs::RunNumber{1}, 0, 1000).back().cursor;
  }
  (void)restore();
  store::Store store(data());
  EXPECT_EQ(store.steps_after(runs::RunNumber{1}, 0, 1000).size(), 5U);
  train(store, 6, 7);
  const auto since = store.steps_after(runs::RunNumber{1}, read, 1000);
  ASSERT_GE(since.size(), 2U);
  EXPECT_EQ(since.at(since.size() - 2).step, 6);
  EXPECT_EQ(since.back().step, 7);
  EXPECT_EQ(store.steps_after(runs::RunNumber{1}, since.at(since.size() - 2).cursor, 1000).size(),
            1U);
}

// The store is damaged, which is why somebody restores: its log cannot be folded into it.
TEST_F(BackupTest, IsPutInThePlaceOfADamagedStore) {
  {
    store::Store store(data());
    add_runs(&store, 1, 3);
    (void)store::back_up(data(), file());
  }
  tests::write_file(data() / "store.sqlite", std::string(40000, 'x'));
  tests::write_file(data() / "store.sqlite-wal", std::string(4000, 'y'));
  const store::Restored restored = restore();
  EXPECT_EQ(restored.runs, 3);
  EXPECT_EQ(std::filesystem::file_size(restored.kept), 40000U);
  EXPECT_FALSE(std::filesystem::exists(data() / "store.sqlite-wal")) << "of another store";
  const store::Store opened(data());
}

// A link loop, as here, a directory of another user, a disk that fails: one run costs only itself.
TEST_F(BackupTest, ADirectoryThatCannotBeReadIsLeftToTheController) {
  {
    store::Store store(data());
    add_runs(&store, 1, 3);
  }
  (void)store::back_up(data(), file());
  std::filesystem::remove_all(runs() / "run-2");
  std::filesystem::create_symlink("run-2", runs() / "run-2");
  const store::Restored restored = restore();
  EXPECT_EQ(restored.runs, 2);
  EXPECT_EQ(restored.dropped, 1);
  EXPECT_THAT(ids_in(data() / "store.sqlite"), ElementsAre("run-1", "run-3"));
}

// Of a killed controller's store only the main file was moved away: its log is another store's.
TEST_F(BackupTest, ALogThatWasLeftIsKeptAsideToo) {
  {
    store::Store store(data());
    add_runs(&store, 1, 3);
    (void)store::back_up(data(), file());
  }
  const pid_t child = ::fork();
  if (child == 0) {
    store::Store store(data());
    add_runs(&store, 4, 300);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const auto log_bytes = std::filesystem::file_size(data() / "store.sqlite-wal");
  ASSERT_GT(log_bytes, 100000U);
  std::filesystem::rename(data() / "store.sqlite", folder_.path() / "moved");
  const store::Restored restored = restore();
  EXPECT_THAT(ids_in(data() / "store.sqlite"), ElementsAre("run-1", "run-2", "run-3"));
  EXPECT_THAT(restored.kept.string(), testing::EndsWith("-wal"));
  EXPECT_EQ(std::filesystem::file_size(restored.kept), log_bytes);
  Database whole(data() / "store.sqlite", Database::Access::ReadOnly);
  EXPECT_EQ(store::damage_of(whole, store::Thoroughness::Whole), "");
}

TEST_F(BackupTest, OfEveryVersionIsBroughtUpToDate) {
  std::filesystem::create_directories(runs() / "run-1");
  tests::write_file(runs() / "run-1" / "run.json", "{}");
  for (int version = 1; version < store::kSchemaVersion; ++version) {
    std::filesystem::remove(file());
    {
      Database old(file(), Database::Access::ReadWrite);
      tests::make_old_store(old, version);
      old.execute("UPDATE runs SET directory = '" + runs().string() + "/' || id");
      old.execute("PRAGMA journal_mode = DELETE");
    }
    const store::Restored restored = restore();
    EXPECT_EQ(restored.runs + restored.dropped, 2) << version;
    const store::Store opened(data());
  }
}

class Unusable : public BackupTest {
 protected:
  void SetUp() override {
    store::Store store(data());
    add_runs(&store, 1, 2);
  }
  // Nothing of it is used, and the store is as it was.
  void refused(const std::string& why) {
    EXPECT_THAT(refused_restore(), HasSubstr(why));
    EXPECT_THAT(ids_in(data() / "store.sqlite"), ElementsAre("run-1", "run-2")) << why;
    EXPECT_THAT(strange_files(data()), IsEmpty()) << why;
    for (const std::string& name : base::posix_file_system().list(data())) {
      EXPECT_THAT(name, testing::Not(HasSubstr("before"))) << why;
    }
  }
};

TEST_F(Unusable, FilesAreRefused) {
  refused("there is no file");
  tests::write_file(file(), "run-1,run-2\n");
  refused("no store of regatta");
  std::filesystem::remove(file());
  {
    Database foreign(file(), Database::Access::ReadWrite);
    foreign.execute("CREATE TABLE runs(id TEXT); PRAGMA user_version = 3");
  }
  refused("no store of regatta");
  std::filesystem::remove(file());
  (void)store::back_up(data(), file());
  Database(file(), Database::Access::ReadWrite).execute("PRAGMA user_version = 999");
  refused("newer regatta");
}

TEST_F(Unusable, DamagedBackupsAreRefused) {
  {
    store::Store store(data());
    const runs::Run run = *store.run("run-1");
    runs::Attempt attempt;
    attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
    std::vector<trainer::contract::JournalRecord> records;
    for (int i = 1; i < 5000; ++i) records.push_back(step_record(i, i));
    store.append(run, attempt, records);
  }
  (void)store::back_up(data(), file());
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file()));
  for (const int part : {0, 1, 2, 3}) {  // the first page, and others
    const base::Path copy = folder_.path() / "copy";
    std::filesystem::copy_file(file(), copy, std::filesystem::copy_options::overwrite_existing);
    {
      std::fstream out(copy, std::ios::binary | std::ios::in | std::ios::out);
      out.seekp(size / 4 / 4096 * part * 4096);
      out << std::string(600, '\x5a');
    }
    EXPECT_THAT(
        refusal([&] { return store::restore(copy, data(), base::posix_file_system(), runs()); }),
        HasSubstr("damaged"))
        << part;
  }
  std::filesystem::resize_file(file(), static_cast<std::uintmax_t>(size / 2));
  refused("damaged");
}

TEST_F(Unusable, AStoreThatAControllerHoldsIsRefused) {
  (void)store::back_up(data(), file());
  const store::Store held(data());
  EXPECT_THAT(refused_restore(), HasSubstr("in use by another controller, process " +
                                           std::to_string(::getpid()) + " on "));
}

TEST_F(Unusable, AnotherRunsDirectoryIsRefused) {
  (void)store::back_up(data(), file());
  std::filesystem::rename(runs(), folder_.path() / "elsewhere");
  refused("none of the 2 runs of the backup is in the runs directory");
}

// At whatever moment: one store or the other is there, whole, and the next one succeeds.
TEST_F(BackupTest, ARestoreSurvivesKillMinusNine) {
  {
    store::Store store(data());
    add_runs(&store, 1, 300);
    (void)store::back_up(data(), file());
    add_runs(&store, 301, 10);
  }
  std::filesystem::copy(data(), folder_.path() / "first", std::filesystem::copy_options::recursive);
  int before = 0, after = 0;
  for (int i = 0; i < 40; ++i) {
    std::filesystem::remove_all(data());
    std::filesystem::copy(folder_.path() / "first", data(),
                          std::filesystem::copy_options::recursive);
    const pid_t child = ::fork();
    if (child == 0) {
      (void)restore();
      ::_exit(0);
    }
    const timespec pause{0, 1'000'000L * (1 + 2 * (i % 20))};
    ::nanosleep(&pause, nullptr);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    { const store::Store opened(data()); }
    const std::size_t count = ids_in(data() / "store.sqlite").size();
    EXPECT_TRUE(count == 300 || count == 310) << count;
    (count == 310 ? before : after) += 1;
    EXPECT_THAT(strange_files(data()), IsEmpty()) << "what was half done is gone";
  }
  EXPECT_GT(before, 2);
  RecordProperty("restored_before_the_kill", after);
}

// Kills the process before its n-th change of the directory.
class KillingDisk final : public base::DescriptorFileSystem {
 public:
  explicit KillingDisk(int n) : left_(n) {}
  void rename(const base::Path& from, const base::Path& to) override {
    count();
    DescriptorFileSystem::rename(from, to);
  }
  void remove_file(const base::Path& path) override {
    if (!exists(path)) return;
    count();
    DescriptorFileSystem::remove_file(path);
  }
  void sync_directory(const base::Path& path) override {
    count();
    DescriptorFileSystem::sync_directory(path);
  }

 private:
  base::Place resolve(const base::Path& path) const override { return base::plain_place(path); }
  void count() {
    if (--left_ == 0) ::kill(::getpid(), SIGKILL);
  }
  int left_;
};

// A store with a log that cannot be folded in, because somebody reads an older state.
class RestoreBesideAReader : public BackupTest {
 protected:
  void SetUp() override {
    {
      store::Store store(data());
      add_runs(&store, 1, 2);
      (void)store::back_up(data(), file());
      add_runs(&store, 3, 1);
    }
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    reader_ = ::fork();
    if (reader_ == 0) {
      Database database(data() / "store.sqlite", Database::Access::ReadOnly);
      database.execute("BEGIN");
      store::Statement ask = database.prepare("SELECT count(*) FROM runs");
      (void)ask.step();
      (void)!::write(ready[1], "r", 1);
      ::pause();
    }
    char byte = 0;
    (void)!::read(ready[0], &byte, 1);
    ::close(ready[0]);
    ::close(ready[1]);
    store::Store store(data());
    add_runs(&store, 4, 2);
  }
  ~RestoreBesideAReader() override { end_reader(); }
  void end_reader() {
    if (reader_ <= 0) return;
    ::kill(reader_, SIGKILL);
    ::waitpid(reader_, nullptr, 0);
    reader_ = 0;
  }
  // What is there when it is opened next, by a controller or for a backup.
  std::vector<std::string> found(bool by_a_backup) {
    end_reader();
    if (by_a_backup) {
      (void)store::back_up(data(), folder_.path() / "found");
      return ids_in(folder_.path() / "found");
    }
    const store::Store opened(data());
    return ids_in(data() / "store.sqlite");
  }

  pid_t reader_ = 0;
};
class KilledRestore : public RestoreBesideAReader, public testing::WithParamInterface<int> {};
constexpr int kChanges = 8;
INSTANTIATE_TEST_SUITE_P(AtEveryChange, KilledRestore, testing::Range(1, kChanges + 2));

TEST_P(KilledRestore, LeavesEachStoreItsOwnLog) {
  const std::vector<std::string> before{"run-1", "run-2", "run-3", "run-4", "run-5"};
  const std::vector<std::string> backup{"run-1", "run-2"};
  ASSERT_TRUE(std::filesystem::exists(data() / "store.sqlite-wal"));
  const pid_t child = ::fork();
  if (child == 0) {
    KillingDisk disk(GetParam());
    (void)store::restore(file(), data(), base::posix_file_system(), runs(), disk);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WIFSIGNALED(status), GetParam() <= kChanges) << "the number of changes is another";
  const std::vector<std::string> store = found(GetParam() % 2 == 0);
  EXPECT_TRUE(store == before || store == backup) << base::join(store, " ");
  std::vector<std::string> kept;
  for (const std::string& name : base::posix_file_system().list(data())) {
    EXPECT_THAT(name, testing::Not(HasSubstr("restoring")));
    const bool is_kept =
        name.find("before") != name.npos && name.back() != 'l' && name.back() != 'm';
    if (is_kept) kept.push_back(name);
  }
  ASSERT_EQ(kept.size(), store == backup ? 1U : 0U) << "a store has no second name";
  if (store == backup) {
    EXPECT_EQ(ids_in(data() / kept[0]), before);
  }
}

class BackupOnAFullDisk : public BackupTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(disk());
    mounted_ = ::mount("regatta-test", disk().c_str(), "tmpfs", 0, "size=16m") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "SKIPPED, backups on a full disk are not tested: cannot mount a tmpfs: "
                   << std::strerror(errno);
    }
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk().c_str(), MNT_DETACH);
  }
  base::Path disk() const { return folder_.path() / "disk"; }
  void fill() const {
    std::ofstream(disk() / "filler")
        << std::string(std::filesystem::space(disk()).available - 16384, 'x');
  }
  bool mounted_ = false;
};

TEST_F(BackupOnAFullDisk, LeavesNothing) {
  store::Store store(data());
  add_runs(&store, 1, 200);
  fill();
  const base::Path there = disk() / "backup.sqlite";
  const std::string why = refusal([&] { return store::back_up(data(), there); });
  EXPECT_THAT(why, HasSubstr("its disk is full"));
  EXPECT_THAT(why, HasSubstr(there.string()));
  EXPECT_THAT(base::posix_file_system().list(disk()), ElementsAre("filler"));
  std::filesystem::remove(disk() / "filler");
  EXPECT_EQ(store::back_up(data(), there).runs, 200);
}

TEST_F(BackupOnAFullDisk, ARestoreLeavesTheStore) {
  const base::Path there = disk() / "data";
  {
    store::Store store(data());
    add_runs(&store, 1, 200);
    (void)store::back_up(data(), file());
  }
  {
    store::Store store(there);
    store.place_runs(runs());
    store.add_run(new_run("other"));
  }
  fill();
  const auto restore = [&] {
    return store::restore(file(), there, base::posix_file_system(), runs());
  };
  EXPECT_THAT(refusal(restore), HasSubstr("disk is full"));
  EXPECT_THAT(strange_files(there), IsEmpty());
  std::filesystem::remove(disk() / "filler");
  EXPECT_THAT(ids_in(there / "store.sqlite"), ElementsAre("other"));
  EXPECT_EQ(restore().runs, 200);
}

}  // namespace
}  // namespace regatta::orchestrator
