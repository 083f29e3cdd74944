// Figures of a run as TensorBoard reads them: an event file (TFRecord) of Event messages with
// scalar summaries (docs/keep_your_tools.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace regatta::orchestrator::text {

// One record of a TFRecord file: its length and its bytes, each with a masked CRC-32C.
[[nodiscard]] std::string tfrecord(std::string_view bytes);

class EventFile {
 public:
  // origin_utc: of the run's at_seconds.
  explicit EventFile(double origin_utc) : origin_utc_(origin_utc) {}

  // The record that every file begins with.
  [[nodiscard]] std::string head() const;
  // The records of rows of GET /runs/{id}/history, in their order. Before a row of a later attempt
  // comes the mark of a new start, by which TensorBoard leaves out what was logged from there on.
  [[nodiscard]] std::string records(const nlohmann::ordered_json& rows);

 private:
  double origin_utc_;
  std::int64_t attempt_ = 0;
};

}  // namespace regatta::orchestrator::text
