#include "orchestrator/plan/layouts.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/plan/drawn_steps.h"
#include "orchestrator/plan/plan_decisions.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::plan::PlanDecision;
using trainer::contract::RunConfig;

constexpr int kLayoutSteps = 16;               // that a layout is the mean of
constexpr std::int64_t kLayoutSamples = 8192;  // of them all, drawn; at least one step

// What the run file itself does not let stages go with, whatever their number.
bool is_of_every_layout(const std::string& key) {
  return key.rfind("parallel.", 0) != 0 && key != "batch.micro";
}

std::string share_longer(double than, double seconds) {
  return base::short_number(100 * (seconds / than - 1), 2) + " %";
}

// Of a replica's samples 1, 2, 4 and 8 micro-batches for each stage, as far as there are samples.
std::vector<int> micro_batches_for(const RunConfig& config, int stages) {
  if (config.micro_batch_size > 0) return {config.micro_batch_size};
  const int share = config.batch_size / (config.ranks / stages);
  std::vector<int> sizes;
  for (const int each : {1, 2, 4, 8}) {
    const int size = share / (stages * each);
    if (size >= 1 && (sizes.empty() || sizes.back() != size)) sizes.push_back(size);
  }
  return sizes.empty() ? std::vector<int>{0} : sizes;
}

// Of the choice.
double step_of(const PlanDecision& decision) {
  for (const PlanDecision::Option& option : decision.options) {
    if (option.value == decision.choice) return option.step_seconds;
  }
  return 0;
}

bool is_against_stages(const PlanDecision& decision) {
  if (decision.key == "clip.mode") {
    return decision.choice == "bucket" || decision.choice == "rank";
  }
  return decision.choice == "true" &&
         (decision.key == "sharding.optimizer" || decision.key == "hierarchical");
}

class Comparison {
 public:
  explicit Comparison(const LayoutInputs& inputs) : inputs_(inputs) {}

  void add(int stages) {
    std::optional<RankLayout> best;
    for (const int micro : micro_batches_for(inputs_.config, stages)) {
      RunConfig config = inputs_.config;
      config.parallel.data = 0;
      config.parallel.pipeline = stages;
      config.micro_batch_size = micro;
      if (const auto refusal = trainer::contract::refuse_parallel(config)) {
        leave_out(stages, refusal->key, refusal->key + " " + refusal->message);
        break;
      }
      LayoutInputs inputs{config,
                          inputs_.lengths,
                          inputs_.compute,
                          inputs_.overhead_seconds,
                          inputs_.allocation,
                          inputs_.device,
                          inputs_.logs};
      try {
        const RankLayout layout = layout_of(inputs, pipeline_model(inputs));
        if (!best || layout.step_seconds < best->step_seconds) best = layout;
      } catch (const base::Error& error) {
        if (error.code() != base::Code::User) throw;
        leave_out(stages, "", error.what());
        break;
      }
    }
    if (best) layouts_.known.push_back(*best);
  }
  // Nothing more would be known.
  [[nodiscard]] bool is_over() const { return is_over_; }
  void add_data_parallel(double seconds) {
    const RunConfig& config = inputs_.config;
    RankLayout layout{config.ranks, 1, config.micro_batch_size, 1, seconds, 0};
    layouts_.known.insert(layouts_.known.begin(), layout);
  }
  Layouts layouts() && { return std::move(layouts_); }

 private:
  void leave_out(int stages, const std::string& key, const std::string& why) {
    is_over_ = !key.empty() && is_of_every_layout(key);
    layouts_.left_out.push_back(
        (is_over_ ? "pipeline stages were not compared: "
                  : "parallel.pipeline " + std::to_string(stages) + " was not compared: ") +
        why);
  }

  const LayoutInputs& inputs_;
  Layouts layouts_;
  bool is_over_ = false;
};

}  // namespace

std::string name_of(const RankLayout& layout) {
  std::string name =
      "data " + std::to_string(layout.data) + " x pipeline " + std::to_string(layout.stages);
  if (layout.stages > 1) name += " in micro-batches of " + std::to_string(layout.micro_batch);
  return name;
}

std::string stages_text(const std::vector<trainer::contract::Stage>& stages,
                        const RankLayout& layout) {
  std::vector<std::string> layers;
  for (const trainer::contract::Stage& stage : stages) {
    layers.push_back(std::to_string(stage.layers()));
  }
  const std::string last = layers.back();
  layers.pop_back();
  return base::plural(layout.stages, "stage") + " of " + base::join(layers, ", ") +
         (layers.empty() ? "" : " and ") + last + " layers, " +
         base::plural(layout.data, "replica") + ", " + base::short_number(layout.micro_batches) +
         " micro-batches of " + std::to_string(layout.micro_batch) + ": the bubble is " +
         base::percent(layout.bubble) + " of computing, " +
         base::percent(even_bubble(layout.stages, layout.micro_batches)) + " with even stages";
}

PipelineModel pipeline_model(const LayoutInputs& inputs) {
  const RunConfig replicas = among_replicas(inputs.config);
  const DrawnSteps drawn(replicas, inputs.lengths);
  PipelineInputs made;
  made.config = inputs.config;
  made.stages = stages_of(inputs.config, inputs.lengths);
  made.compute = inputs.compute;
  made.network = stage_network(inputs.allocation, inputs.device,
                               trainer::contract::rank_grid(inputs.config), inputs.logs);
  made.mean_tokens = drawn.mean();
  made.mean_squared_tokens = drawn.mean_square();
  made.overhead_seconds = inputs.overhead_seconds;
  return PipelineModel(std::move(made));
}

RankLayout layout_of(const LayoutInputs& inputs, const PipelineModel& model) {
  const RunConfig& config = inputs.config;
  const RunConfig replicas = among_replicas(config);
  DrawnSteps drawn(replicas, inputs.lengths);
  const auto steps = static_cast<int>(
      std::clamp<std::int64_t>(kLayoutSamples / config.batch_size, 1, kLayoutSteps));
  RankLayout layout{replicas.ranks, config.parallel.pipeline, config.micro_batch_size, 0, 0, 0};
  double bubble = 0, compute = 0;
  for (int i = 0; i < steps; ++i) {
    const std::vector<std::int32_t>& lengths = drawn.step(i);
    PipelineModel::Replicas dealt;
    for (const auto& places : drawn.deal(lengths, inputs.allocation.ranks_per_node)) {
      dealt.push_back(micro_batches_of(config, lengths, places));
      layout.micro_batches += static_cast<double>(dealt.back().size()) / (steps * replicas.ranks);
    }
    const PipelineParts parts = model.step(dealt);
    layout.step_seconds += parts.step / steps;
    bubble += parts.bubble;
    compute += parts.compute;
  }
  layout.bubble = compute > 0 ? bubble / compute : 0;
  return layout;
}

Layouts compare_layouts(const LayoutInputs& inputs, std::optional<double> data_parallel) {
  const int ranks = inputs.config.ranks;
  Comparison comparison(inputs);
  const int most = std::min(ranks, inputs.config.model.layers);
  for (int stages = 2; stages <= most && !comparison.is_over(); ++stages) {
    if (ranks % stages == 0) comparison.add(stages);
  }
  if (data_parallel) comparison.add_data_parallel(*data_parallel);
  return std::move(comparison).layouts();
}

std::vector<PlanDecision> decide_layout(const RunConfig& config, const Layouts& layouts) {
  if (layouts.known.size() < 2) return {};
  const auto faster = [](const RankLayout& a, const RankLayout& b) {
    return a.step_seconds < b.step_seconds;
  };
  const int stages = config.parallel.pipeline;
  const RankLayout* own = nullptr;
  const RankLayout* other = nullptr;  // the best of the others
  std::vector<PlanDecision::Option> options;
  for (const RankLayout& layout : layouts.known) {
    options.push_back({std::to_string(layout.stages), layout.step_seconds});
    if (layout.stages == stages) {
      own = &layout;
    } else if (other == nullptr || faster(layout, *other)) {
      other = &layout;
    }
  }
  if (own == nullptr) return {};
  const std::string text = std::to_string(stages);
  PlanDecision decision{"parallel.pipeline", text, text, "", options};
  const double gain = 1 - other->step_seconds / own->step_seconds;
  const std::string bubble = base::percent(other->stages > 1 ? other->bubble : own->bubble);
  if (gain < 0) {
    decision.why = name_of(*own) + " is already the fastest by the model: the next, " +
                   name_of(*other) + ", would take " +
                   share_longer(own->step_seconds, other->step_seconds) + " longer" +
                   (other->stages > 1 ? ", with a bubble of " + bubble + " of computing" : "");
  } else if (gain < kLeastGain) {
    decision.why = "keep " + name_of(*own) + ": the best alternative, " + name_of(*other) +
                   ", would save only " + base::short_number(100 * gain, 2) + " % of the step";
  } else {
    decision.choice = std::to_string(other->stages);
    decision.why = name_of(*other) + " would save " + base::short_number(100 * gain, 2) +
                   " % of the step of " + name_of(*own) +
                   (other->stages > 1 ? "; stages have not been tried on GPUs yet" : "");
  }
  decision.why += "; what fits the devices' memory is not compared";
  std::vector<PlanDecision> decisions{decision};
  if (decision.choice != text && other->micro_batch != config.micro_batch_size) {
    decisions.push_back({"batch.micro",
                         std::to_string(other->micro_batch),
                         std::to_string(config.micro_batch_size),
                         "it goes with parallel.pipeline " + decision.choice,
                         {}});
  }
  return decisions;
}

void settle_layout(std::vector<PlanDecision>* decisions) {
  const auto layout = std::find_if(decisions->begin(), decisions->end(), [](const auto& each) {
    return each.key == "parallel.pipeline" && each.choice != each.run_file && each.choice != "1";
  });
  if (layout == decisions->end()) return;
  const double staged = step_of(*layout);
  std::vector<PlanDecision*> others;
  for (PlanDecision& each : *decisions) {
    if (each.choice != each.run_file && is_against_stages(each)) others.push_back(&each);
  }
  for (const PlanDecision* const other : others) {
    if (step_of(*other) >= staged) continue;
    layout->choice = layout->run_file;
    layout->why += "; " + other->key + " " + other->choice +
                   " alone would save more, and does not go with stages";
    decisions->erase(std::remove_if(decisions->begin(), decisions->end(),
                                    [](const auto& each) { return each.key == "batch.micro"; }),
                     decisions->end());
    return;
  }
  for (PlanDecision* const other : others) {
    other->choice = other->run_file;
    other->why += "; it does not go with the stages of parallel.pipeline, which save more";
  }
}

}  // namespace regatta::orchestrator::plan
