// `regatta serve` as a process, beside a Slurm whose commands are scripts.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/file_system.h"
#include "tests/bench/load.h"

namespace regatta::bench {

using Clock = std::chrono::steady_clock;

inline constexpr double kStartSeconds = 120;  // after which nothing comes any more

[[nodiscard]] double since(Clock::time_point begin);

// Replaces the file.
void write(const base::Path& path, const std::string& text);

// Slurm's commands in `place`, as far as a controller looks that has no jobs.
void make_slurm(const base::Path& place, int nodes);

// Started at once; ended, and waited for, by the destructor. `work` has Slurm's commands in bin/
// and a program `trainer`, and gets the log.
class Served {
 public:
  Served(const base::Path& work, const base::Path& data, const base::Path& runs);
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] double first_answer_seconds() const { return first_answer_; }
  // Of an answer 200; any other one ends the program.
  [[nodiscard]] nlohmann::ordered_json get(const std::string& target) const;
  void wait_until_adopted();
  // VmRSS and VmHWM, megabytes.
  [[nodiscard]] double memory(const std::string& what) const;
  // Processor time so far.
  [[nodiscard]] double processor_seconds() const;

 private:
  void pause(const std::string& what) const;
  void wait_for_url();

  base::Path log_, data_;
  Clock::time_point begin_;
  int process_ = 0;
  Place place_;
  double first_answer_ = 0;
};

}  // namespace regatta::bench
