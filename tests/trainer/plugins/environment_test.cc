// environment.json as a whole: nothing secret in it, nothing of one moment in what is compared.
#include "trainer/plugins/environment.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/contract/environment_file.h"
#include "trainer/plugins/shown_variables.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;

constexpr const char* kPlanted = "hunter2-planted";

TEST(ShownVariables, AreThoseThatComputingReads) {
  const Json shown = plugins::shown_variables(
      {"PATH=/bin", "OMP_NUM_THREADS=2", "NCCL_ALGO=Ring", "HOME=/root", "OMPI_MCA_btl=self",
       "OMPI_MCA_orte_hnp_uri=123.0;tcp://10.0.0.1:4000", "OMPI_MCA_ess_base_jobid=77",
       "REGATTA_LAUNCHER=4711", "REGATTA_LAUNCH=0123", "REGATTA_ISA=avx2", "XNCCL_A=1",
       "MALLOC_ARENA_MAX=1", "LD_PRELOAD=/usr/lib/libjemalloc.so", "UCX_TLS=", "no equals sign",
       "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"});
  EXPECT_EQ(shown.dump(),
            R"({"GLIBC_TUNABLES":"glibc.malloc.hugetlb=1","LD_PRELOAD":"/usr/lib/libjemalloc.so",)"
            R"("MALLOC_ARENA_MAX":"1","NCCL_ALGO":"Ring","OMPI_MCA_btl":"self",)"
            R"("OMP_NUM_THREADS":"2","REGATTA_ISA":"avx2","UCX_TLS":""})");
  const Json long_one = plugins::shown_variables({"UCX_A=" + std::string(5000, 'a')});
  EXPECT_EQ(long_one.at("UCX_A"), std::string(1024, 'a'));
}

TEST(ShownVariables, SecretsAreNamedAndNeverShown) {
  const std::string value = std::string("=") + kPlanted;
  const std::vector<std::string> names{"OMP_TOKEN",       "OMPI_MCA_my_password", "NCCL_API_KEY",
                                       "CUDA_SECRET",     "UCX_Credential",       "DNNL_AUTH",
                                       "ONEDNN_passwd",   "MALLOC_COOKIE",        "REGATTA_TOKEN",
                                       "REGATTA_SESSION", "PMIX_MCA_a_Token"};
  std::vector<std::string> variables;
  for (const std::string& name : names) variables.push_back(name + value);
  // By what the value looks like.
  for (const char* const text :
       {"NCCL_NET=https://user:%s@host/", "UCX_A=--token=%s", "LD_PRELOAD=/home/x/secret/%s.so",
        "GLIBC_TUNABLES=password=%s", "REGATTA_PROXY=socks5://%s@host:1"}) {
    std::string variable = text;
    variables.push_back(variable.replace(variable.find("%s"), 2, kPlanted));
  }
  const Json shown = plugins::shown_variables(variables);
  EXPECT_THAT(shown.dump(), Not(HasSubstr(kPlanted)));
  EXPECT_EQ(shown.size(), variables.size());
  for (const auto& [name, shown_value] : shown.items()) {
    EXPECT_TRUE(shown_value.is_null()) << name;
  }
  // The same with another secret: not even the digest tells it.
  for (std::string& variable : variables) {
    variable.replace(variable.find(kPlanted), std::string(kPlanted).size(), "other");
  }
  EXPECT_EQ(plugins::shown_variables(variables).dump(), shown.dump());
}

class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() {
    facts_.config.model = contract::preset_shape("tiny");
    facts_.config.model.vocabulary = 100;
    facts_.config.data.path = "/data";
    facts_.config.slurm = contract::SlurmResources{};
    facts_.config.slurm->environment["WANDB_API_KEY"] = kPlanted;
    facts_.device.kind = "cpu";
    facts_.device_description = "CPU";
    facts_.data_fingerprint = std::string(32, 'a');
    facts_.datasets.emplace_back();
    facts_.slurm_job = "4711";
  }
  Json environment() const {
    return plugins::environment_of(base::posix_file_system(), machine(), base::system_clock(),
                                   facts_);
  }
  plugins::MachineFiles machine() const {
    return plugins::MachineFiles(base::posix_file_system(), folder_.path());
  }
  // Sections whose digests differ.
  static std::vector<std::string> differences(const Json& one, const Json& other) {
    std::vector<std::string> found;
    for (const std::string_view name : contract::kEnvironmentSections) {
      if (one[std::string(name)]["digest"] != other[std::string(name)]["digest"]) {
        found.emplace_back(name);
      }
    }
    return found;
  }

  TemporaryDirectory folder_;
  plugins::AttemptFacts facts_;
};

TEST_F(EnvironmentTest, HasNoSecretOfTheConfiguration) {
  const Json first = environment();
  EXPECT_THAT(first.dump(), Not(HasSubstr(kPlanted)));
  EXPECT_TRUE(first["configuration"]["slurm"]["environment"]["WANDB_API_KEY"].is_null());
  facts_.config.slurm->environment["WANDB_API_KEY"] = "another";
  EXPECT_EQ(differences(first, environment()), std::vector<std::string>());
}

TEST_F(EnvironmentTest, WhatDiffersBetweenEqualAttemptsIsInNoSection) {
  const Json first = environment();
  facts_.number = 2;
  facts_.execution = "0123456789abcdef";
  facts_.resumed_from = "step-0000000004-0123456789abcdef";
  facts_.host = "other";
  facts_.slurm_job = "4712";
  const Json second = environment();
  EXPECT_EQ(differences(first, second), std::vector<std::string>());
  EXPECT_EQ(first["fingerprint"], second["fingerprint"]);
  EXPECT_EQ(second["attempt"]["number"], 2);
}

TEST_F(EnvironmentTest, EachFactIsInItsSection) {
  struct Row {
    const char* what;
    void (*change)(plugins::AttemptFacts&);
    std::vector<std::string> expected;
  };
  const std::vector<Row> rows{
      {"commit", [](auto& f) { f.commit = "0123"; }, {"build"}},
      {"library",
       [](auto& f) {
         f.device.libraries = {{"oneDNN", "3.0"}};
       },
       {"build"}},
      {"communicator", [](auto& f) { f.communicator = "Open MPI v4.1.4"; }, {"build"}},
      {"description", [](auto& f) { f.device_description = "GPU"; }, {"devices"}},
      {"hosts", [](auto& f) { f.hosts = 2; }, {"fabric"}},
      {"plan", [](auto& f) { f.plan = "{}"; }, {"fabric"}},
      {"topology", [](auto& f) { f.topology = "abc"; }, {"fabric"}},
      {"variable", [](auto& f) { f.variables = {"OMP_NUM_THREADS=1"}; }, {"variables"}},
      {"instructions", [](auto& f) { f.device.instruction_set = "avx2"; }, {"numerics"}},
      {"tf32", [](auto& f) { f.device.tf32 = true; }, {"numerics"}},
      {"products", [](auto& f) { f.device.weight_gradient_products = "oneDNN"; }, {"numerics"}},
      {"type",
       [](auto& f) { f.config.dtype = contract::Precision::BFloat16; },
       {"numerics", "configuration"}},
      {"seed", [](auto& f) { f.config.seed = 9; }, {"randomness", "configuration"}},
      {"vocabulary", [](auto& f) { f.datasets[0].vocabulary_digest = "b"; }, {"data"}},
      {"tokenizer", [](auto& f) { f.datasets[0].lower_case = false; }, {"data"}},
      {"parameters", [](auto& f) { f.parameters = 5; }, {"model"}},
      {"layers", [](auto& f) { f.config.model.layers = 3; }, {"model", "configuration"}},
      {"rate", [](auto& f) { f.config.optimizer.learning_rate = 1; }, {"configuration"}},
  };
  const Json before = environment();
  const plugins::AttemptFacts facts = facts_;
  for (const Row& row : rows) {
    facts_ = facts;
    row.change(facts_);
    EXPECT_EQ(differences(before, environment()), row.expected) << row.what;
  }
}

TEST_F(EnvironmentTest, IsWhatItsReaderTakesAndGetsItsTraining) {
  base::FileSystem& files = base::posix_file_system();
  const base::Path path = folder_.path() / "environment.json";
  plugins::write_environment(files, path, environment());
  const auto parsed = [&] {
    return contract::parse_environment(files.read(path, contract::kMostEnvironmentBytes), "file");
  };
  const Json before = parsed();
  EXPECT_FALSE(before.contains("training"));
  plugins::add_training(files, path, machine(), base::system_clock());
  const Json after = parsed();
  EXPECT_TRUE(after["training"].contains("ended"));
  EXPECT_EQ(after["fingerprint"], before["fingerprint"]);
  EXPECT_EQ(contract::slurm_job_of_environment(after.dump()), "4711");
}

// A full disk leaves the file as it was, at every operation that fails.
TEST_F(EnvironmentTest, TrainingIsAddedWholeOrNot) {
  const base::Path path = folder_.path() / "environment.json";
  plugins::write_environment(base::posix_file_system(), path, environment());
  const std::string before = base::posix_file_system().read(path, 1U << 20U);
  bool failed = true;
  for (int at = 1; failed; ++at) {
    ASSERT_LT(at, 20);
    FaultyFileSystem files;
    files.fail_at(at, Fault::Once);
    failed = false;
    try {
      plugins::add_training(files, path, machine(), base::system_clock());
    } catch (const base::Error&) {
      failed = true;
    }
    const std::string now = base::posix_file_system().read(path, 1U << 20U);
    EXPECT_NO_THROW((void)contract::parse_environment(now, "file")) << at;
    if (now == before) continue;
    plugins::write_environment(base::posix_file_system(), path, Json::parse(before));
  }
}

}  // namespace
}  // namespace regatta::tests
