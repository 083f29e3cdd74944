// Any bytes may come from Slurm's commands and stand in scripts: nothing crashes, no row appears
// without an id, and what is shown to people is printable. The first byte chooses the parser.
#include "orchestrator/slurm/slurm_text.h"

#include <cstddef>
#include <cstdint>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/sbatch/sbatch_script.h"
#include "orchestrator/slurm/pending_reason.h"
#include "topology/graph/hostlist.h"
#include "topology/slurm_text/nodes.h"

using namespace regatta::orchestrator;
using regatta::base::check;

namespace {

void check_jobs(const slurm::Jobs& jobs) {
  for (const slurm::JobRow& job : jobs.rows) {
    check(slurm::is_job_id(job.id), "a row has a job's id");
    check(!job.state.raw.empty() || slurm::to_string(job.state) == "UNKNOWN", "a state has a text");
    (void)slurm::phase(job.state);
    (void)slurm::gpu_count(job);
  }
}

void check_gpus(const std::optional<slurm::Gpus>& gpus) {
  if (!gpus) return;
  check(gpus->count >= 0 && gpus->count <= regatta::topology::slurm_text::kMostGpus,
        "a count of GPUs is in range");
  std::int64_t typed = 0;
  for (const auto& [type, count] : gpus->by_type) typed += count;
  check(typed <= gpus->count, "types are a part of the GPUs");
}

void check_nodes(std::string_view text) {
  std::size_t with_name = 0;
  for (const auto& node : regatta::topology::slurm_text::read_nodes(text)) {
    check(node.is_node || !node.record, "a line of no node has no record");
    with_name += node.is_node ? 1 : 0;
    if (!node.record) continue;
    check(!node.record->name.empty() && !node.record->state.raw.empty(),
          "a record has a name and a state");
    check_gpus(node.record->gpus);
  }
  const slurm::Nodes nodes = slurm::parse_scontrol_nodes(text);
  check(nodes.rows.size() + nodes.damaged == with_name, "every node is a row or damaged");
}

void check_hostlist(std::string_view text) {
  constexpr std::size_t kMost = 2000;
  try {
    const auto names = regatta::topology::graph::expand_hostlist(text, kMost);
    check(names.size() <= kMost, "no more names than asked for");
    const auto back =
        regatta::topology::graph::expand_hostlist(regatta::topology::graph::compress_hosts(names));
    check(std::set<std::string>(back.begin(), back.end()) ==
              std::set<std::string>(names.begin(), names.end()),
          "folding names loses none");
  } catch (const regatta::base::Error&) {
    // refused
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'q':
      check_jobs(slurm::parse_squeue(text, slurm::kUnitSeparator));
      break;
    case 'a':
      check_jobs(slurm::parse_sacct(text, slurm::kUnitSeparator, {22, 5, 8}));
      check_jobs(slurm::parse_sacct(text, slurm::kUnitSeparator, {24, 11, 0}));
      break;
    case 'j':
      if (const auto job = slurm::parse_scontrol_job(text, "31"))
        check(job->id == "31", "the one asked for");
      break;
    case 'n':
      check_nodes(text);
      (void)slurm::parse_scontrol_partitions(text);
      break;
    case 's':
      (void)slurm::parse_sinfo(text, slurm::kUnitSeparator);
      break;
    case 'h':
      check_hostlist(text);
      break;
    case 'r': {
      const slurm::PendingReason reason = slurm::explain_reason(text);
      check(regatta::base::printable(reason.sentence) == reason.sentence,
            "a sentence is printable");
      break;
    }
    case 'b': {  // a user's script; also its own command line
      for (const sbatch::SbatchFinding& finding : sbatch::read_sbatch_script(text).findings) {
        check(regatta::base::printable(finding.text) == finding.text, "a finding is printable");
      }
      (void)sbatch::parse_sbatch_command(
          regatta::base::split(text, '\n'),
          [](const std::string& word) { return word.size() % 2 == 0; });
      break;
    }
    case 'c':
      (void)slurm::parse_scontrol_config(text);
      (void)slurm::parse_submitted_id(text);
      (void)slurm::parse_slurm_version(text);
      break;
    default:
      (void)slurm::parse_slurm_time(text);
      (void)slurm::parse_slurm_duration(text);
      (void)slurm::parse_exit_status(text);
      (void)slurm::parse_tres(text);
      check_gpus(slurm::parse_gres(text));
      (void)slurm::parse_node_state(text);
      (void)slurm::parse_job_state(text);
  }
  return 0;
}
