// `regatta submit --dry-run` in a terminal.
#include "orchestrator/text/preview_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

namespace regatta::orchestrator::text {
namespace {

using PreviewJson = nlohmann::ordered_json;

TEST(PreviewText, HasChecksPlanCommandAndTheScriptLast) {
  const PreviewJson preview{
      {"name", "demo"},
      {"scheduler", "slurm"},
      {"directory", "/runs/demo-xxxxxx"},
      {"after", {"first-1a2b3c", "second-4d5e6f"}},
      {"defaults", "partition main of /etc/regatta.yaml"},
      {"plan", {{"bucket_ends", {3, 9, 16}}, {"why", "overlaps best"}}},
      {"command", {"sbatch", "--nodes=2", "--comment=two words"}},
      {"checks",
       {{{"name", "dataset"}, {"good", true}, {"detail", "256 pieces of vocabulary"}},
        {{"name", "memory"}, {"good", nullptr}, {"detail", "not known"}},
        {{"name", "nodes"}, {"good", false}, {"detail", "only 1 node"}}}},
      {"script", "#!/bin/bash\nexec trainer\n"}};
  EXPECT_EQ(preview_text(preview),
            "would submit  demo to slurm\n"
            "directory     /runs/demo-xxxxxx\n"
            "after         first-1a2b3c, second-4d5e6f\n"
            "defaults      partition main of /etc/regatta.yaml\n"
            "plan          3 gradient buckets; overlaps best\n"
            "command       sbatch --nodes=2 '--comment=two words'\n"
            "dataset       ok  256 pieces of vocabulary\n"
            "memory        ?  not known\n"
            "nodes         NO  only 1 node\n"
            "\n#!/bin/bash\nexec trainer\n");
}

TEST(PreviewText, LeavesOutWhatThereIsNot) {
  const PreviewJson preview{{"name", "demo"},
                            {"scheduler", "local"},
                            {"directory", "/runs/demo-xxxxxx"},
                            {"after", PreviewJson::array()},
                            {"defaults", ""},
                            {"plan", nullptr},
                            {"command", {"regatta-train", "run"}},
                            {"checks", PreviewJson::array()},
                            {"script", nullptr}};
  EXPECT_EQ(preview_text(preview),
            "would submit  demo to local\n"
            "directory     /runs/demo-xxxxxx\n"
            "command       regatta-train run\n");
}

// A run file may come from anybody, and so may what a terminal would take for orders.
TEST(PreviewText, IsPrintable) {
  PreviewJson preview{{"name", "\x1b[31mdemo"},
                      {"scheduler", "slurm"},
                      {"directory", "/runs/\x07"},
                      {"command", PreviewJson::array({"sbatch", "--comment=\x1b]0;title\x07"})},
                      {"checks", PreviewJson::array()},
                      {"script", "echo \x1b[31m\n\tindented"}};
  preview["checks"].push_back({{"name", "dataset"}, {"good", true}, {"detail", "\x1b[2J"}});
  const std::string text = preview_text(preview);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
  EXPECT_THAT(text, testing::HasSubstr("\\x1b[31mdemo to slurm"));
  EXPECT_THAT(text, testing::HasSubstr("echo \\x1b[31m"));
}

}  // namespace
}  // namespace regatta::orchestrator::text
