// The lints of `regatta sbatch` on batch scripts that people published (../shared/data, SOURCES.md
// there names them): exactly the findings of this table, each of which was looked at and is right.
#include <gmock/gmock.h>

#include <algorithm>

#include "orchestrator/sbatch/sbatch_lints.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

constexpr const char* kScripts = "data/sbatch_scripts";

struct Row {
  const char* script;
  int line;
  const char* id;
  const char* why;
};
// Folders: submitted in an empty folder, as after a fresh checkout.
constexpr Row kTable[] = {
    {"003", 8, "folder-missing", "Slurm makes no folders"},
    {"003", 9, "folder-missing", "Slurm makes no folders"},
    {"004", 4, "folder-missing", "Slurm makes no folders"},
    {"005", 5, "folder-missing", "Slurm makes no folders"},
    {"005", 6, "folder-missing", "Slurm makes no folders"},
    {"006", 13, "folder-missing", "Slurm makes no folders"},
    {"007", 5, "folder-missing", "a path of their cluster"},
    {"008", 8, "folder-missing", "Slurm makes no folders"},
    {"009", 8, "folder-missing", "Slurm makes no folders"},
    {"017", 8, "folder-missing", "Slurm makes no folders"},
    {"017", 9, "folder-missing", "Slurm makes no folders"},
    {"017", 19, "late-directive", "commands stand before it"},
    {"025", 7, "folder-missing", "Slurm makes no folders"},
    {"026", 7, "folder-missing", "Slurm makes no folders"},
    {"049", 20, "folder-missing", "a path of their cluster"},
    {"061", 4, "no-option", "a placeholder in angle brackets"},
    {"088", 3, "folder-missing", "Slurm makes no folders"},
    {"088", 4, "folder-missing", "Slurm makes no folders"},
    {"089", 3, "folder-missing", "Slurm makes no folders"},
    {"089", 4, "folder-missing", "Slurm makes no folders"},
};

// As `regatta sbatch SCRIPT` finds them on Slurm 22.05.
std::vector<sbatch::SbatchFinding> findings_of(const std::string& text, const base::Path& folder) {
  const sbatch::SbatchScript script = sbatch::read_sbatch_script(text);
  std::vector<sbatch::SbatchFinding> all = script.findings;
  const auto options = sbatch::options_that_count(script.options, {}, {});
  const auto folders = sbatch::sbatch_folder_findings(options, folder);
  all.insert(all.end(), folders.begin(), folders.end());
  if (script.heterogeneous) return all;
  for (const auto& found : {sbatch::time_finding(options), sbatch::gpu_finding(options),
                            sbatch::step_cpus_finding(script, options, {}),
                            sbatch::step_gpus_finding(script, options)}) {
    if (found) all.push_back(*found);
  }
  return all;
}

TEST(SbatchPublicScripts, HaveExactlyTheFindingsThatWereJudged) {
  REGATTA_NEED_SHARED(kScripts);
  const tests::TemporaryDirectory folder;
  std::vector<std::string> found, wanted;
  for (const auto& entry : std::filesystem::directory_iterator(tests::shared_path(kScripts))) {
    if (entry.path().extension() != ".sbatch") continue;
    const std::string name = entry.path().stem().string();
    for (const sbatch::SbatchFinding& finding :
         findings_of(tests::file_text(entry.path()), folder.path())) {
      found.push_back(name + ":" + std::to_string(finding.line) + " " + finding.id);
      if (std::getenv("SHOW_FINDINGS") != nullptr)
        std::cerr << found.back() << " " << finding.text << "\n";
    }
  }
  for (const Row& row : kTable) {
    wanted.push_back(std::string(row.script) + ":" + std::to_string(row.line) + " " + row.id);
    EXPECT_STRNE(row.why, "") << wanted.back();
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(wanted));
}

}  // namespace
}  // namespace regatta::orchestrator
