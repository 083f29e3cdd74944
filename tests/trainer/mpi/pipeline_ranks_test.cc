// Training in pipeline stages over MPI as on one rank: run by mpirun, every rank runs every test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/mpi/ranks.h"
#include "tests/trainer/step/pipeline_course.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::PipelineOrder;
using contract::Task;

constexpr std::int64_t kCourseSteps = 50;

class StagesOnRanks : public OnSmallDataset<120> {
 protected:
  // Of all ranks: two and four stages, as far as they divide them, in both orders.
  static std::vector<Layout> layouts() {
    std::vector<Layout> layouts;
    for (const int stages : {2, 4}) {
      if (ranks().ranks() % stages != 0 || ranks().ranks() / stages > 2) continue;
      for (const PipelineOrder order :
           {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
        layouts.push_back({stages, order});
      }
    }
    return layouts;
  }
  static std::string text_of(const Layout& layout) {
    return std::to_string(layout.stages) + " stages, " +
           contract::pipeline_order_names().at(static_cast<std::size_t>(layout.order));
  }
  static void compare(const contract::RunConfig& config, double tolerance) {
    const data::Dataset* const dataset =
        config.model.task == Task::Pretraining ? dataset_ : nullptr;
    ranks::SingleCommunicator alone;
    const PipelineCourse one = train_course(alone, config, {}, dataset, 1, kCourseSteps);
    ASSERT_FALSE(layouts().empty());
    for (const Layout& layout : layouts()) {
      SCOPED_TRACE(text_of(layout));
      const PipelineCourse course = train_course(ranks(), config, layout, dataset, 1, kCourseSteps);
      for (std::size_t i = 0; i < one.records.size(); ++i) {
        const double want = one.records[i].loss;
        ASSERT_NEAR(course.records[i].loss, want, tolerance * want) << i;
      }
      EXPECT_EQ(course.evaluation.samples, one.evaluation.samples);
      if (dataset != nullptr) {
        EXPECT_NEAR(course.evaluation.mlm_loss, one.evaluation.mlm_loss,
                    tolerance * one.evaluation.mlm_loss);
      }
    }
  }
};

// As loop_ranks_test.cc: ten times what two instruction sets would show in as many steps.
TEST_F(StagesOnRanks, FiftyStepsOfPretrainingAreThoseOfOneRank) {
  compare(pretraining_course(*dataset_), 1e-5);
}

// AdamW makes more of what rounding does to the smallest gradients (task_loop_test.cc).
TEST_F(StagesOnRanks, FiftyStepsOfQuestionAnsweringAreThoseOfOneRank) {
  compare(task_course(Task::QuestionAnswering), 1e-3);
}

}  // namespace
}  // namespace regatta::tests
