#include "orchestrator/frozen/frozen_job.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

using testing::HasSubstr;

FrozenJob some_job() {
  FrozenJob job;
  job.made = "2026-11-24T10:15:02.000Z";
  job.root = "/home/u/work";
  job.directory = "scripts";
  job.commit = std::string(40, 'a');
  job.files = {{"a b\nc\xff", std::string(32, '1'), 12, FrozenFile::Kind::Plain},
               {"run.sh", std::string(32, '2'), 0, FrozenFile::Kind::Program},
               {"link", std::string(32, '3'), 4, FrozenFile::Kind::Link}};
  job.tree = tree_digest(job.files);
  job.linked = {"data", "venv"};
  job.script = "/home/u/work/run.sh";
  job.command = {"--freeze", "run.sh", "\xff"};
  return job;
}

class FrozenJobTest : public testing::Test {
 protected:
  std::string refusal() {
    try {
      (void)read_frozen_job(base::posix_file_system(), folder_.path());
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "it was read";
    return "";
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(FrozenJobTest, IsReadAsItWasWritten) {
  const FrozenJob job = some_job();
  write_frozen_job(base::posix_file_system(), folder_.path(), job);
  const FrozenJob read = read_frozen_job(base::posix_file_system(), folder_.path());
  EXPECT_EQ(read.name, folder_.path().filename());
  EXPECT_EQ(read.made, job.made);
  EXPECT_EQ(read.root, job.root);
  EXPECT_EQ(read.directory, job.directory);
  EXPECT_EQ(read.commit, job.commit);
  EXPECT_EQ(read.at_commit, job.at_commit);
  EXPECT_EQ(read.files, job.files) << "whatever bytes a name has";
  EXPECT_EQ(read.linked, job.linked);
  EXPECT_EQ(read.script, job.script);
  EXPECT_EQ(read.command, (std::vector<std::string>{"--freeze", "run.sh", "\\xff"}));
}

TEST_F(FrozenJobTest, DigestsTellNamesKindsAndBytesApart) {
  FrozenJob job = some_job();
  const std::string before = tree_digest(job.files);
  job.files[1].kind = FrozenFile::Kind::Plain;
  EXPECT_NE(tree_digest(job.files), before);
  job = some_job();
  job.files[0].path += "x";
  EXPECT_NE(tree_digest(job.files), before);
  job = some_job();
  job.files[2].digest[31] = '4';
  EXPECT_NE(tree_digest(job.files), before);
}

// Every byte of both files that is lost or another is told, and never read as something else.
TEST_F(FrozenJobTest, DamageIsTold) {
  const FrozenJob job = some_job();
  write_frozen_job(base::posix_file_system(), folder_.path(), job);
  const base::Path list = folder_.path() / "files";
  const std::string good = text_of(list);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(list, std::ios::binary | std::ios::trunc) << bad;
    EXPECT_THAT(refusal(), HasSubstr(folder_.path().string())) << at;
    std::ofstream(list, std::ios::binary | std::ios::trunc) << good.substr(0, at);
    EXPECT_THAT(refusal(), HasSubstr("cannot be read")) << at;
  }
  std::ofstream(list, std::ios::binary | std::ios::trunc) << good;
  const base::Path about = folder_.path() / "frozen.json";
  const std::string text = text_of(about);
  for (std::size_t at = 0; at + 2 < text.size(); at += 7) {
    std::ofstream(about, std::ios::binary | std::ios::trunc) << text.substr(0, at);
    EXPECT_THAT(refusal(), HasSubstr("cannot be read")) << at;
  }
  for (const char* const other : {"[]", "{}", "{\"format\": 2}", "{\"format\": \"1\"}"}) {
    std::ofstream(about, std::ios::binary | std::ios::trunc) << other;
    EXPECT_THAT(refusal(), HasSubstr("cannot be read")) << other;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::frozen
