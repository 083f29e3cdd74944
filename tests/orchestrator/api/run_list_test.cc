// GET /runs against a list that is filtered and sorted here, one run after another; and its
// cursors.
#include "orchestrator/api/run_list.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/runs/labels.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using Query = std::map<std::string, std::string>;
using testing::HasSubstr;

constexpr double kFirst = 1.7e9;

class RunListTest : public testing::Test {
 protected:
  RunListTest() : store_(folder_.path()) {
    std::mt19937 dice(7);
    const auto below = [&](int limit) {
      return static_cast<int>(dice() % static_cast<unsigned>(limit));
    };
    const char* const names[] = {"bert", "bert-large", "Ünïcode", "b", "roberta", "bert%_x"};
    for (int i = 0; i < 120; ++i) {
      store::NewRun made = new_run("run-" + std::to_string(i), kFirst + below(60));
      made.name = names[below(6)];
      made.owner = below(3) == 0 ? "uid 1" : "token";
      for (const char* tag : {"all", "few", "half"}) {
        if (tag[0] == 'a' || below(tag[0] == 'f' ? 20 : 2) == 0) made.tags.emplace_back(tag);
      }
      runs::Run run = *store_.run(store_.add_run(made));
      run.state = static_cast<runs::RunState>(below(8));
      if (runs::is_over(run.state)) run.ended_utc = run.created_utc + below(5);
      if (below(3) == 0) run.summary.time_to_accuracy_seconds = below(4);
      if (run.state == runs::RunState::Failed)
        run.error = below(2) == 0 ? "Disk FULL" : "lost node";
      store_.update_run(run);
      runs::Launch launch;
      launch.number = 1;
      launch.nodes = "n[" + std::to_string(below(4)) + "-4],gpu" + std::to_string(below(2));
      store_.put_launch(run.number, launch);
      nodes_[run.id] = topology::graph::expand_hostlist(launch.nodes);
      if (below(4) == 0) {
        store_.set_archived(run.number, true);
        run.archived = true;
      }
      all_.push_back(run);
    }
  }

  Response ask(const Query& query) {
    Request request;
    request.method = "GET";
    request.path = "/api/v1/runs";
    request.query = query;
    const auto found = find_route(Api::routes(), request, {"runs"});
    if (const auto* refused = std::get_if<Response>(&found)) return *refused;
    return list_runs(store_, std::get<Call>(found), kFirst);
  }
  // Ids of all pages of so many.
  std::vector<std::string> ids(Query query, int page) {
    std::vector<std::string> found;
    query["limit"] = std::to_string(page);
    for (;;) {
      const Json answer = Json::parse(ask(query).body);
      for (const Json& run : answer.at("runs")) found.push_back(run.at("id"));
      if (answer["next"].is_null()) return found;
      EXPECT_EQ(answer["runs"].size(), static_cast<std::size_t>(page));
      query["before"] = answer["next"];
    }
  }

  std::vector<std::string> expected(const Query& query) const {
    const auto value = [&](const char* name) {
      const auto found = query.find(name);
      return found == query.end() ? std::string() : found->second;
    };
    std::vector<runs::Run> left;
    for (const runs::Run& run : all_) {
      const std::string states = "," + value("state") + ",";
      const std::string all = base::lower_case(run.name + "\n" + run.id + "\n" + run.error);
      const bool archived =
          value("archived") == "all" || run.archived == (value("archived") == "true");
      if (!archived) continue;
      if (!value("state").empty() &&
          states.find("," + std::string(runs::name_of(run.state)) + ",") == std::string::npos) {
        continue;
      }
      if (run.name.rfind(value("name"), 0) != 0) continue;
      if (!value("owner").empty() && run.owner != value("owner")) continue;
      const auto has = [](const std::vector<std::string>& list, const std::string& one) {
        return std::find(list.begin(), list.end(), one) != list.end();
      };
      if (!value("node").empty() && !has(nodes_.at(run.id), value("node"))) continue;
      const std::vector<std::string> tags = base::split(value("tag"), ',');
      if (!value("tag").empty() && !std::all_of(tags.begin(), tags.end(), [&](const auto& tag) {
            return has(run.tags, tag);
          })) {
        continue;
      }
      if (all.find(base::lower_case(value("text"))) == std::string::npos) continue;
      if (!value("since").empty() && run.created_utc < *parse_moment(value("since"))) continue;
      if (!value("until").empty() && run.created_utc >= *parse_moment(value("until"))) continue;
      left.push_back(run);
    }
    constexpr double kNever = 1e300;
    const std::string sort = value("sort").empty() ? "created" : value("sort");
    const auto key = [&](const runs::Run& run) {
      return sort == "created" ? run.created_utc
             : sort == "ended" ? run.ended_utc.value_or(kNever)
             : sort == "name"  ? 0
                               : run.summary.time_to_accuracy_seconds.value_or(kNever);
    };
    std::sort(left.begin(), left.end(), [&](const runs::Run& a, const runs::Run& b) {
      const std::string name_a = sort == "name" ? a.name : "",
                        name_b = sort == "name" ? b.name : "";
      return std::tuple(key(a), name_a, a.number) < std::tuple(key(b), name_b, b.number);
    });
    if (value("order") != "ascending") std::reverse(left.begin(), left.end());
    std::vector<std::string> found;
    for (const runs::Run& run : left) found.push_back(run.id);
    return found;
  }

  const tests::TemporaryDirectory folder_;
  store::Store store_;
  std::vector<runs::Run> all_;
  std::map<std::string, std::vector<std::string>> nodes_;
};

// So that spans that follow each other have every run once.
TEST_F(RunListTest, ASpanHasItsFirstMomentAndNotItsLast) {
  const auto moment = [](double utc) {
    const auto seconds = static_cast<std::time_t>(utc);
    char text[32];
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&seconds, &parts));
    return std::string(text);
  };
  std::size_t found = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> of_this_second;
    for (const runs::Run& run : all_) {
      if (run.created_utc == kFirst + i) of_this_second.push_back(run.id);
    }
    EXPECT_THAT(
        ids({{"archived", "all"}, {"since", moment(kFirst + i)}, {"until", moment(kFirst + i + 1)}},
            100),
        testing::UnorderedElementsAreArray(of_this_second));
    found += of_this_second.size();
  }
  EXPECT_EQ(found, all_.size());
}

TEST_F(RunListTest, FiltersAndSortsPageByPage) {
  const std::string middle = base::iso8601(kFirst + 30).substr(0, 19) + "Z";
  const std::vector<Query> filters = {{},
                                      {{"state", "failed"}},
                                      {{"state", "failed,running,queued"}},
                                      {{"archived", "all"}},
                                      {{"archived", "true"}},
                                      {{"name", "bert"}},
                                      {{"name", "bert%"}},
                                      {{"name", "Ü"}},
                                      {{"text", "disk full"}},
                                      {{"text", "RUN-1"}},
                                      {{"text", "%"}},
                                      {{"tag", "all"}},
                                      {{"tag", "few"}},
                                      {{"tag", "half,all"}, {"archived", "all"}},
                                      {{"tag", "all,few"}},
                                      {{"tag", "none"}},
                                      {{"owner", "uid 1"}},
                                      {{"owner", "uid 2"}},
                                      {{"node", "n1"}},
                                      {{"node", "gpu1"}, {"owner", "token"}, {"tag", "half"}},
                                      {{"node", "gpu"}},
                                      {{"text", "no such words"}},
                                      {{"since", middle}},
                                      {{"until", middle}},
                                      {{"since", middle}, {"until", middle}},
                                      {{"state", "failed"},
                                       {"text", "node"},
                                       {"archived", "all"},
                                       {"name", "b"},
                                       {"since", "2020-01-01"}}};
  for (const Query& filter : filters) {
    for (const char* const sort : {"", "created", "ended", "time_to_accuracy", "name"}) {
      for (const char* const order : {"", "ascending", "descending"}) {
        Query query = filter;
        if (*sort != '\0') query["sort"] = sort;
        if (*order != '\0') query["order"] = order;
        const std::vector<std::string> want = expected(query);
        EXPECT_EQ(ids(query, 1000), want) << Json(query).dump();
        EXPECT_EQ(ids(query, 7), want) << Json(query).dump();
        query["total"] = "true";
        query["limit"] = "1";
        EXPECT_EQ(Json::parse(ask(query).body)["total"], want.size()) << Json(query).dump();
      }
    }
  }
}

TEST_F(RunListTest, ARowIsSlimUnlessAllIsAskedFor) {
  const Json slim = Json::parse(ask({{"limit", "1"}}).body)["runs"][0];
  const Json full = Json::parse(ask({{"limit", "1"}, {"full", "true"}}).body)["runs"][0];
  EXPECT_LT(slim.size() + 20, full.size());
  EXPECT_EQ(slim, slim_row(full));
  for (const char* const key : {"config", "warnings", "slurm"}) EXPECT_FALSE(full.contains(key));
  EXPECT_FALSE(slim.contains("directory"));
  EXPECT_FALSE(Json::parse(ask({}).body).contains("total")) << "it costs";
}

TEST(Moments, AreTheApisOwnAndThoseOfRfc3339) {
  constexpr double kNoon = 1764244800;  // 2025-11-27T12:00:00Z
  const std::map<std::string, double> moments{
      {"2025-11-27", kNoon - 43200},
      {"2025-11-27T12:00Z", kNoon},
      {"2025-11-27T12:00:00Z", kNoon},
      {"2025-11-27T12:00:00.258Z", kNoon + 0.258},
      {base::iso8601(kNoon + 0.5), kNoon + 0.5},
      {"2025-11-27T12:00:00+00:00", kNoon},
      {"2025-11-27T07:00:00-05:00", kNoon},
      {"2025-11-27T17:30:00.5+05:30", kNoon + 0.5},
      {"2025-11-28T01:00:00 13:00", kNoon},  // a plus that was not sent as %2B
      {"2025-11-27T12:00-00:00", kNoon}};
  for (const auto& [text, utc] : moments) {
    ASSERT_TRUE(parse_moment(text)) << text;
    EXPECT_NEAR(*parse_moment(text), utc, 1e-5) << text;
  }
  for (const std::string text :
       {"", "2025-11-27Z", "2025-11-27+00:00", "2025-11-27T12:00:00", "2025-11-27T12:00:00.Z",
        "2025-11-27T12:00.5Z", "2025-11-27T12:00:00+24:00", "2025-11-27T12:00:00+00:60",
        "2025-11-27T12:00:00+0000", "2025-11-27T12:00:00+5:00", "2025-11-27T12:00:00.5",
        "2025-11-27T12:00:00ZZ", "2025-11-27T12:00:00.-1Z", "2025-02-30T12:00:00.5Z"}) {
    EXPECT_FALSE(parse_moment(text)) << text;
  }
}

TEST_F(RunListTest, RefusesWhatIsNone) {
  const std::string cursor = Json::parse(ask({{"limit", "1"}}).body)["next"];
  const std::string many_tags =
      base::join(std::vector<std::string>(runs::kMostTags + 1, "all"), ",");
  struct Bad {
    Query query;
    const char* parameter;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {{{"state", "failed,"}}, "state", "one or more of queued, starting"},
           {{{"state", ""}}, "state", "one or more of"},
           {{{"state", "Failed"}}, "state", "state is 'Failed'"},
           {{{"limit", "1001"}}, "limit", "a whole number from 1 to 1000"},
           {{{"since", "yesterday"}}, "since", "2026-11-27T10:30:00Z"},
           {{{"since", "2026-02-30"}}, "since", "since is '2026-02-30'"},
           {{{"until", "2026-11-27T10:30:00"}}, "until", "a moment such as"},
           {{{"tag", ""}}, "tag", "or leave it out"},
           {{{"tag", ","}}, "tag", "one or more with a comma between each two"},
           {{{"tag", "all,"}}, "tag", "tag is 'all,'"},
           {{{"sort", "size"}}, "sort", "one of created, ended, time_to_accuracy, name"},
           {{{"order", "up"}}, "order", "descending, ascending"},
           {{{"total", "yes"}}, "total", "true or false"},
           {{{"tag", many_tags}}, "tag", "33 tags; name at most 32"},
           {{{"offset", "1"}}, "offset", "unknown query parameter 'offset'; use state, archived"},
           {{{"before", "x"}}, "before", "the `next` of an answer to the same query"},
           {{{"before", cursor + "x"}}, "before", "before is"},
           {{{"before", cursor}, {"sort", "name"}}, "before", "the same query"},
           {{{"before", cursor}, {"order", "ascending"}}, "before", "the same query"},
           {{{"before", cursor}, {"text", "bert"}}, "before", "the same query"}}) {
    const Response answer = ask(bad.query);
    EXPECT_EQ(answer.status, 400) << Json(bad.query).dump();
    EXPECT_EQ(answer.content_type, "application/problem+json");
    const Json problem = Json::parse(answer.body);
    EXPECT_EQ(problem["parameter"], bad.parameter);
    EXPECT_THAT(problem["detail"].get<std::string>(), HasSubstr(bad.message));
  }
}

TEST_F(RunListTest, ACursorIsOfItsFilters) {
  const Query filtered{{"state", "queued,failed"}, {"tag", "all,half"}};
  const auto next = [&](Query query) {
    query["limit"] = "1";
    return Json::parse(ask(query).body)["next"].get<std::string>();
  };
  const auto status = [&](Query query, const std::string& cursor) {
    query["before"] = cursor;
    return ask(query).status;
  };
  const std::string cursor = next(filtered);
  EXPECT_EQ(status(filtered, cursor), 200);
  Query same = filtered;
  same["state"] = "failed,queued";
  same["tag"] = "half,all";
  for (const char* const name : {"full", "total"}) same[name] = "true";
  EXPECT_EQ(status(same, cursor), 200) << "the same runs in the same order";
  EXPECT_EQ(status({}, cursor), 400);
  EXPECT_EQ(status(filtered, next({})), 400);
  for (const auto& [name, value] : Query{{"state", "failed"},
                                         {"tag", "all"},
                                         {"archived", "all"},
                                         {"name", "b"},
                                         {"text", "b"},
                                         {"owner", "token"},
                                         {"node", "n4"},
                                         {"since", "2020-01-01"},
                                         {"until", "2100-01-01"}}) {
    Query other = filtered;
    other[name] = value;
    EXPECT_EQ(status(other, cursor), 400) << name;
  }
}

TEST(RunCursor, IsReadBackAndNothingElse) {
  for (const auto sort : {store::RunSort::Created, store::RunSort::Ended,
                          store::RunSort::TimeToAccuracy, store::RunSort::Name}) {
    for (const auto order : {store::SortOrder::Ascending, store::SortOrder::Descending}) {
      store::RunFilter filter;
      filter.sort = sort;
      filter.order = order;
      const bool by_name = sort == store::RunSort::Name;
      std::vector<store::ListPlace> places;
      if (by_name) places = {{std::string(), 1}, {std::string("a-b\n\xC3\xA4"), 1LL << 62}};
      if (!by_name) places = {{0.0, 0}, {-1.5, 7}, {9e99, 1LL << 62}, {1.7e9 + 1e-6, 3}};
      for (const store::ListPlace& place : places) {
        const std::string text = cursor_text(filter, place);
        ASSERT_TRUE(parse_cursor(filter, text)) << text;
        EXPECT_EQ(*parse_cursor(filter, text), place) << text;
        for (std::size_t i = 0; i < text.size(); ++i) {
          EXPECT_FALSE(parse_cursor(filter, text.substr(0, i) + "g" + text.substr(i + 1))) << text;
        }
        for (const std::string& bad :
             {text + "0", text + "-", " " + text, text.substr(1), "0" + text}) {
          const auto read = parse_cursor(filter, bad);
          EXPECT_TRUE(!read || cursor_text(filter, *read) == bad) << bad;
        }
      }
      for (const char* const bad : {"", "-", "cd-", "cd-1", "--", "cd7ff0000000000000-1", "cdnan-1",
                                    "cd41d9-99999999999999999"}) {
        EXPECT_FALSE(parse_cursor(filter, bad)) << bad;
      }
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator::api
