// Expected values by the manual pages: slurm.conf (Gres, TRES), sinfo (NODE STATE CODES).
#include "topology/slurm_text/values.h"

#include <gmock/gmock.h>

#include "topology/slurm_text/node_state.h"

namespace regatta::topology {
namespace {

TEST(Tres, CountsGpusOnce) {
  const slurm_text::Tres both =
      slurm_text::parse_tres("billing=32,cpu=32,gres/gpu:h100=32,gres/gpu=32,mem=128G,node=4");
  EXPECT_EQ(both.cpus, 32);
  EXPECT_EQ(both.nodes, 4);
  EXPECT_EQ(both.memory_bytes, 128.0 * (1U << 30U));
  ASSERT_TRUE(both.gpus);
  EXPECT_EQ(both.gpus->count, 32);
  EXPECT_EQ(both.gpus->by_type.at("h100"), 32);
  EXPECT_EQ(slurm_text::parse_tres("cpu=1,gres/gpu=8").gpus->count, 8);
  EXPECT_EQ(slurm_text::parse_tres("gres/gpu:h100=8,gres/gpu:a100=4").gpus->count, 12);
  EXPECT_EQ(slurm_text::parse_tres("gres/gpu:h100=8,gres/gpu:a100=4,gres/gpu=12").gpus->count, 12);
  EXPECT_EQ(slurm_text::parse_tres("mem=1024000M").memory_bytes, 1024000.0 * 1048576);
  EXPECT_EQ(slurm_text::parse_tres("mem=7.50G").memory_bytes, 7.5 * (1U << 30U));
  EXPECT_EQ(slurm_text::parse_tres("mem=100").memory_bytes, 100.0 * 1048576);
  EXPECT_EQ(slurm_text::parse_tres("mem=8K").memory_bytes, 8192.0);
  EXPECT_EQ(slurm_text::parse_tres("mem=2T").memory_bytes, 2.0 * (1ULL << 40U));
  EXPECT_EQ(slurm_text::parse_tres("mem=1.5P").memory_bytes, 1.5 * (1ULL << 50U));
  for (const char* const text :
       {"", "cpu", "cpu=", "cpu=x", "gres/gpu=-1", "gres/gpu=", "=8", ",,,", "gres/gpux=8",
        "gres/gpumem=8", "gres/gpu=99999999999999999999", "mem=x", "mem=1e99G", "gres/gpu=1000001",
        "gres/gpu:a=999999,gres/gpu:b=2"}) {
    const slurm_text::Tres tres = slurm_text::parse_tres(text);
    EXPECT_FALSE(tres.gpus || tres.cpus || tres.nodes || tres.memory_bytes) << text;
  }
}

TEST(Gres, OfNodesAndRequests) {
  const std::pair<const char*, int> rows[] = {
      {"gpu:h100:8", 8},
      {"gpu:h100:8(S:0-1)", 8},
      {"gpu:h100:4(IDX:0-1,6-7)", 4},
      {"gpu:h100:8(S:0-1),gpu:a100:2", 10},
      {"gpu:8", 8},
      {"gres/gpu:8", 8},
      {"gres:gpu:8", 8},
      {"gres:gpu:h100:3", 3},
      {"gpu", 1},
      {"gpu:h100", 1},
      {"mps:100,gpu:2", 2},
      {"gpu:0", 0},
      {"gpu:(null):4(IDX:0-3)", 4},  // GresUsed of GPUs without a type
      {"gpu:(null):0(IDX:N/A)", 0},
      {"gpu:a100:no_consume:4", 4},
      {"gpu:no_consume:4", 4},
      {"gpu:1K", 1024},
      {"gpu:h100:2k", 2048},
      {"gpu:1g.10gb:7", 7},  // MIG
      {"gpu:a100:4(S:0-1),gpu:v100:2(S:0),shard:16(S:0-1),nic:4", 6},
      {"craynetwork:4,gpu:4", 4},
      {"gpu:1000000", 1000000},
  };
  for (const auto& [text, count] : rows) {
    ASSERT_TRUE(slurm_text::parse_gres(text)) << text;
    EXPECT_EQ(slurm_text::parse_gres(text)->count, count) << text;
  }
  using Types = std::map<std::string, std::int64_t>;
  const auto types = [](const char* text) { return slurm_text::parse_gres(text)->by_type; };
  EXPECT_EQ(types("gpu:h100:8(S:0-1),gpu:a100:2"), (Types{{"h100", 8}, {"a100", 2}}));
  EXPECT_EQ(types("gpu:h100:4(S:0),gpu:h100:4(S:1)"), (Types{{"h100", 8}}));
  EXPECT_EQ(types("gpu:h100"), (Types{{"h100", 1}}));
  EXPECT_EQ(types("gpu:1g.10gb:7"), (Types{{"1g.10gb", 7}}));
  EXPECT_EQ(types("gpu:a100:no_consume:4"), (Types{{"a100", 4}}));
  EXPECT_EQ(types("gpu:8"), Types{});
  EXPECT_EQ(types("gpu:2,gpu:h100:8"), (Types{{"h100", 8}})) << "some have no type";
  EXPECT_EQ(types("gpu:(null):4(IDX:0-3)"), Types{});
  for (const char* const text : {"",
                                 "(null)",
                                 "N/A",
                                 "mps:100",
                                 "gpus:8",
                                 "gpu:a:b:8",
                                 "((((",
                                 ")",
                                 "shard:16",
                                 "nic:2",
                                 "gres/",
                                 "gpu:-1",
                                 "gpu:h100:-8",
                                 "gpu:8,gpu:a:b:8",
                                 "gpu:8(S:0",
                                 "gpu:8),gpu:8",
                                 "gpu:h\x1b[31m:8",
                                 "gpu:1000001",
                                 "gpu:h100:999999,gpu:a100:2",
                                 "gpu:99999999999999999999",
                                 "gpu:9223372036854775807,gpu:9223372036854775807",
                                 "gpu:4G"}) {
    EXPECT_FALSE(slurm_text::parse_gres(text)) << text;
  }
}

TEST(NodeState, BaseAndFlags) {
  struct Row {
    const char* text;
    const char* printed;
    bool can_work;
  };
  const Row rows[] = {
      {"idle", "IDLE", true},
      {"mixed", "MIXED", true},
      {"allocated", "ALLOCATED", true},
      {"idle*", "IDLE+NOT_RESPONDING", false},
      {"down*", "DOWN+NOT_RESPONDING", false},
      {"drained", "IDLE+DRAIN", false},
      {"draining", "ALLOCATED+DRAIN", false},
      {"drained*", "IDLE+DRAIN+NOT_RESPONDING", false},
      {"mixed-", "MIXED+PLANNED", true},
      {"planned", "IDLE+PLANNED", true},
      {"idle~", "IDLE+POWERED_DOWN", true},
      {"idle#", "IDLE+POWERING_UP", true},
      {"idle%", "IDLE+POWERING_DOWN", false},
      {"maint", "IDLE+MAINTENANCE", false},
      {"reserved", "IDLE+RESERVED", true},
      {"completing", "ALLOCATED+COMPLETING", true},
      {"failing", "ALLOCATED+FAIL", false},
      {"reboot^", "REBOOT_REQUESTED", false},
      {"inval", "INVALID_REG", false},
      {"future", "FUTURE", false},
      {"unknown", "UNKNOWN(unknown)", false},
      {"IDLE+DRAIN", "IDLE+DRAIN", false},
      {"IDLE+CLOUD+POWERED_DOWN", "IDLE+POWERED_DOWN+CLOUD", true},
      {"MIXED+COMPLETING", "MIXED+COMPLETING", true},
      {"DOWN+NOT_RESPONDING", "DOWN+NOT_RESPONDING", false},
      {"IDLE+DYNAMIC_NORM", "IDLE+UNKNOWN(DYNAMIC_NORM)", true},
      {"DOWN+DRAIN+INVALID_REG", "DOWN+DRAIN+INVALID_REG", false},
      {"MIXED*", "MIXED+NOT_RESPONDING", false},
      {"DOWN~", "DOWN+POWERED_DOWN", false},
      {"DOWN*+DRAIN", "DOWN+DRAIN+NOT_RESPONDING", false},
      {"IDLE*+DRAIN", "IDLE+DRAIN+NOT_RESPONDING", false},
      {"IDLE#+CLOUD", "IDLE+POWERING_UP+CLOUD", true},
      {"allocated+", "ALLOCATED", true},
      {"IDLE+BLOCKED", "IDLE+BLOCKED", false},
      {"IDLE+MAINTENANCE+RESERVED", "IDLE+MAINTENANCE+RESERVED", false},
      {"IDLE+\x1b[2J", "IDLE+UNKNOWN(\\x1b[2J)", true},
      {"*", "NOT_RESPONDING", false},
      {"+,+", "UNKNOWN", false},
      {"", "UNKNOWN", false},
  };
  for (const Row& row : rows) {
    const slurm_text::NodeState state = slurm_text::parse_node_state(row.text);
    EXPECT_EQ(slurm_text::to_string(state), row.printed) << row.text;
    EXPECT_EQ(slurm_text::can_work(state), row.can_work) << row.text;
    EXPECT_EQ(state.raw, row.text);
  }
  EXPECT_LE(slurm_text::parse_node_state(std::string(1 << 20, 'A')).raw.size(), 256u);
}

}  // namespace
}  // namespace regatta::topology
