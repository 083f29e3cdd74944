// The fixtures are written by hand after the manual pages and what the commands of Slurm 22.05 and
// later print; `|` stands for the separator.
#include "orchestrator/slurm/slurm_text.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/slurm/slurm_rows.h"
#include "tests/shared_data.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using std::string_literals::operator""s;

constexpr double kNoon = 1795262400;  // 2026-11-21T12:00:00Z
const slurm::SlurmVersion kBookworm{22, 5, 8};

std::string with_separator(std::string text, std::string_view separator = slurm::kUnitSeparator) {
  std::string out;
  for (const char c : text) {
    if (c == '|') {
      out += separator;
    } else {
      out += c;
    }
  }
  return out;
}

// --- rows -----------------------------------------------------------------------------------

TEST(SlurmRows, CutsAndCountsDamage) {
  struct Row {
    const char* text;
    const char* rows;  // fields joined by ';', rows by ' '
    std::size_t damaged;
  };
  const Row rows[] = {
      // three fields and the key again
      {"", "", 0},
      {"\n", "", 0},
      {"1|R|a|1\n", "1;R;a", 0},
      {"1|R|a|1", "1;R;a", 0},
      {"1|R|a|1\n2|P||2\n", "1;R;a 2;P;", 0},
      {"1|R|a\nb|1\n2|P|c|2\n", "1;R;a\nb 2;P;c", 0},
      {"1|R|a\n\n\n|1\n", "1;R;a\n\n\n", 0},
      {"1|R|a|x|1\n2|P|c|2\n", "2;P;c", 1},  // the separator itself in a text
      {"1|R|a\n2|P|c|2\n", "2;P;c", 1},      // cut short
      {"1|R|a|1\n2|P", "1;R;a", 1},          // the answer ends in a row
      {"1|R|a|1\n2|P|c\n", "1;R;a", 1},
      {"error: x\n1|R|a|1\n", "1;R;a", 1},
      {"x\ny\nz\n1|R|a|1\n", "1;R;a", 1},
      {"1|R|a|1\nx\n2|P|c|2\ny\n", "1;R;a 2;P;c", 2},
      {"1|R|a|2\n2|P|c|2\n", "2;P;c", 1},  // closed by another's key
      {"|R|a|\n", "", 1},
      {"1|R|1\n", "", 1},
      {"1\t|R|a|1\t\n", "", 1},  // no control characters in a key
      {"1|R\x01|a|1\n", "", 1},
      {"1|R|a|1\n1|C|b|1\n", "1;R;a 1;C;b", 0},
  };
  for (const Row& row : rows) {
    const std::string text = with_separator(row.text);
    const slurm::CutRows cut = slurm::cut_rows(text, slurm::kUnitSeparator, 3);
    std::vector<std::string> printed;
    for (const auto& fields : cut.rows) {
      printed.push_back(base::join({fields.begin(), fields.end()}, ";"));
    }
    EXPECT_EQ(base::join(printed, " "), row.rows) << row.text;
    EXPECT_EQ(cut.damaged, row.damaged) << row.text;
  }
}

TEST(SlurmRows, IsLinearInHostileText) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  const std::size_t kBytes = 4U << 20U;
  std::string starts;
  while (starts.size() < kBytes) starts += "1\x1fR\x1f\n";
  for (const std::string& text :
       {std::string(kBytes, '\n'), std::string(kBytes, '\x1f'), std::string(kBytes, 'a'), starts,
        "1\x1fR\x1f" + std::string(kBytes, '\n'),
        "1\x1fR\x1f" + std::string(kBytes, 'x') +
            "\x1f"
            "1"}) {
    (void)slurm::cut_rows(text, slurm::kUnitSeparator, 3);
  }
  // Some milliseconds each; a quadratic reader would need hours.
  EXPECT_LT(clock::now() - begin, std::chrono::seconds(60));
}

// --- squeue -----------------------------------------------------------------------------------

const std::string kSqueue =
    "17|RUNNING|2026-11-21T11:59:00|2026-11-21T12:00:00|2026-11-21T13:00:00|1:00:00|57:30|2:30|4|"
    "128|"
    "4294901757|gres/gpu:h100:8|main|ml|normal|ada|node[01-04]|None|/home/ada|"
    "/runs/demo-4f2a91/submit/00112233aabbccdd.sh|regatta:00112233aabbccdd|"
    "regatta-00112233aabbccdd|17\n"
    "18|PENDING|2026-11-21T12:01:00|N/A|N/A|UNLIMITED|UNLIMITED|0:00|2|2|1|N/"
    "A|main|(null)|normal|ada||"
    "Resources|/home/ada|(null)|(null)|wait|18\n"
    "19|COMPLETING|2026-11-21T11:00:00|2026-11-21T11:00:01|2026-11-21T11:30:00|INVALID|INVALID|29:"
    "59|1|1"
    "|0|gpu:2|high|||ada|node07|None|/|run.sh|||19\n";

TEST(Squeue, ReadsRows) {
  const slurm::Jobs jobs = slurm::parse_squeue(with_separator(kSqueue), slurm::kUnitSeparator);
  EXPECT_EQ(jobs.damaged, 0u);
  ASSERT_EQ(jobs.rows.size(), 3u);
  const slurm::JobRow& running = jobs.rows[0];
  EXPECT_EQ(running.id, "17");
  EXPECT_EQ(running.state.base, slurm::JobBase::Running);
  EXPECT_EQ(running.submit, kNoon - 60);
  EXPECT_EQ(running.start, kNoon);
  EXPECT_EQ(running.end, kNoon + 3600);
  EXPECT_EQ(running.limit, 3600);
  EXPECT_EQ(running.left, 57 * 60 + 30);
  EXPECT_EQ(running.elapsed, 150);
  EXPECT_EQ(running.node_count, 4);
  EXPECT_EQ(running.cpu_count, 128);
  EXPECT_EQ(running.priority, 4294901757);
  EXPECT_EQ(slurm::gpu_count(running), 32);
  EXPECT_EQ(running.partition, "main");
  EXPECT_EQ(running.account, "ml");
  EXPECT_EQ(running.user, "ada");
  EXPECT_EQ(topology::graph::expand_hostlist(*running.nodes).size(), 4u);
  EXPECT_EQ(running.reason, std::nullopt);
  EXPECT_EQ(running.command, "/runs/demo-4f2a91/submit/00112233aabbccdd.sh");
  EXPECT_EQ(running.comment, "regatta:00112233aabbccdd");
  EXPECT_EQ(running.name, "regatta-00112233aabbccdd");
  const slurm::JobRow& waiting = jobs.rows[1];
  EXPECT_EQ(waiting.start, std::nullopt);
  EXPECT_TRUE(std::isinf(*waiting.limit));
  EXPECT_EQ(waiting.reason, "Resources");
  EXPECT_EQ(waiting.nodes, std::nullopt);
  EXPECT_EQ(waiting.comment, std::nullopt);
  EXPECT_EQ(slurm::gpu_count(waiting), std::nullopt);
  const slurm::JobRow& ending = jobs.rows[2];
  EXPECT_EQ(slurm::phase(ending.state), slurm::JobPhase::Ending);
  EXPECT_EQ(ending.limit, std::nullopt);
  EXPECT_EQ(slurm::gpu_count(ending), 2);
  EXPECT_EQ(ending.name, "");
}

TEST(Squeue, TheRequestHasAsManyColumnsAsTheAnswer) {
  const std::vector<std::string> arguments =
      slurm::squeue_arguments({.user = "ada", .ids = {"17", "18"}}, slurm::kUnitSeparator);
  EXPECT_THAT(arguments, Contains("--noheader"));
  EXPECT_THAT(arguments, Contains("--states=all"));
  EXPECT_THAT(arguments, Contains("--user=ada"));
  EXPECT_THAT(arguments, Contains("--jobs=17,18"));
  std::string format;
  for (const std::string& argument : arguments) {
    if (argument.rfind("--format=", 0) == 0) format = argument.substr(9);
  }
  const auto columns = base::split(format, '\x1f');
  const std::string first_row = kSqueue.substr(0, kSqueue.find('\n'));
  EXPECT_EQ(columns.size(), base::split(first_row, '|').size());
  EXPECT_EQ(columns.front(), "%A");
  EXPECT_EQ(columns.back(), "%A") << "the id closes the row";
  EXPECT_EQ(columns[columns.size() - 2], "%j") << "the name is the last free text";
  for (const char* const id : {"", "x", "1,2", "-1", "0", "12345678901", "1 2", "1\n2"}) {
    EXPECT_THROW((void)slurm::squeue_arguments({.ids = {id}}, slurm::kUnitSeparator), base::Error)
        << id;
  }
}

std::string squeue_row(const std::string& id, const std::string& state, const std::string& name,
                       std::string_view separator, const std::string& comment = "") {
  std::string row = id + "|" + state;
  for (int i = 2; i < 20; ++i) row += "|";
  row += "|" + comment;
  return with_separator(row, separator) + std::string(separator) + name + std::string(separator) +
         id + "\n";
}

TEST(Squeue, HostileNamesStayInTheirPlace) {
  const std::string kNames[] = {
      "a\nb",
      "a\n\n\nb\n",
      "\n",
      "x\n99\x1f"
      "CANCELLED\x1f"
      "99\n",
      "a\0b"s,
      "\x1b[31mred\x07",
      "$(reboot) `id` \"'\\",
      "#SBATCH --nodes=100\n",
      std::string(1 << 20, 'x'),
      std::string(1 << 20, '\n'),
      "\xff\xfe\x80",
      "JobState=CANCELLED",
  };
  const std::string separator = slurm::random_separator();
  EXPECT_NE(separator, slurm::random_separator());
  for (const std::string& name : kNames) {
    const std::string shown = base::printable(name.substr(0, 40));
    const std::string text = squeue_row("1", "RUNNING", "before", separator) +
                             squeue_row("2", "PENDING", name, separator, name) +
                             squeue_row("3", "RUNNING", "after", separator);
    const slurm::Jobs jobs = slurm::parse_squeue(text, separator);
    EXPECT_EQ(jobs.damaged, 0u) << shown;
    ASSERT_EQ(jobs.rows.size(), 3u) << shown;
    EXPECT_EQ(jobs.rows[1].id, "2");
    EXPECT_EQ(jobs.rows[1].state.base, slurm::JobBase::Pending) << shown;
    EXPECT_TRUE(jobs.rows[1].name == name) << shown;
    EXPECT_TRUE(jobs.rows[1].comment == name) << shown;
    EXPECT_EQ(jobs.rows[2].name, "after");
  }
}

TEST(Squeue, ANameThatImitatesARowIsNoneUnderARandomSeparator) {
  const std::string forged = "x\n" + squeue_row("99", "CANCELLED", "forged", slurm::kUnitSeparator);
  const std::string separator = slurm::random_separator();
  const slurm::Jobs jobs =
      slurm::parse_squeue(squeue_row("2", "RUNNING", forged, separator), separator);
  ASSERT_EQ(jobs.rows.size(), 1u);
  EXPECT_EQ(jobs.rows[0].id, "2");
  EXPECT_EQ(jobs.rows[0].name, forged);
}

TEST(Squeue, ASeparatorInANameCostsOnlyItsRow) {
  const std::string text = squeue_row("1", "RUNNING", "a", slurm::kUnitSeparator) +
                           squeue_row("2", "RUNNING",
                                      "b\x1fPENDING\x1f"
                                      "3",
                                      slurm::kUnitSeparator) +
                           squeue_row("4", "RUNNING", "c", slurm::kUnitSeparator);
  const slurm::Jobs jobs = slurm::parse_squeue(text, slurm::kUnitSeparator);
  EXPECT_EQ(jobs.damaged, 1u);
  ASSERT_EQ(jobs.rows.size(), 2u);
  EXPECT_EQ(jobs.rows[0].id, "1");
  EXPECT_EQ(jobs.rows[1].id, "4");
}

TEST(Squeue, EveryCutOfAnAnswerKeepsWholeRowsOnly) {
  const std::string text = with_separator(kSqueue);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const slurm::Jobs jobs = slurm::parse_squeue(text.substr(0, size), slurm::kUnitSeparator);
    ASSERT_LE(jobs.rows.size() + jobs.damaged, 3u) << size;
    for (std::size_t i = 0; i < jobs.rows.size(); ++i) {
      ASSERT_EQ(jobs.rows[i].id, std::to_string(17 + i)) << size;
    }
  }
}

TEST(Squeue, RowsWithoutAJobIdAreDamaged) {
  for (const char* const id : {"0", "1_2", "17+0", "abc", "12345678901", "-1"}) {
    const slurm::Jobs jobs = slurm::parse_squeue(
        squeue_row(id, "RUNNING", "a", slurm::kUnitSeparator), slurm::kUnitSeparator);
    EXPECT_TRUE(jobs.rows.empty()) << id;
    EXPECT_EQ(jobs.damaged, 1u) << id;
  }
}

// --- sacct ------------------------------------------------------------------------------------

// As 22.05 prints it: no FailedNode, no Restarts.
const std::string kSacct =
    "21|FAILED|3:0|5:0|2026-11-21T12:00:00|2026-11-21T12:00:00|2026-11-21T12:00:05|2026-11-21T12:"
    "00:15|"
    "10|00:10:00|4|128|4294901757|billing=128,cpu=128,gres/gpu:h100=32,gres/"
    "gpu=32,mem=1024000M,node=4|"
    "billing=4,cpu=4,node=4|main|ml|normal|ada|node[01-04]|None|/home/ada|"
    "sbatch --parsable /runs/demo/submit/0123456789abcdef.sh||regatta-0123456789abcdef|21\n"
    "22|REQUEUED|0:0|0:0|2026-11-21T12:00:00|2026-11-21T12:00:00|2026-11-21T12:01:00|"
    "2026-11-21T12:02:00|60|UNLIMITED|2|2|1|cpu=2,node=2||main|ml|normal|ada|node[01-02]|"
    "None|/|"
    "sbatch a.sh|regatta:1|a|22\n"
    "22|RUNNING|0:0|0:0|2026-11-21T12:02:00|2026-11-21T12:04:00|2026-11-21T12:04:10|Unknown|100|"
    "Partition_Limit|2|2|1|cpu=2,node=2||main|ml|normal|ada|node[03-04]|None|/|sbatch a.sh||a|22\n"
    "23|CANCELLED by "
    "1000|0:0|0:0|2026-11-21T12:00:00|Unknown|None|2026-11-21T12:02:00|0|00:01:00|1|0|1||"
    "cpu=1|main||normal||None assigned|None|/|||evil\nname|23\n";

TEST(Sacct, ReadsRows) {
  const slurm::Jobs jobs =
      slurm::parse_sacct(with_separator(kSacct), slurm::kUnitSeparator, kBookworm);
  EXPECT_EQ(jobs.damaged, 0u);
  ASSERT_EQ(jobs.rows.size(), 4u);
  const slurm::JobRow& failed = jobs.rows[0];
  EXPECT_EQ(failed.id, "21");
  EXPECT_EQ(failed.state.base, slurm::JobBase::Failed);
  EXPECT_EQ(failed.exit->code, 3);
  EXPECT_EQ(failed.exit->signal, 0);
  EXPECT_EQ(failed.derived_exit->code, 5);
  EXPECT_EQ(failed.elapsed, 10);
  EXPECT_EQ(failed.limit, 600);
  EXPECT_EQ(slurm::gpu_count(failed), 32);
  EXPECT_EQ(failed.submit_line, "sbatch --parsable /runs/demo/submit/0123456789abcdef.sh");
  EXPECT_EQ(failed.name, "regatta-0123456789abcdef");
  EXPECT_EQ(failed.comment, std::nullopt) << "without AccountingStoreFlags=job_comment";
  EXPECT_EQ(failed.restarts, std::nullopt);
  EXPECT_EQ(jobs.rows[1].state.raw, "REQUEUED");
  EXPECT_EQ(jobs.rows[1].failed_node, std::nullopt);
  EXPECT_TRUE(slurm::ended_in_accounting(jobs.rows[1].state));
  EXPECT_EQ(jobs.rows[2].end, std::nullopt);
  EXPECT_EQ(jobs.rows[2].limit, std::nullopt);
  EXPECT_EQ(jobs.rows[3].state.base, slurm::JobBase::Cancelled);
  EXPECT_EQ(jobs.rows[3].start, std::nullopt);
  EXPECT_EQ(jobs.rows[3].nodes, std::nullopt);
  EXPECT_EQ(jobs.rows[3].user, std::nullopt);
  EXPECT_EQ(jobs.rows[3].name, "evil\nname");
}

TEST(Sacct, ColumnsFollowTheVersion) {
  const auto format = [](const slurm::SlurmVersion& version) {
    std::string columns;
    for (const std::string& argument :
         slurm::sacct_arguments({.user = "ada"}, kNoon, slurm::kUnitSeparator, version)) {
      if (argument.rfind("--format=", 0) == 0) columns = argument.substr(9);
    }
    return columns;
  };
  EXPECT_THAT(format(kBookworm), Not(HasSubstr("Restarts")));
  EXPECT_THAT(format(kBookworm), Not(HasSubstr("FailedNode"))) << "it refuses the whole request";
  EXPECT_THAT(format({25, 5, 0}), HasSubstr("FailedNode"));
  EXPECT_THAT(format(kBookworm), HasSubstr("SubmitLine"));
  EXPECT_THAT(format({24, 11, 0}), HasSubstr("Restarts"));
  EXPECT_THAT(format({25, 5, 0}), HasSubstr("Restarts"));
  EXPECT_THAT(format({20, 11, 0}), Not(HasSubstr("SubmitLine")));
  for (const slurm::SlurmVersion& version :
       {slurm::SlurmVersion{20, 11, 0}, kBookworm, slurm::SlurmVersion{25, 11, 0}}) {
    // A row of that many columns is read: request and parser agree.
    const std::size_t columns = base::split(format(version), ',').size();
    std::string row = "5|COMPLETED";
    for (std::size_t i = 2; i + 2 < columns; ++i) row += "|";
    row += "|name|5\n";
    const slurm::Jobs jobs =
        slurm::parse_sacct(with_separator(row), slurm::kUnitSeparator, version);
    ASSERT_EQ(jobs.rows.size(), 1u) << slurm::to_string(version);
    EXPECT_EQ(jobs.rows[0].name, "name");
  }
}

TEST(Sacct, AsksFromATimeForEveryExecution) {
  const auto arguments =
      slurm::sacct_arguments({.user = "n"}, kNoon + 0.7, slurm::kUnitSeparator, kBookworm);
  EXPECT_THAT(arguments, Contains("--starttime=2026-11-21T12:00:00"));
  EXPECT_THAT(arguments, Contains("--duplicates"));
  EXPECT_THAT(arguments, Contains("--noconvert"));
  EXPECT_THAT(arguments, Contains("--allocations"));
  EXPECT_THAT(arguments, Contains("--delimiter=\x1f"));
}

TEST(Sinfo, OneRowANode) {
  const std::string text =
      "node01|idle|0/32/0/32|256000|200000|0.10|gpu:h100:8(S:0-1)|ib,h100|main|none|node01\n"
      "node01|idle|0/32/0/32|256000|200000|0.10|gpu:h100:8(S:0-1)|ib,h100|high|none|node01\n"
      "node02|drained*|0/0/32/32|256000|N/A|N/A|(null)|(null)|main|health:\nxid 79|node02\n"
      "node03|down|||||||||no\n";
  const slurm::Nodes nodes = slurm::parse_sinfo(with_separator(text), slurm::kUnitSeparator);
  EXPECT_EQ(nodes.damaged, 1u);
  ASSERT_EQ(nodes.rows.size(), 2u);
  EXPECT_EQ(nodes.rows[0].cpus, 32);
  EXPECT_EQ(nodes.rows[0].cpus_allocated, 0);
  EXPECT_EQ(nodes.rows[0].gpus->count, 8);
  EXPECT_THAT(nodes.rows[0].partitions, ElementsAre("main", "high"));
  EXPECT_EQ(nodes.rows[0].reason, std::nullopt);
  EXPECT_EQ(nodes.rows[1].reason, "health:\nxid 79");
  EXPECT_EQ(nodes.rows[1].load, std::nullopt);
  EXPECT_FALSE(slurm::can_work(nodes.rows[1].state));
  const std::vector<std::string> arguments = slurm::sinfo_arguments(slurm::kUnitSeparator);
  EXPECT_EQ(base::split(arguments.back(), '\x1f').size(), 11u);
}

TEST(Sbatch, PrintedId) {
  EXPECT_EQ(slurm::parse_submitted_id("123\n"), "123");
  EXPECT_EQ(slurm::parse_submitted_id("123;lab\n"), "123");
  EXPECT_EQ(slurm::parse_submitted_id("Welcome to lab\n\n4294967294\n\n"), "4294967294");
  for (const char* const text : {"", "\n", "0", "Submitted batch job 5", "12a", "-5", "5 6", ";lab",
                                 "123\nbye\n", "99999999999", "0x10", "1_2"}) {
    EXPECT_EQ(slurm::parse_submitted_id(text), std::nullopt) << text;
  }
}

// --- real words
// -----------------------------------------------------------------------------------

TEST(RealAnswers, StatesTresAndHostlistsAreUnderstood) {
  REGATTA_NEED_SHARED("slurm_rest");
  using Json = nlohmann::json;
  int jobs = 0;
  int nodes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(tests::shared_path("slurm_rest"))) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".json" || file.rfind("slurm-", 0) != 0) continue;
    std::ifstream stream(entry.path());
    const Json answer = Json::parse(stream, nullptr, false);
    if (!answer.is_object()) continue;
    for (const Json& job : answer.value("jobs", Json::array())) {
      if (!job.contains("job_state")) continue;
      ++jobs;
      std::vector<std::string> words;
      for (const Json& word : job["job_state"]) words.push_back(word);
      const slurm::JobState state = slurm::parse_job_state(base::join(words, "+"));
      EXPECT_TRUE(state.unknown.empty()) << state.raw << " in " << file;
      EXPECT_NE(slurm::phase(state), slurm::JobPhase::Unknown) << state.raw;
      const std::string list = job.value("nodes", "");
      EXPECT_EQ(topology::graph::expand_hostlist(list).size() > 0, !list.empty()) << list;
      const std::string tres = job.value("tres_alloc_str", "");
      const auto gpus = slurm::parse_tres(tres).gpus;
      EXPECT_EQ(gpus.has_value(), tres.find("gres/gpu=") != std::string::npos) << tres;
    }
    for (const Json& node : answer.value("nodes", Json::array())) {
      if (!node.is_object() || !node.contains("state")) continue;
      ++nodes;
      std::vector<std::string> words;
      for (const Json& word : node["state"]) words.push_back(word);
      const slurm::NodeState state = slurm::parse_node_state(base::join(words, "+"));
      EXPECT_TRUE(state.unknown.empty()) << state.raw << " in " << file;
      const std::string gres = node.value("gres", "");
      EXPECT_EQ(slurm::parse_gres(gres).has_value(), gres.find("gpu") != std::string::npos) << gres;
    }
  }
  EXPECT_GT(jobs, 100);
  EXPECT_GT(nodes, 50);
}

}  // namespace
}  // namespace regatta::orchestrator
