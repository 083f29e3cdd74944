// The command line of `regatta-train debug …`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/plugins/make_device.h"
#include "trainer/probe/replay.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class DebugCommands {
 public:
  explicit DebugCommands(const plugins::DevicePlace& place) { options_.place = place; }
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  // That all of them have.
  void add_replay(CLI::App* app);
  [[nodiscard]] int probe() const;
  [[nodiscard]] int numerics() const;

  CLI::App *probe_ = nullptr, *numerics_ = nullptr;
  probe::ReplayOptions options_;
  std::int64_t tokens_ = 0;
  bool all_ = false;
  std::vector<std::string> changes_;
  std::string run_, data_, out_;
};

// Of `run --debug-numerics`: prints how the step that the run would take next compares with the
// reference; a line where it has none left. Throws as probe::Replay.
void print_numerics_of_next_step(const base::Path& run, const plugins::DevicePlace& place,
                                 int threads);

}  // namespace regatta::trainer::cli
