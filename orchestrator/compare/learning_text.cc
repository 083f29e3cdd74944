#include "orchestrator/compare/learning_text.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/shell_words.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLossDigits = 7, kFewDigits = 2;
constexpr double kThousandths = 1e-3;  // below it a share is told as a power of ten

// What is no number is no JSON.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json run_json(const LearnedRun& of) {
  const auto& steps = of.curve.steps;
  return {
      {"run", of.run},
      {"steps", steps.size()},
      {"last_step", steps.empty() ? 0 : steps.rbegin()->first},
      {"cut", of.curve.is_cut},
      {"damaged", of.curve.damaged},
      {"environment_fault", of.environment_fault.empty() ? Json() : Json(of.environment_fault)}};
}

Json step_json(const std::optional<ComparedStep>& of) {
  if (!of) return {};
  return {
      {"step", of->step},
      {"loss", Json::array({number(of->a.loss), number(of->b.loss)})},
      {"gradient_norm", Json::array({number(of->a.gradient_norm), number(of->b.gradient_norm)})},
      {"relative", number(of->relative())}};
}

std::string loss_text(const Json& loss) {
  return loss.is_null() ? "not finite" : base::short_number(loss.get<double>(), kLossDigits);
}

std::string share_text(const Json& share) {
  if (share.is_null()) return "no number";
  const double value = share.get<double>();
  return value < kThousandths ? base::short_number(value, kFewDigits) : base::percent(value);
}

std::vector<std::string> row_of(const char* what, const Json& of) {
  if (of.is_null()) return {what, "none", "", "", ""};
  const Json& loss = of.at("loss");
  return {what, std::to_string(of.at("step").get<std::int64_t>()), loss_text(loss.at(0)),
          loss_text(loss.at(1)), share_text(of.at("relative"))};
}

std::string counted_text(const Json& learning) {
  const auto common = learning.at("common").get<std::int64_t>();
  std::string all = base::plural(common, "step") + " in common";
  const Json& only = learning.at("only");
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const auto count = only.at(side).get<std::int64_t>();
    if (count > 0) all += ", " + std::to_string(count) + (side == 0 ? " only in A" : " only in B");
  }
  for (const Json& run : learning.at("runs")) {
    if (run.at("cut").get<bool>()) {
      all += "; of " + run.at("run").get<std::string>() +
             " only the beginning of its journal was read";
    }
  }
  all += "\n";
  for (const Json& run : learning.at("runs")) {
    const auto damaged = run.at("damaged").get<std::int64_t>();
    if (damaged == 0) continue;
    all += "the journal of " + run.at("run").get<std::string>() + " has " +
           base::plural(damaged, "damaged line") + ", which nothing is known of\n";
  }
  return all;
}

std::string verdict_text(const Json& learning) {
  if (learning.at("common") == 0) return "no step in common: nothing to compare\n";
  if (learning.at("equal").get<bool>()) return "equal in every bit of loss and gradient norm\n";
  const Json& bits = learning.at("other_bits");
  const Json& beyond = learning.at("beyond_rounding");
  std::string text = "other bits from step " + std::to_string(bits.at("step").get<std::int64_t>());
  if (beyond.is_null()) {
    text += " on, never apart by more than rounding (" + share_text(learning.at("rounding")) +
            " at the last common step)";
  } else if (beyond.at("step") == bits.at("step")) {
    text += " on, at once by more than rounding (" + share_text(learning.at("rounding")) + ")";
  } else {
    text += " on, by more than rounding from step " +
            std::to_string(beyond.at("step").get<std::int64_t>()) + " on (" +
            share_text(learning.at("rounding")) + " there)";
  }
  return text + "\n";
}

std::string cause_text(const Json& cause) {
  return cause.at("kind").get<std::string>() + ": " + cause.at("what").get<std::string>() + "\n" +
         evidence_text(cause.at("evidence"));
}

std::string likely_text(const Json& learning) {
  if (learning.at("equal").get<bool>() || learning.at("common") == 0) return "";
  if (!learning.at("known").get<bool>()) {
    std::string all = "cause not known: not both have a fingerprint of what they ran on\n";
    for (const Json& run : learning.at("runs")) {
      const Json& fault = run.at("environment_fault");
      if (fault.is_null()) continue;
      all += "    " + base::printable(fault.get<std::string>()) + "\n";
    }
    return all;
  }
  const Json& causes = learning.at("causes");
  if (causes.empty()) return "cause not known: nothing that their environments tell\n";
  std::string all = "likely causes, by their environments alone:\n";
  for (const Json& cause : causes) {
    all += cause_text(cause);
  }
  return all;
}

// Where that step as it was has another loss here than its run told: sums over ranks are one
// process's here, and a journal may be another's.
std::string not_of_journals(const Json& replay) {
  const std::string step = "step " + std::to_string(replay.at("step").get<std::int64_t>()) + " of ";
  std::string all;
  for (const Json& each : replay.at("replays")) {
    const auto what = each.at("what").get<std::string>();
    const auto result = each.at("result").get<std::string>();
    const bool is_as_it_was = what == step + "A" || what == step + "B";
    if (!is_as_it_was || result.rfind("loss ", 0) != 0) continue;
    all += what + ", taken again, has " + base::printable(result) + "\n";
  }
  return all;
}

std::string replay_text(const Json& replay) {
  std::string all;
  if (!replay.at("parts").empty()) {
    all += "\nstep " + std::to_string(replay.at("step").get<std::int64_t>()) +
           ", taken again, differs in\n";
  }
  for (const Json& part : replay.at("parts")) {
    all += "    " + part.at("part").get<std::string>() + ": " +
           base::printable(part.at("what").get<std::string>()) + "\n";
  }
  all += not_of_journals(replay);
  for (const Json& cause : replay.at("causes")) {
    all += "cause, shown by a replay:\n" + cause_text(cause) + "    " +
           base::printable(cause.at("proof").get<std::string>()) + "\n";
  }
  if (!replay.at("unknown").is_null()) {
    all += "not explained: " + base::printable(replay.at("unknown").get<std::string>()) + "\n";
  }
  return all;
}

// How the likely causes are told apart.
std::string hint_text(const Json& learning) {
  const Json& bits = learning.at("other_bits");
  if (bits.is_null()) return "";
  const Json& runs = learning.at("runs");
  return "`" + base::shown_command("regatta compare", runs.at(0).at("run").get<std::string>()) +
         " " + base::printable(runs.at(1).at("run").get<std::string>()) + " --replay` takes step " +
         std::to_string(bits.at("step").get<std::int64_t>()) + " again and shows which it is\n";
}

}  // namespace

Json causes_json(const std::vector<LearningCause>& causes) {
  Json all = Json::array();
  for (const LearningCause& cause : causes) {
    all.push_back(
        {{"kind", cause.kind}, {"what", cause.what}, {"evidence", evidence_json(cause.evidence)}});
  }
  return all;
}

Json replay_json(const Explanation& explanation) {
  Json parts = Json::array(), replays = Json::array();
  for (const PartDifference& part : explanation.parts) {
    parts.push_back(
        {{"part", name_of(part.part)}, {"what", part.what}, {"distance", number(part.distance)}});
  }
  for (const Replayed& each : explanation.replays) {
    replays.push_back({{"what", each.what}, {"result", each.result}});
  }
  Json causes = causes_json(explanation.causes);
  for (std::size_t i = 0; i < causes.size(); ++i) causes[i]["proof"] = explanation.proofs.at(i);
  return {{"step", explanation.step},
          {"parts", std::move(parts)},
          {"causes", std::move(causes)},
          {"replays", std::move(replays)},
          {"unknown", explanation.unknown.empty() ? Json() : Json(explanation.unknown)}};
}

Json learning_json(const LearnedRun& a, const LearnedRun& b, const LearningDifference& difference,
                   const std::vector<LearningCause>& causes, bool are_known) {
  return {{"runs", Json::array({run_json(a), run_json(b)})},
          {"common", difference.common},
          {"only", Json::array({difference.only_a, difference.only_b})},
          {"equal", difference.is_equal()},
          {"first", step_json(difference.first)},
          {"other_bits", step_json(difference.other_bits)},
          {"beyond_rounding", step_json(difference.beyond_rounding)},
          {"last", step_json(difference.last)},
          {"rounding", difference.rounding},
          {"unit", difference.unit},
          {"known", are_known},
          {"causes", causes_json(causes)}};
}

std::string learning_text(const Json& learning) {
  std::string all;
  if (learning.at("common") != 0) {
    const Json& runs = learning.at("runs");
    std::vector<std::vector<std::string>> rows{
        {"LEARNING", "STEP", runs.at(0).at("run"), runs.at(1).at("run"), "APART BY"}};
    rows.push_back(row_of("first common step", learning.at("first")));
    rows.push_back(row_of("other bits", learning.at("other_bits")));
    rows.push_back(row_of("beyond rounding", learning.at("beyond_rounding")));
    rows.push_back(row_of("last common step", learning.at("last")));
    all = text::table(rows) + counted_text(learning) + "\n";
  }
  all += verdict_text(learning);
  if (!learning.contains("replay")) return all + likely_text(learning) + hint_text(learning);
  const Json& replay = learning.at("replay");
  if (replay.at("causes").empty()) all += likely_text(learning);
  return all + replay_text(replay);
}

}  // namespace regatta::orchestrator::compare
