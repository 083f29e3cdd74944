// Exports of checkpoints, through the API and through `regatta ckpt export`.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/digest.h"
#include "orchestrator/checkpoints/checkpoint_exports.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/store/database.h"
#include "tests/base/faulty_file_system.h"
#include "tests/orchestrator/checkpoints/ckpt_fixture.h"

namespace regatta::orchestrator {
namespace {

using checkpoint::CheckpointName;
using testing::HasSubstr;
using tests::RawAnswer;
using Json = nlohmann::ordered_json;

TEST_F(CkptTest, ExportsBesideTheRequests) {
  write_patient_trainer();
  const std::string name = write(7);
  write(8);
  const RawAnswer begun = post(address() + "/7/export", R"({"for": "encoder"})");
  EXPECT_EQ(begun.status, 202) << begun.body;
  const Json first = Json::parse(begun.body);
  EXPECT_EQ(first["state"], "running");
  EXPECT_EQ(first["name"], name);
  EXPECT_EQ(first["path"], (run_ / "exports" / name).string());
  EXPECT_TRUE(first["files"].empty());
  EXPECT_EQ(post(address() + "/7/export").status, 409) << "it is under way";
  EXPECT_EQ(post(address() + "/8/export").status, 503) << "one at a time";
  EXPECT_EQ(got("/7/export")["state"], "running");
  EXPECT_EQ(posted("/8/verify")["good"], true) << "others are answered meanwhile";
  EXPECT_EQ(get(address() + "/8/export").status, 404);

  tests::write_file(folder_.path() / "go", "");
  const Json done = exported("7");
  EXPECT_EQ(done["state"], "done") << done;
  ASSERT_EQ(done["files"].size(), 1U);
  EXPECT_EQ(done["files"][0]["name"], "arguments");
  const std::string arguments =
      base::posix_file_system().read(run_ / "exports" / name / "arguments", 9999);
  EXPECT_EQ(done["files"][0]["bytes"], arguments.size());
  EXPECT_EQ(arguments, "export\n--checkpoint=" + (checkpoints() / name).string() + "\n--output=" +
                           (run_ / "exports" / name).string() + "\n--for=encoder\n");
  EXPECT_EQ(post(address() + "/7/export").status, 409) << "it exists";
  EXPECT_EQ(base::posix_file_system().list(run_ / "exports").size(), 1U) << "no log is left";

  std::filesystem::remove_all(checkpoints() / name);
  EXPECT_EQ(got("/" + name + "/export")["state"], "done") << "it outlives its checkpoint";
  EXPECT_EQ(post(address() + "/8/export", R"({"with_optimizer": true})").status, 202);
  EXPECT_EQ(exported("latest")["state"], "done");
  const base::Path second = run_ / "exports" / CheckpointName{8, "aaaa"}.text();
  EXPECT_EQ(base::posix_file_system().read(second / "arguments", 9999),
            "export\n--checkpoint=" + (checkpoints() / CheckpointName{8, "aaaa"}.text()).string() +
                "\n--output=" + second.string() + "\n--with-optimizer\n")
      << "for what the run's task is";
}

TEST_F(CkptTest, IsForEachModelThatTheTrainerKnows) {
  write_trainer("exit 9\n");
  write(7);
  for (const char* const model : checkpoints::kExportModels) {
    const std::string body = R"({"for": ")" + std::string(model) + R"("})";
    EXPECT_EQ(post(address() + "/7/export", body).status, 202) << model;
    EXPECT_EQ(exported("7")["state"], "failed");
  }
}

TEST_F(CkptTest, AnExportGetsNoSecretsOfTheController) {
  ::setenv("CKPT_TEST_SECRET", "hidden", 1);
  write(7);
  write_trainer("test -z \"$CKPT_TEST_SECRET\" && test \"$ALLOWED\" = yes || exit 3; exit 9\n");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_THAT(exported("7")["message"].get<std::string>(), HasSubstr("exit code 9"));
}

TEST_F(CkptTest, AFailedExportSaysWhyAndMayBeTriedAgain) {
  write(7);
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_THAT(exported("7")["message"].get<std::string>(), HasSubstr("trainer"))
      << "there is no such program";
  write_trainer("echo 'looked for it'; printf 'no vocabulary\\033[1m\\n\\n' >&2; exit 7\n");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  const Json failed = exported("7");
  EXPECT_EQ(failed["state"], "failed");
  EXPECT_EQ(failed["message"], "no vocabulary\\x1b[1m");
  write_trainer("exit 9\n");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_THAT(exported("7")["message"].get<std::string>(), HasSubstr("exit code 9"));
  EXPECT_TRUE(base::posix_file_system().list(run_ / "exports").empty());
}

TEST_F(CkptTest, AnExportHasADeadlineAndEndsWithItsOwner) {
  write_patient_trainer();
  const std::string name = write(7);
  base::FileSystem& files = base::posix_file_system();
  {
    checkpoints::CheckpointExports exports(files, {trainer(), 0.3});
    (void)exports.start(run_, name, {});
    Json status;
    EXPECT_TRUE(tests::eventually([&] {
      status = exports.status(run_, name);
      return status["state"] != "running";
    }));
    EXPECT_EQ(status["state"], "failed");
    EXPECT_THAT(status["message"].get<std::string>(), HasSubstr("took longer than"));
    EXPECT_TRUE(files.list(run_ / "exports").empty()) << "nothing of it stays";
  }
  {
    checkpoints::CheckpointExports exports(files, {trainer(), 3600});
    (void)exports.start(run_, name, {});
    EXPECT_TRUE(tests::eventually(
        [&] { return files.exists(run_ / "exports" / (name + ".partial-00") / "arguments"); }));
  }
  EXPECT_TRUE(files.list(run_ / "exports").empty());
  tests::write_file(folder_.path() / "go", "");
  EXPECT_FALSE(files.exists(run_ / "exports" / name)) << "the child is dead";
}

TEST_F(CkptTest, AnExportIsThereWholeUntilItIsRemoved) {
  const std::string name = write(7);
  const base::Path output = run_ / "exports" / name;
  std::filesystem::create_directories(output);
  constexpr int kFiles = 3000;
  for (int i = 0; i < kFiles; ++i) tests::write_file(output / std::to_string(i), "x");
  checkpoints::CheckpointExports exports(base::posix_file_system(), {trainer()});
  std::thread removal([&] { exports.remove(run_, name); });
  // Files that were seen, of an export that is said to be done.
  const auto seen = [&]() -> std::optional<std::size_t> {
    try {
      return exports.finished(run_, name)["files"].size();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::NotFound) << error.what();
      return std::nullopt;
    }
  };
  while (const auto count = seen()) EXPECT_EQ(count, kFiles);
  removal.join();
  EXPECT_FALSE(seen());
  EXPECT_TRUE(base::posix_file_system().list(run_ / "exports").empty());
}

// Whatever fails meanwhile: of an export that is said to be done all files are there.
TEST_F(CkptTest, AnExportThatCannotBeRemovedIsWholeOrNone) {
  const std::string name = write(7);
  const base::Path output = run_ / "exports" / name;
  constexpr std::size_t kFiles = 3;
  bool went_through = false;
  for (int at = 1; at < 100 && !went_through; ++at) {
    std::filesystem::create_directories(output);
    for (std::size_t i = 0; i < kFiles; ++i) tests::write_file(output / std::to_string(i), "x");
    tests::FaultyFileSystem files;
    checkpoints::CheckpointExports exports(files, {trainer()});
    files.fail_at(at, tests::Fault::ForEver);
    try {
      exports.remove(run_, name);
      went_through = true;
    } catch (const base::Error&) {
    }
    files.heal();
    try {
      EXPECT_EQ(exports.finished(run_, name)["files"].size(), kFiles) << "failed at " << at;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::NotFound) << error.what();
    }
    std::filesystem::remove_all(run_ / "exports");
  }
  EXPECT_TRUE(went_through);
}

TEST_F(CkptTest, AnExportGoesWhenItsDaysAreOver) {
  write_patient_trainer();
  tests::write_file(folder_.path() / "go", "");
  const std::string name = write(7);
  const std::string other = write(8);
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_EQ(exported("7")["state"], "done");
  const double asked = base::system_clock().utc_seconds();
  const auto removals = [this] {
    return store_.snapshot().events_after({{"checkpoint.export_removed"}, id_, "", ""}, 0, 10);
  };
  api_.remove_exports_before(asked - 60);
  EXPECT_EQ(got("/7/export")["state"], "done") << "too early";

  EXPECT_EQ(post(address() + "/8/export").status, 202);
  EXPECT_EQ(exported("8")["state"], "done");
  std::filesystem::remove_all(run_ / "exports" / other);  // by hand
  api_.remove_exports_before(asked + 60);
  EXPECT_EQ(get(address() + "/7/export").status, 404);
  EXPECT_TRUE(base::posix_file_system().list(run_ / "exports").empty());
  ASSERT_EQ(removals().events.size(), 1U);
  EXPECT_EQ(removals().events[0].checkpoint, name);
  EXPECT_EQ(removals().events[0].by, "");
  EXPECT_EQ(removals().events[0].words, "its days were over");

  EXPECT_EQ(post(address() + "/7/export").status, 202) << "again";
  EXPECT_EQ(exported("7")["state"], "done");
  api_.remove_exports_before(asked);
  EXPECT_EQ(got("/7/export")["state"], "done") << "its own days count";
  api_.remove_exports_before(asked + 3600);
  EXPECT_EQ(removals().events.size(), 2U);

  EXPECT_EQ(post(address() + "/8/export").status, 202);
  EXPECT_EQ(exported("8")["state"], "done");
  std::filesystem::remove_all(run_ / "exports" / other);  // by hand, and no event tells of it
  const double between = base::system_clock().utc_seconds();
  EXPECT_EQ(post(address() + "/8/export").status, 202) << "again";
  EXPECT_EQ(exported("8")["state"], "done");
  api_.remove_exports_before(between);
  EXPECT_EQ(got("/8/export")["state"], "done") << "it is as old as the newest request for it";
}

// Its first request may lie thousands of others back, of which a look reads so many at once.
TEST_F(CkptTest, AnExportIsAsOldAsTheNewestOfThousandsOfRequests) {
  write_patient_trainer();
  tests::write_file(folder_.path() / "go", "");
  const std::string name = write(7);
  store::Database(folder_.path() / "state" / "store.sqlite", store::Database::Access::ReadWrite)
      .execute(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) "
          "INSERT INTO events(number, utc, kind, run, checkpoint, node, actor, words) "
          "SELECT i, 1, 'checkpoint.exported', CASE i WHEN 1 THEN '" +
          id_ + "' ELSE 'nobody' END, '" + name + "', '', '', '' FROM n");
  const double begin = base::system_clock().utc_seconds();
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_EQ(exported("7")["state"], "done");
  api_.remove_exports_before(begin - 60);
  EXPECT_EQ(got("/7/export")["state"], "done");
  api_.remove_exports_before(begin + 3600);
  EXPECT_EQ(get(address() + "/7/export").status, 404);
}

// One that is being made when its days are over goes later.
TEST_F(CkptTest, AnExportUnderWayIsLeftToBeMade) {
  write_patient_trainer();
  write(7);
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  const double later = base::system_clock().utc_seconds() + 60;
  api_.remove_exports_before(later);
  tests::write_file(folder_.path() / "go", "");
  EXPECT_EQ(exported("7")["state"], "done");
  api_.remove_exports_before(later);
  EXPECT_EQ(get(address() + "/7/export").status, 404);
}

// Digests are of what the trainer wrote, and lie beside it: another controller knows them too.
TEST_F(CkptTest, AnExportHasTheDigestsOfItsFiles) {
  write_patient_trainer();
  tests::write_file(folder_.path() / "go", "");
  const std::string name = write(7);
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  const Json done = exported("7");
  ASSERT_EQ(done["files"].size(), 1U) << done;
  const base::Path output = run_ / "exports" / name;
  base::FileSystem& files = base::posix_file_system();
  const std::string bytes = files.read(output / "arguments", 9999);
  const std::string digest = base::digest_of(bytes);
  EXPECT_EQ(done["files"][0]["digest"], digest);
  checkpoints::CheckpointExports restarted(files, {trainer()});
  EXPECT_EQ(restarted.finished(run_, name)["files"], done["files"]);

  const std::string path = address() + "/7/export/files/arguments";
  const RawAnswer sent = get(path);
  EXPECT_EQ(sent.body, bytes);
  EXPECT_EQ(sent.header("X-Digest-XXH3-128"), digest);
  EXPECT_EQ(sent.header("ETag"), '"' + digest + '"');
  const std::string archive_tag = get(address() + "/7/export/archive").header("ETag");
  EXPECT_NE(archive_tag, "");
  EXPECT_EQ(get(address() + "/7/export/files/.digests.json").status, 404);

  // Made again with other bytes of the same size, as another `--for` of some models is.
  const std::string removal = tests::request_text("DELETE", address() + "/7/export");
  EXPECT_EQ(tests::send_raw(server_.port(), removal).status, 200);
  write_trainer(
      "for a in \"$@\"; do case \"$a\" in --output=*) out=\"${a#--output=}\" ;; esac; done\n"
      "mkdir \"$out\" && head -c " +
      std::to_string(bytes.size()) + " /dev/zero > \"$out/arguments\"\n");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  const Json other = exported("7");
  EXPECT_EQ(other["files"][0]["bytes"], done["files"][0]["bytes"]);
  EXPECT_EQ(other["files"][0]["digest"], base::digest_of(std::string(bytes.size(), '\0')));
  EXPECT_NE(get(path).header("ETag"), sent.header("ETag"));
  EXPECT_NE(get(address() + "/7/export/archive").header("ETag"), archive_tag);
}

// Of a file that is read in several blocks.
TEST_F(CkptTest, ALargeExportHasTheDigestOfItsWholeFile) {
  write(7);
  write_trainer(
      "for a in \"$@\"; do case \"$a\" in --output=*) out=\"${a#--output=}\" ;; esac; done\n"
      "mkdir \"$out\" && head -c 9000000 /dev/zero > \"$out/model\" && echo end >> "
      "\"$out/model\"\n");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  const Json done = exported("7");
  ASSERT_EQ(done["files"].size(), 1U) << done;
  EXPECT_EQ(done["files"][0]["bytes"], 9'000'004);
  EXPECT_EQ(done["files"][0]["digest"], base::digest_of(std::string(9'000'000, '\0') + "end\n"));
}

// What an earlier version made has none, and what stands in their file may be anything.
TEST_F(CkptTest, AnExportWithoutDigestsIsSentAllTheSame) {
  const std::string name = write(7);
  const base::Path output = run_ / "exports" / name;
  std::filesystem::create_directories(output);
  tests::write_file(output / "model", "weights");
  const std::string path = address() + "/7/export/files/model";
  std::string tag;
  for (const std::string& text :
       std::vector<std::string>{"", "[]", "{\"model\": 7}", "{\"model\": \"0123\"}", "no JSON",
                                "{\"model\": \"0123456789abcdef0123456789abc\\r\\nX\"}",
                                "{\"other\": \"0123456789abcdef0123456789abcdef\"}"}) {
    if (!text.empty()) tests::write_file(output / ".digests.json", text);
    const Json status = got("/7/export");
    ASSERT_EQ(status["files"].size(), 1U) << text;
    EXPECT_TRUE(status["files"][0]["digest"].is_null()) << text;
    const RawAnswer sent = get(path);
    EXPECT_EQ(sent.status, 200) << text;
    EXPECT_EQ(sent.body, "weights") << text;
    EXPECT_EQ(sent.header("X-Digest-XXH3-128"), "") << text;
    if (tag.empty()) tag = sent.header("ETag");
    EXPECT_EQ(sent.header("ETag"), tag) << text;
  }
  tests::write_file(output / "model", "another size");
  EXPECT_NE(get(path).header("ETag"), tag);
}

TEST_F(CkptTest, AnExportWithAFileThatCannotBeReadIsNotDone) {
  const std::string name = write(7);
  const base::Path output = run_ / "exports" / name;
  std::filesystem::create_directories(output);
  for (const char* const file : {"a", "b"}) tests::write_file(output / file, "x");
  tests::FaultyFileSystem files;
  checkpoints::CheckpointExports exports(files, {trainer()});
  EXPECT_EQ(exports.finished(run_, name)["files"].size(), 2U);
  files.fail_at(3, tests::Fault::Once);  // after their list and the size of one
  EXPECT_THROW((void)exports.finished(run_, name), base::Error);
  EXPECT_EQ(exports.finished(run_, name)["files"].size(), 2U);
}

TEST_F(CkptTest, AnExportClearsWhatKilledOnesLeft) {
  const std::string name = write(7);
  std::filesystem::create_directories(run_ / "exports" / (name + ".partial-0123") / "half");
  write_patient_trainer();
  tests::write_file(folder_.path() / "go", "");
  EXPECT_EQ(post(address() + "/7/export").status, 202);
  EXPECT_EQ(exported("7")["state"], "done");
  EXPECT_THAT(base::posix_file_system().list(run_ / "exports"), testing::ElementsAre(name));
}

TEST_F(CkptTest, ExportsNeedATrainerAndGoThroughNoLink) {
  const std::string name = write(7);
  checkpoints::CheckpointExports none(base::posix_file_system(), {});
  try {
    (void)none.start(run_, name, {});
    ADD_FAILURE() << "started";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr("--trainer"));
  }
  write_patient_trainer();
  const base::Path outside = folder_.path() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::create_directory_symlink(outside, run_ / "exports");
  EXPECT_EQ(post(address() + "/7/export").status, 500);
  EXPECT_TRUE(base::posix_file_system().list(outside).empty());
}

TEST_F(CkptTest, TheExportCommandRunsTheTrainer) {
  const std::string name = write(7);
  write_trainer("printf '%s\\n' \"$@\"; echo trouble >&2; exit 5\n");
  const std::string path = (checkpoints() / name).string();
  const std::vector<std::string> more{"--output",         "a model",          "--trainer",
                                      trainer().string(), "--with-optimizer", "--for",
                                      "encoder",          "--force"};
  for (const std::vector<std::string>& source :
       {std::vector<std::string>{path}, {id_, "7"}, {"--directory", run_.string(), "latest"}}) {
    std::vector<std::string> arguments{"export"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    const base::Output output = ckpt(arguments);
    EXPECT_EQ(output.exit.code, 5) << "the trainer's own";
    EXPECT_EQ(output.text, "export\n--checkpoint=" + path +
                               "\n--output=a model\n--for=encoder\n--with-optimizer\n--force\n");
    EXPECT_EQ(output.errors, "trouble\n");
  }
  write_trainer("kill -9 $$\n");
  EXPECT_EQ(ckpt({"export", path, "-o", "m", "--trainer", trainer().string()}).exit.code, 137);

  EXPECT_EQ(ckpt({"export", path}).exit.code, 2) << "where to?";
  EXPECT_EQ(ckpt({"export", "--output", "m"}).exit.code, 2);
  EXPECT_EQ(ckpt({"export", id_, "7", "8", "--output", "m"}).exit.code, 2);
  EXPECT_EQ(ckpt({"export", id_, "9", "--output", "m"}).exit.code, 3);
  const base::Output lost = ckpt({"export", path, "--output", "m", "--trainer", "/no/such"});
  EXPECT_EQ(lost.exit.code, base::meaning(base::Code::Operator).exit_code);
  EXPECT_EQ(lost.errors, "regatta: the trainer /no/such is not a program; check --trainer\n");
}

TEST(TrainerProgram, IsLookedForBesideThisOneAndInPath) {
  const tests::TemporaryDirectory folder;
  const base::Path& at = folder.path();
  const auto make = [&](const std::string& directory) {
    std::filesystem::create_directories(at / directory);
    tests::write_file(at / directory / "regatta-train", "#!/bin/sh\n");
    std::filesystem::permissions(at / directory / "regatta-train",
                                 std::filesystem::perms::owner_all);
    return at / directory / "regatta-train";
  };
  std::filesystem::create_directories(at / "build" / "orchestrator");
  std::filesystem::create_directories(at / "empty" / "regatta-train");  // a directory is none
  const base::Path program = at / "build" / "orchestrator" / "regatta";
  const std::string search = ":" + (at / "empty").string() + ":" + (at / "bin").string();
  try {
    (void)runs::find_trainer("", program, search);
    ADD_FAILURE() << "found";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr("cannot find regatta-train"));
  }
  const base::Path in_path = make("bin");
  EXPECT_EQ(runs::find_trainer("", program, search), in_path);
  const base::Path in_build = make("build/trainer");
  EXPECT_EQ(runs::find_trainer("", program, search), in_build);
  const base::Path beside = make("build/orchestrator");
  EXPECT_EQ(runs::find_trainer("", program, search), beside);
  EXPECT_EQ(runs::find_trainer(in_path.string(), program, search), in_path)
      << "what is named comes first";
}

}  // namespace
}  // namespace regatta::orchestrator
