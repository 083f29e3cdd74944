#include "orchestrator/simulate/simulation_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/plan/layouts.h"
#include "orchestrator/plan/step_model.h"

namespace regatta::orchestrator::simulate {
namespace {

using Json = nlohmann::ordered_json;

double mfu_of(const SimulationReport& report, const SimulatedRun& run) {
  return report.peak_flops > 0 ? run.simulation.model_flops_per_second / report.peak_flops : 0;
}

bool has_stages(const SimulationReport& report) {
  return std::any_of(report.runs.begin(), report.runs.end(),
                     [](const SimulatedRun& run) { return run.simulation.stages.has_value(); });
}

std::string step_head(const SimulationReport& report) {
  return base::formatted("%6s %6s %7s |%9s %9s ", "nodes", "ranks", "each", "step, ms", "compute") +
         (has_stages(report) ? base::formatted("%8s ", "bubble") : "") +
         base::formatted("%7s %8s %7s %7s %6s |%10s %7s %6s\n", "uneven", "exposed", "optim.",
                         "gather", "other", "samples/s", "scale %", "MFU %");
}

std::string step_row(const SimulationReport& report, const SimulatedRun& run) {
  const Simulation& of = run.simulation;
  const StepParts& mean = of.mean;
  return base::formatted("%6d %6d %7.1f |%9.2f %9.2f ", run.nodes, of.ranks,
                         static_cast<double>(of.batch) / of.ranks, 1e3 * mean.step,
                         1e3 * mean.compute) +
         (has_stages(report) ? base::formatted("%8.2f ", 1e3 * mean.bubble) : "") +
         base::formatted("%7.2f %8.2f %7.2f %7.2f %6.2f |%10.0f %7.1f %6.1f\n",
                         1e3 * mean.imbalance, 1e3 * mean.exposed, 1e3 * mean.tail,
                         1e3 * mean.gather, 1e3 * mean.overhead, of.samples_per_second,
                         100 * scaling_of(report, run), 100 * mfu_of(report, run));
}

std::string microseconds(double seconds) { return base::short_number(1e6 * seconds) + " us"; }

// The layout of a row, where it has stages.
std::string stages_line(const SimulatedRun& run) {
  const Simulation& of = run.simulation;
  if (!of.stages) return "";
  const SimulatedStages& stages = *of.stages;
  plan::RankLayout layout;
  layout.data = stages.data;
  layout.stages = static_cast<int>(stages.cut.size());
  layout.micro_batch = stages.micro_batch;
  layout.micro_batches = stages.micro_batches;
  layout.bubble = stages.bubble;
  return base::plural(run.nodes, "node") + ": " + plan::stages_text(stages.cut, layout) +
         "; a send takes " + microseconds(stages.send_seconds) +
         (stages.ends_seconds > 0 ? ", the sum of the word embedding over its two stages " +
                                        microseconds(stages.ends_seconds)
                                  : "") +
         "\n";
}

Json stages_json(const Simulation& of) {
  if (!of.stages) return nullptr;
  const SimulatedStages& stages = *of.stages;
  Json layers = Json::array();
  for (const trainer::contract::Stage& stage : stages.cut) layers.push_back(stage.layers());
  return {{"data", stages.data},
          {"layers", std::move(layers)},
          {"micro_batch", stages.micro_batch},
          {"micro_batches", stages.micro_batches},
          {"bubble", stages.bubble},
          {"bubble_even", stages.bubble_even},
          {"send_seconds", stages.send_seconds},
          {"ends_seconds", stages.ends_seconds}};
}

std::string run_row(const SimulatedRun& run) {
  const RunForecast& of = run.forecast;
  const auto share = [&](double part) { return 100 * part / of.seconds.mean; };
  return base::formatted("%6d %14s %14s %14s |%8.1f %6.1f %6.1f %6.1f %8.1f |%9.2f\n", run.nodes,
                         base::human_seconds(of.seconds.p50).c_str(),
                         base::human_seconds(of.seconds.p5).c_str(),
                         base::human_seconds(of.seconds.p95).c_str(), share(of.step_seconds),
                         share(of.evaluation_seconds), share(of.checkpoint_seconds),
                         share(of.lost_seconds), share(of.restart_seconds), of.failures);
}

// What the whole table hangs on, below its title.
std::string share_text(const SimulationReport& report) {
  const plan::PeakShare& share = report.share;
  if (share.fitted) return plan::share_sentence(share) + "\n";
  const std::string value = base::formatted("%.3g %%", 100 * share.value);
  std::string text = "NOT FITTED: " + share.basis + ". Taken " + value + ", so samples/s may be";
  for (const SimulatedRun& run : report.runs) {
    if (!run.samples_range) continue;
    text += base::formatted("%s %.0f to %.0f on ", &run == &report.runs.front() ? "" : ",",
                            run.samples_range->low, run.samples_range->high) +
            base::plural(run.nodes, "node");
  }
  return text + "; measure it, and give --efficiency\n";
}

Json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"p5", spread.p5}, {"p50", spread.p50}, {"p95", spread.p95}};
}

Json run_json(const SimulationReport& report, const SimulatedRun& run) {
  const Simulation& of = run.simulation;
  const StepParts& mean = of.mean;
  const RunForecast& forecast = run.forecast;
  return {{"nodes", run.nodes},
          {"ranks", of.ranks},
          {"batch", of.batch},
          {"sums_measured", run.is_measured},
          {"step",
           {{"seconds", mean.step},
            {"p5_seconds", of.step_p5},
            {"p95_seconds", of.step_p95},
            {"compute_seconds", mean.compute},
            {"bubble_seconds", mean.bubble},
            {"imbalance_seconds", mean.imbalance},
            {"exposed_seconds", mean.exposed},
            {"tail_seconds", mean.tail},
            {"gather_seconds", mean.gather},
            {"overhead_seconds", mean.overhead},
            {"communication_seconds", of.communication_seconds},
            {"token_imbalance", of.token_imbalance}}},
          {"samples_per_second", of.samples_per_second},
          {"samples_per_second_range",
           run.samples_range ? Json{run.samples_range->low, run.samples_range->high} : Json()},
          {"scaling", scaling_of(report, run)},
          {"mfu", mfu_of(report, run)},
          {"stages", stages_json(of)},
          {"buckets", of.plan.buckets.size()},
          {"buckets_why", of.plan.why},
          {"evaluation_seconds", of.evaluation_seconds},
          {"run",
           {{"seconds", spread_json(forecast.seconds)},
            {"steps", spread_json(forecast.steps)},
            {"step_seconds", forecast.step_seconds},
            {"evaluation_seconds", forecast.evaluation_seconds},
            {"checkpoint_seconds", forecast.checkpoint_seconds},
            {"lost_seconds", forecast.lost_seconds},
            {"restart_seconds", forecast.restart_seconds},
            {"failures", forecast.failures}}}};
}

}  // namespace

double scaling_of(const SimulationReport& report, const SimulatedRun& run) {
  const auto of_rank = [](const Simulation& of) { return of.samples_per_second / of.ranks; };
  return of_rank(run.simulation) / of_rank(report.runs.front().simulation);
}

std::string simulation_text(const SimulationReport& report) {
  std::string text = base::printable(report.title) + "\n" + share_text(report) + "\n";
  text += step_head(report);
  for (const SimulatedRun& run : report.runs) text += step_row(report, run);
  text += base::formatted("\n%6s %14s %14s %14s |%8s %6s %6s %6s %8s |%9s\n", "nodes",
                          "time to target", "5 % below", "5 % above", "steps, %", "eval.", "ckpt.",
                          "lost", "restarts", "failures");
  for (const SimulatedRun& run : report.runs) text += run_row(run);
  text += "\n";
  for (const SimulatedRun& run : report.runs) text += stages_line(run);
  if (has_stages(report)) text += "\n";
  for (const std::string& note : report.notes) text += "- " + base::printable(note) + "\n";
  return text;
}

std::string simulation_json(const SimulationReport& report) {
  Json runs = Json::array();
  for (const SimulatedRun& run : report.runs) runs.push_back(run_json(report, run));
  const Json json = {{"title", report.title},
                     {"peak_flops", report.peak_flops},
                     {"peak_share",
                      {{"value", report.share.value},
                       {"low", report.share.low},
                       {"high", report.share.high},
                       {"fitted", report.share.fitted},
                       {"basis", report.share.basis}}},
                     {"runs", std::move(runs)},
                     {"notes", report.notes}};
  return base::json_text(json, 2) + "\n";
}

}  // namespace regatta::orchestrator::simulate
