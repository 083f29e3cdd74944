// Checks of command-line options that CLI11 does not have.
#pragma once

#include <CLI/CLI.hpp>

namespace regatta::trainer::cli {

// A number of low to high. CLI::Range takes NaN for one, and an empty word for none given.
[[nodiscard]] CLI::Validator between(double low, double high);

// Anything but an empty word, which is what a shell makes of a variable that is not set.
[[nodiscard]] CLI::Validator not_empty();

}  // namespace regatta::trainer::cli
