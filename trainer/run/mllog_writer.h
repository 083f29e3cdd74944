// A run as the logs of MLPerf Training tell it: lines ":::MLLOG {…}", made of the journal's
// records, with the keys that the compliance rules of round 4.1 ask of BERT
// (docs/keep_your_tools.md).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::run {

// How many samples there are.
struct MllogSamples {
  std::int64_t training = 0;
  std::int64_t evaluation = 0;
};

// One file for all attempts of a run: a later attempt goes on where the one before ended, so that
// run_start is the first one's. For one thread at a time.
class MllogWriter {
 public:
  // run: the run's id, which the file is known by. started_utc: of the attempt. Of a file that is
  // there, a torn last line and the end of an attempt that was aborted are taken back; one that has
  // lost its beginning stays as it is. Code::User for a file of another run or of something else;
  // throws as FileSystem does where it cannot be written.
  MllogWriter(base::FileSystem& files, const base::Path& path, std::string run, double started_utc);

  // What the first lines say; before the start record comes.
  void describe(const contract::RunConfig& config, const MllogSamples& samples);
  // The lines of this record. Throws nothing: a failed write is one warning, and then nothing more
  // is written.
  void follow(const contract::JournalRecord& record);

 private:
  struct Line;

  bool take_up(const std::string& text);
  void start(const contract::StartRecord& record, double utc);
  void step(const contract::StepRecord& record, double utc);
  void evaluation(const contract::EvalRecord& record, double utc);
  void end(const contract::EndRecord& record, double utc);
  void end_block(double utc);
  // Waits for flush().
  void add(const Line& line);
  void flush();

  [[nodiscard]] std::int64_t samples_after(std::int64_t step) const {
    return step * config_.batch_size;
  }

  base::FileSystem& files_;
  const base::Path path_;
  const std::string run_;
  const double started_utc_;
  contract::RunConfig config_;
  MllogSamples samples_;
  std::unique_ptr<base::WritableFile> file_;  // null: over, or lost
  std::string pending_;
  bool has_start_ = false;             // the file has run_start
  bool met_ = false;                   // the target, so far
  std::int64_t last_ms_ = 0;           // no line is earlier than the one before
  std::optional<std::int64_t> block_;  // samples at its begin; nothing: none is open
};

}  // namespace regatta::trainer::run
