// What a replay believes of a run's directory, which somebody hostile may have written.
#include "orchestrator/cli/step_replays.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "orchestrator/files/trusted_path.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr uid_t kOtherUser = 65534;

class StepReplaysTest : public testing::Test {
 protected:
  StepReplaysTest() {
    ::chmod(folder_.path().c_str(), 0755);
    std::filesystem::create_directories(path("run"));
    std::filesystem::create_directories(path("own"));
    std::filesystem::create_directories(path("site"));
  }
  base::Path path(const std::string& name) const { return folder_.path() / name; }

  // A program that tells which it is, with its variables, and fails.
  base::Path make_program(const std::string& name) const {
    const base::Path program = path(name);
    std::ofstream(program) << "#!/bin/sh\n{ echo " << name << "; env; } > " << path("told")
                           << "\necho done >&2\nexit 1\n";
    ::chmod(program.c_str(), 0755);
    return program;
  }
  // Which program a replay of a run of `environment` runs, and with which variables, a line each.
  std::string told_by(const Json& environment) {
    const base::Path trainer = make_program("own/regatta-train");
    site::ProgramEnvironment mine;
    mine.whole = {{"PATH", ::getenv("PATH")}, {"LANG", "C.UTF-8"}};
    cli::StepReplays replays({"a", path("run"), &environment}, {"b", path("run"), &environment},
                             {trainer, 60}, mine);
    testing::internal::CaptureStderr();
    (void)replays.take({});
    errors_ = testing::internal::GetCapturedStderr();
    std::ifstream file(path("told"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static Json environment_of(const base::Path& program, Json variables) {
    const std::string text = base::posix_file_system().read(program, std::uint64_t{1} << 20U);
    return {{"attempt", {{"program", program.string()}}},
            {"build", {{"program_xxh3_128", base::digest_of(text)}}},
            {"variables", std::move(variables)}};
  }
  static bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
  }

  tests::TemporaryDirectory folder_;
  std::string errors_;
};

TEST_F(StepReplaysTest, TakeTheAttemptsOwnProgram) {
  const base::Path program = make_program("site/regatta-train");
  EXPECT_TRUE(has_line(told_by(environment_of(program, {})), "site/regatta-train"));
  EXPECT_EQ(errors_.find("is not run"), std::string::npos) << errors_;
}

TEST_F(StepReplaysTest, DoNotRunWhatElseAnEnvironmentNames) {
  const base::Path program = make_program("site/evil");
  EXPECT_TRUE(has_line(told_by(environment_of(program, {})), "own/regatta-train"));
  EXPECT_NE(errors_.find("evil is not run for a replay"), std::string::npos) << errors_;
}

TEST_F(StepReplaysTest, DoNotRunWhatOthersCanHavePutThere) {
  const base::Path program = make_program("site/regatta-train");
  const Json environment = environment_of(program, {});
  for (const char* shared : {"site", "site/regatta-train"}) {
    ::chmod(path(shared).c_str(), 0777);
    EXPECT_TRUE(has_line(told_by(environment), "own/regatta-train")) << shared;
    EXPECT_NE(errors_.find("is not run for a replay"), std::string::npos) << shared;
    ::chmod(path(shared).c_str(), 0755);
  }
  EXPECT_TRUE(has_line(told_by(environment), "site/regatta-train"));
}

TEST_F(StepReplaysTest, SetNothingThatLoadsOrWrites) {
  const base::Path program = make_program("site/regatta-train");
  std::filesystem::create_directories(path("open"));
  ::chmod(path("open").c_str(), 0777);
  const Json variables = {{"OMP_NUM_THREADS", "3"},
                          {"LD_PRELOAD", "/run/evil.so"},
                          {"PATH", "/run"},
                          {"LANG", "C"},
                          {"CUDA_INJECTION64_PATH", "evil"},
                          {"OMP_TOOL_LIBRARIES", "evil"},
                          {"ONEDNN_JIT_DUMP", "1"},
                          {"MKL_DEBUG", "/etc/passwd"},
                          {"REGATTA_PLUGIN_DIR", path("open").string()}};
  const std::string told = told_by(environment_of(program, variables));
  EXPECT_TRUE(has_line(told, "OMP_NUM_THREADS=3")) << told;
  EXPECT_TRUE(has_line(told, "LANG=C.UTF-8")) << told;
  EXPECT_TRUE(has_line(told, std::string("PATH=") + ::getenv("PATH"))) << told;
  for (const char* name :
       {"LD_PRELOAD=", "INJECTION", "TOOL_LIBRARIES", "DUMP", "MKL_", "PLUGIN"}) {
    EXPECT_EQ(told.find(name), std::string::npos) << name << "\n" << told;
  }
}

TEST_F(StepReplaysTest, HavePluginsThatNobodyElseCanHavePutThere) {
  const base::Path program = make_program("site/regatta-train");
  std::filesystem::create_directories(path("plugins"));
  std::ofstream(path("plugins/libregatta-cuda.so")) << "library";
  const Json environment =
      environment_of(program, {{"REGATTA_PLUGIN_DIR", path("plugins").string()}});
  const std::string line = "REGATTA_PLUGIN_DIR=" + path("plugins").string();
  EXPECT_TRUE(has_line(told_by(environment), line));
  ::chmod(path("plugins/libregatta-cuda.so").c_str(), 0666);
  EXPECT_FALSE(has_line(told_by(environment), line));
}

TEST_F(StepReplaysTest, TrustOnlyOwnersThatMayActForTheUser) {
  const base::Path file = path("site/file");
  std::ofstream(file) << "text";
  EXPECT_TRUE(files::is_trusted_path(file));
  EXPECT_TRUE(files::is_trusted_path(path("site")));
  EXPECT_FALSE(files::is_trusted_path(path("site/nothing")));
  std::filesystem::create_symlink(file, path("own/link"));
  EXPECT_TRUE(files::is_trusted_path(path("own/link")));
  ::mkfifo(path("own/pipe").c_str(), 0600);
  EXPECT_FALSE(files::is_trusted_path(path("own/pipe")));

  ::chmod(path("site").c_str(), 01777);  // as /tmp, others may add files, and exchange none
  EXPECT_TRUE(files::is_trusted_path(file));
  EXPECT_FALSE(files::is_trusted_path(path("site")));
  ::chmod(path("site").c_str(), 0775);
  EXPECT_FALSE(files::is_trusted_path(file));
  EXPECT_FALSE(files::is_trusted_path(path("own/link")));
  ::chmod(path("site").c_str(), 0755);

  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  ASSERT_EQ(::chown(file.c_str(), kOtherUser, kOtherUser), 0);
  EXPECT_FALSE(files::is_trusted_path(file));
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(path("site").c_str(), kOtherUser, kOtherUser), 0);
  EXPECT_FALSE(files::is_trusted_path(file));
}

}  // namespace
}  // namespace regatta::orchestrator
