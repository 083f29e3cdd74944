// Pages of a store that are damaged on the disk: what is told, by whom and when.
#include "orchestrator/store/integrity.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/api/api.h"
#include "tests/orchestrator/store/filled_store.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using store::Database;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

class DamagedStore : public testing::Test {
 protected:
  DamagedStore() { tests::fill_store(state(), {2000, 5, 20000, folder_.path() / "runs"}); }

  base::Path state() const { return folder_.path() / "state"; }
  base::Path file() const { return state() / "store.sqlite"; }
  std::int64_t number(const std::string& sql) {
    Database database(file(), Database::Access::ReadOnly);
    store::Statement ask = database.prepare(sql);
    return ask.step() ? ask.integer(0) : 0;
  }
  // Overwrites what a page begins with, as a disk does that loses a sector.
  void damage_page(std::int64_t page) {
    const std::int64_t size = number("PRAGMA page_size");
    std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp((page - 1) * size);
    out << std::string(512, '\x5a');
  }
  // The root page of a table or an index.
  std::int64_t root_of(const std::string& name) {
    return number("SELECT rootpage FROM sqlite_schema WHERE name = '" + name + "'");
  }
  std::string refusal() {
    try {
      const store::Store store(state());
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::Operator);
      return error.what();
    }
    return "";
  }
  static std::string looked_at(store::Store& store) {
    store.check_beside();
    EXPECT_TRUE(tests::eventually([&] { return store.integrity().done; }));
    return store.integrity().damage;
  }

  tests::TemporaryDirectory folder_;
};

TEST_F(DamagedStore, ASoundOneIsFoundSound) {
  store::Store store(state());
  EXPECT_EQ(looked_at(store), "");
}

TEST_F(DamagedStore, IsRefusedWhereItCannotBeOpened) {
  damage_page(1);
  EXPECT_THAT(refusal(), HasSubstr("the store is damaged"));
  EXPECT_THAT(refusal(), HasSubstr("regatta restore FILE"));
  EXPECT_THAT(refusal(), HasSubstr("move the store away (store.sqlite*)"));
  EXPECT_THAT(refusal(), testing::Not(HasSubstr("\n")));
}

TEST_F(DamagedStore, IsRefusedWhereItsRunsCannotBeRead) {
  damage_page(root_of("runs"));
  EXPECT_THAT(refusal(), HasSubstr("the store is damaged"));
}

TEST_F(DamagedStore, IsToldOfInPagesThatNobodyHasAskedFor) {
  damage_page(root_of("evaluations_of_run"));
  store::Store store(state());
  const std::string damage = looked_at(store);
  EXPECT_THAT(damage, HasSubstr("the store is damaged (table evaluations: "));
  EXPECT_THAT(damage, HasSubstr("regatta restore FILE"));
  EXPECT_THAT(damage, testing::Not(HasSubstr("\n")));

  tests::SimulatedClock clock;
  tests::ScriptedScheduler scheduler;
  control::ControllerOptions options;
  options.runs_directory = folder_.path() / "runs";
  control::Controller controller(base::posix_file_system(), clock, store, scheduler, options);
  api::Api api(controller, base::posix_file_system(), clock, api::ApiOptions{folder_.path()});
  api::Request request;
  request.method = "GET";
  request.path = "/api/v1/health";
  const Json health = Json::parse(api.handle(request).body);
  EXPECT_EQ(health["status"], "degraded");
  EXPECT_EQ(health["checks"][0]["good"], false);
  EXPECT_EQ(health["checks"][0]["detail"], damage);
  request.path = "/api/v1/runs";
  EXPECT_EQ(api.handle(request).status, 200) << "what can be read is served";
}

// A read that fails says nothing of its pages: nobody is to replace it for that.
TEST_F(DamagedStore, WhatCannotBeLookedAtIsNotDamaged) {
  // What a reader has to look into first cannot be read: for SQLite, an I/O error.
  std::filesystem::create_directory(file().string() + "-journal");
  store::IntegrityCheck check(file());
  ASSERT_TRUE(tests::eventually([&] { return check.result().done; }));
  EXPECT_EQ(check.result().damage, "");
  EXPECT_THAT(check.result().unchecked, HasSubstr("the pages of the store were not checked: "));
  EXPECT_THAT(check.result().unchecked, testing::Not(HasSubstr("\n")));
}

TEST_F(DamagedStore, EndsAtOnceWhateverIsLeftToLookAt) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    store::Store store(state());
    store.check_beside();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace regatta::orchestrator
