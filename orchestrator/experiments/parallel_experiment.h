// A run file with a section `experiment`, and the runs that it makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/experiments/layout.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::experiments {

inline constexpr std::size_t kMostLayouts = 16;
inline constexpr std::size_t kMostSeeds = 100;
inline constexpr int kMostRanks = 1 << 20;  // of a layout

// Listed: for each seed the layouts as the file lists them.
enum class RunOrder { Balanced, Listed };
[[nodiscard]] const std::vector<std::string>& run_order_names();  // as in files, in this order

struct ParallelExperiment {
  trainer::contract::RunConfig run;  // what all runs have in common; its seed draws the order
  std::vector<Layout> layouts;
  std::vector<std::uint64_t> seeds;
  RunOrder order = RunOrder::Balanced;
};

// Code::User with "source:line: …" for what the run file's reader refuses and for layouts that the
// run cannot have. Paths stay relative.
[[nodiscard]] ParallelExperiment parse_parallel_experiment(std::string_view text,
                                                           const std::string& source);

struct PlannedRun {
  std::size_t layout = 0;  // its place in `layouts`
  std::uint64_t seed = 0;
};
// All runs, in the order in which they follow each other (run_order.h).
[[nodiscard]] std::vector<PlannedRun> planned_runs(const ParallelExperiment& experiment);

// The run file of one of them, called NAME-LAYOUT-sSEED.
[[nodiscard]] trainer::contract::RunConfig config_of(const ParallelExperiment& experiment,
                                                     const PlannedRun& planned);

// What an experiment has runs of, under one id.
struct EarlierRuns {
  std::vector<Layout> layouts;
  std::vector<std::uint64_t> seeds;
};
// Why the file cannot go on with these: it may have more layouts and seeds, but none of theirs is
// missing, or called otherwise, or another under the same name. As "layout data2 is called foo
// here, seed 3 is not here"; nothing: it goes on.
[[nodiscard]] std::optional<std::string> refuse_earlier(const ParallelExperiment& experiment,
                                                        const EarlierRuns& earlier);

// Tags by which runs of an experiment are found and told apart: "experiment-4f2a91",
// "layout-2-stages4" (the second of the file), "run-3-of-9" (the third to begin).
struct RunTags {
  std::string experiment;  // its id
  int layout = 0;          // from 1 on; 0: there is no such tag
  std::string layout_name;
  int place = 0, runs = 0;
};
[[nodiscard]] std::vector<std::string> tags_of(const RunTags& tags);
[[nodiscard]] RunTags read_tags(const std::vector<std::string>& tags);
// Whether they are those of one of an experiment's runs: anybody may give a run the first one.
[[nodiscard]] inline bool is_whole(const RunTags& tags) { return tags.layout > 0 && tags.runs > 0; }
[[nodiscard]] std::string experiment_tag(const std::string& id);

// Whether it can be part of tags and keys: 1 to 32 letters, digits and ". _ -",
// not dots alone.
[[nodiscard]] bool is_experiment_id(std::string_view id);

}  // namespace regatta::orchestrator::experiments
