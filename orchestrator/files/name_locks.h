// Exclusive rights by name: who changes one run, or submits with one key, waits for others that do
// the same, and for nobody else, however long their file systems take.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace regatta::orchestrator::files {

// Thread-safe; outlives what it gave.
class NameLocks {
 public:
  class Held {
   public:
    ~Held() {
      if (!names_.empty()) locks_.release(names_);  // else another has them
    }
    Held(Held&& other) noexcept : locks_(other.locks_), names_(std::move(other.names_)) {
      other.names_.clear();
    }
    Held& operator=(Held&&) = delete;

   private:
    friend class NameLocks;
    Held(NameLocks& locks, std::vector<std::string> names)
        : locks_(locks), names_(std::move(names)) {}
    NameLocks& locks_;
    std::vector<std::string> names_;
  };

  // All of the names together, or none: so nobody waits for who waits for him. Code::Retry when
  // others have one of them for so long.
  [[nodiscard]] Held take(std::vector<std::string> names, double seconds);
  // Nothing where take() throws.
  [[nodiscard]] std::optional<Held> try_take(std::vector<std::string> names, double seconds);

 private:
  void release(const std::vector<std::string>& names);
  [[nodiscard]] bool are_free(const std::vector<std::string>& names) const;

  std::mutex mutex_;
  std::condition_variable released_;
  std::set<std::string> taken_;
};

}  // namespace regatta::orchestrator::files
