#include "orchestrator/compare/speed_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kThousand = 1000;

Json attempt_json(const ComparedAttempt& of) {
  const SpeedAccount& account = of.account;
  return {{"run", of.run},
          {"attempt", of.attempt},
          {"first_step", account.first_step},
          {"last_step", account.last_step},
          {"steps", account.steps},
          {"samples", account.samples},
          {"seconds", account.seconds},
          {"samples_per_second", static_cast<double>(account.samples) / account.seconds}};
}

// All of a comparison have as many decimals, so that the parts add up as they are shown.
class Milliseconds {
 public:
  explicit Milliseconds(const Json& speed) {
    const Json& whole = speed.at("seconds_per_sample");
    const double least = std::min(whole.at(0).get<double>(), whole.at(1).get<double>());
    const int digits = static_cast<int>(std::floor(std::log10(least * kThousand)));
    decimals_ = std::clamp(kDigits - digits, 0, kMostDecimals);
  }
  [[nodiscard]] std::string text(const Json& seconds) const {
    return base::formatted("%.*f", decimals_, seconds.get<double>() * kThousand);
  }
  [[nodiscard]] std::string signed_text(const Json& seconds) const {
    return base::formatted("%+.*f", decimals_, seconds.get<double>() * kThousand);
  }

 private:
  static constexpr int kDigits = 3, kMostDecimals = 6;
  int decimals_ = 0;
};

std::string rates_text(const Json& attempts) {
  std::vector<std::vector<std::string>> rows{{"SPEED", "ATTEMPT", "STEPS", "SAMPLES/S"}};
  for (const Json& each : attempts) {
    const std::string first = std::to_string(each.at("first_step").get<std::int64_t>());
    const std::string last = std::to_string(each.at("last_step").get<std::int64_t>());
    rows.push_back({each.at("run"), std::to_string(each.at("attempt").get<int>()),
                    first + " to " + last,
                    base::short_number(each.at("samples_per_second").get<double>())});
  }
  return text::table(rows);
}

std::string parts_text(const Json& speed) {
  const Milliseconds ms(speed);
  const std::string nothing = ms.text(0.0);
  std::vector<std::vector<std::string>> rows{{"MS OF A SAMPLE", "A", "B", "B - A"}};
  for (const Json& part : speed.at("parts")) {
    const Json& seconds = part.at("seconds_per_sample");
    const std::string a = ms.text(seconds.at(0)), b = ms.text(seconds.at(1));
    if (a == nothing && b == nothing) continue;
    rows.push_back({part.at("part"), a, b, ms.signed_text(part.at("difference"))});
  }
  const Json& whole = speed.at("seconds_per_sample");
  rows.push_back(
      {"all", ms.text(whole.at(0)), ms.text(whole.at(1)), ms.signed_text(speed.at("difference"))});
  return text::table(rows);
}

std::string causes_text(const Json& speed) {
  const Milliseconds ms(speed);
  std::string all;
  for (const Json& cause : speed.at("causes")) {
    all += ms.signed_text(cause.at("seconds_per_sample")) + " ms " +
           cause.at("part").get<std::string>() + ": " + cause.at("what").get<std::string>() + "\n";
    all += evidence_text(cause.at("evidence"));
  }
  return all;
}

}  // namespace

Json speed_json(const ComparedAttempt& a, const ComparedAttempt& b,
                const SpeedDifference& difference, const std::vector<LikelyCause>& causes) {
  Json parts = Json::array();
  for (std::size_t i = 0; i < kParts; ++i) {
    parts.push_back(
        {{"part", std::string(kPartNames[i])},
         {"seconds_per_sample",
          {a.account.per_sample(a.account.parts[i]), b.account.per_sample(b.account.parts[i])}},
         {"difference", difference.parts[i]}});
  }
  Json told = Json::array();
  for (const LikelyCause& cause : causes) {
    told.push_back({{"part", std::string(kPartNames[static_cast<std::size_t>(cause.part)])},
                    {"seconds_per_sample", cause.seconds},
                    {"what", cause.what},
                    {"evidence", evidence_json(cause.evidence)}});
  }
  return {{"attempts", Json::array({attempt_json(a), attempt_json(b)})},
          {"seconds_per_sample", Json::array({difference.a, difference.b})},
          {"difference", difference.whole()},
          {"noise", difference.noise},
          {"equally_fast", difference.is_noise()},
          {"parts", std::move(parts)},
          {"more_work", difference.more_work},
          {"slower", difference.slower},
          {"causes", std::move(told)}};
}

std::string speed_text(const Json& speed) {
  std::string all = rates_text(speed.at("attempts")) + "\n" + parts_text(speed) + "\n";
  const double share =
      speed.at("difference").get<double>() / speed.at("seconds_per_sample").at(0).get<double>();
  if (speed.at("equally_fast").get<bool>()) {
    return all + "equally fast: a difference of " + base::percent(std::abs(share)) +
           " is within what steps differ by\n";
  }
  all += "a sample takes B " + base::percent(std::abs(share)) + (share > 0 ? " longer" : " less") +
         " than A:\n";
  return all + causes_text(speed);
}

}  // namespace regatta::orchestrator::compare
