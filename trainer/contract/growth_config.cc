// What does not go with a batch that grows.
#include "trainer/contract/read_range.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {

std::optional<GrowthRefusal> refuse_growth(const RunConfig& config) {
  const auto refuse = [](const char* section, const char* key, const std::string& message) {
    return std::optional<GrowthRefusal>({section, key, message});
  };
  const std::string size = text_of(config.batch_size), most = text_of(config.max_batch);
  if (!grows(config)) {
    if (config.max_batch == 0) return std::nullopt;
    return refuse("batch", "max_size",
                  "is of a batch that grows; set batch.growth, or leave it out");
  }
  if (config.max_batch == 0) {
    return refuse("batch", "max_size", "missing; name the largest batch that the run may grow to");
  }
  if (config.max_batch < config.batch_size) {
    return refuse(
        "batch", "max_size",
        "is " + most + ", below batch.size (" + size + "); raise it, or leave batch.growth out");
  }
  if (config.batch_size < 2) {
    return refuse("batch", "size",
                  "is " + size +
                      ", and the noise of one sample cannot be measured; use at "
                      "least 2, or leave batch.growth out");
  }
  if (config.statistics_every == 0) {
    return refuse("statistics", "every",
                  "is 0, so that nothing says when the batch is to grow; set it to 1 or more, or "
                  "leave batch.growth out");
  }
  if (config.clip == ClipMode::Bucket || config.clip == ClipMode::Rank) {
    return refuse("clip", "mode",
                  "limits gradients before they are summed, so that their noise cannot be "
                  "measured; use global or none, or leave batch.growth out");
  }
  if (config.balance.strategy == Balance::Stratified) {
    return refuse("balance", "strategy",
                  "stratified deals windows of steps of one size; use another strategy, or leave "
                  "batch.growth out");
  }
  if (config.on_divergence == OnDivergence::Rollback) {
    return refuse("", "on_divergence",
                  "rollback leaves out the samples of whole steps, and those of a batch that grows "
                  "differ; set it to stop, or leave batch.growth out");
  }
  if (config.mllog) {
    return refuse("", "mllog",
                  "says one batch size of a whole run; leave it out, or leave batch.growth out");
  }
  return std::nullopt;
}

}  // namespace regatta::trainer::contract
