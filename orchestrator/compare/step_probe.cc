#include "orchestrator/compare/step_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProbeFormat = 1;
constexpr int kMostProbeDepth = 8;
constexpr int kDistanceDigits = 2;

// JSON has no number for one that is not finite.
double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::vector<ProbedTensor> tensors_of(const Json& part) {
  std::vector<ProbedTensor> all;
  for (const Json& tensor : part.at("tensors")) {
    ProbedTensor one{tensor.at("name"), number_of(tensor.at("norm")), tensor.at("xxh3_128"), {}};
    for (const Json& value : tensor.at("sketch")) one.sketch.push_back(number_of(value));
    all.push_back(std::move(one));
  }
  return all;
}

std::string begins_with(const Json& from) {
  std::string all = from.at("kind");
  for (const char* const key : {"name", "path"}) {
    if (from.contains(key)) all += " " + from.at(key).get<std::string>();
  }
  return all;
}

void read_samples(const Json& part, StepProbe* probe) {
  probe->sample_count = part.at("count");
  probe->samples = part.at("xxh3_128");
  for (const Json& sample : part.at("each")) {
    probe->each.push_back(
        {sample.at("id"), sample.at("tokens_xxh3_128"), sample.at("masks_xxh3_128")});
  }
}

StepProbe read_probe(const Json& json) {
  StepProbe probe;
  probe.step = json.at("step");
  probe.begins_with = begins_with(json.at("from"));
  probe.loss = number_of(json.at("loss"));
  if (json.contains("journal_loss")) probe.journal_loss = number_of(json.at("journal_loss"));
  std::map<std::string, const Json*> parts;
  for (const Json& part : json.at("parts")) parts[part.at("part")] = &part;
  const auto part = [&](ProbePart which) -> const Json& { return *parts.at(name_of(which)); };
  probe.weights = tensors_of(part(ProbePart::Weights));
  read_samples(part(ProbePart::Samples), &probe);
  probe.tokens = part(ProbePart::Tokens).at("xxh3_128");
  probe.masks = part(ProbePart::Masks).at("xxh3_128");
  const Json& dropout = part(ProbePart::Dropout);
  probe.dropout = {dropout.at("hidden"), dropout.at("attention"),
                   base::json_text(dropout.at("seed")), dropout.at("xxh3_128")};
  probe.activations = tensors_of(part(ProbePart::Activations));
  probe.gradients = tensors_of(part(ProbePart::Gradients));
  if (parts.count(name_of(ProbePart::Update)) > 0) {
    probe.learning_rate = part(ProbePart::Update).at("learning_rate");
    probe.update = tensors_of(part(ProbePart::Update));
  }
  return probe;
}

// Of the samples that both have at the same place.
std::size_t common_count(const StepProbe& a, const StepProbe& b) {
  return std::min(a.each.size(), b.each.size());
}

std::vector<std::string> sorted_ids(const StepProbe& of) {
  std::vector<std::string> ids;
  for (const ProbedSample& sample : of.each) ids.push_back(sample.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Among whom the places are for which `differs` holds.
struct Places {
  std::size_t first = 0, count = 0;
};
template <typename Differs>
Places places_of(std::size_t among, const Differs& differs) {
  Places places;
  for (std::size_t i = 0; i < among; ++i) {
    if (!differs(i)) continue;
    if (places.count == 0) places.first = i;
    ++places.count;
  }
  return places;
}

PartDifference other_samples(const StepProbe& a, const StepProbe& b) {
  PartDifference of{ProbePart::Samples, 0, "", 0};
  const Places places =
      places_of(common_count(a, b), [&](std::size_t i) { return a.each[i].id != b.each[i].id; });
  of.first = places.first;
  if (a.sample_count != b.sample_count) {
    of.what = std::to_string(a.sample_count) + " samples | " + std::to_string(b.sample_count);
  } else if (sorted_ids(a) == sorted_ids(b)) {
    of.what = "the same " + base::plural(a.sample_count, "sample") + " in another order";
  } else {
    of.what = std::to_string(places.count) + " of " + base::plural(a.each.size(), "sample") +
              (places.count == 1 ? " is another one" : " are others");
  }
  return of;
}

// Of the same samples, how many have other tokens or masks.
PartDifference other_contents(ProbePart part, const StepProbe& a, const StepProbe& b) {
  const auto content = [part](const ProbedSample& of) {
    return part == ProbePart::Tokens ? of.tokens : of.masks;
  };
  const std::size_t among = common_count(a, b);
  const Places places =
      places_of(among, [&](std::size_t i) { return content(a.each[i]) != content(b.each[i]); });
  PartDifference of{part, places.first, "", 0};
  of.what = std::to_string(places.count) + " of " + base::plural(among, "sample") +
            (places.count == 1 ? " has other " : " have other ") + name_of(part);
  if (places.count > 0) of.what += ": " + base::printable(a.each[places.first].id);
  if (places.count > 1) of.what += " is the first";
  return of;
}

bool same_dropout(const ProbedDropout& a, const ProbedDropout& b) {
  if (a.hidden != b.hidden || a.attention != b.attention) return false;
  if (a.hidden == 0 && a.attention == 0) return true;  // nothing is drawn
  return a.seed == b.seed && a.digest == b.digest;
}

PartDifference other_dropout(const ProbedDropout& a, const ProbedDropout& b) {
  const auto probabilities = [](const ProbedDropout& of) {
    return base::short_number(of.hidden) + " and " + base::short_number(of.attention) +
           " of attention";
  };
  PartDifference of{ProbePart::Dropout, 0, "other elements are dropped", 0};
  if (a.hidden != b.hidden || a.attention != b.attention) {
    of.what = probabilities(a) + " | " + probabilities(b);
  }
  return of;
}

std::string tensors_text(const Places& places, std::size_t among, const ProbedTensor& first,
                         double distance) {
  std::string text = std::to_string(places.count) + " of " + base::plural(among, "tensor") +
                     (places.count == 1 ? " differs: " : " differ, first ") +
                     base::printable(first.name) + " by ";
  return text +
         (std::isfinite(distance) ? base::short_number(distance, kDistanceDigits)
                                  : std::string("no number")) +
         " of its norm";
}

void add_tensors(ProbePart part, const std::vector<ProbedTensor>& a,
                 const std::vector<ProbedTensor>& b, std::vector<PartDifference>* all) {
  const std::size_t among = std::min(a.size(), b.size());
  const Places places = places_of(
      among, [&](std::size_t i) { return a[i].name != b[i].name || a[i].digest != b[i].digest; });
  if (places.count > 0) {
    const double distance = relative_distance(a[places.first], b[places.first]);
    all->push_back(
        {part, places.first, tensors_text(places, among, a[places.first], distance), distance});
  } else if (a.size() != b.size()) {
    all->push_back(
        {part, among, base::plural(a.size(), "tensor") + " | " + std::to_string(b.size()), 0});
  }
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

StepProbe parse_step_probe(std::string_view text, const std::string& source) {
  const auto refuse = [&](const std::string& what) {
    throw base::Error(base::Code::Operator,
                      base::printable(source) + " is no probe of a step: " + what);
  };
  if (!base::json_depth_at_most(text, kMostProbeDepth)) refuse("it nests too deep");
  const Json json = base::parse_json<Json>(text);
  if (!json.is_object() || !json.contains("format")) refuse("it has no format");
  if (json.at("format") != Json(kProbeFormat)) {
    refuse("its format is " + base::json_text(json.at("format")) + ", not " +
           std::to_string(kProbeFormat) + "; use programs of one version");
  }
  try {
    return read_probe(json);
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what());
  } catch (const std::out_of_range&) {
    refuse("a part is missing");
  }
  return {};
}

double relative_distance(const ProbedTensor& a, const ProbedTensor& b) {
  const double norm = std::max(a.norm, b.norm);
  if (a.sketch.size() != b.sketch.size() || norm == 0) return a.norm == b.norm ? 0 : 1;
  double squares = 0;
  for (std::size_t i = 0; i < a.sketch.size(); ++i) {
    squares += (a.sketch[i] - b.sketch[i]) * (a.sketch[i] - b.sketch[i]);
  }
  return std::sqrt(squares) / norm;
}

std::vector<PartDifference> differences_of(const StepProbe& a, const StepProbe& b) {
  std::vector<PartDifference> all;
  add_tensors(ProbePart::Weights, a.weights, b.weights, &all);
  if (a.samples != b.samples) all.push_back(other_samples(a, b));
  if (a.tokens != b.tokens) all.push_back(other_contents(ProbePart::Tokens, a, b));
  if (a.masks != b.masks) all.push_back(other_contents(ProbePart::Masks, a, b));
  if (!same_dropout(a.dropout, b.dropout)) all.push_back(other_dropout(a.dropout, b.dropout));
  add_tensors(ProbePart::Activations, a.activations, b.activations, &all);
  if (!same_number(a.loss, b.loss)) {
    all.push_back({ProbePart::Loss, 0,
                   base::short_number(a.loss, 9) + " | " + base::short_number(b.loss, 9), 0});
  }
  add_tensors(ProbePart::Gradients, a.gradients, b.gradients, &all);
  if (a.learning_rate != b.learning_rate) {
    all.push_back({ProbePart::Update, 0,
                   "learning rate " + base::short_number(a.learning_rate) + " | " +
                       base::short_number(b.learning_rate),
                   0});
  } else {
    add_tensors(ProbePart::Update, a.update, b.update, &all);
  }
  return all;
}

}  // namespace regatta::orchestrator::compare
