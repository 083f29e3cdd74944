#include "orchestrator/cli/plan_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"
#include "topology/plan/step_gantt.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::plan::Plan;
using topology::plan::PlanDecision;
using topology::plan::StepTimeline;

std::string milliseconds(double seconds) { return base::short_number(1e3 * seconds) + " ms"; }

const char* basis_of(const Plan& plan) { return plan.measured ? "measured" : "modelled"; }

// overhead_seconds: of the tail, what is not the optimizer's.
std::string step_line(const StepTimeline& timeline, double overhead_seconds) {
  return milliseconds(timeline.step_seconds) + ": computing " +
         milliseconds(timeline.compute_seconds) + ", waiting for collectives " +
         milliseconds(timeline.exposed_seconds) + ", optimizer " +
         milliseconds(timeline.tail_seconds - overhead_seconds) +
         (overhead_seconds > 0 ? ", other " + milliseconds(overhead_seconds) : "");
}

std::string cuts_table(const Plan& plan) {
  std::vector<std::vector<std::string>> rows = {{"cut", "buckets", "step", "mean", ""}};
  for (const topology::plan::Alternative& cut : plan.alternatives) {
    const bool is_chosen = !plan.cut.empty() && cut.name == plan.cut;
    rows.push_back({cut.name, std::to_string(cut.buckets), milliseconds(cut.step_seconds),
                    milliseconds(cut.mean_step_seconds), is_chosen ? "chosen" : ""});
  }
  return text::table(rows);
}

std::string decisions_table(const Plan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"run file", "has", "plan", "", "milliseconds a step"}};
  for (const PlanDecision& decision : plan.decisions) {
    std::vector<std::string> steps;
    for (const PlanDecision::Option& option : decision.options) {
      steps.push_back(option.value + " " + base::short_number(1e3 * option.step_seconds));
    }
    rows.push_back({decision.key, decision.run_file, decision.choice,
                    decision.choice == decision.run_file ? "" : "would gain",
                    base::join(steps, ", ")});
  }
  return text::table(rows);
}

std::string nccl_line(const topology::plan::TunedRange& range) {
  char text[200];
  std::snprintf(
      text, sizeof text, "%s of %s to %s: %s/%s%s, %.4g us (NCCL's own choice: %.4g us)",
      topology::nccl::name_of(range.collective), base::human_bytes(range.from_bytes).c_str(),
      range.to_bytes == topology::plan::TunedRange::kNoEnd
          ? "any size"
          : base::human_bytes(range.to_bytes).c_str(),
      topology::nccl::name_of(range.way.algorithm), topology::nccl::name_of(range.way.protocol),
      range.way.channels > 0 ? (" on " + std::to_string(range.way.channels) + " channels").c_str()
                             : "",
      range.us, range.default_us);
  return text;
}

// NCCL's choices that the plan replaces, or why none.
std::vector<std::string> nccl_lines(const Plan& plan) {
  std::vector<std::string> lines;
  for (const topology::plan::TunedRange& range : plan.tuner.ranges)
    lines.push_back(nccl_line(range));
  if (lines.empty() && !plan.seats.empty()) {
    lines.emplace_back(
        "keeps its own choices: nothing else is faster by more than the model's error");
  }
  return lines;
}

std::string seats_line(const Plan& plan) {
  std::vector<std::string> nodes;
  for (const topology::plan::Seat& seat : plan.seats) {
    if (nodes.empty() || nodes.back() != seat.node) nodes.push_back(seat.node);
  }
  std::string line = std::to_string(plan.seats.size()) + " ranks on " +
                     base::plural(nodes.size(), "node") + " like " +
                     base::printable(nodes.front()) + ": ";
  std::vector<std::string> pairs;
  for (const topology::plan::Seat& seat : plan.seats) {
    if (seat.node != nodes.front()) break;
    pairs.push_back("GPU " + std::to_string(seat.gpu) +
                    (seat.nic.empty() ? "" : " with " + base::printable(seat.nic)));
  }
  return line + base::join(pairs, ", ");
}

std::string placement_line(const Plan& plan) {
  std::vector<std::string> parts;
  if (!plan.placement.switches.empty()) parts.push_back("--switches=" + plan.placement.switches);
  if (plan.placement.segment > 0) {
    parts.push_back("--segment=" + std::to_string(plan.placement.segment));
  }
  for (const auto& [name, value] : plan.placement.environment) {
    parts.push_back(name + "=" + base::printable(value));
  }
  return base::join(parts, " ");
}

}  // namespace

std::string plan_table(const plan::PlanReport& report, int columns) {
  const Plan& plan = report.plan;
  std::string text =
      (report.machines.empty() ? std::to_string(plan.ranks) + " rank" : report.machines) + ", " +
      basis_of(plan) + "\n";
  if (plan.timeline) text += "step: " + step_line(*plan.timeline, report.overhead_seconds) + "\n";
  if (!report.stages.empty()) text += report.stages + "\n";
  text += plan.why + "\n";
  for (const std::string& note : report.notes) text += "note: " + base::printable(note) + "\n";
  for (const std::string& each : report.basis) text += "- " + base::printable(each) + "\n";
  if (!plan.alternatives.empty()) text += "\n" + cuts_table(plan);
  if (!plan.decisions.empty()) text += "\n" + decisions_table(plan);
  if (!plan.seats.empty()) text += "\n";
  for (const std::string& line : nccl_lines(plan)) text += "NCCL: " + line + "\n";
  if (!plan.seats.empty()) text += "seats: " + seats_line(plan) + "\n";
  if (const std::string line = placement_line(plan); !line.empty()) {
    text += "placement: " + line + "\n";
  }
  if (plan.timeline && plan.ranks > 1)
    text += "\n" + topology::plan::gantt_text(*plan.timeline, columns);
  return text;
}

std::string plan_sentences(const plan::PlanReport& report) {
  const Plan& plan = report.plan;
  std::string text =
      "The plan is for " + (report.machines.empty() ? "one rank" : report.machines) + ". ";
  text +=
      plan.measured
          ? "The times of collectives were measured on such machines.\n"
          : "The times of collectives are modelled (NCCL's cost model); public measurements are up "
            "to half longer at the sizes of buckets; give a log of all_reduce_perf with "
            "--measured.\n";
  if (plan.timeline) {
    const StepTimeline& step = *plan.timeline;
    text += "A step takes " + milliseconds(step.step_seconds) + ": backward ends after " +
            milliseconds(step.compute_seconds) + ", the last collective " +
            milliseconds(step.exposed_seconds) + " later, and the optimizer takes " +
            milliseconds(step.tail_seconds - report.overhead_seconds) +
            (report.overhead_seconds > 0
                 ? "; the fixed overhead is " + milliseconds(report.overhead_seconds)
                 : "") +
            ".";
    if (step.communication_seconds > 0) {
      text += " All collectives together take " + milliseconds(step.communication_seconds) +
              ", of which " +
              base::percent(1 - std::min(1.0, step.exposed_seconds / step.communication_seconds)) +
              " hide behind backward.";
    }
    text += "\n";
  }
  if (!report.stages.empty()) text += "Layout: " + report.stages + ".\n";
  for (const std::string& each : report.basis) {
    text += "Assumption: " + base::printable(each) + ".\n";
  }
  text += "Buckets: " + plan.why + ".\n";
  for (const topology::plan::Alternative& cut : plan.alternatives) {
    text += "  " + cut.name + ": " + base::plural(cut.buckets, "bucket") + ", " +
            milliseconds(cut.step_seconds) + " a step, " + milliseconds(cut.mean_step_seconds) +
            " on average.\n";
  }
  for (const PlanDecision& decision : plan.decisions) {
    text += decision.key + ": the run file has " + decision.run_file + "; " + decision.why + ".\n";
  }
  for (const std::string& line : nccl_lines(plan)) text += "NCCL: " + line + ".\n";
  if (!plan.seats.empty()) text += "Seats: " + seats_line(plan) + ".\n";
  if (const std::string line = placement_line(plan); !line.empty()) {
    text += "Options for Slurm and NCCL: " + line + ".\n";
  }
  for (const std::string& note : report.notes) text += "Note: " + base::printable(note) + ".\n";
  return text;
}

std::string planned_run_file(const trainer::contract::RunConfig& config, const Plan& plan) {
  auto json = base::parse_json<nlohmann::ordered_json>(trainer::contract::to_json(config));
  for (const PlanDecision& decision : plan.decisions) {
    if (decision.choice == decision.run_file) continue;
    std::string pointer = "/" + decision.key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    if (decision.key == "parallel.pipeline") {
      // A file without stages has no such section, and replicas follow from ranks and stages.
      json["parallel"]["data"] = 0;
      json["parallel"]["pipeline"] = 0;
    }
    auto& value = json.at(nlohmann::ordered_json::json_pointer(pointer));
    if (value.is_boolean()) {
      value = decision.choice == "true";
    } else if (value.is_number()) {
      value = base::parse_integer(decision.choice).value();
    } else {
      value = decision.choice;
    }
  }
  return base::json_text(json, 2) + "\n";
}

}  // namespace regatta::orchestrator::cli
