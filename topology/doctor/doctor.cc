#include "topology/doctor/doctor.h"

#include <algorithm>
#include <tuple>

#include "topology/doctor/doctor_checks.h"

namespace regatta::topology::doctor {
namespace {

// In order of id.
std::vector<Check> all_checks() {
  std::vector<Check> checks;
  for (const auto& theme : {pcie_checks(), nvlink_checks(), nic_checks(), fabric_checks(),
                            node_checks(), environment_checks()}) {
    checks.insert(checks.end(), theme.begin(), theme.end());
  }
  std::sort(checks.begin(), checks.end(), [](const Check& a, const Check& b) {
    return std::string_view(a.info.id) < std::string_view(b.info.id);
  });
  return checks;
}

}  // namespace

std::vector<CheckInfo> list_checks() {
  std::vector<CheckInfo> list;
  for (const Check& check : all_checks()) list.push_back(check.info);
  return list;
}

void set_severity(graph::Finding* finding, const char* id, graph::Severity severity) {
  finding->id = id;
  finding->severity = severity;
}

std::vector<graph::Finding> diagnose(const Subject& subject) {
  const ClusterView view(subject);
  std::vector<graph::Finding> all;
  for (const Check& check : all_checks()) {
    for (graph::Finding& finding : check.look(view)) {
      if (finding.id.empty()) set_severity(&finding, check.info.id, check.info.severity);
      if (finding.remedy.empty()) finding.remedy = check.info.remedy;
      all.push_back(std::move(finding));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const graph::Finding& a, const graph::Finding& b) {
    return std::make_tuple(-static_cast<int>(a.severity), std::cref(a.id), std::cref(a.subject)) <
           std::make_tuple(-static_cast<int>(b.severity), std::cref(b.id), std::cref(b.subject));
  });
  return all;
}

}  // namespace regatta::topology::doctor
