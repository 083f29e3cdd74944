// A comparison with the reference, for people.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/wording.h"
#include "trainer/probe/numerics.h"

namespace regatta::trainer::probe {
namespace {

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string layer_name(std::int64_t layer, std::int64_t layers) {
  if (layer < 0) return "embeddings";
  return layer == layers ? "head" : "layer " + std::to_string(layer);
}

// Without what all tensors of a layer, or of the model, begin with.
std::string within_layer(std::string name) {
  for (const char* const prefix : {"bert.encoder.layer.", "bert.embeddings.", "cls.predictions."}) {
    const std::size_t at = name.find(prefix);
    if (at == std::string::npos) continue;
    std::size_t end = at + std::string(prefix).size();
    if (at + std::string("bert.encoder.layer.").size() == end) end = name.find('.', end) + 1;
    return name.erase(at, end - at);
  }
  return name;
}

// The one that is furthest beyond what is usual.
const TensorError* worst_of(const std::vector<TensorError>& errors, int layer) {
  const TensorError* worst = nullptr;
  for (const TensorError& each : errors) {
    if (each.layer != layer) continue;
    // Not a number is the worst.
    if (worst == nullptr || !(each.error / each.usual <= worst->error / worst->usual))
      worst = &each;
  }
  return worst;
}

std::string cell(const TensorError* error, std::size_t width) {
  if (error == nullptr) return padded("-", width);
  return padded(
      padded(figure(error->error), 9) + padded(figure(error->usual), 9) + within_layer(error->name),
      width);
}

std::string by_layer(const NumericsReport& report) {
  constexpr std::size_t kCell = 70;
  std::string text = padded("", 12) + padded("activations: furthest beyond usual", kCell) +
                     "gradients: furthest beyond usual\n" + padded("", 12) +
                     padded("error    usual    of", kCell) + "error    usual    of\n";
  for (int layer = -1; layer <= report.layers; ++layer) {
    text += padded(layer_name(layer, report.layers), 12) +
            cell(worst_of(report.activations, layer), kCell) +
            cell(worst_of(report.gradients, layer), 0) + "\n";
  }
  return text;
}

std::string each_of(const std::vector<TensorError>& errors, const std::string& prefix) {
  std::string text;
  for (const TensorError& each : errors) {
    text +=
        padded(figure(each.error), 9) + padded(figure(each.usual), 9) + prefix + each.name + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const NumericsReport& report, bool all) {
  char loss[160];
  std::snprintf(loss, sizeof loss, "loss %.9g, in float64 %.9g: relative error %.1e, usual %.1e\n",
                report.loss, report.reference_loss, report.loss_error, report.loss_usual);
  std::string text = "step " + std::to_string(report.step) + ", the first " +
                     std::to_string(report.samples) + " of its " +
                     base::plural(report.of_samples, "sample") + " (" +
                     std::to_string(report.tokens) + " tokens), " + report.dtype + " on " +
                     base::printable(report.device) + ", beside float64 (" +
                     base::human_seconds(report.reference_seconds) + ")\n" + loss;
  text += all ? "error    usual\n" + each_of(report.activations, "") +
                    each_of(report.gradients, "gradient of ")
              : by_layer(report);
  const std::vector<TensorError> far = far_off(report);
  if (far.empty()) {
    return text + "Nothing is more than " + std::to_string(static_cast<int>(kFarOff)) +
           " times what is usual.\n";
  }
  text += base::plural(std::ssize(far), "tensor") + " more than " +
          std::to_string(static_cast<int>(kFarOff)) +
          " times what is usual, first: " + far.front().name + " (" + figure(far.front().error) +
          ", usual " + figure(far.front().usual) + ")\n";
  return text;
}

}  // namespace regatta::trainer::probe
