#include "trainer/cli/option_checks.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace regatta::trainer::cli {

CLI::Validator between(double low, double high) {
  char range[64];
  std::snprintf(range, sizeof range, "%g to %g", low, high);
  return {[low, high, text = std::string(range)](std::string& given) {
            char* end = nullptr;
            const double value = std::strtod(given.c_str(), &end);
            const bool is_number = end == given.c_str() + given.size() && !given.empty();
            return is_number && value >= low && value <= high
                       ? std::string()
                       : "'" + given + "' is not a number of " + text;
          },
          range};
}

CLI::Validator not_empty() {
  return {[](std::string& given) { return given.empty() ? std::string("it is empty") : ""; },
          "TEXT"};
}

}  // namespace regatta::trainer::cli
