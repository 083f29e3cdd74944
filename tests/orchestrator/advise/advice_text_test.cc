#include "orchestrator/advise/advice_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace regatta::orchestrator::advise {
namespace {

using testing::HasSubstr;
using testing::Not;

Report report() {
  std::vector<Candidate> candidates;
  for (const int nodes : {1, 2, 4}) {
    for (const int batch : {256, 1024, 4096}) {
      Candidate each;
      each.nodes = nodes;
      each.ranks = 8 * nodes;
      each.batch = batch;
      const double step = 0.005 * nodes + batch / (4000.0 * nodes);
      each.step_seconds = {step, 0.9 * step, 1.2 * step};
      candidates.push_back(each);
    }
  }
  Report made;
  made.title = "run <b>";
  made.target = "mlm_accuracy 0.72";
  made.noise_from = "of run a-1";
  made.target_from = "as in run a-1";
  made.advice = advise(candidates, {1500, 1200, 1900}, {3e6, 256}, 1);
  made.notes = {"a note \x1b[31m"};
  return made;
}

TEST(AdviceText, HasTheBestOfEachAndTheFront) {
  const Report made = report();
  const std::string text = advice_text(made);
  EXPECT_THAT(text, HasSubstr("run <b>"));
  EXPECT_THAT(text,
              HasSubstr("mlm_accuracy 0.72 takes 3,000,000 samples with batches of 256, as in "
                        "run a-1"));
  EXPECT_THAT(text, HasSubstr("noise scale 1,500 samples (1,200 to 1,900), of run a-1"));
  EXPECT_THAT(text, HasSubstr("Soonest: 4 nodes, 32 ranks, batch "));
  EXPECT_THAT(text, HasSubstr("Fewest GPU-hours: 1 node, 8 ranks, batch "));
  EXPECT_THAT(text, HasSubstr("\\x1b[31m"));
  std::size_t marked = 0;
  for (const std::string& line : base::split(text, '\n')) {
    marked += line.starts_with(">  ") || line.starts_with("*  ") ? 1 : 0;
  }
  EXPECT_EQ(marked, made.advice.front.size());
}

TEST(AdviceText, EveryFormHasTheSameFigures) {
  const Report made = report();
  const nlohmann::ordered_json json = advice_json(made);
  ASSERT_EQ(json.at("rows").size(), 9U);
  const auto lines = base::split(advice_csv(made), '\n');
  ASSERT_EQ(lines.size(), 11U);  // a head, and the end of the last line
  const auto heads = base::split(lines[0], ',');
  for (std::size_t i = 0; i < 9; ++i) {
    const auto cells = base::split(lines[i + 1], ',');
    ASSERT_EQ(cells.size(), heads.size());
    const auto& row = json.at("rows")[i];
    for (std::size_t column = 0; column < heads.size(); ++column) {
      const std::string& head = heads[column];
      if (head == "on_front") {
        EXPECT_EQ(cells[column], row.at(head).get<bool>() ? "true" : "false");
        continue;
      }
      const std::size_t end =
          head.ends_with("_low") || head.ends_with("_high") ? head.rfind('_') : std::string::npos;
      const auto& value = row.at(head.substr(0, end));
      const double expected = !value.is_object() ? value.get<double>()
                              : end == std::string::npos
                                  ? value.at("value").get<double>()
                                  : value.at(head.substr(end + 1)).get<double>();
      EXPECT_NEAR(base::parse_number(cells[column]).value(), expected, 1e-6 * expected) << head;
    }
  }
  const auto best = json.at("best").at("tta").at("row").get<std::size_t>();
  EXPECT_EQ(best, made.advice.best_for(Objective::TimeToAccuracy).expected);
  EXPECT_THAT(advice_markdown(made), HasSubstr("| > | 4 | 32 | "));
}

TEST(AdviceText, MarkdownHasNoMarkupOfFiles) {
  Report made = report();
  made.title = "a|b*c`<script>\x1b[31m";
  const std::string markdown = advice_markdown(made);
  EXPECT_THAT(markdown, HasSubstr("a\\|b\\*c\\`\\<script\\>\\\\x1b\\[31m"));
  EXPECT_THAT(markdown, HasSubstr("\\>: best for --objective tta"));
}

TEST(AdviceText, ShortTimesAndSmallScalesKeepTheirDigits) {
  Report made = report();
  Candidate each;
  each.ranks = 1;
  each.batch = 16;
  each.step_seconds = {1e-4, 1e-4, 1e-4};
  made.advice = advise({each}, {0.5, 0.5, 0.5}, {160, 16}, 1);
  const std::string text = advice_text(made);
  EXPECT_THAT(text, HasSubstr("0.001 s (0.001 s to 0.001 s)"));
  EXPECT_THAT(text, HasSubstr("noise scale 0.5 samples, of run a-1 without ends"));
  EXPECT_THAT(text, Not(HasSubstr("at both ends")));
}

TEST(AdviceText, ThePictureIsWholeAndEscaped) {
  const Report made = report();
  const std::string svg = advice_svg(made);
  EXPECT_THAT(svg, HasSubstr("run &lt;b&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos;
       at = svg.find("<circle", at + 1)) {
    ++circles;
  }
  EXPECT_EQ(circles, made.advice.rows.size());
}

}  // namespace
}  // namespace regatta::orchestrator::advise
