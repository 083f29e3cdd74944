#include "trainer/contract/environment_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;

// Sections of one key each.
Json sections() {
  Json json;
  for (const std::string_view name : kEnvironmentSections) json[std::string(name)] = {{"a", 1}};
  return json;
}

TEST(EnvironmentFile, DigestsAreOfTheText) {
  Json different = sections();
  different["data"] = {{"b", "x"}, {"a", {1.5, nullptr, true}}};
  const Json sealed = sealed_environment(different);
  // Written out, so that it is not the writer under test that says it.
  EXPECT_EQ(sealed["build"]["digest"], base::digest_of(R"({"a":1})"));
  const std::string data = base::digest_of(R"({"b":"x","a":[1.5,null,true]})");
  EXPECT_EQ(sealed["data"]["digest"], data);
  std::string lines;
  for (const char* const name : {"build", "machine", "devices", "fabric", "variables", "numerics",
                                 "randomness", "data", "model", "configuration"}) {
    lines += std::string(name) + " " +
             (std::string(name) == "data" ? data : base::digest_of(R"({"a":1})")) + "\n";
  }
  EXPECT_EQ(sealed["fingerprint"], base::digest_of(lines));
  EXPECT_EQ(parse_environment(sealed.dump(2), "file"), sealed) << "however it is laid out";
}

TEST(EnvironmentFile, RefusesWhatIsDamaged) {
  const Json good = sealed_environment(sections());
  const auto changed = [&](const std::string& pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return json.dump();
  };
  const auto without = [&](const char* key) {
    Json json = good;
    json.erase(key);
    return json.dump();
  };
  const auto resealed = [&](const std::string& pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    json["fingerprint"] = environment_fingerprint(json);
    return json.dump();
  };
  struct Row {
    const char* what;
    std::string text;
    const char* message;
  };
  const std::string digest = "/model/digest";
  const std::vector<Row> rows{
      {"nothing", "", "no JSON object"},
      {"a list", "[]", "no JSON object"},
      {"cut off", good.dump().substr(0, 200), "no JSON object"},
      {"binary", std::string("\0\x1b[2J\xff", 6), "no JSON object"},
      {"deep", std::string(100000, '['), "no JSON object"},
      {"large", good.dump() + std::string(10U << 20U, ' '), "larger than"},
      {"another format", changed("/format", 3), "format is not 2"},
      {"a format of words", changed("/format", "2"), "format is not 2"},
      {"no format", without("format"), "format is not 2"},
      {"no section", without("model"), "section 'model' is missing"},
      {"a section of text", changed("/model", "x"), "section 'model' is not an object"},
      {"no digest", changed("/model", Json::object()), "section 'model' has no digest"},
      {"a number for a digest", changed(digest, 5), "section 'model' has no digest"},
      {"another value", changed("/model/a", 2), "section 'model' is not what its digest says"},
      {"one more value", changed("/model/b", 2), "section 'model' is not what its digest says"},
      {"another digest", resealed(digest, std::string(32, '0')), "section 'model' is not what"},
      {"no fingerprint", without("fingerprint"), "fingerprint"},
      {"another fingerprint", changed("/fingerprint", good["model"]["digest"]), "fingerprint"},
      {"an attempt of text", changed("/attempt", "x"), "'attempt' is not an object"},
      {"a list of training", changed("/training", Json::array()), "'training' is not an object"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    try {
      (void)parse_environment(row.text, "RUN/\x1b[2Jfile");
      ADD_FAILURE() << "taken";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
      EXPECT_THAT(error.what(), Not(HasSubstr("\x1b")));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      EXPECT_LT(std::string(error.what()).size(), 300U);
    }
  }
  // What is of no section may be anything.
  EXPECT_NO_THROW((void)parse_environment(changed("/attempt", Json::object()), "file"));
  EXPECT_NO_THROW((void)parse_environment(changed("/more", "x"), "file"));
}

TEST(EnvironmentFile, OfFormerFormIsNone) {
  try {
    (void)parse_environment(R"({"version": "0.1.0", "host": "a", "slurm_job": "4711"})", "file");
    ADD_FAILURE() << "taken";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound);
    EXPECT_THAT(error.what(), HasSubstr("no sections"));
  }
}

TEST(EnvironmentFile, HasTheJobInEitherForm) {
  EXPECT_EQ(slurm_job_of_environment(R"({"version": "0.1.0", "slurm_job": "4711"})"), "4711");
  Json json = sealed_environment(sections());
  EXPECT_EQ(slurm_job_of_environment(json.dump()), "");
  json["attempt"] = {{"slurm_job", "4712"}};
  EXPECT_EQ(slurm_job_of_environment(json.dump()), "4712");
  for (const char* const text :
       {"", "[]", "{", R"({"slurm_job": 5})", R"({"attempt": 5})", R"({"attempt": {}})"}) {
    EXPECT_EQ(slurm_job_of_environment(text), "") << text;
  }
}

}  // namespace
}  // namespace regatta::trainer::contract
