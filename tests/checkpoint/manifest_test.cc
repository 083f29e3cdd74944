#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;

Manifest full() {
  Manifest manifest;
  manifest.run = "demo \"quoted\"";
  manifest.execution = "0123456789abcdef";
  manifest.epoch = 3;
  manifest.step = 1200;
  manifest.samples = 38400;
  manifest.model_fingerprint = "m";
  manifest.data_fingerprint = "d";
  manifest.metric = "mlm_loss";
  manifest.value = 0.1;
  manifest.plan = "{\"ranks\": 1}\n";
  manifest.rollbacks = {{1117, 1100}, {1110, 1000}};
  manifest.growth = BatchGrowthState{{{1, 16}, {401, 32}, {1204, 48}}, 1.0 / 3 + 900};
  manifest.utc_seconds = 1795261682.125;
  manifest.versions = {{"regatta", "0.1.0"}, {"cpu", "some"}};
  manifest.files = {{"model.safetensors", {123, "0123456789abcdef0123456789abcdef"}}};
  return manifest;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, RoundTrips) {
  const Manifest manifest = full();
  const std::string text = to_json(manifest);
  const Manifest back = parse_manifest(text, "x");
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.run, manifest.run);
  EXPECT_EQ(back.epoch, 3);
  EXPECT_EQ(back.step, 1200);
  EXPECT_EQ(back.samples, 38400);
  EXPECT_EQ(back.value, 0.1);
  EXPECT_EQ(back.plan, manifest.plan);
  EXPECT_EQ(back.rollbacks, manifest.rollbacks);
  EXPECT_EQ(back.growth, manifest.growth) << "to the last bit of the progress";
  EXPECT_EQ(back.utc_seconds, manifest.utc_seconds);
  EXPECT_EQ(back.versions, manifest.versions);
  ASSERT_EQ(back.files.count("model.safetensors"), 1U);
  EXPECT_EQ(back.files.at("model.safetensors").bytes, 123U);
}

TEST(Manifest, ValuesThatAreNoNumbersAreAbsent) {
  Manifest manifest = full();
  manifest.value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(parse_manifest(to_json(manifest), "x").value, std::nullopt);
  manifest.value = std::nullopt;
  EXPECT_EQ(parse_manifest(to_json(manifest), "x").value, std::nullopt);
}

// As every manifest was before there were any.
TEST(Manifest, SaysNothingOfRollbacksThatWereNot) {
  Manifest manifest = full();
  manifest.rollbacks.clear();
  const std::string text = to_json(manifest);
  EXPECT_EQ(text.find("rollbacks"), std::string::npos);
  EXPECT_TRUE(parse_manifest(text, "x").rollbacks.empty());
}

// As every manifest was before a batch could grow.
TEST(Manifest, SaysNothingOfABatchThatDoesNotGrow) {
  Manifest manifest = full();
  manifest.growth.reset();
  const std::string text = to_json(manifest);
  EXPECT_EQ(text.find("batches"), std::string::npos);
  EXPECT_EQ(text.find("progress"), std::string::npos);
  EXPECT_EQ(parse_manifest(text, "x").growth, std::nullopt);
}

// As the manifest of a later version would be; the digest counts what stands there, however spaced.
TEST(Manifest, IgnoresUnknownFieldsAndSpaces) {
  auto json = nlohmann::ordered_json::parse(to_json(full()));
  json["later"] = {1, 2.5, "three"};
  json.erase("digest");
  const std::string digest = base::digest_of(json.dump());
  json["digest"] = digest;
  EXPECT_EQ(parse_manifest(json.dump(), "x").step, 1200);
  EXPECT_EQ(parse_manifest(json.dump(7), "x").step, 1200);
}

// A flipped bit may turn one good number into another, so every one that still parses must mean the
// same.
TEST(Manifest, NoFlippedBitChangesWhatItSays) {
  const std::string good = to_json(full());
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      EXPECT_EQ(to_json(parse_manifest(flipped, "x")), good) << flipped;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      ++refused;
    }
  }
  EXPECT_GT(refused, 7 * static_cast<int>(good.size())) << "only spaces may change";
}

TEST(Manifest, NamesWhatIsWrong) {
  struct Row {
    const char* name;
    std::string text;
    const char* message;
  };
  const std::string good = to_json(full());
  const Row rows[] = {
      {"empty", "", "not a JSON object"},
      {"not JSON", "{", "not a JSON object"},
      {"a list", "[]", "not a JSON object"},
      {"deep", std::string(100000, '['), "not a JSON object"},
      {"half", good.substr(0, good.size() / 2), "not a JSON object"},
      {"NUL bytes after it", good + std::string(8, '\0'), "not a JSON object"},
      {"newer", replaced(good, "\"format\": 1", "\"format\": 2"), "format 2 is not known here"},
      {"no format", replaced(good, "\"format\"", "\"formal\""), "format is missing"},
      {"no step", replaced(good, "\"step\"", "\"stop\""), "step is missing"},
      {"negative step", replaced(good, "1200", "-1"), "step is not a whole number"},
      {"fraction step", replaced(good, "1200", "1.5"), "step is not a whole number"},
      {"huge step", replaced(good, "1200", "9223372036854775808"), "step is not a whole number"},
      {"text step", replaced(good, "1200", "\"1\""), "step is not a whole number"},
      {"value text", replaced(good, "0.1,", "\"x\","), "value is neither"},
      {"plan number", replaced(good, "\"plan\": \"", "\"plan\": 1, \"p\": \""), "plan is not text"},
      {"rollbacks object", replaced(good, "\"rollbacks\": [", "\"rollbacks\": {}, \"r\": ["),
       "rollbacks is not a list"},
      {"rollback number", replaced(good, "\"rollbacks\": [", "\"rollbacks\": [1,"),
       "rollbacks holds something"},
      {"rollback without its end", replaced(good, "\"to_step\"", "\"to\""), "to_step is missing"},
      {"rollback to nowhere", replaced(good, "1100", "-1"), "to_step is not a whole number"},
      {"rollback onward", replaced(good, "1100", "1117"), "a rollback goes forward"},
      {"batches object", replaced(good, "\"batches\": [", "\"batches\": {}, \"b\": ["),
       "batches is not a list"},
      {"no batches", replaced(good, "\"batches\": [", "\"batches\": [], \"b\": ["),
       "batches is not a list"},
      {"batch number", replaced(good, "\"batches\": [", "\"batches\": [1,"),
       "batches holds something"},
      {"a batch of nothing", replaced(good, "48", "0"), "follow one another"},
      {"a batch of no step", replaced(good, "1204", "401"), "follow one another"},
      {"batches without the first", replaced(good, "\"step\": 1,", "\"step\": 2,"),
       "follow one another"},
      {"no progress", replaced(good, "\"progress\"", "\"progreß\""), "progress is missing"},
      {"progress below 0", replaced(good, "\"progress\": ", "\"progress\": -"), "below 0"},
      {"progress text", replaced(good, "\"progress\": ", "\"progress\": \"x\", \"p\": "),
       "progress is not a number"},
      {"versions list", replaced(good, "\"versions\": {", "\"versions\": 1, \"v\": {"),
       "versions is not an object"},
      {"version number", replaced(good, "\"some\"", "3"), "versions holds"},
      {"file number", replaced(good, "{\n      \"bytes\"", "3, \"x\": {\"bytes\""), "files holds"},
      {"path out", replaced(good, "model.safetensors", "../model.safetensors"), "plain file name"},
      {"path in", replaced(good, "model.safetensors", "m/../../model.safetensors"),
       "plain file name"},
      {"absolute path", replaced(good, "model.safetensors", "/etc/passwd"), "plain file name"},
      {"hidden name", replaced(good, "model.safetensors", ".m"), "plain file name"},
      {"empty name", replaced(good, "model.safetensors", ""), "plain file name"},
      {"itself", replaced(good, "model.safetensors", "manifest.json"), "plain file name"},
      {"NUL in a name", replaced(good, "model.safetensors", "m\\u0000"), "plain file name"},
      {"other samples", replaced(good, "38400", "38401"), "its digest differs"},
      {"other metric", replaced(good, "mlm_loss", "mlm_lost"), "its digest differs"},
      {"one field more", replaced(good, "{", "{\"later\": 1,"), "its digest differs"},
      {"no digest", replaced(good, "\n  \"digest\"", "\n  \"diguest\""), "digest is missing"},
      {"short digest", replaced(good, "0123456789abcdef0123456789abcdef", "0123"),
       "32 hexadecimal"},
      {"odd digest",
       replaced(good, "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef"),
       "32 hexadecimal"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      (void)parse_manifest(row.text, "step-1/manifest.json");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("step-1/manifest.json: "));
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(Sidecar, RoundTrips) {
  const std::string digest = "0123456789abcdef0123456789abcdef";
  const WrittenShard shard{{9'007'199'254'740'993ULL, digest}, 0.1, 1e-9};
  const std::string text = to_json(shard);
  EXPECT_EQ(text, "{\"bytes\":9007199254740993,\"digest\":\"" + digest +
                      "\",\"write_seconds\":0.1,\"sync_seconds\":1e-09}\n");
  const WrittenShard back = parse_sidecar(text, "x");
  EXPECT_EQ(back.file.bytes, shard.file.bytes);
  EXPECT_EQ(back.file.digest, digest);
  EXPECT_EQ(back.write_seconds, 0.1);
  EXPECT_EQ(back.sync_seconds, 1e-9);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(parse_sidecar(to_json(WrittenShard{{1, digest}, infinite, 0}), "x").write_seconds, 0);
}

TEST(Sidecar, RefusesEverythingElse) {
  const std::string good =
      to_json(WrittenShard{{123, "0123456789abcdef0123456789abcdef"}, 0.5, 0.25});
  struct Row {
    const char* name;
    std::string text;
    const char* message;
  };
  const Row rows[] = {
      {"empty", "", "not a JSON object"},
      {"a list", "[]", "not a JSON object"},
      {"deep", std::string(100000, '['), "not a JSON object"},
      {"half", good.substr(0, good.size() / 2), "not a JSON object"},
      {"NUL bytes after it", good + std::string(8, '\0'), "not a JSON object"},
      {"zeroes", std::string(good.size(), '\0'), "not a JSON object"},
      {"twice", good + good, "not a JSON object"},
      {"no line end", good.substr(0, good.size() - 1), "says more"},
      {"spaces", replaced(good, ":", ": "), "says more"},
      {"one field more", replaced(good, "{", "{\"later\":1,"), "says more"},
      {"a field twice", replaced(good, "{", "{\"bytes\":123,"), "says more"},
      {"a field twice, other", replaced(good, "{", "{\"bytes\":124,"), "says more"},
      {"no bytes", replaced(good, "bytes", "bites"), "bytes is missing"},
      {"negative bytes", replaced(good, "123", "-1"), "bytes is not a whole number"},
      {"fraction of bytes", replaced(good, "123", "1.5"), "bytes is not a whole number"},
      {"huge bytes", replaced(good, "123,", "9223372036854775808,"), "bytes is not a whole number"},
      {"text bytes", replaced(good, "123,", "\"123\","), "bytes is not a whole number"},
      {"short digest", replaced(good, "0123456789abcdef0123", "0123"), "32 hexadecimal"},
      {"odd digest", replaced(good, "abcdef", "ABCDEF"), "32 hexadecimal"},
      {"no digest", replaced(good, "digest", "digits"), "digest is missing"},
      {"text seconds", replaced(good, "0.5", "\"0.5\""), "write_seconds is not a number"},
      {"no seconds", replaced(good, "sync_seconds", "sink_seconds"), "sync_seconds is missing"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      (void)parse_sidecar(row.text, "step-1/x.digest.json");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("step-1/x.digest.json: "));
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

}  // namespace
}  // namespace regatta::checkpoint
