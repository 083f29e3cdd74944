// Working trees to freeze: written here, kept by the real git.
#pragma once

#include <string>
#include <vector>

#include "base/file_system.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::orchestrator::frozen {

class TestTree {
 public:
  TestTree();
  // Makes folders as needed; `mode` as of chmod.
  void write(const std::string& path, const std::string& text, unsigned mode = 0644) const;
  void link(const std::string& path, const std::string& target) const;
  void remove(const std::string& path) const;
  // git in the folder `below` of the tree; its output. Fails the test where git does.
  std::string git(const std::vector<std::string>& arguments, const std::string& below = "") const;
  // git init, and a commit of all that is there.
  void commit_all(const std::string& below = "") const;

  [[nodiscard]] const base::Path& root() const { return root_; }    // no link in it
  [[nodiscard]] const base::Path& store() const { return store_; }  // beside it
  [[nodiscard]] const base::Path& beside() const { return beside_; }

 private:
  tests::TemporaryDirectory temporary_;
  base::Path beside_, root_, store_;
};

[[nodiscard]] std::string text_of(const base::Path& path);

}  // namespace regatta::orchestrator::frozen
