#include "orchestrator/site/site_defaults.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process.h"
#include "tests/orchestrator/control/controller_fixture.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

std::string error_of(const std::function<void()>& act, base::Code code) {
  try {
    act();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

std::vector<std::string> paths_of(const std::vector<site::DefaultsPlace>& places) {
  std::vector<std::string> paths;
  for (const site::DefaultsPlace& place : places) {
    paths.push_back(place.path.string() + (place.must_exist ? "!" : ""));
  }
  return paths;
}

TEST(DefaultsPlaces, AreTheUsersBeforeTheSites) {
  site::ProgramEnvironment environment;
  EXPECT_THAT(paths_of(site::defaults_places(environment)),
              ElementsAre("/etc/regatta/config.yaml"));
  environment.home = "/home/u";
  EXPECT_THAT(paths_of(site::defaults_places(environment)),
              ElementsAre("/home/u/.config/regatta/config.yaml", "/etc/regatta/config.yaml"));
  environment.whole = {{"XDG_CONFIG_HOME", "/x"}, {"REGATTA_SITE_CONFIG", "/opt/regatta.yaml"}};
  EXPECT_THAT(paths_of(site::defaults_places(environment)),
              ElementsAre("/x/regatta/config.yaml", "/opt/regatta.yaml!"));
  environment.whole = {{"REGATTA_CONFIG", "/mine.yaml"}, {"REGATTA_SITE_CONFIG", ""}};
  EXPECT_THAT(paths_of(site::defaults_places(environment)), ElementsAre("/mine.yaml!"));
}

class Defaults : public testing::Test {
 protected:
  base::Path write(const std::string& name, const std::string& text) {
    tests::write_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  static std::vector<site::DefaultsFile> read(const std::vector<base::Path>& paths) {
    std::vector<site::DefaultsPlace> places;
    for (const base::Path& path : paths) places.push_back({path, false});
    return site::read_defaults(places);
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(Defaults, FilesThatAreNotThereSayNothing) {
  const base::Path here = write("here.yaml", "slurm: {partition: p}\n");
  const auto files = read({folder_.path() / "absent.yaml", here});
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, here);
  EXPECT_THAT(files[0].slurm_keys, ElementsAre("partition"));
  EXPECT_TRUE(read({write("empty.yaml", "\n# partition: later\n")})[0].slurm_keys.empty());
  EXPECT_THAT(error_of(
                  [&] {
                    (void)site::read_defaults({{folder_.path() / "absent.yaml", true}});
                  },
                  base::Code::Operator),
              HasSubstr("absent.yaml"));
}

TEST_F(Defaults, NameFileLineAndKeyOfWhatIsWrong) {
  const auto refusal = [this](const std::string& text) {
    return error_of([&] { (void)read({write("bad.yaml", text)}); }, base::Code::User);
  };
  EXPECT_THAT(refusal("slurm:\n  partitoin: p\n"),
              testing::AllOf(HasSubstr("bad.yaml:2: slurm.partitoin"), HasSubstr("partition")));
  for (const char* key : {"nodes", "ranks_per_node", "gpus_per_rank", "requeue", "defaults"}) {
    EXPECT_THAT(refusal(std::string("slurm: {") + key + ": 2}"), HasSubstr(key)) << key;
  }
  EXPECT_THAT(refusal("runs: relative/runs\n"), HasSubstr("absolute"));
  EXPECT_THAT(refusal("parallel: -1\n"), HasSubstr("parallel"));
  EXPECT_THAT(refusal("metrics: {raw_days: 30, minute_days: 29}\n"),
              testing::AllOf(HasSubstr("metrics.minute_days"), HasSubstr("use 30 to 36500")));
  EXPECT_THAT(refusal("metrics: {raw_days: -1}\n"), HasSubstr("metrics.raw_days"));
  EXPECT_THAT(refusal("exports: {keep_days: -1}\n"),
              testing::AllOf(HasSubstr("exports.keep_days"), HasSubstr("use 0 to 36500")));
  EXPECT_THAT(refusal("exports: {keep_days: 36501}\n"), HasSubstr("exports.keep_days"));
  EXPECT_THAT(refusal("exports: {days: 3}\n"), HasSubstr("exports.days"));
  EXPECT_THAT(refusal("metrics: {raw_day: 1}\n"), HasSubstr("metrics.raw_day"));
  EXPECT_THAT(refusal("steps: 5\n"), HasSubstr("steps"));
  EXPECT_THAT(refusal("slurm: {account: 'a b'}\n"), HasSubstr("account"));
  EXPECT_THAT(refusal("slurm: {gpu_type: 'a100:4'}\n"), HasSubstr("gpu_type"));
}

TEST_F(Defaults, AreReadFromNoFileThatOthersCanWrite) {
  const base::Path open = write("open.yaml", "slurm: {setup: evil}\n");
  ASSERT_EQ(::chmod(open.c_str(), 0666), 0);
  EXPECT_THAT(error_of([&] { (void)read({open}); }, base::Code::Operator),
              HasSubstr("can be written by everybody"));
  ASSERT_EQ(::chmod(open.c_str(), 0644), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(open.c_str(), 1234, 0), 0);
    EXPECT_THAT(error_of([&] { (void)read({open}); }, base::Code::Operator),
                HasSubstr("belongs to user 1234"));
  }
  const base::Path pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW((void)read({pipe}), base::Error) << "and nobody waits for a writer";
}

TEST_F(Defaults, OfTheRunsDirectoryNameItsUser) {
  const std::string name = ::getpwuid(::geteuid())->pw_name;
  const base::Path site = write("site.yaml", "runs: /scratch/%u/runs-%u\n");
  EXPECT_EQ(read({site})[0].runs, "/scratch/" + name + "/runs-" + name);
  site::ProgramEnvironment environment;
  environment.whole = {{"REGATTA_CONFIG", ""}, {"REGATTA_SITE_CONFIG", site.string()}};
  EXPECT_EQ(site::default_runs_directory(environment), "/scratch/" + name + "/runs-" + name);
  environment.runs = "/r";
  EXPECT_EQ(site::default_runs_directory(environment), "/r");
  environment = {};
  environment.whole = {{"REGATTA_CONFIG", ""}, {"REGATTA_SITE_CONFIG", ""}};
  EXPECT_EQ(site::default_runs_directory(environment), std::nullopt);
}

trainer::contract::RunConfig run_of(const std::string& text) {
  return trainer::contract::parse_run_config("data: {path: /d}\n" + text, "f");
}

TEST_F(Defaults, OfTheRunStandBeforeTheUsersAndThoseBeforeTheSites) {
  const base::Path user = write("user.yaml", "slurm: {partition: u, account: u}\n");
  const base::Path site =
      write("site.yaml", "slurm: {partition: s, account: s, qos: s, environment: {A: s, B: s}}\n");
  const auto files = read({user, site});
  const site::FilledRun filled = site::with_defaults(
      run_of("ranks: 8\nranks_per_node: 4\nslurm: {partition: r, environment: {A: r}}"), files);
  EXPECT_EQ(filled.config.slurm->partition, "r");
  EXPECT_EQ(filled.config.slurm->account, "u");
  EXPECT_EQ(filled.config.slurm->qos, "s");
  EXPECT_EQ(filled.config.slurm->environment.at("A"), "r");
  EXPECT_EQ(filled.config.slurm->min_nodes, 2);
  using Origins = std::map<std::string, base::Path>;
  EXPECT_EQ(filled.origins,
            (Origins{{"slurm.account", user}, {"slurm.environment.B", site}, {"slurm.qos", site}}));
  const site::FilledRun bare = site::with_defaults(run_of("ranks: 8\nranks_per_node: 4"), files);
  EXPECT_EQ(bare.config.slurm->partition, "u");
  EXPECT_EQ(bare.config.slurm->max_nodes, 2) << "as without a section";
  EXPECT_EQ(bare.config.slurm->ranks_per_node, 4);
}

TEST_F(Defaults, OfAContainerAreTakenKeyByKey) {
  const auto files =
      read({write("user.yaml", "slurm: {container: {mounts: ['/u:/u']}}\n"),
            write("site.yaml", "slurm: {container: {image: /i, mounts: ['/s:/s']}}\n")});
  const auto container = [&](const std::string& text) {
    return site::with_defaults(run_of(text), files).config.slurm->container;
  };
  EXPECT_EQ(container("").image, "/i");
  EXPECT_THAT(container("").mounts, ElementsAre("/u:/u"));
  EXPECT_THAT(container("slurm: {container: {mounts: ['/r:/r']}}").mounts, ElementsAre("/r:/r"));
  for (const char* alone : {"slurm: {container: {mounts: ['/r:/r']}}",
                            "slurm: {defaults: false, container: {mounts: ['/r:/r']}}"}) {
    EXPECT_THAT(error_of([&] { (void)site::with_defaults(run_of(alone), {}); }, base::Code::User),
                HasSubstr("slurm.container.mounts: needs slurm.container.image"));
  }
}

TEST_F(Defaults, LeaveARunAloneThatWantsNone) {
  const auto files = read({write("site.yaml", "slurm: {partition: s}\n")});
  const trainer::contract::RunConfig run = run_of("slurm: {defaults: false}");
  EXPECT_EQ(trainer::contract::to_json(site::with_defaults(run, files).config),
            trainer::contract::to_json(run));
  const trainer::contract::RunConfig bare = run_of("");
  EXPECT_EQ(trainer::contract::to_json(site::with_defaults(bare, {}).config),
            trainer::contract::to_json(bare));
}

class SubmittedWithDefaults : public ControllerFixture {
 protected:
  SubmittedWithDefaults() : ControllerFixture(1) {}
  void fill_with(const std::string& text) {
    close();
    store_ = std::make_unique<store::Store>(folder_.path() / "state");
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    options.defaults = [text](const trainer::contract::RunConfig& run) {
      return site::with_defaults(run, {site::parse_defaults(text, "/etc/regatta/config.yaml")});
    };
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
    controller_->adopt();
  }
  Json written(const std::string& id) {
    return Json::parse(tests::file_text(folder_.path() / "runs" / id / "run.json"));
  }
};

TEST_F(SubmittedWithDefaults, TheRunsOwnFileHasThemAndKeepsThem) {
  fill_with("slurm: {partition: first}\n");
  const std::string run = controller_->submit(tests::run_file(), "key").run.id;
  EXPECT_EQ(written(run)["slurm"]["partition"], "first");
  // What was asked for is the same, whatever has become of the defaults.
  fill_with("slurm: {partition: second}\n");
  const auto again = controller_->submit(tests::run_file(), "key");
  EXPECT_EQ(again.run.id, run);
  EXPECT_FALSE(again.created);
  EXPECT_EQ(written(run)["slurm"]["partition"], "first");
  lose_the_store();
  EXPECT_EQ(controller_->submit(tests::run_file(), "key").run.id, run);
}

// Each within its limits, and together above the 256 items of a list.
TEST_F(SubmittedWithDefaults, ARunThatIsTooMuchWithThemIsRefused) {
  std::string options;
  for (int i = 0; i < 200; ++i)
    options += std::string(i > 0 ? "," : "") + "--site-x" + std::to_string(i);
  fill_with("slurm: {options: [" + options + "]}\n");
  std::string own;
  for (int i = 0; i < 100; ++i)
    own += std::string(i > 0 ? "," : "") + "--own-x" + std::to_string(i);
  const std::string told = error_of(
      [&] {
        (void)controller_->submit(tests::run_file() + "\nslurm: {options: [" + own + "]}\n", {});
      },
      base::Code::User);
  EXPECT_THAT(told, HasSubstr("defaults of site and user"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "runs") ||
              store_->unfinished_runs().empty());
}

class ConfigShow : public Defaults {
 protected:
  base::Output show(std::vector<std::string> arguments) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "config", "show"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.bare_environment = true;
    command.environment = {{"REGATTA_CONFIG", (folder_.path() / "user.yaml").string()},
                           {"REGATTA_SITE_CONFIG", (folder_.path() / "site.yaml").string()}};
    return base::run(command, 60);
  }
};

TEST_F(ConfigShow, SaysWhatIsSetAndWhere) {
  write("user.yaml", "parallel: 3\nmetrics: {raw_days: 2.5}\nslurm: {account: me}\n");
  write("site.yaml",
        "exports: {keep_days: 14}\n"
        "runs: /r\nwebhooks: [{name: pager, url: 'https://h/secret', kinds: [run], secret_file: "
        "/s}]\n"
        "parallel: 9\nmetrics: {raw_days: 3, minute_days: 100}\nslurm: {account: them, "
        "options: [--licenses=x], "
        "environment: {SECRET: hush}}\n");
  const std::string at = folder_.path().string();
  const base::Output told = show({"--origin"});
  EXPECT_EQ(told.exit.code, 0) << told.errors;
  for (const std::string& row :
       {"runs  /r  " + at + "/site.yaml", "parallel  3  " + at + "/user.yaml",
        "metrics.raw_days  2.5  " + at + "/user.yaml",
        "metrics.minute_days  100.0  " + at + "/site.yaml",
        "exports.keep_days  14.0  " + at + "/site.yaml", "slurm.account  me  " + at + "/user.yaml",
        "webhooks.pager.url  (hidden; --secrets shows it)  " + at + "/site.yaml",
        "webhooks.pager.kinds  [\"run\"]  " + at + "/site.yaml",
        "webhooks.pager.secret_file  /s  " + at + "/site.yaml",
        "slurm.options  [\"--licenses=x\"]  " + at + "/site.yaml",
        "slurm.environment.SECRET  (hidden; --secrets shows it)  " + at + "/site.yaml"}) {
    std::string text;  // one line, its columns two blanks apart
    for (const char c : told.text) {
      if (c != ' ' || text.size() < 2 || text.substr(text.size() - 2) != "  ") text += c;
    }
    EXPECT_THAT(text, HasSubstr(row));
  }
  EXPECT_THAT(told.text, Not(HasSubstr("hush")));
  EXPECT_THAT(show({}).text, Not(HasSubstr("site.yaml")));
  EXPECT_THAT(show({"--secrets", "-o", "json"}).text, HasSubstr("hush"));
}

TEST_F(ConfigShow, SaysWhatARunFileComesTo) {
  write("user.yaml", "slurm: {partition: u, options: [--nice=1, --licenses=x]}\n");
  write("site.yaml", "# nothing yet\n");
  const base::Path run =
      write("run.yaml", "data: {path: d}\nsteps: 7\nslurm: {account: mine, options: [--nice=2]}\n");
  const base::Output told = show({run.string(), "--origin", "-o", "json"});
  ASSERT_EQ(told.exit.code, 0) << told.errors;
  std::map<std::string, std::pair<Json, std::string>> rows;
  for (const Json& row : Json::parse(told.text)) {
    rows[row["key"]] = {row["value"], row["origin"]};
  }
  const std::string user = (folder_.path() / "user.yaml").string();
  using Row = std::pair<Json, std::string>;
  EXPECT_EQ(rows["steps"], Row(7, run.string()));
  EXPECT_EQ(rows["data.path"], Row("d", run.string()));
  EXPECT_EQ(rows["seed"].second, "default");
  EXPECT_EQ(rows["slurm.account"], Row("mine", run.string()));
  EXPECT_EQ(rows["slurm.partition"], Row("u", user));
  EXPECT_EQ(rows["slurm.options"],
            Row(Json::array({"--nice=2", "--licenses=x"}), run.string() + ", " + user));
  EXPECT_EQ(rows["slurm.requeue"], Row(true, "default"));
}

TEST_F(ConfigShow, SaysWhatIsWrongInOneLine) {
  write("user.yaml", "slurm: {partition: [}\n");
  write("site.yaml", "");
  const base::Output told = show({});
  EXPECT_EQ(told.exit.code, 7);
  EXPECT_EQ(std::count(told.errors.begin(), told.errors.end(), '\n'), 1) << told.errors;
  EXPECT_THAT(told.errors, HasSubstr("user.yaml:1"));
  write("user.yaml", "");
  EXPECT_THAT(show({}).errors, HasSubstr("nothing is set in"));
}

}  // namespace
}  // namespace regatta::orchestrator
