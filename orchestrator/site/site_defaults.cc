#include "orchestrator/site/site_defaults.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/document.h"
#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/wording.h"

namespace regatta::orchestrator::site {
namespace {

constexpr const char* kSiteFile = "/etc/regatta/config.yaml";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20U;
constexpr int kMostParallel = 100'000;
constexpr double kMostDays = 36'500;

std::optional<DefaultsPlace> named_by(const ProgramEnvironment& environment, const char* variable,
                                      const std::optional<base::Path>& otherwise) {
  const auto found = environment.whole.find(variable);
  if (found == environment.whole.end()) {
    return otherwise ? std::optional(DefaultsPlace{*otherwise, false}) : std::nullopt;
  }
  if (found->second.empty()) return std::nullopt;
  return DefaultsPlace{found->second, true};
}

std::optional<base::Path> user_file(const ProgramEnvironment& environment) {
  const auto config_home = environment.whole.find("XDG_CONFIG_HOME");
  if (config_home != environment.whole.end() && !config_home->second.empty()) {
    return base::Path(config_home->second) / "regatta" / "config.yaml";
  }
  if (environment.home && !environment.home->empty()) {
    return base::Path(*environment.home) / ".config" / "regatta" / "config.yaml";
  }
  return std::nullopt;
}

// `setup` is a shell of whoever's runs it is read for.
void check_owner(const struct stat& status, const std::string& path) {
  const bool own = status.st_uid == ::geteuid() || status.st_uid == 0;
  if (own && (status.st_mode & S_IWOTH) == 0) return;
  throw base::Error(base::Code::Operator,
                    path + (own ? " can be written by everybody, and what it says runs in your "
                                  "jobs; chmod o-w it"
                                : " belongs to user " + std::to_string(status.st_uid) +
                                      ", and what it says would run in your jobs; it must be your "
                                      "own or root's"));
}

// What is looked at is what is read; nobody waits for the writer of a pipe. Nothing where there is
// no such file.
std::optional<std::string> read_file(const base::Path& path) {
  const std::string name = base::printable(path.string());
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!fd.valid()) base::throw_errno(errno, "cannot read " + name);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) base::throw_errno(errno, "cannot look at " + name);
  if (!S_ISREG(status.st_mode)) {
    throw base::Error(base::Code::Operator, name + " is not a regular file; replace it");
  }
  check_owner(status, name);
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) base::throw_errno(errno, "cannot read " + name);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > kMostBytes) {
    throw base::Error(base::Code::User,
                      name + " has more than 1 MiB, which no file of defaults has");
  }
  text.resize(size);
  return text;
}

// Blank lines and comments only, as in a file that somebody has yet to fill in.
bool says_nothing(const std::string& text) {
  for (const std::string& line : base::split(text, '\n')) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string::npos && line[begin] != '#') return false;
  }
  return true;
}

// "%u" is the user's name, so that a site's file can say it for everybody.
std::string with_user_name(std::string text) {
  for (std::size_t at = text.find("%u"); at != std::string::npos; at = text.find("%u", at)) {
    const std::string name = base::user_name();
    text.replace(at, 2, name);
    at += name.size();
  }
  return text;
}

void read_runs(base::Table& table, std::string* runs) {
  table.read("runs", runs);
  if (runs->empty()) return;
  *runs = with_user_name(*runs);
  if (base::Path(*runs).is_absolute()) return;
  table.fail("runs", "is '" + base::printable(*runs) +
                         "'; use an absolute path, in which %u stands for the user's name");
}

void read_metrics(base::Table table, MetricsDefaults* metrics) {
  double shortest = 0;
  for (const auto& [key, days] : {std::pair{"raw_days", &metrics->raw_days},
                                  {"ten_second_days", &metrics->ten_second_days},
                                  {"minute_days", &metrics->minute_days}}) {
    table.read(key, days);
    if (!*days) continue;
    if (**days < shortest || **days > kMostDays) {
      table.fail(key, "is " + base::short_number(**days, 8) + "; use " +
                          base::short_number(shortest, 8) + " to " +
                          base::short_number(kMostDays, 8) +
                          " days, and no fewer than for what is finer");
    }
    shortest = **days;
  }
  table.finish();
}

void read_exports(base::Table table, ExportDefaults* exports) {
  table.read("keep_days", &exports->keep_days);
  if (exports->keep_days && (*exports->keep_days < 0 || *exports->keep_days > kMostDays)) {
    table.fail("keep_days", "is " + base::short_number(*exports->keep_days, 8) + "; use 0 to " +
                                base::short_number(kMostDays, 8) + " days");
  }
  table.finish();
}

void read_webhooks(base::Table& table, std::vector<WebhookSetting>* webhooks) {
  for (base::Table& each : table.tables("webhooks")) {
    WebhookSetting webhook;
    std::string secret_file;
    each.read("name", &webhook.name);
    each.read("url", &webhook.url);
    each.read("kinds", &webhook.kinds);
    each.read("secret_file", &secret_file);
    each.read("allow_private", &webhook.allow_private);
    each.finish();
    webhook.secret_file = with_user_name(secret_file);
    try {
      check_webhook(webhook);
    } catch (const base::Error& error) {
      each.fail("name", error.what());
    }
    webhooks->push_back(std::move(webhook));
  }
}

}  // namespace

void check_webhook(const WebhookSetting& webhook) {
  constexpr std::size_t kLongestName = 64;
  constexpr const char* kNameLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  const auto refuse = [](const std::string& why) { throw base::Error(base::Code::User, why); };
  if (webhook.name.empty() || webhook.name.size() > kLongestName ||
      webhook.name.find_first_not_of(kNameLetters) != std::string::npos) {
    refuse("a webhook's name is '" + base::printable(webhook.name) +
           "'; use 1 to 64 letters, digits, '.', '_' and '-'");
  }
  if (webhook.url.empty()) refuse("webhook " + webhook.name + " has no url");
  if (!webhook.secret_file.is_absolute()) {
    refuse("webhook " + webhook.name +
           " needs a secret_file, the absolute path of a file of mode 0600 with at least 16 "
           "characters");
  }
}

std::vector<DefaultsPlace> defaults_places(const ProgramEnvironment& environment) {
  std::vector<DefaultsPlace> places;
  for (const auto& place : {named_by(environment, "REGATTA_CONFIG", user_file(environment)),
                            named_by(environment, "REGATTA_SITE_CONFIG", kSiteFile)}) {
    if (place) places.push_back(*place);
  }
  return places;
}

DefaultsFile parse_defaults(const std::string& text, const base::Path& path) {
  DefaultsFile file;
  file.path = path;
  if (says_nothing(text)) return file;
  base::Table table = base::Table::parse(text, base::printable(path.string()));
  read_runs(table, &file.runs);
  table.read("parallel", &file.parallel);
  if (file.parallel < 0 || file.parallel > kMostParallel) {
    table.fail("parallel", "is " + std::to_string(file.parallel) + "; use 1 to " +
                               std::to_string(kMostParallel) + ", or 0 for no limit of the file's");
  }
  read_metrics(table.table("metrics"), &file.metrics);
  read_exports(table.table("exports"), &file.exports);
  read_webhooks(table, &file.webhooks);
  file.slurm = trainer::contract::read_slurm_defaults(table);
  table.finish();
  (void)trainer::contract::with_slurm_defaults({}, file.slurm, &file.slurm_keys);
  return file;
}

std::vector<DefaultsFile> read_defaults(const std::vector<DefaultsPlace>& places) {
  std::vector<DefaultsFile> files;
  for (const DefaultsPlace& place : places) {
    if (const auto text = read_file(place.path)) {
      files.push_back(parse_defaults(*text, place.path));
    } else if (place.must_exist) {
      throw base::Error(base::Code::Operator,
                        "there is no " + base::printable(place.path.string()) +
                            "; REGATTA_CONFIG and REGATTA_SITE_CONFIG name files of defaults, or "
                            "are empty for none");
    }
  }
  return files;
}

FilledRun with_defaults(trainer::contract::RunConfig config,
                        const std::vector<DefaultsFile>& files) {
  FilledRun filled{std::move(config), {}};
  const bool takes = !filled.config.slurm || filled.config.slurm->defaults;
  trainer::contract::SlurmResources resources =
      trainer::contract::slurm_resources_of(filled.config);
  for (const DefaultsFile& file : files) {
    std::vector<std::string> keys;
    if (takes)
      resources = trainer::contract::with_slurm_defaults(std::move(resources), file.slurm, &keys);
    for (const std::string& key : keys) filled.origins["slurm." + key] = file.path;
  }
  if (!filled.origins.empty()) {
    filled.config.slurm = std::move(resources);
    // Each is within its limits, and together they may not be.
    filled.config = trainer::contract::parse_run_config(
        trainer::contract::to_json(filled.config), "run file with the defaults of site and user");
  }
  const auto& slurm = filled.config.slurm;
  if (slurm && slurm->container.image.empty() && !slurm->container.mounts.empty()) {
    throw base::Error(base::Code::User,
                      "slurm.container.mounts: needs slurm.container.image, which neither the run "
                      "file nor the files of site and user name");
  }
  return filled;
}

std::optional<base::Path> default_runs_directory(const ProgramEnvironment& environment) {
  if (environment.runs && !environment.runs->empty()) return *environment.runs;
  for (const DefaultsFile& file : read_defaults(defaults_places(environment))) {
    if (!file.runs.empty()) return file.runs;
  }
  return std::nullopt;
}

}  // namespace regatta::orchestrator::site
