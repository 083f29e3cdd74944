// Which way a metric should go, by its name.
#include "orchestrator/runs/metrics.h"

#include <gmock/gmock.h>

#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::runs {
namespace {

TEST(Metrics, AreThoseOfTheContract) {
  EXPECT_THAT(metric_names(),
              testing::ElementsAre("mlm_accuracy", "mlm_loss", "exact", "f1", "accuracy",
                                   "matthews", "pearson", "spearman", "loss"));
  EXPECT_EQ(trainer::contract::name_of(trainer::contract::TargetMetric::MlmAccuracy),
            kMlperfMetric);
}

TEST(Metrics, OfLossesTheLowerIsBetter) {
  for (const std::string& name : metric_names()) {
    const bool is_loss = name == "loss" || name == "mlm_loss";
    EXPECT_EQ(better_of(name), is_loss ? Better::Lower : Better::Higher) << name;
  }
  for (const char* unknown : {"", "losses", "F1", "bleu"}) {
    EXPECT_EQ(better_of(unknown), Better::Higher) << unknown;
  }
}

}  // namespace
}  // namespace regatta::orchestrator::runs
