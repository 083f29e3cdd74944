// Figures that models are judged by, under their names in run files, journals and answers ("f1").
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::runs {

enum class Better { Higher, Lower };

// Of one evaluation, by name; one that is not known is not a number.
using Metrics = std::map<std::string, double>;

// All that a run may be judged by, as trainer/contract/run_config.h lists them.
[[nodiscard]] const std::vector<std::string>& metric_names();
// Which way it should go. All but losses are shares or correlations, and so is one that a later
// trainer may have.
[[nodiscard]] Better better_of(std::string_view metric);
// MLPerf's, whose curves are kept as references and predict others of it.
inline constexpr std::string_view kMlperfMetric = "mlm_accuracy";

}  // namespace regatta::orchestrator::runs
