// Texts as the manual page of scontrol has them (show node), with values written by hand, and what
// hostile or damaged text may not do.
#include "topology/slurm_text/nodes.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/shared_data.h"
#include "topology/slurm_text/key_values.h"

namespace regatta::topology {
namespace {

using slurm_text::NodeFlag;
using testing::ElementsAre;

// Of Slurm 24.05, without -o.
const std::string kSeveralLines =
    "NodeName=node01 Arch=x86_64 CoresPerSocket=16 \n"
    "   CPUAlloc=4 CPUEfctv=30 CPUTot=32 CPULoad=0.52\n"
    "   AvailableFeatures=ib,h100,big\n"
    "   ActiveFeatures=ib,h100\n"
    "   Gres=gpu:h100:8(S:0-1),nic:4\n"
    "   NodeAddr=10.0.0.1 NodeHostName=node01 Version=24.05.4\n"
    "   OS=Linux 6.1.0 #1 SMP State of the art \n"
    "   RealMemory=256000 AllocMem=4000 FreeMem=200000 Sockets=2 Boards=1\n"
    "   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
    "   Partitions=main,high \n"
    "   BootTime=2026-11-20T00:00:00 SlurmdStartTime=2026-11-20T00:01:00\n"
    "   CfgTRES=cpu=32,mem=256000M,billing=32,gres/gpu=8\n"
    "   AllocTRES=cpu=4,mem=4000M,gres/gpu=2\n"
    "   CurrentWatts=0 AveWatts=0\n"
    "   \n"
    "   Reason=xid 79 State=IDLE Gres=gpu:64 [root@2026-11-21T12:00:00]\n"
    "   Comment=CPUTot=1\n"
    "\n";

// The same with -o: the lines with a space between them.
std::string in_one_line(const std::string& text) {
  std::string out;
  bool begins = false;
  for (const char c : text) {
    if (c == '\n') begins = true;
    if (begins && (c == ' ' || c == '\n')) continue;
    if (begins) out += ' ';
    begins = false;
    out += c;
  }
  return out + "\n";
}

TEST(Nodes, OfBothForms) {
  for (const std::string& text : {kSeveralLines, in_one_line(kSeveralLines)}) {
    const auto nodes = slurm_text::read_nodes(text);
    ASSERT_EQ(nodes.size(), 1u) << text;
    EXPECT_EQ(nodes[0].line, 1u);
    EXPECT_TRUE(nodes[0].is_node);
    ASSERT_TRUE(nodes[0].record) << text;
    const slurm_text::NodeRecord& node = *nodes[0].record;
    EXPECT_EQ(node.name, "node01");
    EXPECT_EQ(node.state.raw, "MIXED+DRAIN");
    EXPECT_EQ(node.state.base, slurm_text::NodeBase::Mixed);
    EXPECT_TRUE(node.state.has(NodeFlag::Drain));
    EXPECT_EQ(node.reason, "xid 79 State=IDLE Gres=gpu:64 [root@2026-11-21T12:00:00]");
    EXPECT_EQ(node.cpus, 32);
    EXPECT_EQ(node.cpus_allocated, 4);
    EXPECT_EQ(node.memory_bytes, 256000.0 * 1048576);
    EXPECT_EQ(node.memory_free_bytes, 200000.0 * 1048576);
    EXPECT_EQ(node.load, 0.52);
    ASSERT_TRUE(node.gpus);
    EXPECT_EQ(node.gpus->count, 8);
    EXPECT_EQ(node.gpus->by_type.at("h100"), 8);
    EXPECT_EQ(node.gpus_allocated, 2);
    EXPECT_THAT(node.features, ElementsAre("ib", "h100"));
    EXPECT_THAT(node.partitions, ElementsAre("main", "high"));
  }
}

TEST(Nodes, SeveralKeepTheirLines) {
  const auto nodes = slurm_text::read_nodes(
      kSeveralLines + "NodeName=n2 CPUTot=4\r\n   Gres=(null) State=IDLE\r\n\r\nNodeName=n3\n" +
      "   CPUTot=4\nslurm_load_node error: x\nNodeName= State=IDLE\n");
  ASSERT_EQ(nodes.size(), 5u);
  ASSERT_TRUE(nodes[1].record);
  EXPECT_EQ(nodes[1].line, 19u);
  EXPECT_EQ(nodes[1].record->state.raw, "IDLE") << "without the line's end of Windows";
  EXPECT_FALSE(nodes[1].record->gpus);
  EXPECT_EQ(nodes[1].record->reason, std::nullopt);
  EXPECT_EQ(nodes[2].line, 22u);
  EXPECT_EQ(nodes[2].name, "n3");
  EXPECT_FALSE(nodes[2].record) << "it has no state";
  EXPECT_FALSE(nodes[3].is_node);
  EXPECT_EQ(nodes[3].begin, "slurm_load_node error: x");
  EXPECT_TRUE(nodes[4].is_node);
  EXPECT_EQ(nodes[4].name, "");
  EXPECT_FALSE(nodes[4].record);
}

TEST(Nodes, WhatPeopleWroteMayHaveLineBreaks) {
  const auto reason_of = [](const std::string& tail) -> std::optional<std::string> {
    const auto nodes = slurm_text::read_nodes("NodeName=n1 CPUTot=32 State=IDLE" + tail +
                                              "\nNodeName=n2 State=DOWN\n");
    EXPECT_EQ(nodes.size(), 2u) << tail;
    EXPECT_EQ(nodes[0].record->cpus, 32) << tail;
    EXPECT_EQ(nodes[0].record->state.raw, "IDLE") << tail;
    EXPECT_EQ(nodes[1].record->reason, std::nullopt) << tail;
    return nodes[0].record->reason;
  };
  EXPECT_EQ(reason_of(" Reason=two\n       NodeName=evil State=DOWN"),
            "two NodeName=evil State=DOWN");
  EXPECT_EQ(reason_of(" Reason=r [root@x] Comment=c\nCPUTot=9 State=DOWN"), "r [root@x]");
  EXPECT_EQ(reason_of(" Comment=c\nState=DOWN\nmore"), std::nullopt);
  EXPECT_EQ(reason_of(" Extra=e\n   Reason=r"), "r");
  EXPECT_EQ(reason_of(" Reason=r [root@x]\n   Extra=e"), "r [root@x]");
  EXPECT_EQ(reason_of(" Reason=r Extra=e Comment=c"), "r");
  EXPECT_EQ(reason_of(" Extra=CPUTot=9 State=DOWN Reason=r"), "r");
  EXPECT_EQ(reason_of(" Comment=CPUTot=9 State=DOWN"), std::nullopt);
}

TEST(Nodes, HostileTexts) {
  const auto one = [](const std::string& values) {
    const auto nodes = slurm_text::read_nodes("NodeName=n1 " + values);
    EXPECT_EQ(nodes.size(), 1u) << values;
    return nodes.at(0).record;
  };
  EXPECT_FALSE(one("State=IDLE State=DOWN")) << "one of them is somebody's";
  EXPECT_FALSE(one("NodeName=n2 State=IDLE"));
  EXPECT_FALSE(one("State="));
  EXPECT_FALSE(one(" Reason=State=IDLE"));
  const auto doubled = one("CPUTot=4 CPUTot=8 Gres=gpu:8 Gres=gpu:9 State=IDLE");
  ASSERT_TRUE(doubled);
  EXPECT_FALSE(doubled->cpus || doubled->gpus);
  const auto huge = one(
      "CPUTot=99999999999999999999 CPUAlloc=-1 RealMemory=4398046511104 FreeMem=1e9 CPULoad=nan? "
      "Gres=gpu:9223372036854775807 State=IDLE CfgTRES=gres/gpu=9223372036854775807");
  ASSERT_TRUE(huge);
  EXPECT_FALSE(huge->cpus || huge->cpus_allocated || huge->memory_bytes ||
               huge->memory_free_bytes || huge->load || huge->gpus || huge->gpus_allocated);
  EXPECT_EQ(one("RealMemory=4398046511103 State=IDLE")->memory_bytes, 4398046511103.0 * 1048576);
  EXPECT_EQ(one("CPUTot=0 State=IDLE")->cpus, 0);
  const auto control = one(std::string("ActiveFeatures=a,,b\x1b[31m State=IDLE\x07 X=\0y", 46));
  ASSERT_TRUE(control);
  EXPECT_THAT(control->features, ElementsAre("a", "b\x1b[31m")) << "whoever shows them escapes";
  EXPECT_EQ(slurm_text::to_string(control->state), "UNKNOWN(IDLE\\x07)");
}

TEST(Nodes, EveryCutOfATextGivesItsValuesOrNone) {
  const std::string text = in_one_line(kSeveralLines);
  const std::size_t state = text.find(" State=") + 7;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto nodes = slurm_text::read_nodes(text.substr(0, size));
    ASSERT_LE(nodes.size(), 1u);
    if (size <= state) {
      EXPECT_FALSE(!nodes.empty() && nodes[0].record) << size;
      continue;
    }
    ASSERT_TRUE(nodes[0].record) << size;
    EXPECT_EQ(nodes[0].record->cpus, 32);
    EXPECT_EQ(nodes[0].record->gpus->count, 8);
  }
}

TEST(Nodes, IsLinearInHostileText) {
  std::string text = "NodeName=n State=IDLE Reason=";
  for (int i = 0; i < 200'000; ++i) text += "\n Reason=x";
  EXPECT_EQ(slurm_text::read_nodes(text).size(), 1u);
  text = "NodeName=n State=IDLE";
  for (int i = 0; i < 200'000; ++i) text += " CPUTot=1";
  EXPECT_EQ(slurm_text::read_nodes(text).at(0).record->cpus, std::nullopt);
  text = "NodeName=n State=IDLE Gres=" + std::string(1 << 20, '(');
  EXPECT_FALSE(slurm_text::read_nodes(text).at(0).record->gpus);
}

TEST(KeyValues, AValueRunsToTheNextKnownKey) {
  const slurm_text::Keys keys = {"A", "B", "OS"};
  const slurm_text::Record record("OS=Linux 6 #1 New=3 A=1  B=", keys);
  EXPECT_EQ(record.all("OS"), "Linux 6 #1 New=3");
  EXPECT_EQ(record.word("OS"), "Linux");
  EXPECT_EQ(record.number("A"), 1);
  EXPECT_EQ(record.text("B"), std::nullopt);
  EXPECT_EQ(record.all("C"), "");
  EXPECT_TRUE(slurm_text::cut_pairs("A=1 A=2 =3 XA=4", keys).empty());
}

// How many device numbers a text such as "gpu:h100:3(IDX:0-1,6),nic:0(IDX:N/A)" lists.
int devices_in(const std::string& text) {
  int devices = 0;
  const std::regex list(R"(\(IDX:([0-9,-]+)\))");
  const std::regex range(R"((\d+)(-(\d+))?)");
  for (std::sregex_iterator it(text.begin(), text.end(), list), end; it != end; ++it) {
    const std::string numbers = (*it)[1];
    for (std::sregex_iterator one(numbers.begin(), numbers.end(), range); one != end; ++one) {
      const int first = std::stoi((*one)[1]);
      devices += ((*one)[3].matched ? std::stoi((*one)[3]) : first) - first + 1;
    }
  }
  return devices;
}

// Beside the count of GPUs in use Slurm lists their device numbers.
TEST(RealAnswers, GresCountsTheDevicesThatSlurmLists) {
  REGATTA_NEED_SHARED("slurm_rest");
  using Json = nlohmann::json;
  std::set<std::string> texts;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(tests::shared_path("slurm_rest"))) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".json" || file.rfind("slurm-", 0) != 0) continue;
    const Json answer = Json::parse(tests::file_text(entry.path()), nullptr, false);
    if (!answer.is_object()) continue;
    for (const Json& node : answer.value("nodes", Json::array())) {
      if (node.is_object()) texts.insert(node.value("gres_used", ""));
    }
    for (const Json& job : answer.value("jobs", Json::array())) {
      for (const Json& text : job.value("gres_detail", Json::array())) texts.insert(text);
    }
  }
  int with_devices = 0;
  for (const std::string& text : texts) {
    if (text.find("IDX:") == std::string::npos) continue;
    const auto gpus = slurm_text::parse_gres(text);
    ASSERT_TRUE(gpus) << text;
    EXPECT_EQ(gpus->count, devices_in(text)) << text;
    with_devices += devices_in(text) > 0 ? 1 : 0;
  }
  EXPECT_GE(with_devices, 3);
}

}  // namespace
}  // namespace regatta::topology
