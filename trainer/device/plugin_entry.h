// What both sides of a plug-in's factory function share. Exceptions do not leave it: they become
// this struct, and an exception again in the program.
#pragma once

#include <cstdio>
#include <exception>
#include <memory>

#include "base/error.h"

namespace regatta::trainer::device {

struct PluginError {
  int code = 0;             // base::Code
  char message[1024] = {};  // one line
};

// In the plug-in: what make() gives, which the caller deletes; null with the error filled in if it
// throws. make() returns a unique_ptr.
template <typename Make>
auto* made_or_null(const Make& make, PluginError* error) {
  const auto describe = [&](base::Code code, const char* message) {
    error->code = static_cast<int>(code);
    std::snprintf(error->message, sizeof error->message, "%s", message);
  };
  try {
    return make().release();
  } catch (const base::Error& failure) {
    describe(failure.code(), failure.what());
  } catch (const std::exception& failure) {
    describe(base::Code::Developer, failure.what());
  }
  return decltype(make().release()){};
}

// In the program: owns what the factory made, or throws its error.
template <typename Made>
std::unique_ptr<Made> owned_or_throw(Made* made, const PluginError& error) {
  if (made == nullptr) throw base::Error(static_cast<base::Code>(error.code), error.message);
  return std::unique_ptr<Made>(made);
}

}  // namespace regatta::trainer::device
