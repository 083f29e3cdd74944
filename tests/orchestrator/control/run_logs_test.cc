// Which logs a run has, of Slurm's jobs too, and searches that a clock ends. What the routes make
// of them: ../api/logs_test.py.
#include "orchestrator/control/run_logs.h"

#include <gmock/gmock.h>

#include "orchestrator/control/log_search.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::control {
namespace {

using testing::ElementsAre;

class RunLogsTest : public testing::Test {
 protected:
  RunLogsTest() {
    std::filesystem::create_directory(path_);
    launches_.resize(2);
    launches_[0].number = 1;
    launches_[0].token = "aaaa";
    launches_[1].number = 2;
    launches_[1].token = "bbbb";
    launches_[1].attempts_before = 2;
  }
  void put(const std::string& name, const std::string& text = "x\n") {
    std::filesystem::create_directories((path_ / name).parent_path());
    tests::write_file(path_ / name, text);
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const RunLog& log : list_logs(files_, path_, launches_).logs) found.push_back(log.name);
    return found;
  }
  std::string file_of(const LogChoice& choice) {
    const auto log = find_log(files_, path_, launches_, choice);
    return log ? log->name : "";
  }

  tests::TemporaryDirectory folder_;
  base::FileSystem& files_ = base::posix_file_system();
  const base::Path path_ = folder_.path() / "run";
  std::vector<runs::Launch> launches_;
};

TEST_F(RunLogsTest, ListsThoseOfJobsByStartAndThenThoseOfAttempts) {
  EXPECT_EQ(file_of(LogChoice{}), "");
  for (const char* name :
       {"submit/aaaa-12.out", "submit/aaaa-12-0.log", "submit/aaaa-12-1.log", "submit/aaaa-9-0.log",
        "submit/aaaa-12-1.stacks", "submit/aaaa-12.sh", "submit/cccc-12-0.log",
        "submit/bbbb-13.out", "submit/aaaa-x-0.log", "launches/1.json"}) {
    put(name);
  }
  const std::string first = "attempts/1-0123456789abcdef", second = "attempts/2-0123456789abcdef";
  put(first + "/journal.jsonl");
  put(second + "/hang.json");
  put(second + "/logs/rank-1.err");
  put(second + "/logs/rank-0.err");
  EXPECT_THAT(
      names(),
      ElementsAre("submit/aaaa-9-0.log", "submit/aaaa-12.out", "submit/aaaa-12-0.log",
                  "submit/aaaa-12-1.log", "submit/aaaa-12-1.stacks", "submit/bbbb-13.out",
                  second + "/logs/rank-0.err", second + "/logs/rank-1.err", second + "/hang.json"));
  EXPECT_EQ(file_of(LogChoice{}), "submit/bbbb-13.out") << "the newest, as ever";
  EXPECT_EQ(file_of({std::nullopt, {}, 1}), second + "/logs/rank-1.err");
  EXPECT_EQ(file_of({std::nullopt, 1, {}}), "submit/aaaa-12-1.log")
      << "three starts and two attempts: whose is whose is not known";
  std::filesystem::remove(path_ / "submit/aaaa-9-0.log");
  EXPECT_EQ(file_of({std::nullopt, 1, {}}), "submit/aaaa-12-0.log");
  try {
    (void)file_of({std::nullopt, 3, 7});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound);
    EXPECT_STREQ(error.what(),
                 "no log of attempt 3 of rank 7 alone; `regatta logs --list run` names all that "
                 "there are");
  }
}

TEST_F(RunLogsTest, ARunWhoseDirectoryIsGoneIsAnError) {
  put("launches/1.log");
  std::filesystem::create_directory(folder_.path() / "other");
  std::filesystem::remove_all(path_);
  const auto refused = [](const auto& look) -> std::string {
    try {
      look();
    } catch (const base::Error& error) {
      return std::string(base::meaning(error.code()).name) + ": " + error.what();
    }
    return "";
  };
  const std::string gone = "not_found: the run's directory " + path_.string() +
                           " is gone; `regatta rm run` forgets the run";
  EXPECT_EQ(refused([&] { (void)names(); }), gone);
  EXPECT_EQ(refused([&] { (void)file_of(LogChoice{}); }), gone);
  EXPECT_EQ(refused([&] { (void)file_of({std::nullopt, 1, {}}); }), gone);
  std::filesystem::remove_all(folder_.path() / "other");
  EXPECT_THAT(refused([&] { (void)names(); }), testing::HasSubstr("is its file system mounted"));
}

TEST_F(RunLogsTest, ListsTheNewestOfMany) {
  const std::string folder = "attempts/1-0123456789abcdef/logs/";
  for (int rank = 0; rank < 1005; ++rank) put(folder + std::to_string(10000 + rank) + ".out");
  const RunLogs found = list_logs(files_, path_, launches_);
  EXPECT_TRUE(found.more);
  ASSERT_EQ(found.logs.size(), kMostListedLogs);
  EXPECT_EQ(found.logs.front().name, folder + "10005.out");
  EXPECT_EQ(found.logs.back().rank, 11004);
  EXPECT_EQ(file_of({folder + "10000.out", {}, {}}), folder + "10000.out") << "it is still there";
}

// A second for each look at it.
class HastyClock final : public base::Clock {
 public:
  double monotonic_seconds() const override { return now_ += 1; }
  double utc_seconds() const override { return now_; }
  void sleep(std::chrono::duration<double>) override {}

 private:
  mutable double now_ = 0;
};

TEST(SearchPlaceTest, IsOnlyWhatWasGiven) {
  EXPECT_TRUE(parse_place("120.37.2"));
  for (const char* const text : {"120.037.2", "0120.37.2", "+1.2.3", "1.0.2", "1.2", "1.2.3.4",
                                 "1..3", "-1.2.3", "1.2.99999999999999999999"}) {
    EXPECT_FALSE(parse_place(text)) << text;
  }
}

TEST(LogSearch, PartsThatTheClockEndsAreOneSearch) {
  std::string log;
  for (int line = 1; line <= 500; ++line) {
    log += (line % 41 == 0 || line % 43 == 0 ? "hit " : "miss ") + std::to_string(line) + "\n";
  }
  const ReadLog read = [&](std::uint64_t offset, std::uint64_t limit) {
    return offset < log.size() ? log.substr(offset, limit) : "";
  };
  const LogPattern pattern("^hit", LetterCase::Same);
  for (const std::int64_t context : {0, 1, 5, 20}) {
    std::vector<std::int64_t> expected;
    for (std::int64_t line = 1; line <= 500; ++line) {
      for (std::int64_t near = line - context; near <= line + context; ++near) {
        if (near < 1 || near > 500 || (near % 41 != 0 && near % 43 != 0)) continue;
        expected.push_back(line);
        break;
      }
    }
    SearchLimits limits;
    limits.context = context;
    HastyClock clock;
    std::vector<std::int64_t> found;
    int parts = 0;
    for (std::optional<SearchPlace> from = SearchPlace{}; from; ++parts) {
      ASSERT_EQ(parse_place(from->text()), from);
      const SearchPart part = search_log(pattern, read, *from, limits, clock);
      for (const SearchedLine& line : part.lines) found.push_back(line.number);
      ASSERT_LT(parts, 1000) << "each one gets further";
      from = part.next;
    }
    EXPECT_EQ(found, expected) << context;
    EXPECT_GT(parts, 10) << context;
  }
}

TEST(LogSearch, FindsALineAsItIsShown) {
  const std::string log =
      "bad \xff\xfe\xfd bytes\r\ncut \xe2\x82\nends in crlf\r\n\r\nlone\rcr\nends in crlf\r";
  const ReadLog read = [&](std::uint64_t offset, std::uint64_t limit) {
    return offset < log.size() ? log.substr(offset, limit) : "";
  };
  tests::SimulatedClock clock;
  const auto found = [&](const char* pattern) {
    std::vector<std::int64_t> numbers;
    const LogPattern wanted(pattern, LetterCase::Same);
    for (const SearchedLine& line : search_log(wanted, read, {}, {}, clock).lines) {
      EXPECT_EQ(line.offset, line.number == 1 ? 0 : log.find(line.text)) << pattern;
      numbers.push_back(line.number);
    }
    return numbers;
  };
  EXPECT_THAT(found("bad .* bytes$"), ElementsAre(1));
  EXPECT_THAT(found("^bad .{3} bytes"), ElementsAre(1));
  EXPECT_THAT(found("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), ElementsAre(1));
  EXPECT_THAT(found("cut \xef\xbf\xbd$"), ElementsAre(2)) << "one character, as JSON has it";
  EXPECT_THAT(found("crlf$"), ElementsAre(3)) << "the last line is not whole yet";
  EXPECT_THAT(found("lone.cr"), ElementsAre(5));
}

}  // namespace
}  // namespace regatta::orchestrator::control
