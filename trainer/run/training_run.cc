#include "trainer/run/training_run.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "trainer/plugins/environment.h"
#include "trainer/plugins/rank_group.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/run/attempt.h"
#include "trainer/run/journal_writer.h"

namespace regatta::trainer::run {
namespace {

// A network file system may show a new directory late.
constexpr int kDirectoryLooks = 100;
constexpr auto kDirectoryLook = std::chrono::milliseconds(100);

contract::EndRecord failure(contract::ExitCode code, const std::string& reason,
                            const std::string& message) {
  contract::EndRecord end;
  end.reason = reason;
  end.exit_code = static_cast<int>(code);
  end.message = message;
  return end;
}

// Who writes under which name and epoch: rank 0 takes both, the others get them from it.
struct Identity {
  contract::AttemptName name;
  std::int64_t epoch = 0;
};

Identity take_identity(contract::RunDirectory& directory, ranks::HostCollectives& host) {
  Identity identity;
  ranks::run_on_all_ranks(host, [&] {
    if (host.rank() != 0) return;
    identity.name = directory.create_attempt();
    identity.epoch = directory.take_epoch();
  });
  const std::string name =
      ranks::text_of_rank_0(host, host.rank() == 0 ? identity.name.text() : "");
  identity.name = contract::parse_attempt_name(name).value_or(identity.name);
  host.broadcast(&identity.epoch, sizeof identity.epoch, 0);
  return identity;
}

// Every rank sees the directory that rank 0 has just made, whose name nobody could know before, and
// runs the same program.
void check_ranks(base::FileSystem& files, const base::Path& attempt, const base::Path& program,
                 ranks::HostCollectives& host) {
  if (host.ranks() == 1) return;
  ranks::run_on_all_ranks(host, [&] {
    for (int look = 0; look < kDirectoryLooks && !files.exists(attempt); ++look) {
      std::this_thread::sleep_for(kDirectoryLook);
    }
    if (!files.exists(attempt)) {
      throw base::Error(base::Code::Operator,
                        "does not see " + attempt.string() +
                            "; put the run directory on a file system that all nodes share");
    }
  });
  ranks::same_everywhere(host, "regatta-train (XXH3-128)", plugins::digest_of_file(files, program));
}

// The log that the run file or the options ask for, on rank 0. Collective: a file that cannot be
// used ends the attempt on all ranks.
std::unique_ptr<MllogWriter> open_mllog(base::FileSystem& files,
                                        const contract::RunDirectory& owned,
                                        const contract::RunConfig& config,
                                        const std::string& instead, double started_utc,
                                        ranks::HostCollectives& host) {
  if (!config.mllog && instead.empty()) return nullptr;
  std::unique_ptr<MllogWriter> mllog;
  ranks::run_on_all_ranks(host, [&] {
    if (contract::grows(config)) {
      throw base::Error(base::Code::User,
                        "--mllog says one batch size of a whole run, and the batch of this one "
                        "grows; leave it out, or leave batch.growth out of the run file");
    }
    if (host.rank() != 0) return;
    // Its first attempt tells it from another one that had its name.
    const std::string run =
        std::filesystem::absolute(owned.path()).lexically_normal().filename().string() + " " +
        owned.attempts().at(0).execution;
    mllog = std::make_unique<MllogWriter>(
        files, owned.path() / (instead.empty() ? config.mllog->file : instead), run, started_utc);
  });
  return mllog;
}

// With other ranks than the file's, what it says of nodes may not hold.
void log_unused_nodes(const contract::RunDirectory& directory, const contract::RunConfig& config,
                      int found) {
  const contract::RunConfig said = contract::parse_run_config(directory.run_json(), "run.json");
  if (said.ranks_per_node == 0 || config.ranks_per_node != 0) return;
  base::log(base::LogLevel::Info, "the run file's ranks_per_node, " +
                                      std::to_string(said.ranks_per_node) +
                                      ", is not a divisor of " + std::to_string(config.ranks) +
                                      " ranks; as found, it is " + std::to_string(found));
}

TrainingEnd ended(JournalWriter& journal, contract::EndRecord end, bool agreed, bool logs) {
  if (end.step == 0) end.step = journal.last_step();
  journal.write_end(end);
  if (logs || !agreed) {
    if (!end.message.empty()) base::log(base::LogLevel::Error, end.message);
    base::log(base::LogLevel::Info,
              "ended: " + end.reason + " at step " + std::to_string(end.step));
  }
  return {static_cast<contract::ExitCode>(end.exit_code), agreed};
}

contract::RunConfig config_from(const std::string& run_json,
                                const contract::RunDirectory& directory,
                                const TrainingRunOptions& options) {
  const std::string source = (directory.path() / "run.json").string();
  contract::RunConfig config = contract::parse_run_config(run_json, source);
  contract::refuse_runs_of_controllers(config, source);
  return with_ranks(std::move(config), options);
}

}  // namespace

contract::RunConfig config_of(const contract::RunDirectory& directory,
                              const TrainingRunOptions& options) {
  return config_from(directory.run_json(), directory, options);
}

contract::RunConfig with_ranks(contract::RunConfig config, const TrainingRunOptions& options) {
  if (options.ranks == 0 || options.ranks == config.ranks) return config;
  if (options.ranks > config.batch_size * config.parallel.pipeline) {
    throw base::Error(base::Code::User,
                      std::to_string(options.ranks) + " ranks are more than the " +
                          std::to_string(config.batch_size) + " samples of a step; use fewer");
  }
  config.ranks = options.ranks;
  config.parallel.data = 0;
  if (const auto refusal = contract::refuse_parallel(config)) {
    throw base::Error(base::Code::User, "with " + std::to_string(config.ranks) + " ranks " +
                                            refusal->key + " " + refusal->message);
  }
  if (config.ranks_per_node > 0 && config.ranks % config.ranks_per_node != 0) {
    config.ranks_per_node = 0;
  }
  return config;
}

TrainingEnd train(base::FileSystem& files, base::Clock& clock,
                  const contract::RunDirectory& directory, const TrainingRunOptions& options) {
  const double started_utc = clock.utc_seconds();
  contract::RunDirectory owned = directory;
  const std::string run_json = owned.run_json();
  plugins::RankGroup group(
      files, owned.path(), config_from(run_json, owned, options), options.rank_place,
      {options.place.program, options.place.plugin_directory}, options.variables);
  // Rank 0's, so that a file that is changed while ranks start cannot part them.
  const contract::RunConfig config =
      config_from(ranks::text_of_rank_0(group.host(), run_json), owned, options);
  const bool first = group.rank() == 0;
  if (first) log_unused_nodes(owned, config, group.ranks_per_node());
  const Identity identity = take_identity(owned, group.host());
  const contract::Fence fence(owned, identity.epoch);
  std::unique_ptr<MllogWriter> mllog;
  std::optional<JournalWriter> journal;
  if (first) {
    journal.emplace(files, clock, owned, identity.name, fence);
  } else {
    journal.emplace(clock, fence);
  }
  try {
    check_ranks(files, owned.attempt_path(identity.name), options.place.program, group.host());
    mllog = open_mllog(files, owned, config, options.mllog, started_utc, group.host());
    if (mllog != nullptr) journal->copy_to(*mllog);
    // Its threads end before the journal does.
    const contract::EndRecord end = AttemptRunner({files, clock, owned, identity.name, fence,
                                                   *journal, group, config, options, mllog.get()})
                                        .run();
    return ended(*journal, end, true, first);
  } catch (const Fenced&) {
    return ended(*journal,
                 failure(contract::ExitCode::Fenced, "fenced", "a newer attempt owns the run"),
                 true, first);
  } catch (const ranks::AgreedError& error) {
    return ended(*journal, failure(contract::exit_code_of(error.code()), "failed", error.what()),
                 true, first);
  } catch (const base::Error& error) {
    group.abandon();
    return ended(*journal, failure(contract::exit_code_of(error.code()), "failed", error.what()),
                 false, first);
  } catch (const std::exception& error) {
    group.abandon();
    return ended(*journal, failure(contract::ExitCode::Developer, "failed", error.what()), false,
                 first);
  }
}

}  // namespace regatta::trainer::run
