// The length table that a benchmark draws its samples' lengths from.
#pragma once

#include <string>

#include "base/file_system.h"
#include "trainer/contract/length_table.h"

namespace CLI {
class App;
}

namespace regatta::trainer::bench {

// The option is a member, filled by the parser after add().
class BenchLengths {
 public:
  void add(CLI::App* app);
  // The table named, or the one that comes with `program` (the path of this one): installed under
  // the same prefix, else in the source tree. Throws Code::NotFound when it is nowhere.
  [[nodiscard]] contract::LengthTable table(const base::Path& program) const;
  [[nodiscard]] std::string name() const;  // of the file, without its folder

 private:
  std::string path_;
};

}  // namespace regatta::trainer::bench
