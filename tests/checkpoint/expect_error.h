// For tests of what must be refused.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.h"

namespace regatta::tests {

// The message of the error that `body` throws, which is one line of that code.
template <typename Body>
std::string error_of(base::Code code, const Body& body) {
  try {
    body();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    EXPECT_LT(std::strlen(error.what()), 600U);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

}  // namespace regatta::tests
