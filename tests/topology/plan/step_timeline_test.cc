#include "topology/plan/step_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "topology/graph/xml.h"
#include "topology/plan/step_gantt.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CommunicationCurve, IsStraightBetweenPoints) {
  const nccl::CommunicationCurve curve({{100, 2}, {200, 3}, {400, 7}});
  EXPECT_DOUBLE_EQ(curve.seconds(0), 2);
  EXPECT_DOUBLE_EQ(curve.seconds(100), 2);
  EXPECT_DOUBLE_EQ(curve.seconds(150), 2.5);
  EXPECT_DOUBLE_EQ(curve.seconds(200), 3);
  EXPECT_DOUBLE_EQ(curve.seconds(300), 5);
  EXPECT_DOUBLE_EQ(curve.seconds(400), 7);
  EXPECT_DOUBLE_EQ(curve.seconds(500), 9);
  EXPECT_DOUBLE_EQ(nccl::CommunicationCurve({{5, 4}}).seconds(1e12), 4);
  EXPECT_DOUBLE_EQ(nccl::CommunicationCurve({{5, 4}, {6, 1}}).seconds(100), 1);  // never below 0
  // 10 us and 25 GB/s: 1 MB in 50 us, 10 GB in 400.01 ms.
  const nccl::CommunicationCurve line = nccl::CommunicationCurve::of_line(10e-6, 25);
  EXPECT_DOUBLE_EQ(line.seconds(1e6), 50e-6);
  EXPECT_NEAR(line.seconds(1e10), 0.40001, 1e-12);
}

TEST(CommunicationCurve, Scales) {
  const nccl::CommunicationCurve curve =
      nccl::CommunicationCurve({{100, 2}, {200, 3}, {300, 1}}).scaled(0.5, 2);
  EXPECT_DOUBLE_EQ(curve.seconds(100), 1);
  EXPECT_DOUBLE_EQ(curve.seconds(200), 3);
  EXPECT_DOUBLE_EQ(curve.seconds(300), 0);  // 1 - 2, cut off
}

TEST(CommunicationCurve, OfMeasurementsGrowsWithBytes) {
  using Points = std::vector<nccl::CommunicationCurve::Point>;
  struct Row {
    const char* name;
    Points samples, expected;
  };
  const Row rows[] = {
      {"one", {{100, 2}}, {{100, 2}}},
      {"any order", {{200, 3}, {100, 2}}, {{100, 2}, {200, 3}}},
      {"medians, odd and even", {{1, 9}, {1, 2}, {1, 1}, {4, 6}, {4, 4}}, {{1, 2}, {4, 5}}},
      {"a dip is pooled", {{1, 1}, {2, 5}, {4, 3}, {8, 9}}, {{1, 1}, {3, 4}, {8, 9}}},
      {"by weight", {{1, 1}, {2, 5}, {2, 5}, {2, 5}, {6, 1}}, {{1, 1}, {3, 4}}},
      {"no time more is none", {{1, 2}, {3, 2}, {4, 5}}, {{2, 2}, {4, 5}}},
      {"a pool swallows those before", {{1, 3}, {2, 4}, {3, 1}, {8, 9}}, {{2, 8.0 / 3}, {8, 9}}},
      {"falling all along", {{2, 8}, {4, 6}, {6, 1}}, {{4, 5}}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Points points = nccl::CommunicationCurve::measured(row.samples).points();
    ASSERT_EQ(points.size(), row.expected.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_DOUBLE_EQ(points[i].bytes, row.expected[i].bytes);
      EXPECT_DOUBLE_EQ(points[i].seconds, row.expected[i].seconds);
      EXPECT_GT(points[i].seconds, i > 0 ? points[i - 1].seconds : 0);
    }
  }
}

TEST(CommunicationCurve, RefusesWhatWasNotMeasured) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    const char* name;
    std::vector<nccl::CommunicationCurve::Point> samples;
    const char* message;
  };
  const Row rows[] = {
      {"nothing", {}, "has no measurement"},
      {"no time", {{1, 1}, {2, 0}}, "as measurement 1; measure that size again"},
      {"negative bytes", {{-1, 1}}, "as measurement 0"},
      {"no number", {{1, nan}}, "as measurement 0"},
      {"no number of bytes", {{nan, 1}}, "as measurement 0"},
  };
  for (const Row& row : rows) {
    try {
      (void)nccl::CommunicationCurve::measured(row.samples);
      ADD_FAILURE() << row.name << " was accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.name;
    }
  }
}

TEST(CommunicationCurve, SamplesAModel) {
  const auto model = [](double bytes) {
    return 1e-5 + bytes / 1e10 + 1e-6 * bytes / (bytes + 1e6);
  };
  const nccl::CommunicationCurve curve = nccl::CommunicationCurve::sampled(model, 1.5e9);
  EXPECT_LT(curve.points().size(), 100U);
  EXPECT_GE(curve.points().back().bytes, 1.5e9);
  for (double bytes = 300; bytes < 1.5e9; bytes *= 1.37) {
    EXPECT_NEAR(curve.seconds(bytes) / model(bytes), 1, 2e-3) << bytes;
  }
  EXPECT_LE(nccl::CommunicationCurve::sampled(model, 1e300).points().size(), 161U);
}

TEST(CommunicationCurve, RefusesWhatIsNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    const char* name;
    std::vector<nccl::CommunicationCurve::Point> points;
    const char* message;
  };
  const Row rows[] = {
      {"nothing", {}, "has no point"},
      {"negative time", {{1, -1}}, "figures of at least 0"},
      {"negative bytes", {{-1, 1}}, "figures of at least 0"},
      {"no number", {{1, nan}}, "figures of at least 0"},
      {"no number of bytes", {{nan, 1}}, "figures of at least 0"},
      {"unsorted", {{2, 1}, {1, 1}}, "as point 1, which has no more bytes"},
      {"twice", {{2, 1}, {2, 3}}, "as point 1, which has no more bytes"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      (void)nccl::CommunicationCurve(row.points);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
  EXPECT_THROW((void)nccl::CommunicationCurve::of_line(1, 0), base::Error);
  EXPECT_THROW((void)nccl::CommunicationCurve::of_line(1, nan), base::Error);
}

// Three gradients of 10, 20 and 5 bytes with a gap of 1 before the last; a sum takes 1 s and 0.1 s
// for each byte.
plan::StepInputs three() {
  plan::StepInputs inputs;
  inputs.tensors = {{0, 10, 4}, {10, 30, 5}, {31, 36, 9}};
  inputs.forward_seconds = 3;
  inputs.compute_seconds = 10;
  inputs.tail_seconds = 2;
  return inputs;
}
const nccl::CommunicationCurve kCurve({{0, 1}, {10, 2}});

TEST(StepTimeline, ByHand) {
  struct Row {
    const char* name;
    std::vector<plan::Bucket> buckets;
    double slowdown;
    std::vector<plan::BucketSpan> spans;
    double compute, communication, exposed, step;
  };
  const Row rows[] = {
      {"one bucket", {{0, 3}}, 0, {{36, 9, 9, 13.6}}, 10, 4.6, 3.6, 15.6},
      {"one for each",
       {{0, 1}, {1, 2}, {2, 3}},
       0,
       {{10, 4, 4, 6}, {20, 5, 6, 9}, {5, 9, 9, 10.5}},
       10,
       6.5,
       0.5,
       12.5},
      {"the gap goes along",
       {{0, 1}, {1, 3}},
       0,
       {{10, 4, 4, 6}, {26, 9, 9, 12.6}},
       10,
       5.6,
       2.6,
       14.6},
      {"the last two apart",
       {{0, 2}, {2, 3}},
       0,
       {{30, 5, 5, 9}, {5, 9, 9, 10.5}},
       10,
       5.5,
       0.5,
       12.5},
      // Computing takes twice as long beside a sum: of the 2 s from 4 to 6 one is lost, so the
      // second is ready at 6, when the first ends; by 9 another 1.5, so the third is ready at
      // 9 + (9 - 6.5) = 11.5, ends at 13; backward has 0.25 s left then.
      {"slowed down",
       {{0, 1}, {1, 2}, {2, 3}},
       1,
       {{10, 4, 4, 6}, {20, 6, 6, 9}, {5, 11.5, 11.5, 13}},
       13.25,
       6.5,
       0,
       15.25},
      {"slowed down at the end", {{0, 3}}, 1, {{36, 9, 9, 13.6}}, 11, 4.6, 2.6, 15.6},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    plan::StepInputs inputs = three();
    inputs.slowdown = row.slowdown;
    const plan::StepTimeline timeline = plan::run_step(inputs, row.buckets, kCurve);
    ASSERT_EQ(timeline.buckets.size(), row.spans.size());
    for (std::size_t i = 0; i < row.spans.size(); ++i) {
      EXPECT_EQ(timeline.buckets[i].bytes, row.spans[i].bytes);
      EXPECT_DOUBLE_EQ(timeline.buckets[i].ready_seconds, row.spans[i].ready_seconds);
      EXPECT_DOUBLE_EQ(timeline.buckets[i].start_seconds, row.spans[i].start_seconds);
      EXPECT_DOUBLE_EQ(timeline.buckets[i].end_seconds, row.spans[i].end_seconds);
    }
    EXPECT_DOUBLE_EQ(timeline.compute_seconds, row.compute);
    EXPECT_DOUBLE_EQ(timeline.communication_seconds, row.communication);
    EXPECT_NEAR(timeline.exposed_seconds, row.exposed, 1e-12);
    EXPECT_DOUBLE_EQ(timeline.step_seconds, row.step);
  }
}

TEST(StepTimeline, SlowedReadyTimesGiveTheSameStep) {
  plan::StepInputs inputs = three();
  inputs.slowdown = 0.4;
  const std::vector<plan::Bucket> buckets = {{0, 1}, {1, 2}, {2, 3}};
  const plan::StepTimeline timeline = plan::run_step(inputs, buckets, kCurve);
  const plan::StepInputs slowed = plan::slowed_by(inputs, timeline);
  EXPECT_EQ(slowed.slowdown, 0);
  const plan::StepTimeline again = plan::run_step(slowed, buckets, kCurve);
  EXPECT_DOUBLE_EQ(again.step_seconds, timeline.step_seconds);
  EXPECT_DOUBLE_EQ(again.buckets[2].ready_seconds, timeline.buckets[2].ready_seconds);
}

TEST(StepTimelineDeathTest, RefusesWhatDoesNotCover) {
  EXPECT_DEATH((void)plan::run_step(three(), {{0, 2}}, kCurve), "buckets cover all");
  EXPECT_DEATH((void)plan::run_step(three(), {{0, 1}, {2, 3}}, kCurve), "buckets cover");
  EXPECT_DEATH((void)plan::run_step(three(), {{0, 4}}, kCurve), "buckets cover");
  plan::StepInputs backwards = three();
  backwards.tensors[1].ready_seconds = 1;
  EXPECT_DEATH((void)plan::run_step(backwards, {{0, 3}}, kCurve), "ready in the order");
}

TEST(StepGantt, Text) {
  const plan::StepTimeline timeline = plan::run_step(three(), {{0, 1}, {1, 2}, {2, 3}}, kCurve);
  // 84 columns are 50 of time, 12.5 s wide: 4 a second.
  EXPECT_EQ(plan::gantt_text(timeline, 84),
            "step 12500.00 ms: computes 10000.00 ms, waits 500.00 ms for communication (of 6500.00 "
            "ms), then norm, optimizer and other 2000.00 ms\n"
            "compute     |ffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbb..oooooooo| 12500.00 ms\n"
            "bucket 0    |                ########                          | 10 B\n"
            "bucket 1    |                    ----############              | 20 B\n"
            "bucket 2    |                                    ######        | 5 B\n"
            "f forward  b backward  - ready  # sum  . exposed  o norm, optimizer, other\n");
}

TEST(StepGantt, ManyBucketsAreLeftOutAloud) {
  plan::StepTimeline timeline;
  timeline.step_seconds = timeline.compute_seconds = 1;
  timeline.buckets.resize(250, {1, 0.1, 0.2, 0.3});
  EXPECT_THAT(plan::gantt_text(timeline), HasSubstr("and 210 more buckets"));
  EXPECT_THAT(plan::gantt_svg(timeline), HasSubstr("and 50 more buckets"));
  timeline.buckets.resize(40);
  EXPECT_THAT(plan::gantt_text(timeline), Not(HasSubstr("more buckets")));
  // Any figures, as a plan from elsewhere may have them.
  timeline.buckets = {{1, 1e-300, 1e300, 1e308}, {1, 5, 6, 7}};
  timeline.tail_seconds = timeline.exposed_seconds = 1e308;
  for (const double step : {1e-308, 1.0, 1e308}) {
    timeline.step_seconds = step;
    EXPECT_EQ(graph::parse_xml(plan::gantt_svg(timeline), "svg").name, "svg");
    EXPECT_THAT(plan::gantt_text(timeline), HasSubstr("bucket 1"));
  }
  // Nothing known: no picture, no crash.
  EXPECT_THAT(plan::gantt_text(plan::StepTimeline()), HasSubstr("compute"));
  EXPECT_THAT(plan::gantt_svg(plan::StepTimeline()), HasSubstr("</svg>"));
}

TEST(StepGantt, Svg) {
  const std::string svg =
      plan::gantt_svg(plan::run_step(three(), {{0, 1}, {1, 2}, {2, 3}}, kCurve));
  // Left edge 80, 720 wide for 12.5 s: 57.6 a second.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"310.40\" y=\"54.0\" width=\"115.20\" height=\"10\" "
                             "fill=\"#edae49\"><title>bucket 0 is summed, 2000.00 ms</title>"));
  EXPECT_THAT(svg, HasSubstr("bucket 1 is ready, 1000.00 ms"));
  EXPECT_THAT(svg, HasSubstr("exposed communication, 500.00 ms"));
  EXPECT_THAT(svg, Not(HasSubstr("bucket 0 is ready")));
  EXPECT_THAT(svg, HasSubstr(">20 B</text>"));
  const graph::XmlElement root = graph::parse_xml(svg, "svg");
  EXPECT_EQ(root.name, "svg");
  // Forward, backward, exposed, tail; three sums and one wait.
  EXPECT_EQ(std::count_if(root.children.begin(), root.children.end(),
                          [](const graph::XmlElement& element) { return element.name == "rect"; }),
            8);
}

}  // namespace
}  // namespace regatta::topology
