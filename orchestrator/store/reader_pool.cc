#include "orchestrator/store/reader_pool.h"

#include <chrono>

#include "base/error.h"

namespace regatta::orchestrator::store {
namespace {

// A read takes milliseconds; whoever waits this long is one of thousands.
constexpr std::chrono::seconds kMostWait{5};

}  // namespace

ReaderPool::ReaderPool(const base::Path& path, int count, const std::string& vfs) {
  for (int i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Database>(path, Database::Access::ReadOnly, vfs));
    free_.push_back(connections_.back().get());
  }
}

ReaderPool::Lease ReaderPool::take() {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_for(lock, kMostWait, [this] { return !free_.empty(); })) {
    throw base::Error(base::Code::Retry, "the controller has too many requests; try again");
  }
  // The one that was used last: its pages are cached.
  Database* const connection = free_.back();
  free_.pop_back();
  return {this, connection};
}

void ReaderPool::give_back(Database* connection) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(connection);  // there is room: it was here
  }
  returned_.notify_one();
}

std::vector<StatementFigures> ReaderPool::figures() {
  const std::lock_guard lock(mutex_);
  std::vector<StatementFigures> figures;
  for (const auto& connection : connections_) {
    for (StatementFigures& each : connection->figures()) figures.push_back(std::move(each));
  }
  return figures;
}

}  // namespace regatta::orchestrator::store
