#include "trainer/contract/slurm_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

contract::RunConfig parse(const std::string& text) {
  return contract::parse_run_config("data: {path: /d}\n" + text + "\n", "f");
}

contract::SlurmResources slurm(const std::string& text) { return *parse(text).slurm; }

TEST(SlurmResources, AreAbsentWhereTheFileSaysNothing) {
  EXPECT_FALSE(parse("steps: 1").slurm.has_value());
  EXPECT_FALSE(parse("slurm:").slurm.has_value());
  EXPECT_FALSE(parse("slurm: ~").slurm.has_value());
  EXPECT_EQ(contract::to_json(parse("steps: 1")).find("slurm"), std::string::npos);
}

TEST(SlurmResources, OfAFileWithoutThemComeFromItsRanks) {
  const contract::SlurmResources one_node = contract::slurm_resources_of(parse("ranks: 8"));
  EXPECT_EQ(one_node.min_nodes, 1);
  EXPECT_EQ(one_node.max_nodes, 1);
  EXPECT_EQ(one_node.ranks_per_node, 8);
  EXPECT_TRUE(one_node.requeue);
  const contract::SlurmResources two =
      contract::slurm_resources_of(parse("ranks: 8\nranks_per_node: 4"));
  EXPECT_EQ(two.min_nodes, 2);
  EXPECT_EQ(two.max_nodes, 2);
  EXPECT_EQ(two.ranks_per_node, 4);
  EXPECT_EQ(contract::slurm_resources_of(parse("slurm: {partition: p}")).partition, "p");
}

TEST(SlurmResources, ReadsEveryKey) {
  const contract::RunConfig config = parse(R"yaml(ranks: 32
slurm:
  partition: gpu,gpu-long
  account: ml.team
  qos: high
  reservation: r_1
  time_limit: 1-12:30:10
  nodes: 2..4
  ranks_per_node: 8
  gpus_per_rank: 1
  gpu_type: h100-80g
  defaults: false
  cpus_per_rank: 12
  memory_per_node: 512G
  constraint: h100&(ib|roce)
  exclude: ["node[01-03,07]", other]
  switches: 1@30
  requeue: false
  container:
    image: docker://registry/img:1.0
    mounts: ["/data:/data:ro", "/runs:/runs"]
    arguments: [--container-writable, --container-env=A]
  options: [--nice=10, "--mail-type=END,FAIL"]
  setup: |
    module load cuda
    ulimit -l unlimited
  environment: {NCCL_DEBUG: WARN, EMPTY: "", ODD: "a\nb $(c) 'd'"}
)yaml");
  const contract::SlurmResources& read = *config.slurm;
  EXPECT_EQ(read.partition, "gpu,gpu-long");
  EXPECT_EQ(read.account, "ml.team");
  EXPECT_EQ(read.qos, "high");
  EXPECT_EQ(read.reservation, "r_1");
  EXPECT_EQ(read.time_limit_minutes, (24 + 12) * 60 + 31) << "rounded up";
  EXPECT_EQ(read.min_nodes, 2);
  EXPECT_EQ(read.max_nodes, 4);
  EXPECT_EQ(read.ranks_per_node, 8);
  EXPECT_EQ(read.gpus_per_rank, 1);
  EXPECT_EQ(read.gpu_type, "h100-80g");
  EXPECT_FALSE(read.defaults);
  EXPECT_EQ(read.cpus_per_rank, 12);
  EXPECT_EQ(read.memory_per_node_mib, 512 * 1024);
  EXPECT_EQ(read.constraint, "h100&(ib|roce)");
  EXPECT_THAT(read.exclude, ElementsAre("node[01-03,07]", "other"));
  EXPECT_EQ(read.switches, "1@30");
  EXPECT_FALSE(read.requeue);
  EXPECT_EQ(read.container.image, "docker://registry/img:1.0");
  EXPECT_THAT(read.container.mounts, ElementsAre("/data:/data:ro", "/runs:/runs"));
  EXPECT_THAT(read.container.arguments, ElementsAre("--container-writable", "--container-env=A"));
  EXPECT_THAT(read.options, ElementsAre("--nice=10", "--mail-type=END,FAIL"));
  EXPECT_EQ(read.setup, "module load cuda\nulimit -l unlimited\n");
  EXPECT_THAT(read.environment, ElementsAre(std::pair("EMPTY", ""), std::pair("NCCL_DEBUG", "WARN"),
                                            std::pair("ODD", "a\nb $(c) 'd'")));
  const std::string text = contract::to_json(config);
  EXPECT_EQ(contract::to_json(contract::parse_run_config(text, "g")), text);
}

constexpr const char* kAllDefaults = R"yaml(slurm:
  partition: p
  account: a
  qos: q
  reservation: r
  time_limit: 2:00:00
  gpu_type: a100
  cpus_per_rank: 4
  memory_per_node: 16G
  constraint: c
  exclude: [n1]
  switches: "1"
  comment: project 7
  container: {image: i, mounts: ["/a:/b"], arguments: [--container-writable]}
  options: [--nice=1, --licenses=l]
  setup: module load x
  environment: {A: "1", B: "2"}
)yaml";

contract::SlurmResources defaults(const std::string& text) {
  base::Table root = base::Table::parse(text, "d");
  return contract::read_slurm_defaults(root);
}

TEST(SlurmDefaults, FillEveryKeyThatIsEmpty) {
  std::vector<std::string> keys;
  const contract::SlurmResources filled =
      contract::with_slurm_defaults(slurm("slurm: {nodes: 1}"), defaults(kAllDefaults), &keys);
  EXPECT_THAT(
      keys, testing::UnorderedElementsAre(
                "partition", "account", "qos", "reservation", "time_limit", "gpu_type",
                "cpus_per_rank", "memory_per_node", "constraint", "exclude", "switches", "comment",
                "container.image", "container.mounts", "container.arguments", "setup",
                "options.nice", "options.licenses", "environment.A", "environment.B"));
  // Whatever key the section will get: it is filled, or belongs to a run alone.
  const auto given = contract::slurm_resources_json(defaults(kAllDefaults));
  const auto got = contract::slurm_resources_json(filled);
  const auto empty = contract::slurm_resources_json(contract::SlurmResources{});
  for (const auto& [key, value] : empty.items()) {
    const bool of_a_run = key == "nodes" || key == "ranks_per_node" || key == "gpus_per_rank" ||
                          key == "requeue" || key == "defaults";
    EXPECT_EQ(given[key] == value, of_a_run) << key << ": kAllDefaults misses it";
    EXPECT_EQ(got[key], given[key]) << key;
  }
}

TEST(SlurmDefaults, ChangeNothingThatTheRunSays) {
  const std::string own = R"yaml(slurm:
  partition: P
  account: A
  qos: Q
  reservation: R
  time_limit: 5
  gpu_type: h100
  cpus_per_rank: 1
  memory_per_node: 0
  constraint: C
  exclude: [n9]
  switches: "2"
  comment: mine
  container: {image: I, mounts: ["/x:/y"], arguments: [--container-readonly]}
  options: [--licenses=mine, --nice=7]
  setup: module load y
  environment: {A: "x", B: "y"}
)yaml";
  std::vector<std::string> keys;
  const contract::SlurmResources run = slurm(own);
  EXPECT_EQ(contract::slurm_resources_json(
                contract::with_slurm_defaults(run, defaults(kAllDefaults), &keys)),
            contract::slurm_resources_json(run));
  EXPECT_TRUE(keys.empty());
}

// sbatch takes the last of two, and options come after what keys say.
TEST(SlurmDefaults, HaveNoOptionForWhatHasAKey) {
  for (const char* option :
       {"--partition=p", "--part=p", "--account=a", "--qos=q", "--reservation=r", "--constraint=c",
        "--exclude=n", "--switches=1", "--mem=1G", "--mem-per-cpu=1G", "--cpus-per-task=2",
        "--gres=gpu:1", "--gpus=1", "--gpus-per-node=1", "--gpus-per-task=1", "--comment=x"}) {
    try {
      (void)defaults(std::string("slurm: {options: ['") + option + "']}");
      FAIL() << option;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("d:1: slurm.options")) << option;
    }
  }
  EXPECT_NO_THROW((void)defaults("slurm: {options: [--mem-bind=local, --gpu-bind=none]}"));
  EXPECT_NO_THROW((void)slurm("slurm: {options: ['--partition=p']}")) << "a run may";
}

TEST(SlurmDefaults, GiveWayToABeginningOfAnOptionsName) {
  std::vector<std::string> keys;
  EXPECT_THAT(contract::with_slurm_defaults(slurm("slurm: {options: [--lic=mine]}"),
                                            defaults("slurm: {options: [--licenses=site]}"), &keys)
                  .options,
              ElementsAre("--lic=mine"));
}

TEST(SlurmResources, TheirCommentHasNoTokenOfItsOwn) {
  EXPECT_EQ(slurm("slurm: {comment: 'project 7, regatta'}").comment, "project 7, regatta");
  for (const char* comment : {"regatta:0123456789abcdef", "x regatta:", "a\\nb"}) {
    EXPECT_THROW((void)slurm(std::string("slurm: {comment: \"") + comment + "\"}"), base::Error)
        << comment;
  }
}

TEST(SlurmDefaults, AddOptionsAndVariablesOneByOne) {
  std::vector<std::string> keys;
  const contract::SlurmResources filled = contract::with_slurm_defaults(
      slurm("slurm: {options: [--nice=7], environment: {A: x}}"), defaults(kAllDefaults), &keys);
  EXPECT_THAT(filled.options, ElementsAre("--nice=7", "--licenses=l"));
  EXPECT_THAT(filled.environment, ElementsAre(std::pair("A", "x"), std::pair("B", "2")));
}

TEST(SlurmResources, DefaultsReadBackAsThemselves) {
  const contract::RunConfig config = parse("slurm: {nodes: 1}");
  const std::string text = contract::to_json(config);
  EXPECT_EQ(contract::to_json(contract::parse_run_config(text, "g")), text);
  EXPECT_EQ(config.slurm->memory_per_node_mib, std::nullopt);
  EXPECT_EQ(config.slurm->time_limit_minutes, 0);
}

TEST(SlurmResources, WithoutASectionRanksShareOneNode) {
  contract::SlurmResources resources = contract::slurm_resources_of(parse("ranks: 8"));
  EXPECT_EQ(resources.ranks_per_node, 8);
  EXPECT_EQ(resources.min_nodes, 1);
  EXPECT_EQ(resources.max_nodes, 1);
  resources = contract::slurm_resources_of(parse("ranks: 8\nranks_per_node: 4"));
  EXPECT_EQ(resources.ranks_per_node, 4);
  EXPECT_EQ(resources.min_nodes, 2);
  EXPECT_EQ(resources.max_nodes, 2);
}

TEST(SlurmResources, NodesAndRanksGiveDefaultsToEachOther) {
  struct Row {
    const char* text;
    int low, high, per_node;
  };
  const Row rows[] = {
      {"slurm: {partition: p}", 1, 1, 1},
      {"ranks: 8\nslurm: {partition: p}", 1, 1, 8},
      {"ranks: 8\nslurm: {nodes: 4}", 4, 4, 2},
      {"ranks: 8\nslurm: {nodes: 2..8}", 2, 8, 1},
      {"ranks: 8\nslurm: {nodes: 3..3, ranks_per_node: 0}\nranks_per_node: 0", 0, 0, 0},
      {"ranks: 8\nslurm: {ranks_per_node: 2}", 4, 4, 2},
      {"ranks: 8\nranks_per_node: 4\nslurm: {partition: p}", 2, 2, 4},
      {"ranks: 8\nranks_per_node: 4\nslurm: {nodes: 1..2}", 1, 2, 4},
      {"ranks: 8\nranks_per_node: 4\nslurm: {nodes: 2, ranks_per_node: 4}", 2, 2, 4},
      {"ranks: 6\nslurm: {nodes: 2..3, ranks_per_node: 2}", 2, 3, 2},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    if (row.high == 0) {
      EXPECT_THROW((void)parse(row.text), base::Error);
      continue;
    }
    const contract::SlurmResources read = slurm(row.text);
    EXPECT_EQ(read.min_nodes, row.low);
    EXPECT_EQ(read.max_nodes, row.high);
    EXPECT_EQ(read.ranks_per_node, row.per_node);
  }
}

TEST(SlurmResources, TimeLimitsAreSlurmsRoundedUpToMinutes) {
  struct Row {
    const char* text;
    int minutes;
  };
  for (const Row& row :
       {Row{"90", 90}, Row{"1", 1}, Row{"1:30", 2}, Row{"90:00", 90}, Row{"0:01", 1},
        Row{"1:30:00", 90}, Row{"00:00:59", 1}, Row{"2-0", 2880}, Row{"1-12:30", 2190},
        Row{"0-00:00:01", 1}, Row{"100:00:00", 6000}, Row{"366-0", 527040}}) {
    EXPECT_EQ(slurm(std::string("slurm: {time_limit: '") + row.text + "'}").time_limit_minutes,
              row.minutes)
        << row.text;
  }
}

TEST(SlurmResources, MemoryIsInMebibytes) {
  struct Row {
    const char* text;
    std::int64_t mib;
  };
  for (const Row& row : {Row{"0", 0}, Row{"1000", 1000}, Row{"64G", 65536}, Row{"2T", 2 << 20U},
                         Row{"1K", 1}, Row{"2048K", 2}, Row{"5M", 5}}) {
    EXPECT_EQ(slurm(std::string("slurm: {memory_per_node: ") + row.text + "}").memory_per_node_mib,
              row.mib)
        << row.text;
  }
}

struct Wrong {
  std::string text;  // line 2 of the file
  const char* message;
};

void expect_refused(const Wrong& row) {
  SCOPED_TRACE(row.text.substr(0, 120));
  try {
    (void)parse(row.text);
    ADD_FAILURE() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr(row.message));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
  }
}

TEST(SlurmResources, NamesWhatIsWrongWhere) {
  const Wrong rows[] = {
      {"slurm: 4", "f:2: slurm: expected a mapping"},
      {"slurm: {partitions: p}", "slurm.partitions: unknown key; did you mean 'partition'?"},
      {"slurm:\n  nodes: 1\n  node: 1", "f:4: slurm.node: unknown key; did you mean 'nodes'?"},
      {"slurm: {gres: gpu}", "slurm.gres: unknown key"},
      {"slurm: {partition: 'a b'}", "slurm.partition: is 'a b'; use 1 to 1024 of"},
      {"slurm: {partition: -p}", "not starting with -"},
      {"slurm: {partition: \"p\\nq\"}", "slurm.partition: is 'p\\nq'"},
      {"slurm: {account: \"a;b\"}", "slurm.account: is 'a;b'"},
      {"slurm: {account: $(id)}", "slurm.account: is '$(id)'"},
      {"slurm: {qos: \"q\\0\"}", "slurm.qos: is 'q\\x00'"},
      {"slurm: {reservation: [r]}", "slurm.reservation: expected text"},
      {"slurm: {constraint: \"a b\"}", "slurm.constraint: is 'a b'"},
      {"slurm: {partition: " + std::string(1025, 'x') + "}", "use 1 to 1024"},
      {"slurm: {exclude: [ok, '-x']}", "slurm.exclude: is '-x'"},
      {"slurm: {exclude: ['a b']}", "slurm.exclude: is 'a b'"},
      {"slurm: {exclude: ['']}", "slurm.exclude: is ''"},
      {"slurm: {exclude: {a: b}}", "slurm.exclude: expected a list"},
      {"slurm: {time_limit: 0}", "slurm.time_limit: is '0'; use minutes"},
      {"slurm: {time_limit: -5}", "slurm.time_limit: is '-5'"},
      {"slurm: {time_limit: 2h}", "slurm.time_limit: is '2h'"},
      {"slurm: {time_limit: 'UNLIMITED'}", "leave it out for the partition's own"},
      {"slurm: {time_limit: '1:60'}", "slurm.time_limit: is '1:60'"},
      {"slurm: {time_limit: '1:60:00'}", "slurm.time_limit: is '1:60:00'"},
      {"slurm: {time_limit: '1:2:3:4'}", "slurm.time_limit: is '1:2:3:4'"},
      {"slurm: {time_limit: '1-'}", "slurm.time_limit: is '1-'"},
      {"slurm: {time_limit: 367-0}", "slurm.time_limit: is '367-0'"},
      {"slurm: {time_limit: 99999999999}", "slurm.time_limit: is '99999999999'"},
      {"slurm: {memory_per_node: 64GB}", "slurm.memory_per_node: is '64GB'"},
      {"slurm: {memory_per_node: -1}", "slurm.memory_per_node: is '-1'"},
      {"slurm: {memory_per_node: 1.5G}", "slurm.memory_per_node: is '1.5G'"},
      {"slurm: {memory_per_node: G}", "slurm.memory_per_node: is 'G'"},
      {"slurm: {memory_per_node: 999999999T}", "slurm.memory_per_node: is '999999999T'"},
      {"slurm: {gpus_per_rank: -1}", "slurm.gpus_per_rank: is -1; use 0 to 64"},
      {"slurm: {cpus_per_rank: 5000}", "slurm.cpus_per_rank: is 5000; use 0 to 4096"},
      {"slurm: {cpus_per_rank: many}", "slurm.cpus_per_rank: expected a whole number"},
      {"slurm: {requeue: 1}", "slurm.requeue: expected true or false"},
      {"slurm: {switches: 0}", "slurm.switches: is '0'"},
      {"slurm: {switches: 1@}", "slurm.switches: is '1@'"},
      {"slurm: {switches: '1 --uid=0'}", "slurm.switches: is '1 --uid=0'"},
      {"slurm: {setup: [a]}", "slurm.setup: expected text"},
      {"slurm: {setup: \"a\\0b\"}", "slurm.setup: has 3 bytes"},
      {"slurm: {setup: '" + std::string(65537, 'x') + "'}", "slurm.setup: has 65537 bytes"},
  };
  for (const Wrong& row : rows) expect_refused(row);
}

TEST(SlurmResources, SaysHowNodesAndRanksMustAgree) {
  const Wrong rows[] = {
      {"slurm: {nodes: 0}", "slurm.nodes: is '0'; use a number such as 4, or a range"},
      {"slurm: {nodes: 4..2}", "slurm.nodes: is '4..2'"},
      {"slurm: {nodes: 2-4}", "slurm.nodes: is '2-4'"},
      {"slurm: {nodes: 2..}", "slurm.nodes: is '2..'"},
      {"slurm: {nodes: ..2}", "slurm.nodes: is '..2'"},
      {"slurm: {nodes: 65537}", "slurm.nodes: is '65537'"},
      {"slurm: {nodes: [1, 2]}", "slurm.nodes: expected text"},
      {"slurm: {nodes: 2}", "slurm.nodes: are 2, which 1 ranks cannot share evenly"},
      {"ranks: 10\nslurm: {nodes: 4}", "f:3: slurm.nodes: are 4, which 10 ranks cannot share"},
      {"ranks: 10\nslurm: {ranks_per_node: 4}", "is 4, which does not divide 10, the ranks"},
      {"ranks: 8\nslurm: {nodes: 4, ranks_per_node: 4}",
       "slurm.nodes: 4 nodes of 4 ranks are 16 ranks, but ranks is 8; make them agree"},
      {"ranks: 8\nslurm: {nodes: 2..4, ranks_per_node: 4}", "4 nodes of 4 ranks are 16 ranks"},
      {"ranks: 8\nranks_per_node: 4\nslurm: {ranks_per_node: 8}",
       "slurm.ranks_per_node: is 8, but the run's own is 4; leave one of them out"},
      {"ranks: 8\nranks_per_node: 2\nslurm: {nodes: 2}", "2 nodes of 2 ranks are 4 ranks"},
      {"slurm: {ranks_per_node: -1}", "slurm.ranks_per_node: is -1; use 0 to 4096"},
      {"batch: {size: 8192}\nranks: 8192\nslurm: {nodes: 1}", "use at most 65536 and 4096"},
  };
  for (const Wrong& row : rows) expect_refused(row);
}

TEST(SlurmResources, RefusesOptionsThatAreNotTheRuns) {
  const Wrong rows[] = {
      {"slurm: {options: [evil.sh]}", "slurm.options: has 'evil.sh'; use long options"},
      {"slurm: {options: [-p, x]}", "slurm.options: has '-p'"},
      {"slurm: {options: ['--']}", "slurm.options: has '--'"},
      {"slurm: {options: ['']}", "slurm.options: has ''"},
      {"slurm: {options: ['--=x']}", "slurm.options: has '--=x'"},
      {"slurm: {options: ['--mail type=x']}", "slurm.options: has '--mail type=x'"},
      {"slurm: {options: [\"--nice=1\\n#SBATCH\"]}", "without control characters"},
      {"slurm: {options: ['--job-name=x']}", "(--job-name): Regatta sets it"},
      {"slurm: {options: ['--job=x']}", "(--job-name)"},
      {"slurm: {options: ['--output=/etc/x']}", "(--output)"},
      {"slurm: {options: ['--wrap=id']}", "(--wrap)"},
      {"slurm: {options: ['--wra=id']}", "(--wrap)"},
      {"slurm: {options: ['--array=1-10']}", "(--array): use several runs"},
      {"slurm: {options: ['--nodes=3']}", "(--nodes): use slurm.nodes"},
      {"slurm: {options: ['--no-requeue']}", "(--no-requeue): use slurm.requeue"},
      {"slurm: {options: ['--time=5']}", "(--time): use slurm.time_limit"},
      {"slurm: {options: ['--uid=0']}", "(--uid)"},
      {"slurm: {options: ['--export=ALL']}", "(--export)"},
      {"slurm: {options: ['--test-only']}", "(--test-only)"},
      {"slurm: {options: ['--" + std::string(5000, 'x') + "']}", "of at most 4096 bytes"},
      {"slurm: {container: {arguments: [sh]}}", "slurm.container.arguments: has 'sh'"},
      {"slurm: {container: {arguments: [--mpi=none]}}", "(--mpi): Regatta sets it"},
      {"slurm: {container: {arguments: [--ntasks=9]}}", "(--ntasks): use ranks"},
      {"slurm: {container: {arguments: [--kill=0]}}", "(--kill-on-bad-exit): Regatta sets it"},
      {"slurm: {container: {image: i, mounts: ['/a,/b']}}", "slurm.container.mounts: has '/a,/b'"},
      {"slurm: {container: {image: i, mounts: ['']}}", "slurm.container.mounts: has ''"},
      {"slurm: {container: {image: \"a\\nb\"}}", "slurm.container.image: use at most 4096"},
      {"slurm: {container: {images: i}}", "slurm.container.images: unknown key"},
      {"slurm: {container: i}", "slurm.container: expected a mapping"},
  };
  for (const Wrong& row : rows) expect_refused(row);
  EXPECT_NO_THROW((void)parse("slurm: {options: [--exclusive, --time-min=5, --mem-per-gpu=1G]}"));
}

TEST(SlurmResources, RefusesVariablesThatAreNotTheRanks) {
  std::string many = "slurm: {environment: {";
  for (int i = 0; i < 257; ++i) many += "V" + std::to_string(i) + ": 1, ";
  std::string large = "slurm: {environment: {";
  for (int i = 0; i < 5; ++i) {
    large += "V" + std::to_string(i) + ": '" + std::string(60'000, 'x') + "', ";
  }
  const Wrong rows[] = {
      {"slurm: {environment: [A]}", "slurm.environment: expected a mapping"},
      {"slurm: {environment: {'A B': 1}}", "slurm.environment.A B: not the name of a variable"},
      {"slurm: {environment: {1A: 1}}", "not the name of a variable"},
      {"slurm: {environment: {'A=B': 1}}", "slurm.environment.A: has '=' in its name"},
      {"slurm: {environment: {A: }}", "slurm.environment.A: has no value; write \"\""},
      {"slurm: {environment: {A: null}}", "slurm.environment.A: has no value"},
      {"slurm: {environment: {'': 1}}", "not the name of a variable"},
      {"slurm: {environment: {'BASH_FUNC_x%%': 1}}", "not the name of a variable"},
      {"slurm: {environment: {LD_PRELOAD: x}}", "slurm.environment.LD_PRELOAD: would change"},
      {"slurm: {environment: {SLURM_JOB_ID: 1}}", "would change Slurm's commands"},
      {"slurm: {environment: {SBATCH_PARTITION: x}}", "would change Slurm's commands"},
      {"slurm: {environment: {SRUN_EXPORT_ENV: NONE}}", "would change Slurm's commands"},
      {"slurm: {environment: {\"A\\nB\": x}}", "slurm.environment.A\\nB: not the name"},
      {"slurm: {environment: {BASH_ENV: x}}", "would change Slurm's commands"},
      {"slurm: {environment: {IFS: x}}", "would change Slurm's commands"},
      {"slurm: {environment: {RANDOM: 1}}", "or the job's shell"},
      {"slurm: {environment: {REGATTA_LAUNCHER: 1}}", "would change Slurm's commands"},
      {"slurm: {environment: {A: [1]}}", "slurm.environment.A: expected text"},
      {"slurm: {environment: {A: \"x\\0y\"}}", "slurm.environment.A: has 3 bytes"},
      {"slurm: {environment: {A: '" + std::string(65537, 'x') + "'}}", "has 65537 bytes"},
      {many + "}}", "slurm.environment: has 257 variables"},
      {large + "}}", "slurm.environment: has 5 variables of 300010 bytes"},
  };
  for (const Wrong& row : rows) expect_refused(row);
  EXPECT_NO_THROW((void)parse("slurm: {environment: {LD_LIBRARY_PATH: /x, NCCL_ALGO: Ring}}"));
}

}  // namespace
}  // namespace regatta::trainer
