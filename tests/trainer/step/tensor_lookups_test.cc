// Tensors are looked up by their names when a model is made, and never again: the linker sends
// every call of TensorTable::at through the function below.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

#define TENSOR_TABLE_AT                            \
  "_ZNK7regatta7trainer8contract11TensorTable2atE" \
  "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

namespace regatta::tests {

using namespace regatta::trainer;  // the subject

const contract::TensorEntry& real_at(const contract::TensorTable* table,
                                     const std::string& name) asm("__real_" TENSOR_TABLE_AT);
const contract::TensorEntry& counted_at(const contract::TensorTable* table,
                                        const std::string& name) asm("__wrap_" TENSOR_TABLE_AT);

namespace {
std::atomic<int> lookups{0};
}  // namespace

const contract::TensorEntry& counted_at(const contract::TensorTable* table,
                                        const std::string& name) {
  ++lookups;
  return real_at(table, name);
}

namespace {

class TensorLookups : public OnSmallDataset<60> {
 protected:
  static int taken() { return lookups.exchange(0); }
};

TEST_F(TensorLookups, AreMadeForAModelAndInNoPass) {
  const contract::RunConfig config = small_run_config(*dataset_);
  const auto device = cpu::make_cpu_device(1);
  const samples::SampleSource source(*dataset_, data::Split::Training, config.data, config.seed);
  const samples::PackedBatch batch = samples::collate({source.at(0), source.at(1)}, {0, 1});
  (void)taken();
  model::Bert model(*device, config.model, step::bert_options(config, *device));
  EXPECT_GT(taken(), 16 * config.model.layers) << "or look-ups are not counted";
  const std::vector<float> weights = model::initial_weights(model.table(), config.seed, 1);
  device->copy_to_device(0, model.parameters(), weights.data());
  (void)taken();
  int needed = 0, ready = 0;
  for (const bool tells : {false, true}) {
    model.zero_gradients();
    model.reset_statistics();
    model.upload(batch, 1, {batch.masked(), batch.samples(), 1});
    model.forward(model::Mode::Training,
                  tells ? [&](int, int) { ++needed; } : model::Bert::Needed(nullptr));
    model.backward(tells ? [&](int) { ++ready; } : model::Bert::Ready(nullptr));
    model.forward(model::Mode::Evaluation);
  }
  device->synchronize();
  EXPECT_EQ(needed, config.model.layers + 2);
  EXPECT_EQ(ready, 4 * config.model.layers + 2);
  EXPECT_EQ(taken(), 0);
}

TEST_F(TensorLookups, AreMadeInNoStep) {
  for (const bool sharded : {false, true}) {
    contract::RunConfig config = small_run_config(*dataset_);
    config.batch_size = 12;
    config.micro_batch_size = 3;
    config.steps = 8;
    config.ranks = 2;
    config.ranks_per_node = 1;
    config.statistics_every = 2;
    config.optimizer.kind = contract::OptimizerKind::Lamb;
    config.sharding.optimizer = sharded;
    ThreadRanks world(config.ranks);
    world.run([&](ranks::Communicator& ranks) {
      const auto device = cpu::make_cpu_device(1);
      const samples::SampleSource source(*dataset_, data::Split::Training, config.data,
                                         config.seed);
      topology::plan::Plan plan;
      plan.ranks = config.ranks;
      plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
      step::TrainLoop loop(*device, ranks, base::system_clock(), config, plan,
                           samples::stream_of(source), {});
      step::TrainingState state;
      state.parameters = model::initial_weights(loop.model().table(), config.seed, 1);
      loop.load(state);
      ranks.host().barrier();
      if (ranks.rank() == 0) {
        EXPECT_GT(taken(), 0);
      }
      ranks.host().barrier();
      for (std::int64_t step = 1; step <= config.steps; ++step) (void)loop.step(step);
      ranks.host().barrier();
      EXPECT_EQ(lookups, 0) << (sharded ? "sharded" : "whole");
    });
  }
}

}  // namespace
}  // namespace regatta::tests
