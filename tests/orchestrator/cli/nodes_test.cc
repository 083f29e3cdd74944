// Nodes, from the scheduler's table to what people read.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/node_json.h"
#include "orchestrator/cli/nodes_text.h"
#include "orchestrator/slurm/node_table.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::ordered_json;

// The API on a controller without processes.
class NodesApiTest : public testing::Test {
 protected:
  Json nodes(slurm::NodeTable* table) {
    api::Api api(controller_, base::posix_file_system(), clock_, {folder_.path(), {}, table});
    return Json::parse(api.handle({"GET", "/api/v1/nodes", {}, {}, ""}).body);
  }
  int status(const std::string& method, const std::string& path) {
    api::Api api(controller_, base::posix_file_system(), clock_, {folder_.path()});
    return api.handle({method, path, {}, {}, ""}).status;
  }
  std::string submit() {
    const std::string id = controller_.submit(tests::run_file(), {}).run.id;
    for (int i = 0; i < 3; ++i) controller_.tick();
    return id;
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  store::Store store_{folder_.path() / "state"};
  control::Controller controller_{base::posix_file_system(),
                                  clock_,
                                  store_,
                                  scheduler_,
                                  {folder_.path() / "runs", 1, {}, 0.25}};
};

TEST_F(NodesApiTest, WithoutSlurmTheNodeIsThisMachine) {
  Json answer = nodes(nullptr);
  EXPECT_EQ(answer["scheduler"], "scripted");
  EXPECT_EQ(answer["age_seconds"], 0);
  ASSERT_EQ(answer["nodes"].size(), 1U);
  EXPECT_EQ(answer["nodes"][0]["state"], "idle");
  EXPECT_EQ(answer["nodes"][0]["usable"], true);
  EXPECT_EQ(answer["nodes"][0]["runs"], Json::array());
  EXPECT_GT(answer["nodes"][0]["cpus"], 0);
  const std::string id = submit();
  answer = nodes(nullptr);
  EXPECT_EQ(answer["nodes"][0]["runs"], Json({id}));
  EXPECT_EQ(answer["nodes"][0]["state"], "mixed");
  EXPECT_EQ(status("POST", "/api/v1/nodes"), 405);
  EXPECT_EQ(status("GET", "/api/v1/nodes/x"), 404);
}

TEST_F(NodesApiTest, TellsTheTableAndThatSomebodyLooks) {
  slurm::NodeTable table;
  EXPECT_FALSE(table.is_wanted(clock_.monotonic_seconds()));
  EXPECT_TRUE(nodes(&table)["taken_at"].is_null());
  EXPECT_TRUE(table.is_wanted(clock_.monotonic_seconds()));
  const std::string id = submit();
  slurm::NodeRow row;
  row.name = "node01";
  row.state = slurm::parse_node_state("IDLE+DRAIN");
  row.reason = "\x1b[31m\xff";
  table.fill({{row}, 0}, clock_.utc_seconds());
  table.set_jobs({{scheduler_.launches.at(0).token, "node[01-02]"}});
  const Json answer = nodes(&table);
  EXPECT_EQ(answer["age_seconds"], 0);
  ASSERT_EQ(answer["nodes"].size(), 1U);
  EXPECT_EQ(answer["nodes"][0]["state"], "drained");
  EXPECT_EQ(answer["nodes"][0]["reason"], "\x1b[31m\xEF\xBF\xBD");
  EXPECT_EQ(answer["nodes"][0]["runs"], Json({id}));
  EXPECT_TRUE(answer["trouble"].is_null());
  scheduler_.slurm = runs::Contact{1.7e9, "squeue did not answer in time", {}};
  EXPECT_EQ(nodes(&table)["trouble"], "squeue did not answer in time") << "nor will scontrol";
}

TEST_F(NodesApiTest, WhoAsksIsSomebodyWhoLooks) {
  const std::string id = submit();
  api::Api api(controller_, base::posix_file_system(), clock_, {folder_.path()});
  scheduler_.slurm = runs::Contact{1.7e9, "no answer", {}};
  Json run = Json::parse(api.handle({"GET", "/api/v1/runs/" + id, {}, {}, ""}).body);
  EXPECT_EQ(run["slurm"]["trouble"], "no answer");
  EXPECT_EQ(scheduler_.looks, 0) << "a page reads that every second";
  run = Json::parse(api.handle({"GET", "/api/v1/runs/" + id + "/explain", {}, {}, ""}).body);
  EXPECT_EQ(run["slurm"]["trouble"], "no answer");
  EXPECT_EQ(scheduler_.looks, 1);
  EXPECT_EQ(api.handle({"POST", "/api/v1/runs/" + id + "/cancel", {}, {}, ""}).status, 202);
  EXPECT_EQ(scheduler_.looks, 2);
}

constexpr double kNow = 1.7e9;

slurm::NodeRow node(const std::string& name, const std::string& state,
                    const std::vector<std::string>& partitions = {"main"}) {
  slurm::NodeRow row;
  row.name = name;
  row.state = slurm::parse_node_state(state);
  row.cpus = 32;
  row.cpus_allocated = row.state.base == slurm::NodeBase::Allocated ? 32 : 0;
  row.memory_bytes = 256e9;
  row.memory_free_bytes = 200e9;
  row.gpus = slurm::Gpus{8, {{"h100", 8}}};
  row.gpus_allocated = row.state.base == slurm::NodeBase::Allocated ? 8 : 0;
  row.partitions = partitions;
  return row;
}

// Six nodes with everything that can be said of them.
api::NodesAnswer six_nodes() {
  api::NodesAnswer answer;
  answer.scheduler = "slurm_cli";
  answer.now_utc = kNow;
  answer.nodes.taken_utc = kNow - 12;
  std::vector<slurm::NodeRow> rows = {
      node("node01", "IDLE"),       node("node02", "IDLE"),
      node("node03", "ALLOCATED"),  node("node04", "ALLOCATED"),
      node("node05", "IDLE+DRAIN"), node("node06", "DOWN+NOT_RESPONDING")};
  rows[4].reason = "bad \x1b[31m\xff\n<script> x";
  rows[5].reason = "Not responding [slurm@2026-11-21T12:00:00]";
  answer.nodes.rows = rows;
  answer.nodes.jobs = {
      {"t1", "node[03-04]"}, {"t2", "node04"}, {"t3", "node[3-"}, {"old", "node01"}};
  answer.run_by_token = {{"t1", "demo-4f2a91"}, {"t2", "other-1"}, {"t3", "odd-1"}};
  answer.events = {{"node02", kNow - 720, slurm::Blame::NodeFailed, "demo-4f2a91", "", 1},
                   {"node09", kNow, slurm::Blame::Hung, "demo-4f2a91", "", 1}};
  return answer;
}

TEST(NodesText, ASlowNodeSaysInWhat) {
  api::NodesAnswer answer = six_nodes();
  EXPECT_THAT(cli::nodes_text(api::nodes_json(answer), {}), Not(HasSubstr("SLOW")));
  compare::BenchReport report;
  report.fleet = 8;
  report.against_fleet = {{"product", 0.01, 0.01, 6, false}, {"memory", -0.12, 0.01, 3, true}};
  answer.benches["node03"] = report;
  answer.benches["node01"] = compare::BenchReport();
  const std::string text = cli::nodes_text(api::nodes_json(answer), {});
  EXPECT_THAT(text,
              HasSubstr("SLOW    IN ITS NEWEST BENCH\nnode03  12 % slower than the median of 8 "
                        "nodes of its kind in memory\n"));
  const auto json = api::nodes_json(answer)["nodes"];
  EXPECT_TRUE(json[1]["bench"].is_null());
  EXPECT_EQ(json[2]["bench"]["against_fleet"][1]["change"], -0.12);
  EXPECT_EQ(api::slim_node(json[2])["bench_slow"], json[2]["bench_slow"]);
}

TEST(NodeTable, KeepsWhatItKnewAndSaysWhatIsMissing) {
  slurm::NodeTable table;
  EXPECT_FALSE(table.snapshot().taken_utc);
  table.fail("no answer");
  EXPECT_EQ(table.snapshot().trouble, "no answer");
  table.fill({{node("b", "IDLE"), node("a", "IDLE")}, 0}, 5);
  slurm::NodeSnapshot known = table.snapshot();
  EXPECT_EQ(known.taken_utc, 5);
  EXPECT_EQ(known.trouble, "");
  ASSERT_EQ(known.rows.size(), 2U);
  EXPECT_EQ(known.rows[0].name, "a");
  table.fail("no answer");
  known = table.snapshot();
  EXPECT_EQ(known.rows.size(), 2U);
  EXPECT_EQ(known.taken_utc, 5);
  table.fill({{node("a", "IDLE")}, 2}, 6);
  EXPECT_THAT(table.snapshot().trouble, HasSubstr("2 of Slurm's nodes"));
}

TEST(NodeTable, IsWantedForAWhile) {
  slurm::NodeTable table;
  EXPECT_FALSE(table.is_wanted(0));
  table.want(100);
  EXPECT_TRUE(table.is_wanted(100));
  EXPECT_TRUE(table.is_wanted(399));
  EXPECT_FALSE(table.is_wanted(400));
}

trainer::contract::SlurmResources in_partition(const std::string& partition) {
  trainer::contract::SlurmResources wanted;
  wanted.partition = partition;
  return wanted;
}

TEST(NodeTable, UsableNodes) {
  slurm::NodeSnapshot nodes;
  nodes.rows = {node("a", "IDLE", {"main", "high"}),
                node("b", "ALLOCATED"),
                node("c", "IDLE+DRAIN"),
                node("d", "DOWN"),
                node("e", "IDLE+NOT_RESPONDING"),
                node("f", "MIXED", {"high"}),
                node("g", "IDLE", {})};
  EXPECT_THAT(*slurm::usable_nodes(nodes, in_partition("")), ElementsAre("a", "b", "f", "g"));
  EXPECT_THAT(*slurm::usable_nodes(nodes, in_partition("main")), ElementsAre("a", "b"));
  EXPECT_THAT(*slurm::usable_nodes(nodes, in_partition("high")), ElementsAre("a", "f"));
  EXPECT_THAT(*slurm::usable_nodes(nodes, in_partition("hig")), IsEmpty());
  trainer::contract::SlurmResources wanted = in_partition("");
  wanted.exclude = {"a,b", "f"};
  EXPECT_THAT(*slurm::usable_nodes(nodes, wanted), testing::Not(testing::Contains("f")));
  wanted.constraint = "no such feature";
  EXPECT_THAT(*slurm::usable_nodes(nodes, wanted), IsEmpty());
  wanted.constraint = "fast&big";
  EXPECT_FALSE(slurm::usable_nodes(nodes, wanted)) << "Slurm's to decide";
}

TEST(NodesText, ShowsReservationsThatAreNotOver) {
  api::NodesAnswer answer;
  answer.scheduler = "slurm_cli";
  answer.now_utc = 1000;
  answer.nodes.rows = {node("a", "IDLE")};
  answer.nodes.taken_utc = 1000;
  answer.nodes.reservations = {{"over", 100, 1000, false, "a"},
                               {"m\x1b[1m", 5000, 5000 + 4 * 3600, true, "a[1-4]"}};
  const Json json = api::nodes_json(answer);
  ASSERT_EQ(json["reservations"].size(), 1U);
  EXPECT_EQ(json["reservations"][0]["starts_at"], "1970-01-01T01:23:20.000Z");
  ::setenv("TZ", "EAST-5:30", 1);
  ::tzset();
  const std::string text = cli::nodes_text(json, {});
  ::unsetenv("TZ");
  ::tzset();
  EXPECT_THAT(text, HasSubstr("1970-01-01 06:53:20"));
  EXPECT_THAT(text, HasSubstr("4 h"));
  EXPECT_THAT(text, HasSubstr("maintenance"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(NodeTable, DeadNodes) {
  slurm::NodeSnapshot nodes;
  nodes.rows = {node("a", "IDLE"), node("b", "IDLE+DRAIN"), node("c", "DOWN"),
                node("d", "ALLOCATED+NOT_RESPONDING"), node("e", "DOWN+DRAIN")};
  EXPECT_THAT(slurm::dead_nodes(nodes), ElementsAre("c", "d", "e"));
}

TEST(NodeTable, SaysWhatNoNodeHas) {
  slurm::NodeSnapshot nodes;
  std::vector<slurm::NodeRow> rows = {node("a", "IDLE", {"main"}), node("b", "DOWN", {"main"}),
                                      node("c", "IDLE", {"big"})};
  for (slurm::NodeRow& row : rows) {
    row.cpus = row.name == "c" ? 64 : 16;
    row.memory_bytes = 64e9;
    row.gpus = slurm::Gpus{row.name == "c" ? 8 : 4, {}};
  }
  nodes.rows = rows;
  const auto told = [&](const auto& change) {
    trainer::contract::SlurmResources wanted = in_partition("main");
    wanted.ranks_per_node = 4;
    change(&wanted);
    return slurm::why_no_node(nodes, wanted);
  };
  using R = trainer::contract::SlurmResources;
  EXPECT_EQ(told([](R*) {}), "");
  EXPECT_THAT(told([](R* r) { r->exclude = {"a,b"}; }),
              HasSubstr("slurm.exclude leaves 0 of the 2 nodes of partition main"));
  EXPECT_THAT(told([](R* r) { r->exclude = {"a"}, r->min_nodes = 2; }),
              HasSubstr("leaves 1 of the 2 nodes of partition main, and the run asks for 2"));
  EXPECT_EQ(told([](R* r) { r->exclude = {"a"}; }), "");
  EXPECT_THAT(told([](R* r) { r->gpus_per_rank = 2; }),
              HasSubstr("8 GPUs a node, and no node of partition main has more than 4"));
  EXPECT_EQ(told([](R* r) { r->gpus_per_rank = 2, r->partition = "big"; }), "");
  EXPECT_THAT(told([](R* r) { r->gpus_per_rank = 1, r->gpu_type = "b200"; }),
              HasSubstr("4 b200 GPUs a node, and no node of partition main has more than 0"));
  for (const char* unread : {"a[", "a[0-99999999]", "a[9-1]"}) {
    EXPECT_EQ(told([&](R* r) { r->exclude = {unread}; }), "") << "Slurm tells";
  }
  EXPECT_THAT(told([](R* r) { r->cpus_per_rank = 5; }), HasSubstr("20 CPUs a node"));
  EXPECT_THAT(told([](R* r) { r->memory_per_node_mib = 70000; }), HasSubstr("of memory a node"));
  EXPECT_THAT(told([](R* r) { r->options = {"--nice", "--tmp=1T"}; }), HasSubstr("--tmp=1T"));
  nodes.rows = {};
  EXPECT_EQ(told([](R* r) { r->gpus_per_rank = 99; }), "") << "nothing is known";
}

TEST(ThisMachine, TellsItsGpus) {
  const tests::TemporaryDirectory folder;
  slurm::NodeRow row = slurm::this_machine(folder.path());
  EXPECT_FALSE(row.name.empty());
  EXPECT_GT(row.cpus.value_or(0), 0);
  EXPECT_GT(row.memory_bytes.value_or(0), row.memory_free_bytes.value_or(1e30));
  EXPECT_FALSE(row.gpus);
  EXPECT_TRUE(slurm::can_work(row.state));
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"}) {
    const base::Path path = folder.path() / "driver" / "nvidia" / "gpus" / bus;
    std::filesystem::create_directories(path);
    tests::write_file(path / "information", "Model: \t\t NVIDIA H200\nIRQ:   11\n");
  }
  row = slurm::this_machine(folder.path());
  ASSERT_TRUE(row.gpus);
  EXPECT_EQ(row.gpus->count, 2);
  EXPECT_EQ(row.gpus->by_type.at("NVIDIA H200"), 2);
}

TEST(NodesJson, JoinsRunsAndSuspicions) {
  const Json json = api::nodes_json(six_nodes());
  EXPECT_EQ(json["scheduler"], "slurm_cli");
  EXPECT_EQ(json["taken_at"], "2023-11-14T22:13:08.000Z");
  EXPECT_EQ(json["age_seconds"], 12);
  EXPECT_TRUE(json["trouble"].is_null());
  const Json& nodes = json["nodes"];
  ASSERT_EQ(nodes.size(), 6U);
  EXPECT_EQ(nodes[0], Json::parse(R"({"name": "node01", "state": "idle", "slurm_state": "IDLE",
      "usable": true, "reason": null, "action": "", "cpus": 32, "cpus_allocated": 0,
      "memory_bytes": 256e9, "memory_free_bytes": 200e9, "gpus": {"count": 8, "types": {"h100": 8}},
      "gpus_allocated": 0, "features": [], "partitions": ["main"], "runs": [], "suspicion": 0.0,
      "suspicion_why": "", "bench": null, "bench_slow": ""})"));
  EXPECT_EQ(nodes[2]["runs"], Json({"demo-4f2a91"}));
  EXPECT_EQ(nodes[3]["runs"], Json({"demo-4f2a91", "other-1"}));
  EXPECT_NEAR(nodes[1]["suspicion"].get<double>(), 0.933, 0.001);
  EXPECT_EQ(nodes[1]["suspicion_why"], "node failed under demo-4f2a91 12 min ago");
  EXPECT_EQ(nodes[4]["state"], "drained");
  EXPECT_EQ(nodes[4]["usable"], false);
  EXPECT_EQ(nodes[5]["state"], "down");
  EXPECT_THAT(nodes[5]["action"].get<std::string>(), HasSubstr("slurmd runs there"));
}

TEST(NodesJson, NothingIsKnownAtFirst) {
  api::NodesAnswer answer;
  answer.nodes.trouble = "no answer";
  const Json json = api::nodes_json(answer);
  EXPECT_TRUE(json["taken_at"].is_null());
  EXPECT_TRUE(json["age_seconds"].is_null());
  EXPECT_EQ(json["trouble"], "no answer");
  EXPECT_EQ(json["nodes"], Json::array());
  EXPECT_EQ(cli::nodes_text(json, {}), "");
}

// As a terminal gets it from a controller: invalid UTF-8 does not survive JSON.
Json received(const api::NodesAnswer& answer) {
  return Json::parse(api::nodes_json(answer).dump(-1, ' ', false, Json::error_handler_t::replace));
}

TEST(NodesText, GroupsEqualNodesAndNamesProblems) {
  EXPECT_EQ(
      cli::nodes_text(received(six_nodes()), {}),
      "STATE      COUNT  GPUS FREE   CPUS FREE  MEMORY FREE       PARTITIONS  NODES        RUNS\n"
      "idle       2      16/16 h100  64/64      400 GB of 512 GB  main        node[01-02]  \n"
      "allocated  1      0/8 h100    0/32       200 GB of 256 GB  main        node03       "
      "demo-4f2a91\n"
      "allocated  1      0/8 h100    0/32       200 GB of 256 GB  main        node04       "
      "demo-4f2a91,other-1\n"
      "drained    1      0/8 h100    0/32       0 B of 256 GB     main        node05       \n"
      "down       1      0/8 h100    0/32       0 B of 256 GB     main        node06       \n"
      "total      6      16/48       64/192     800 GB of 1.5 TB                           \n"
      "\n"
      "NODE    STATE    REASON                                      WHAT TO DO\n"
      "node05  drained  bad \\x1b[31m\xEF\xBF\xBD\\n<script> x                   "
      "once it is well, 'scontrol update nodename=node05 state=resume'\n"
      "node06  down     Not responding [slurm@2026-11-21T12:00:00]  see that the machine is on and "
      "slurmd runs there; if it stays so, 'scontrol update nodename=node06 state=resume'\n"
      "\n"
      "SUSPECT  SCORE  WHY\n"
      "node02   0.9    node failed under demo-4f2a91 12 min ago\n");
}

TEST(NodesText, OneKindOfNodeNeedsNoTotal) {
  api::NodesAnswer answer = six_nodes();
  slurm::NodeRow second = answer.nodes.rows[1];
  second.memory_free_bytes = std::nullopt;
  answer.nodes.rows = {answer.nodes.rows[0], second};
  answer.events.clear();
  answer.nodes.jobs.clear();
  EXPECT_EQ(cli::nodes_text(received(answer), {}),
            "STATE  COUNT  GPUS FREE   CPUS FREE  MEMORY FREE       PARTITIONS  NODES\n"
            "idle   2      16/16 h100  64/64      200 GB of 512 GB  main        node[01-02]\n");
}

TEST(NodesText, WhatIsNotKnownIsNotMadeUp) {
  api::NodesAnswer answer = six_nodes();
  slurm::NodeRow row = answer.nodes.rows[0];
  row.gpus = std::nullopt;
  row.gpus_allocated = std::nullopt;
  row.cpus_allocated = std::nullopt;
  row.memory_bytes = std::nullopt;
  row.partitions = {};
  answer.nodes.rows = {row};
  EXPECT_EQ(cli::nodes_text(received(answer), {}),
            "STATE  COUNT  GPUS FREE  CPUS FREE  MEMORY FREE  PARTITIONS  NODES\n"
            "idle   1      -          ?/32       -                        node01\n");
  // Of another controller: what is of the wrong kind is as if it was not there.
  EXPECT_EQ(cli::nodes_text(Json::parse(R"({"nodes": [{}, {"name": 7}, {"name": "n1", "gpus": 3,
                       "runs": "x", "usable": 1, "cpus": [], "reason": {}}]})"),
                            {}),
            cli::nodes_text(Json::parse(R"({"nodes": [{"name": "n1"}]})"), {}));
}

TEST(NodesText, OnlyTheNodesThatAreAskedFor) {
  const Json all = received(six_nodes());
  const Json some = cli::only_nodes(all, {"node[05-06]", "node01"});
  ASSERT_EQ(some["nodes"].size(), 3U);
  EXPECT_EQ(some["nodes"][0]["name"], "node01");
  EXPECT_EQ(some["taken_at"], all["taken_at"]);
  EXPECT_THAT(cli::nodes_text(all, {"node06"}), Not(HasSubstr("node05")));
  struct Case {
    const char* name;
    base::Code code;
    const char* message;
  };
  const Case cases[] = {{"nod01", base::Code::NotFound, "did you mean 'node01'"},
                        {"zzz", base::Code::NotFound, "'regatta nodes' lists them"},
                        {"node[06-07]", base::Code::NotFound, "no node 'node07'"},
                        {"node[", base::Code::User, "node["},
                        {"\x1b[2J", base::Code::User, "\\x1b"}};
  for (const Case& item : cases) {
    try {
      (void)cli::nodes_text(all, {item.name});
      ADD_FAILURE() << item.name;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), item.code) << item.name;
      EXPECT_THAT(error.what(), HasSubstr(item.message));
    }
  }
}

TEST(NodesText, ManyProblemsAreCounted) {
  api::NodesAnswer answer;
  answer.nodes.taken_utc = kNow;
  std::vector<slurm::NodeRow> rows;
  for (int i = 100; i < 400; ++i) {
    rows.push_back(node("n" + std::to_string(i), "IDLE+DRAIN"));
    rows.back().reason = std::string(159, 'x') + "\xE2\x98\x83" + "hidden";
  }
  answer.nodes.rows = rows;
  const std::string text = cli::nodes_text(received(answer), {});
  EXPECT_THAT(text, HasSubstr("n[100-399]"));
  EXPECT_THAT(text, HasSubstr("n139 "));
  EXPECT_THAT(text, Not(HasSubstr("n140 ")));
  EXPECT_THAT(text, HasSubstr("and 260 more; -o json has them all\n"));
  EXPECT_THAT(text, HasSubstr("xxx…"));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

}  // namespace
}  // namespace regatta::orchestrator
