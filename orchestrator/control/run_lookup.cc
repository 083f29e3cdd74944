#include "orchestrator/control/run_lookup.h"

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::control {

namespace {

constexpr int kMostPrefixed = 16;  // ids of one beginning that are looked at

std::optional<runs::Run> newest(store::StoreReads& store) {
  store::RunFilter filter;
  filter.limit = 1;
  filter.archived = store::Archived::Also;
  const store::RunList list = store.list(filter);
  if (list.rows.empty()) return std::nullopt;
  return store.run(list.rows.front().run.number);
}

[[noreturn]] void throw_several(const std::string& what, const std::vector<std::string>& ids) {
  throw base::Error(base::Code::NotFound, what + "; name one by its id: " + ids[0] + ", " + ids[1] +
                                              (ids.size() > 2 ? ", …" : ""));
}

}  // namespace

runs::Run find_run(store::StoreReads& store, const std::string& name) {
  if (auto run = store.run(name)) return *run;
  if (name == "@last") {
    if (auto run = newest(store)) return *run;
    throw base::Error(base::Code::NotFound, "there is no run yet; 'regatta submit FILE' makes one");
  }
  const std::vector<runs::Run> named = store.runs_named(name);
  if (named.size() == 1) return named.front();
  if (named.size() > 1) {
    std::vector<std::string> ids;
    for (const runs::Run& each : named) ids.push_back(each.id);
    throw_several("several runs are called '" + base::printable(name) + "'", ids);
  }
  std::vector<std::string> ids;
  for (const std::string& id : store.ids_with_prefix(name, kMostPrefixed)) {
    // Into its random end: the name of a run that has gone must not mean "name-large-01ab23".
    const auto run = store.run(id);
    if (run && name.size() > run->name.size() + 1) ids.push_back(id);
  }
  if (ids.size() == 1) return store.run(ids.front()).value();
  if (ids.size() > 1) {
    throw_several("several runs' ids begin with '" + base::printable(name) + "'", ids);
  }
  const auto suggestion = base::closest(name, store.ids_and_names_near(name));
  throw base::Error(base::Code::NotFound, "no run '" + base::printable(name.substr(0, 100)) + "'" +
                                              (suggestion ? "; did you mean '" + *suggestion + "'?"
                                                          : "; 'regatta ls' lists the runs"));
}

void refuse(const runs::Run& run, const std::string& why) {
  throw base::Error(base::Code::Conflict, "run " + run.id + " " + why);
}

}  // namespace regatta::orchestrator::control
