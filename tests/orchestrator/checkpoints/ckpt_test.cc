// A run's checkpoints through the API and through `regatta ckpt`.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "checkpoint/pins.h"
#include "checkpoint/shards.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "tests/orchestrator/checkpoints/ckpt_fixture.h"

namespace regatta::orchestrator {
namespace {

using checkpoint::CheckpointName;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::RawAnswer;
using tests::request_text;
using Json = nlohmann::ordered_json;

TEST_F(CkptTest, ListsWhatIsThereAndWhyItStays) {
  EXPECT_TRUE(got("")["checkpoints"].empty());
  const std::string best = write(5, 0.41);
  const std::string tenth = write(10);
  const std::string plain = write(11);
  const std::string last = write(12);
  const std::string newest = write(13);
  const std::string unfinished = write(14);
  base::posix_file_system().remove_file(checkpoints() / unfinished / checkpoint::kManifestFile);
  const Json list = got("");
  ASSERT_EQ(list["checkpoints"].size(), 6U);
  EXPECT_EQ(row(list, best)["kept_because"], Json::array({"best mlm_accuracy 0.41"}));
  EXPECT_EQ(row(list, tenth)["kept_because"], Json::array({"every 10"}));
  EXPECT_EQ(row(list, last)["kept_because"], Json::array({"latest 2 of 2"}));
  EXPECT_EQ(row(list, plain)["goes"], true);
  EXPECT_EQ(row(list, plain)["kept_because"], Json::array());
  EXPECT_EQ(row(list, newest)["condition"], "valid");
  EXPECT_EQ(row(list, newest)["pinned"], nullptr);
  EXPECT_EQ(row(list, newest)["value"], 0.25);
  EXPECT_EQ(row(list, newest)["age_seconds"], 60);
  EXPECT_EQ(row(list, unfinished)["condition"], "unfinished");
  EXPECT_EQ(row(list, unfinished)["status"], "unfinished");
  EXPECT_EQ(row(list, unfinished)["bytes"], nullptr);
}

TEST_F(CkptTest, AddsToWhatTheJournalSays) {
  tests::JournalAuthor journal(
      trainer::contract::RunDirectory::open(base::posix_file_system(), run_), clock_.utc_seconds());
  journal.start(0);
  const std::string name = write(3);
  trainer::contract::CheckpointRecord record;
  record.step = 3;
  record.name = name;
  record.status = "written";
  record.bytes = 10;
  journal.add(1, record);
  record.name = CheckpointName{2, "aaaa"}.text();
  record.step = 2;
  journal.add(2, record);
  for (int i = 0; i < 3; ++i) controller_.tick();
  const Json list = got("");
  ASSERT_EQ(list["checkpoints"].size(), 2U);
  EXPECT_EQ(row(list, name)["bytes"], 10) << "as the journal says";
  EXPECT_EQ(row(list, name)["status"], "written");
  EXPECT_EQ(row(list, name)["condition"], "valid");
  EXPECT_FALSE(row(list, record.name).contains("condition")) << "it is not there";
  std::filesystem::remove(run_ / "run.json");
  const Json troubled = got("");
  EXPECT_EQ(troubled["checkpoints"].size(), 2U);
  EXPECT_THAT(troubled["trouble"].get<std::string>(), HasSubstr("run.json"));
}

TEST_F(CkptTest, ShowsManifestAndTensors) {
  const std::string name = write(7);
  for (const std::string asked : {name.c_str(), "7", "latest"}) {
    const Json shown = got("/" + asked);
    EXPECT_EQ(shown["name"], name) << asked;
    EXPECT_EQ(shown["manifest"]["run"], "sample");
    const Json& tensors = shown["files"][checkpoint::kModelFile]["tensors"];
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(tensors[1]["name"], "layer.weight");
    EXPECT_EQ(tensors[1]["shape"], Json::array({2, 3}));
  }
  write(8);
  base::replace_file(base::posix_file_system(), checkpoints() / name / checkpoint::kModelFile, "x");
  EXPECT_THAT(got("/7")["files"][checkpoint::kModelFile]["error"].get<std::string>(),
              HasSubstr("model.safetensors"));
}

TEST_F(CkptTest, VerifiesEveryByte) {
  const std::string name = write(7);
  EXPECT_EQ(posted("/" + name + "/verify")["good"], true);
  flip_a_byte(name);
  const Json result = posted("/7/verify");
  EXPECT_EQ(result["good"], false);
  EXPECT_THAT(result["message"].get<std::string>(), HasSubstr("model.safetensors"));
  EXPECT_TRUE(base::posix_file_system().list(checkpoints() / "reading").empty())
      << "the mark is taken away";
}

TEST_F(CkptTest, LargeOnesAreForTheCommand) {
  const std::string name = write(7);
  write(6);
  api::CheckpointApi small(base::posix_file_system(), clock_, {{}, 100});
  using Gc = checkpoints::CheckpointTools::Gc;
  const orchestrator::runs::Run run = controller_.find(id_);
  for (const std::string command : {"verify", "gc"}) {
    const api::Response response =
        command == "gc" ? small.collect(run, Gc::Remove) : small.verify(run, name);
    EXPECT_EQ(response.status, 413);
    EXPECT_THAT(response.body, HasSubstr("regatta ckpt " + command + " --directory"));
  }
  EXPECT_EQ(small.collect(run, Gc::DryRun).status, 200)
      << "what it may not read is told by manifests";
}

TEST_F(CkptTest, PinsUnpinsAndCollects) {
  const std::string pinned = write(1);
  const std::string plain = write(2);
  const std::string marked = write(3);
  write(11, 0.9);
  write(12, 0.8);
  const Json row_of_pin = posted("/1/pin", R"({"reason": "the \u001b[1m paper"})");
  EXPECT_EQ(row_of_pin["pinned"]["reason"], "the \x1b[1m paper");
  EXPECT_EQ(row_of_pin["kept_because"], Json::array({"pinned"}));
  posted("/2/pin");
  EXPECT_EQ(posted("/2/unpin")["pinned"], nullptr);
  EXPECT_EQ(posted("/2/unpin")["pinned"], nullptr) << "twice is fine";
  const checkpoint::ReadingMark mark(base::posix_file_system(), checkpoints(), marked, "test",
                                     clock_.utc_seconds());

  const Json plan = posted("/gc?dry_run=true");
  EXPECT_EQ(plan["dry_run"], true);
  ASSERT_EQ(plan["removed"].size(), 1U);
  EXPECT_EQ(plan["removed"][0]["name"], plain);
  EXPECT_EQ(plan["policy"]["keep_every"], 10);
  EXPECT_EQ(plan["policy"]["better"], "highest");
  EXPECT_EQ(row(got(""), plain)["condition"], "valid") << "nothing has gone";

  const Json done = posted("/gc");
  EXPECT_EQ(done["removed"], plan["removed"]);
  EXPECT_EQ(done["kept"].size(), 4U);
  EXPECT_TRUE(posted("/gc")["removed"].empty());
  const Json gone = row(got(""), plain);
  EXPECT_EQ(gone["condition"], "removed");
  EXPECT_EQ(gone["status"], "removed");
  EXPECT_THAT(gone["reason"].get<std::string>(), HasSubstr("not among the latest 2"));
  EXPECT_EQ(get(address() + "/" + plain).status, 404);
  EXPECT_EQ(row(got(""), pinned)["condition"], "valid");
}

TEST_F(CkptTest, RefusesHostileRequests) {
  const std::string name = write(7);
  write(8);
  tests::write_file(folder_.path() / "runs" / "secret", "secret");
  struct Case {
    const char* method;
    std::string path;
    const char* body;
    int status;
  };
  const Case cases[] = {
      {"GET", "/..", "", 404},
      {"GET", "/../run.json", "", 404},
      {"GET", "/%2e%2e", "", 404},
      {"GET", "/%2e%2e%2frun.json", "", 404},
      {"GET", "/..%2f..%2fsecret", "", 404},
      {"GET", "/step-0000000007-aaaa%2f..%2f..", "", 404},
      {"GET", "/step-0000000007-aaaa%00", "", 404},
      {"GET", "/%1b%5b1m", "", 404},
      {"GET", "/-1", "", 404},
      {"GET", "/99999999999999999999", "", 404},
      {"GET", "/pins", "", 404},
      {"GET", "/removed.jsonl", "", 404},
      {"GET", "/", "", 404},
      {"GET", "/9", "", 404},
      {"GET", "/" + std::string(900, 'a'), "", 404},
      {"POST", "/..%2f..%2fsecret/pin", "", 404},
      {"POST", "/../pin", "", 404},
      {"POST", "/9/verify", "", 404},
      {"POST", "/9/export", "", 404},
      {"GET", "/7/export", "", 404},
      {"GET", "/9/export", "", 404},
      {"GET", "/step-0000000007-aaaa%2f..%2f..%2fsecret/export", "", 404},
      {"POST", "/..%2f..%2fsecret/export", "", 404},
      {"DELETE", "/7/export", "", 404},
      {"DELETE", "/..%2f..%2fsecret/export", "", 404},
      {"GET", "/7/files/..%2fpins.json", "", 404},
      {"GET", "/7/files/..%2f..%2frun.json", "", 404},
      {"GET", "/7/files/..", "", 404},
      {"GET", "/7/files/%00", "", 404},
      {"GET", "/..%2f..%2fsecret/files/secret", "", 404},
      {"GET", "/..%2f..%2fsecret/archive", "", 404},
      {"GET", "/7/export/files/..%2f..%2fsecret", "", 404},
      {"GET", "/7/export/archive", "", 404},
      {"POST", "/7/export/more", "", 404},
      {"POST", "/7/export", "pretraining", 422},
      {"POST", "/7/export", "[]", 422},
      {"POST", "/7/export", R"({"for": "lunch"})", 422},
      {"POST", "/7/export", R"({"for": ["encoder"]})", 422},
      {"POST", "/7/export", R"({"with_optimizer": "yes"})", 422},
      {"POST", "/7/export", R"({"output": "/etc"})", 422},
      {"POST", "/7/export", R"({"for": "encoder", "force": true})", 422},
      {"POST", "/7/export", "[[[[[[[[[[", 422},
      {"POST", "/7/pin/more", "", 404},
      {"POST", "/7", "", 405},
      {"GET", "/7/pin", "", 405},
      {"GET", "/7/verify", "", 405},
      {"GET", "/gc", "", 405},
      {"GET", "/gc?dry_run=true", "", 405},
      {"DELETE", "/7", "", 405},
      {"POST", "/gc?dry_run=perhaps", "", 400},
      {"POST", "/gc?dry_run=", "", 400},
      {"POST", "/7/pin", "[]", 422},
      {"POST", "/7/pin", "reason", 422},
      {"POST", "/7/pin", R"({"reason": 5})", 422},
      {"POST", "/7/pin", R"({"because": "x"})", 422},
      {"POST", "/7/pin", R"({"reason": "x", "also": 1})", 422},
      {"POST", "/7/pin", "[[[[[[[[[[", 422},
  };
  for (const Case& one : cases) {
    const RawAnswer answer = tests::send_raw(
        server_.port(), request_text(one.method, address() + one.path, "", one.body));
    EXPECT_EQ(answer.status, one.status) << one.method << " " << one.path << " " << one.body;
    EXPECT_THAT(answer.body, Not(HasSubstr("secret\n")));
    EXPECT_THAT(answer.body, Not(HasSubstr("\x1b")));
  }
  const std::string long_reason = R"({"reason": ")" + std::string(501, 'x') + R"("})";
  EXPECT_EQ(post(address() + "/7/pin", long_reason).status, 422);
  EXPECT_EQ(get("/api/v1/runs/nobody/checkpoints/7").status, 404);
  EXPECT_EQ(row(got(""), name)["pinned"], nullptr);
  EXPECT_EQ(base::posix_file_system().list(checkpoints()).size(), 2U) << "nothing was made";
}

TEST_F(CkptTest, ReachesNothingThroughALink) {
  const base::Path outside = folder_.path() / "outside";
  write(1);
  write(2);
  std::filesystem::rename(checkpoints(), outside);
  std::filesystem::create_directory_symlink(outside, checkpoints());
  EXPECT_EQ(post(address() + "/gc").status, 500);
  EXPECT_EQ(post(address() + "/1/pin").status, 500);
  EXPECT_EQ(base::posix_file_system().list(outside).size(), 2U);
}

TEST_F(CkptTest, CommandsAgreeWithAndWithoutAController) {
  write(1);
  const std::string middle = write(2);
  write(11, 0.9);
  write(12, 0.8);
  const std::vector<std::vector<std::string>> sources{{id_}, {"--directory", run_.string()}};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string nowhere = i == 1 ? "http://127.0.0.1:1" : "";  // needs no controller
    const auto call = [&](const std::string& name, const std::vector<std::string>& more) {
      std::vector<std::string> arguments{name};
      arguments.insert(arguments.end(), sources[i].begin(), sources[i].end());
      arguments.insert(arguments.end(), more.begin(), more.end());
      return ckpt(arguments, nowhere);
    };
    const base::Output listed = call("ls", {});
    EXPECT_EQ(listed.exit.code, 0) << listed.errors;
    EXPECT_THAT(listed.text, HasSubstr("best mlm_accuracy 0.9"));
    EXPECT_EQ(Json::parse(call("ls", {"-o", "json"}).text)["checkpoints"].size(), 4U);
    EXPECT_THAT(call("show", {"latest"}).text, HasSubstr("layer.weight"));
    EXPECT_EQ(Json::parse(call("show", {"2", "-o", "json"}).text)["name"], middle);
    EXPECT_EQ(call("verify", {}).exit.code, 0);
    EXPECT_EQ(Json::parse(call("verify", {"2", "-o", "json"}).text)["good"], true);

    EXPECT_THAT(call("pin", {"2", "--reason", "\x1b[1mmine"}).text, HasSubstr("pinned"));
    EXPECT_THAT(call("ls", {}).text, HasSubstr("pinned: \\x1b[1mmine"));
    const base::Output dry = call("gc", {"--dry-run"});
    EXPECT_THAT(dry.text, HasSubstr("would go"));
    EXPECT_THAT(dry.text, HasSubstr("latest 2 of 2"));
    EXPECT_THAT(call("gc", {"--dry-run"}).text, Not(HasSubstr("would go  " + middle)));
    EXPECT_THAT(call("unpin", {middle}).text, HasSubstr("goes at the next gc"));

    EXPECT_EQ(call("show", {"77"}).exit.code, 3);
    EXPECT_EQ(call("show", {}).exit.code, 2);
    EXPECT_EQ(call("show", {"1", "2"}).exit.code, 2);
    EXPECT_EQ(call("ls", {"1"}).exit.code, 2);
    EXPECT_EQ(call("pin", {"../../etc"}).exit.code, 3);
  }
  EXPECT_EQ(ckpt({"gc", "--directory", run_.string()}).exit.code, 0);
  EXPECT_FALSE(std::filesystem::exists(checkpoints() / middle));
  EXPECT_EQ(ckpt({"ls"}).exit.code, 2);
  EXPECT_EQ(ckpt({}).exit.code, 2);
  EXPECT_EQ(ckpt({"ls", "--directory", "/nowhere/at/all"}).exit.code, 3);
}

TEST_F(CkptTest, VerifyReturnsOneForDamage) {
  const std::string damaged = write(1);
  write(2);
  flip_a_byte(damaged);
  for (const std::vector<std::string>& source :
       {std::vector<std::string>{id_}, std::vector<std::string>{"--directory", run_.string()}}) {
    std::vector<std::string> arguments{"verify"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    const base::Output all = ckpt(arguments);
    EXPECT_EQ(all.exit.code, 1);
    EXPECT_THAT(all.text, HasSubstr(damaged + ": DAMAGED: model.safetensors"));
    arguments.push_back("2");
    EXPECT_EQ(ckpt(arguments).exit.code, 0);
  }
}

// Its manifest says that it is whole.
TEST_F(CkptTest, WhatVerifyFoundIsShownUntilItIsMended) {
  write(1);
  write(2);
  const std::string older = write(3), newest = write(4);
  const base::Path model = checkpoints() / newest / checkpoint::kModelFile;
  const std::string kept = base::posix_file_system().read(model, 1 << 20);
  flip_a_byte(newest);
  EXPECT_EQ(row(got(""), newest)["condition"], "valid") << "nobody has read it";
  EXPECT_EQ(posted("/" + newest + "/verify")["good"], false);
  const Json found = row(got(""), newest);
  EXPECT_EQ(found["condition"], "damaged");
  EXPECT_THAT(std::string(found["reason"]), HasSubstr("model.safetensors"));
  EXPECT_THAT(row(got(""), older)["kept_because"].dump(), HasSubstr("latest 1 of 2"));
  EXPECT_EQ(got("/latest")["name"], older);
  EXPECT_EQ(got("/4")["name"], newest) << "by its step it is still found";
  EXPECT_THAT(ckpt({"ls", "--directory", run_.string()}).text, HasSubstr("damaged"));
  EXPECT_EQ(posted("/" + newest + "/verify")["good"], false);

  tests::write_file(model, kept);
  EXPECT_EQ(row(got(""), newest)["condition"], "damaged") << "until somebody reads it";
  EXPECT_EQ(posted("/" + newest + "/verify")["good"], true);
  EXPECT_EQ(row(got(""), newest)["condition"], "valid");
  EXPECT_EQ(got("/latest")["name"], newest);
  EXPECT_EQ(base::posix_file_system().list(checkpoints() / "damaged").size(), 0U);
}

TEST_F(CkptTest, ADryRunSaysWhatGcDoesAndBothAreRemembered) {
  const std::string old = write(1, 0.1), good = write(2, 0.9), other = write(3, 0.1);
  const std::string damaged = write(4, 0.1), newest = write(5, 0.1);
  for (const std::string& name : {damaged, newest}) flip_a_byte(name);
  const Json plan = posted("/gc?dry_run=true");
  EXPECT_EQ(plan["removed"].size(), 1U) << plan;
  EXPECT_EQ(plan["removed"][0]["name"], old);
  for (const std::string& name : {damaged, newest}) {
    EXPECT_EQ(row(got(""), name)["condition"], "damaged") << name;
  }
  EXPECT_EQ(got("/latest")["name"], other);
  EXPECT_EQ(row(got(""), old)["goes"], true);
  const Json done = posted("/gc");
  EXPECT_EQ(done["removed"], plan["removed"]);
  EXPECT_EQ(done["kept"], plan["kept"]);
  EXPECT_EQ(row(got(""), good)["condition"], "valid");
}

TEST_F(CkptTest, VerifyOfWhatIsGoneIsAnError) {
  write(1);
  ASSERT_EQ(post("/api/v1/runs", tests::run_file()).status, 201) << "else nothing may be mounted";
  std::filesystem::remove_all(run_);
  const std::string gone =
      "the run's directory " + run_.string() + " is gone; `regatta rm " + id_ + "` forgets the run";
  const base::Output all = ckpt({"verify", id_});
  EXPECT_EQ(all.exit.code, 1) << all.errors;
  EXPECT_THAT(all.errors, AllOf(HasSubstr(gone), Not(HasSubstr("no checkpoints"))));
  const base::Output one = ckpt({"verify", id_, "1"});
  EXPECT_EQ(one.exit.code, 3) << one.errors;
  EXPECT_THAT(one.errors, HasSubstr(gone));
  EXPECT_THAT(ckpt({"ls", id_}).errors, HasSubstr(gone));
  EXPECT_EQ(ckpt({"verify", "--directory", run_.string()}).exit.code, 3);
}

TEST_F(CkptTest, DiffComparesCheckpointsOfAnyRuns) {
  const std::string one = write(1);
  write(2);
  const base::Path elsewhere = folder_.path() / "elsewhere";
  std::filesystem::copy(checkpoints() / one, elsewhere);
  const auto tensors = [&](const std::vector<std::string>& arguments) {
    const base::Output output = ckpt(arguments);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return Json::parse(output.text, nullptr, false)["tensors"];
  };
  for (const Json& same :
       tensors({"diff", elsewhere.string(), (checkpoints() / one).string(), "-o", "json"})) {
    EXPECT_EQ(same["same_bits"], true);
  }
  const Json by_run = tensors({"diff", id_, "1", "latest", "--optimizer", "-o", "json"});
  ASSERT_EQ(by_run.size(), 6U);
  // layer.weight: 100…105 and 200…205.
  EXPECT_EQ(by_run[0]["largest"], 100);
  EXPECT_EQ(by_run[0]["file"], "model.safetensors");
  EXPECT_EQ(tensors({"diff", "--directory", run_.string(), "1", "2", "-o", "json"}).size(), 2U);
  const base::Output text = ckpt({"diff", id_, "1", "2"});
  EXPECT_THAT(text.text, HasSubstr("layer.weight"));
  EXPECT_EQ(ckpt({"diff", id_, "1"}).exit.code, 3) << "two paths that do not exist";
  EXPECT_EQ(ckpt({"diff", "a"}).exit.code, 2);
  EXPECT_EQ(ckpt({"diff", id_, "1", "2", "3"}).exit.code, 2);
}

TEST_F(CkptTest, DiffSaysWhatIsDamaged) {
  const std::string damaged = write(1);
  write(2);
  flip_a_byte(damaged);
  const base::Output text = ckpt({"diff", id_, "1", "2"});
  EXPECT_EQ(text.exit.code, 1) << "as verify has it";
  EXPECT_THAT(text.errors, HasSubstr(damaged + " is DAMAGED: model.safetensors"));
  EXPECT_THAT(text.text, HasSubstr("layer.weight")) << "what there is is compared all the same";
  const base::Output json = ckpt({"diff", id_, "1", "2", "-o", "json"});
  EXPECT_EQ(json.exit.code, 1);
  const Json answer = Json::parse(json.text, nullptr, false);
  ASSERT_EQ(answer["damaged"].size(), 1U);
  EXPECT_THAT(answer["damaged"][0]["path"].get<std::string>(), HasSubstr(damaged));
}

// The moments of the sample in `shards` shards, each tensor in as many ranges as it has elements
// for.
std::string write_sharded(const base::Path& checkpoints, std::int64_t step, int shards) {
  tests::SampleCheckpoint sample(step, "aaaa");
  checkpoint::CheckpointStore store(base::posix_file_system(), checkpoints);
  const CheckpointName name{step, "aaaa"};
  std::vector<std::string> files{checkpoint::kModelFile};
  (void)store.write_shard(name, checkpoint::kModelFile, sample.contents.model,
                          base::system_clock());
  for (int shard = 0; shard < shards; ++shard) {
    std::vector<checkpoint::NamedTensor> part;
    for (const checkpoint::NamedTensor& tensor : sample.contents.optimizer) {
      const auto elements = static_cast<std::int64_t>(tensor.bytes.size() / 4);
      const std::int64_t begin = elements * shard / shards;
      const std::int64_t end = elements * (shard + 1) / shards;
      if (begin == end) continue;
      part.push_back({checkpoint::range_name({tensor.name, begin, end}),
                      "F32",
                      {end - begin},
                      tensor.bytes.subspan(static_cast<std::size_t>(4 * begin),
                                           static_cast<std::size_t>(4 * (end - begin)))});
    }
    files.push_back(checkpoint::shard_file(checkpoint::kOptimizer, shard, shards));
    (void)store.write_shard(name, files.back(), part, base::system_clock());
  }
  return store.commit(sample.contents.manifest, files, tests::always, base::system_clock()).name;
}

TEST_F(CkptTest, ShardsAreShownAsOne) {
  const std::string name = write_sharded(checkpoints(), 3, 2);
  EXPECT_EQ(row(got(""), name)["shards"], 2);
  const Json shown = got("/" + name);
  EXPECT_EQ(shown["files"].size(), 3U);
  EXPECT_EQ(shown["files"]["optimizer-00002-of-00002.safetensors"]["tensors"].size(), 4U);
  EXPECT_THAT(ckpt({"ls", id_}).text, HasSubstr(" in 2 shards"));
  const std::string text = ckpt({"show", id_, "3"}).text;
  EXPECT_THAT(text, HasSubstr("optimizer-00001-of-00002.safetensors"));
  EXPECT_THAT(text, testing::ContainsRegex("exp_avg.layer.weight +F32 +\\[6\\] in 2 ranges +24 B"));
  EXPECT_THAT(text, testing::ContainsRegex("  layer.weight +F32 +\\[2, 3\\] +24 B"));
  EXPECT_THAT(text, Not(HasSubstr("[0:3]")));
  EXPECT_EQ(posted("/3/verify")["good"], true);

  const base::Path whole = folder_.path() / "whole" / "checkpoints";
  std::filesystem::create_directories(whole);
  checkpoint::CheckpointStore store(base::posix_file_system(), whole);
  const std::string other =
      store.write(tests::SampleCheckpoint(3, "aaaa").contents, tests::always).name;
  const base::Output same = ckpt({"diff", (checkpoints() / name).string(), (whole / other).string(),
                                  "--optimizer", "-o", "json"});
  EXPECT_EQ(same.exit.code, 0) << same.errors;
  const Json answer = Json::parse(same.text, nullptr, false);
  EXPECT_TRUE(answer["misfits"].empty()) << answer["misfits"];
  ASSERT_EQ(answer["tensors"].size(), 6U);
  for (const Json& tensor : answer["tensors"]) EXPECT_EQ(tensor["same_bits"], true) << tensor;

  const std::string shard = "optimizer-00002-of-00002.safetensors";
  std::filesystem::resize_file(checkpoints() / name / shard, 40);
  const Json damaged = posted("/3/verify");
  EXPECT_EQ(damaged["good"], false);
  EXPECT_THAT(damaged["message"].get<std::string>(), HasSubstr(shard));
}

}  // namespace
}  // namespace regatta::orchestrator
