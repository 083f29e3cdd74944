#include "orchestrator/api/experiment_api.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/answer_fields.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/control/request_error.h"
#include "orchestrator/experiments/layout_table.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "orchestrator/experiments/table_text.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMarkdownType = "text/markdown; charset=utf-8";

std::vector<store::TaggedRun> members_of(std::vector<store::TaggedRun> runs) {
  std::erase_if(runs, [](const store::TaggedRun& run) {
    return !experiments::is_whole(experiments::read_tags(run.tags));
  });
  return runs;
}

// Newest first. Anybody may give a run such a tag: an experiment's runs have the others, too.
std::vector<std::string> experiment_ids(store::StoreReads& store) {
  const std::string prefix = experiments::experiment_tag("");
  std::vector<store::TagUse> uses = store.tags_with_prefix(prefix);
  std::erase_if(uses, [&](const store::TagUse& use) {
    if (!experiments::is_experiment_id(use.tag.substr(prefix.size()))) return true;
    return !experiments::is_whole(experiments::read_tags(use.tags)) &&
           members_of(store.runs_tagged(use.tag, kMostExperimentRuns)).empty();
  });
  std::stable_sort(uses.begin(), uses.end(),
                   [](const auto& a, const auto& b) { return a.created_utc > b.created_utc; });
  std::vector<std::string> ids;
  ids.reserve(uses.size());
  for (const store::TagUse& use : uses) ids.push_back(use.tag.substr(prefix.size()));
  return ids;
}

// Of the run file: what a run's name has before "-LAYOUT-sSEED"; empty where it ends otherwise.
std::string file_name(const store::TaggedRun& run) {
  const std::string layout = "-" + experiments::read_tags(run.tags).layout_name + "-s";
  const std::size_t end = run.name.rfind(layout);
  if (end == std::string::npos) return "";
  const std::string_view seed = std::string_view(run.name).substr(end + layout.size());
  const bool digits = !seed.empty() && seed.find_first_not_of("0123456789") == seed.npos;
  return digits ? run.name.substr(0, end) : "";
}

Json summary_json(const std::string& id, const std::vector<store::TaggedRun>& runs) {
  int planned = 0, finished = 0;
  double begun = runs.front().created_utc, changed = begun;
  std::map<runs::RunState, int> counts;
  std::map<std::string, int> places;  // of layouts in the file, as the newest run has it
  for (const store::TaggedRun& run : runs) {
    const experiments::RunTags tags = experiments::read_tags(run.tags);
    planned = std::max(planned, tags.runs);
    if (tags.layout > 0) places[tags.layout_name] = tags.layout;
    ++counts[run.state];
    finished += runs::is_over(run.state) ? 1 : 0;
    begun = std::min(begun, run.created_utc);
    for (const auto& each : {std::optional(run.created_utc), run.started_utc, run.ended_utc}) {
      changed = std::max(changed, each.value_or(0));
    }
  }
  Json json{{"id", id},
            {"name", text_or_null(file_name(runs.front()))},
            {"planned", planned > 0 ? Json(planned) : Json()},
            {"runs", runs.size()},
            {"finished", finished},
            {"states", Json::object()},
            {"layouts", Json::array()},
            {"begun", moment(begun)},
            {"changed", moment(changed)}};
  for (const auto& [state, count] : counts) json["states"][runs::name_of(state)] = count;
  // A layout that was put between others has the place that another one's first runs had.
  std::multimap<int, std::string> layouts;
  for (const auto& [name, place] : places) layouts.emplace(place, name);
  for (const auto& [place, name] : layouts) json["layouts"].push_back(name);
  return json;
}

Json table_of(ExperimentReader& reader, store::Store& store, const std::string& id) {
  auto runs = experiments::is_experiment_id(id) ? reader.runs(store, id)
                                                : std::vector<experiments::ExperimentRun>();
  if (runs.empty()) {
    throw base::Error(base::Code::NotFound,
                      "no run has the tag " +
                          base::printable(experiments::experiment_tag(id).substr(0, 100)) +
                          "; `regatta experiment parallel` says the id when it begins");
  }
  return experiments::layout_table(id, std::move(runs));
}

}  // namespace

Response list_experiments(store::Store& store, const Call& call) {
  const auto limit = static_cast<std::size_t>(call.integer("limit"));
  const std::string after = call.text("after").value_or("");
  store::Snapshot snapshot = store.snapshot();
  const std::vector<std::string> ids = experiment_ids(snapshot);
  auto first = ids.begin();
  if (!after.empty()) {
    first = std::find(ids.begin(), ids.end(), after);
    if (first == ids.end()) {
      throw control::RequestError(base::Code::NotFound,
                                  "there is no experiment " +
                                      base::printable(after.substr(0, 100)) +
                                      " in this list to go on after; begin anew",
                                  "after");
    }
    ++first;
  }
  Json rows = Json::array();
  std::string last;
  for (; first != ids.end() && rows.size() < limit; ++first) {
    last = *first;
    rows.push_back(summary_json(
        last,
        members_of(snapshot.runs_tagged(experiments::experiment_tag(last), kMostExperimentRuns))));
  }
  const bool more = first != ids.end();
  return json_response(200, {{"experiments", std::move(rows)},
                             {"total", ids.size()},
                             {"next", more ? Json(last) : Json()}});
}

Response show_experiment(ExperimentReader& reader, store::Store& store, const std::string& id) {
  return json_response(200, table_of(reader, store, id));
}

Response experiment_markdown(ExperimentReader& reader, store::Store& store, const std::string& id) {
  Response response;
  response.content_type = kMarkdownType;
  response.body = experiments::table_markdown(table_of(reader, store, id));
  response.headers["Content-Disposition"] = "attachment; filename=\"experiment-" + id + ".md\"";
  return response;
}

}  // namespace regatta::orchestrator::api
