// What is wrong with a request beside its body.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace regatta::orchestrator::control {

// An error whose cause is this parameter of the query, or this header.
class RequestError : public base::Error {
 public:
  RequestError(base::Code code, const std::string& message, std::string parameter)
      : base::Error(code, message), parameter_(std::move(parameter)) {}
  [[nodiscard]] const std::string& parameter() const { return parameter_; }

 private:
  std::string parameter_;
};

// What `find` answers, whose base::Error is one of the parameter.
template <typename Find>
auto by_parameter(const std::string& parameter, Find find) {
  try {
    return find();
  } catch (const base::Error& error) {
    throw RequestError(error.code(), error.what(), parameter);
  }
}

}  // namespace regatta::orchestrator::control
