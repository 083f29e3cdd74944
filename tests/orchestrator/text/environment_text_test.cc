#include "orchestrator/text/environment_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator::text {
namespace {

using testing::HasSubstr, testing::Not;
using Json = nlohmann::ordered_json;

Json environment(const Json& build) {
  Json sections;
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    sections[std::string(name)] = Json::object();
  }
  sections["build"] = build;
  return trainer::contract::sealed_environment(sections);
}

TEST(EnvironmentText, HasALineForEachKey) {
  Json shown = environment({{"version", "0.1.0"},
                            {"libraries", {{"glibc", "2.36"}}},
                            {"sets", {"avx", "avx2"}},
                            {"caches", {{{"level", 1}, {"bytes", 49152}}, {{"level", 2}}}},
                            {"quota", 1.5},
                            {"key", nullptr}});
  shown["attempt"] = {{"number", 2}};
  const std::string build = shown["build"]["digest"].get<std::string>().substr(0, 8);
  const std::string empty = shown["machine"]["digest"].get<std::string>().substr(0, 8);
  const std::string text = environment_text(shown);
  const std::string head = "fingerprint  " + shown["fingerprint"].get<std::string>().substr(0, 8) +
                           "\n" +  //
                           "build  " + build + "\n" +
                           "  version          0.1.0\n"
                           "  libraries glibc  2.36\n"
                           "  sets             avx avx2\n"
                           "  caches 1 level   1\n"
                           "  caches 1 bytes   49152\n"
                           "  caches 2 level   2\n"
                           "  quota            1.5\n"
                           "  key              not shown\n"
                           "machine  " +
                           empty + "\n  nothing\n";
  EXPECT_EQ(text.substr(0, head.size()), head);
  EXPECT_THAT(text, HasSubstr("\nattempt\n  number  2\n"));
  EXPECT_THAT(text, Not(HasSubstr("digest")));
}

TEST(EnvironmentText, IsHarmlessWhateverTheFileSays) {
  Json deep = 1;
  for (int level = 0; level < 12; ++level) deep = {{"x", deep}};
  const std::string text = environment_text(
      environment({{"a\x1b[2J", "\x1b]0;title\x07\nline\xe2\x80\xae"}, {"deep", deep}}));
  for (const char bad : {'\x1b', '\x07'}) EXPECT_EQ(text.find(bad), std::string::npos);
  EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(text, HasSubstr("{\"x\":"));
}

}  // namespace
}  // namespace regatta::orchestrator::text
