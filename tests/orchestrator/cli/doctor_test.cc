// `regatta doctor` as a user sees it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

const std::string kExamples = REGATTA_SOURCE_DIR "/topology/examples/";

class DoctorCommand : public testing::Test {
 protected:
  base::Output doctor(const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment = {}) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "doctor"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment = environment;
    command.bare_environment = true;
    return base::run(command, 60);
  }
  std::string file(const std::string& name, const std::string& text) {
    tests::write_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(DoctorCommand, HealthyClustersReturnZero) {
  for (const char* name : {"dgx-a100", "dgx-h100", "hgx-h200", "pcie-100gbe", "gb200-nvl72"}) {
    const base::Output output = doctor({kExamples + name + ".yaml"});
    EXPECT_EQ(output.exit.code, 0) << name << output.text << output.errors;
    EXPECT_THAT(output.text, HasSubstr("0 errors, 0 warnings, 0 notes"));
  }
}

TEST_F(DoctorCommand, WarningsAndErrorsReturnOne) {
  const std::string cluster = kExamples + "dgx-h100.yaml";
  const base::Output error = doctor({cluster}, {{"NCCL_IB_DISABLE", "1"}});
  EXPECT_EQ(error.exit.code, 1);
  EXPECT_THAT(error.text, HasSubstr("error env.leftover: NCCL_IB_DISABLE=1"));
  EXPECT_THAT(error.text, HasSubstr("costs about 480 GB/s"));
  EXPECT_THAT(error.text, HasSubstr("do: remove NCCL_IB_DISABLE from this shell"));
  EXPECT_THAT(error.text, HasSubstr("32 nodes, 256 GPUs, 320 NICs, 13 switches: 1 error,"));
  EXPECT_EQ(doctor({cluster}, {{"NCCL_ALGO", "Ring"}}).exit.code, 1);
  EXPECT_EQ(doctor({cluster}, {{"NCCL_IB_TIMEOUTS", "1"}}).exit.code, 0) << "a note";
  EXPECT_EQ(doctor({}, {{"NCCL_ALGO", "Ring"}}).exit.code, 1) << "without any file";
}

TEST_F(DoctorCommand, JsonHasTheSame) {
  const base::Output output =
      doctor({kExamples + "dgx-h100.yaml", "-o", "json"}, {{"NCCL_IB_DISABLE", "1"}});
  EXPECT_EQ(output.exit.code, 1);
  const Json json = Json::parse(output.text);
  EXPECT_EQ(json.at("summary").at("errors"), 1);
  EXPECT_EQ(json.at("summary").at("gpus"), 256);
  const Json& finding = json.at("findings").at(0);
  EXPECT_EQ(finding.at("id"), "env.leftover");
  EXPECT_EQ(finding.at("severity"), "error");
  EXPECT_EQ(finding.at("evidence").at(0).at("path"), "this shell");
  EXPECT_NEAR(finding.at("cost_gb_per_s").get<double>(), 480, 1);
  EXPECT_GT(finding.at("cost_milliseconds").get<double>(), 0);
  EXPECT_THAT(finding.at("remedy").get<std::string>(), HasSubstr("remove NCCL_IB_DISABLE"));
}

TEST_F(DoctorCommand, ARunFilesVariablesAreLookedAt) {
  const std::string run = file("run.yaml",
                               "model: {preset: tiny}\ndata: {path: d}\n"
                               "slurm: {environment: {NCCL_PROTO: LL128, MY_OWN: x}}\n");
  const base::Output output =
      doctor({"--job", run, kExamples + "dgx-h100.yaml"}, {{"NCCL_PROTO", "Simple"}});
  EXPECT_EQ(output.exit.code, 1);
  EXPECT_THAT(output.text, HasSubstr("NCCL_PROTO=LL128: LL128 is forced"));
  EXPECT_THAT(output.text, HasSubstr(run + " slurm.environment"));
  EXPECT_THAT(output.text, Not(HasSubstr("Simple"))) << "the run file wins";
}

TEST_F(DoctorCommand, SeveralFilesBecomeOne) {
  const std::string a = file("a.yaml", "nodes: {a: {count: 2}}");
  const std::string b = file("b.yaml", "nodes: {b: {count: 3}}");
  const std::string xml = file("t.xml",
                               "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\"/>"
                               "<cpu numaid=\"1\" affinity=\"f\"/></system>");
  const base::Output output = doctor({a, b, xml});
  EXPECT_THAT(output.text, HasSubstr("6 nodes")) << "one is the file's machine";
  EXPECT_THAT(output.text, HasSubstr("topology_file.masks"));
}

TEST_F(DoctorCommand, ListsItsChecks) {
  const base::Output text = doctor({"--list"});
  EXPECT_EQ(text.exit.code, 0);
  EXPECT_THAT(text.text, HasSubstr("nvlink.missing (error): "));
  const Json json = Json::parse(doctor({"--list", "-o", "json"}).text);
  EXPECT_GE(json.at("checks").size(), 30U);
  for (const Json& check : json.at("checks")) {
    for (const char* name : {"id", "severity", "what", "why", "remedy"}) {
      EXPECT_NE(check.at(name), "") << check.dump();
    }
  }
}

TEST_F(DoctorCommand, BadFilesAreNamed) {
  const base::Output unknown = doctor({file("x", "hello \x1b[31m")});
  EXPECT_EQ(unknown.exit.code, 7);
  EXPECT_THAT(unknown.errors, HasSubstr("its format is none of those"));
  EXPECT_EQ(doctor({"/nowhere/at/all"}).exit.code, 3);
  EXPECT_EQ(doctor({"--nonsense"}).exit.code, 2);
  const base::Output key = doctor({file("y.yaml", "nodes: {n: {counts: 1}}")});
  EXPECT_EQ(key.exit.code, 7);
  EXPECT_THAT(key.errors, HasSubstr("y.yaml:1: nodes.n.names: give either names"));
  EXPECT_EQ(doctor({"--job", file("run.yaml", "steps: x")}).exit.code, 7);
}

}  // namespace
}  // namespace regatta::orchestrator
