// A controller with a store, a clock and a scheduler that do as told.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "orchestrator/control/controller.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {

class ControllerFixture : public testing::Test {
 protected:
  // parallel: runs at once.
  explicit ControllerFixture(int parallel) : parallel_(parallel) { open(); }

  void open() {
    store_ =
        std::make_unique<store::Store>(folder_.path() / "state", store::StoreOptions{{}, &clock_});
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    options.parallel = parallel_;
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
    controller_->adopt();
  }
  void close() {
    controller_.reset();
    store_.reset();
  }
  void lose_the_store() {
    close();
    std::filesystem::remove_all(folder_.path() / "state");
    open();
  }
  std::string submit() { return controller_->submit(tests::run_file(), std::nullopt).run.id; }
  void ticks(int count = 3) {
    for (int i = 0; i < count; ++i) {
      controller_->tick();
      clock_.now += 0.25;
    }
  }
  orchestrator::runs::Run run(const std::string& id) { return *store_->run(id); }
  runs::RunState state(const std::string& id) { return run(id).state; }
  trainer::contract::RunDirectory directory(const std::string& id) {
    return trainer::contract::RunDirectory::open(base::posix_file_system(), run(id).directory);
  }

  int parallel_;
  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Controller> controller_;
};

}  // namespace regatta::orchestrator
