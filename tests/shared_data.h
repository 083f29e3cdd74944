// Real public data beside the checkout, for tests that use it when it is there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace regatta::tests {

[[nodiscard]] inline std::filesystem::path shared_path(const std::string& relative) {
  return std::filesystem::path(REGATTA_SHARED_DIR) / relative;
}

// The whole file, as bytes; empty when it cannot be read.
[[nodiscard]] inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// REQUIRE=gpu,slurm,shared in the environment turns the skip of what it names into a failure.
[[nodiscard]] inline bool required(const std::string& what) {
  const char* const list = std::getenv("REQUIRE");
  return list != nullptr &&
         ("," + std::string(list) + ",").find("," + what + ",") != std::string::npos;
}

}  // namespace regatta::tests

// Skips the test, saying what is missing, unless the file or folder is there.
#define REGATTA_NEED_SHARED(relative)                                                           \
  if (!std::filesystem::exists(regatta::tests::shared_path(relative))) {                        \
    ASSERT_FALSE(regatta::tests::required("shared"))                                            \
        << "REQUIRE=shared, but " << (relative) << " is not there";                             \
    GTEST_SKIP() << "needs the public data ../shared/" << (relative) << " beside the checkout"; \
  }
