#include "orchestrator/control/run_lookup.h"

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::control {

runs::Run find_run(store::StoreReads& store, const std::string& name) {
  if (auto run = store.run(name)) return *run;
  const std::vector<runs::Run> named = store.runs_named(name);
  if (named.size() == 1) return named.front();
  if (named.size() > 1) {
    throw base::Error(base::Code::NotFound, "several runs are called '" + base::printable(name) +
                                                "'; name one by its id: " + named[0].id + ", " +
                                                named[1].id + (named.size() > 2 ? ", …" : ""));
  }
  const auto suggestion = base::closest(name, store.ids_and_names_near(name));
  throw base::Error(base::Code::NotFound, "no run '" + base::printable(name.substr(0, 100)) + "'" +
                                              (suggestion ? "; did you mean '" + *suggestion + "'?"
                                                          : "; 'regatta ls' lists the runs"));
}

}  // namespace regatta::orchestrator::control
