// environment.json: what this attempt is made of and runs on.
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/contract/environment_file.h"
#include "trainer/plugins/environment.h"
#include "trainer/run/attempt.h"

namespace regatta::trainer::run {
namespace {

std::string slurm_job(const ranks::Variables& variables) {
  const char* job = variables ? variables("SLURM_JOB_ID") : nullptr;
  return job == nullptr ? "" : base::printable(job);
}

// The plan's text where the attempt goes by it.
std::optional<std::string> text_of_plan(base::FileSystem& files,
                                        const contract::RunDirectory& directory,
                                        const contract::RunConfig& config) {
  const base::Path path = directory.path() / "plan.json";
  if (config.buckets.by != contract::BucketPolicy::Plan || !files.exists(path)) return std::nullopt;
  return files.read(path, kMaxPlanBytes);
}

}  // namespace

void AttemptRunner::write_environment() const {
  plugins::AttemptFacts facts;
  facts.commit = context_.options.commit;
  facts.program = context_.options.place.program;
  facts.config = config_;
  facts.device = device_.profile();
  facts.device_description = device_.description();
  facts.communicator = communicator_.library_version();
  facts.hosts = static_cast<int>(std::set<std::string>(hosts_.begin(), hosts_.end()).size());
  facts.plan = text_of_plan(context_.files, context_.directory, config_);
  facts.topology = plan_.topology;
  if (context_.options.all_variables) facts.variables = context_.options.all_variables();
  facts.data_fingerprint = inputs_->data->fingerprint();
  facts.datasets = inputs_->data->facts();
  facts.parameters = table_.parameter_count;
  facts.number = context_.name.number;
  facts.execution = context_.name.execution;
  facts.resumed_from = start_.name;
  facts.host = base::printable(base::host_name());
  facts.slurm_job = slurm_job(context_.options.variables);
  const plugins::MachineFiles machine(base::posix_file_system());
  plugins::write_environment(
      context_.files, context_.directory.attempt_path(context_.name) / contract::kEnvironmentFile,
      plugins::environment_of(context_.files, machine, context_.clock, facts));
}

// What was trained stays good without it.
void AttemptRunner::note_clocks() const {
  const base::Path path =
      context_.directory.attempt_path(context_.name) / contract::kEnvironmentFile;
  try {
    plugins::add_training(context_.files, path, plugins::MachineFiles(base::posix_file_system()),
                          context_.clock);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning,
              std::string("clocks at the end were not noted: ") + error.what());
  }
}

}  // namespace regatta::trainer::run
