#include "trainer/run/training_run.h"

#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "trainer/run/attempt.h"
#include "trainer/plugins/environment.h"
#include "trainer/run/journal_writer.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/plugins/rank_group.h"

namespace regatta::trainer {
namespace {

// A network file system may show a new directory late.
constexpr int kLooks = 100;
constexpr auto kLook = std::chrono::milliseconds(100);

EndRecord failure(ExitCode code, const std::string& reason, const std::string& message) {
  EndRecord end;
  end.reason = reason;
  end.exit_code = static_cast<int>(code);
  end.message = message;
  return end;
}

// Who writes under which name and epoch: rank 0 takes both, the others are told.
struct Identity {
  AttemptName name;
  std::int64_t epoch = 0;
};

Identity take_identity(RunDirectory& directory, HostCollectives& host) {
  Identity identity;
  together(host, [&] {
    if (host.rank() != 0) return;
    identity.name = directory.create_attempt();
    identity.epoch = directory.take_epoch();
  });
  const std::string name = text_of_rank_0(host, host.rank() == 0 ? identity.name.text() : "");
  identity.name = parse_attempt_name(name).value_or(identity.name);
  host.broadcast(&identity.epoch, sizeof identity.epoch, 0);
  return identity;
}

// Every rank sees the directory that rank 0 has just made, whose name nobody could know before, and
// runs the same program.
void check_ranks(base::FileSystem& files, const base::Path& attempt, const base::Path& program,
                 HostCollectives& host) {
  if (host.ranks() == 1) return;
  together(host, [&] {
    for (int look = 0; look < kLooks && !files.exists(attempt); ++look) {
      std::this_thread::sleep_for(kLook);
    }
    if (!files.exists(attempt)) {
      throw base::Error(base::Code::Operator,
                        "does not see " + attempt.string() +
                            "; put the run directory on a file system that all nodes share");
    }
  });
  same_everywhere(host, "regatta-train (XXH3-128)", digest_of_file(files, program));
}

// With other ranks than the file's, what it says of nodes may not hold.
void tell_of_nodes(const RunDirectory& directory, const RunConfig& config, int found) {
  const RunConfig said = parse_run_config(directory.run_json(), "run.json");
  if (said.ranks_per_node == 0 || config.ranks_per_node != 0) return;
  base::log(base::LogLevel::Info, "the run file's ranks_per_node, " +
                                      std::to_string(said.ranks_per_node) +
                                      ", is not a divisor of " + std::to_string(config.ranks) +
                                      " ranks; as found, it is " + std::to_string(found));
}

TrainingEnd ended(JournalWriter& journal, EndRecord end, bool agreed, bool tells) {
  if (end.step == 0) end.step = journal.last_step();
  journal.write_end(end);
  if (tells || !agreed) {
    if (!end.message.empty()) base::log(base::LogLevel::Error, end.message);
    base::log(base::LogLevel::Info,
              "ended: " + end.reason + " at step " + std::to_string(end.step));
  }
  return {static_cast<ExitCode>(end.exit_code), agreed};
}

}  // namespace

RunConfig config_of(const RunDirectory& directory, const TrainingRunOptions& options) {
  return with_ranks(
      parse_run_config(directory.run_json(), (directory.path() / "run.json").string()), options);
}

RunConfig with_ranks(RunConfig config, const TrainingRunOptions& options) {
  if (options.ranks == 0 || options.ranks == config.ranks) return config;
  if (options.ranks > config.batch_size) {
    throw base::Error(base::Code::User,
                      std::to_string(options.ranks) + " ranks are more than the " +
                          std::to_string(config.batch_size) + " samples of a step; use fewer");
  }
  config.ranks = options.ranks;
  if (config.ranks_per_node > 0 && config.ranks % config.ranks_per_node != 0) {
    config.ranks_per_node = 0;
  }
  return config;
}

TrainingEnd train(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
                  const TrainingRunOptions& options) {
  RunDirectory owned = directory;
  const RunConfig config = config_of(owned, options);
  RankGroup group(files, owned.path(), config, options.rank_place,
                  {options.place.program, options.place.plugin_directory}, options.variables);
  const bool first = group.rank() == 0;
  if (first) tell_of_nodes(owned, config, group.ranks_per_node());
  const Identity identity = take_identity(owned, group.host());
  const Fence fence(owned, identity.epoch);
  std::optional<JournalWriter> journal;
  if (first) {
    journal.emplace(files, clock, owned, identity.name, fence);
  } else {
    journal.emplace(clock, fence);
  }
  try {
    check_ranks(files, owned.attempt_path(identity.name), options.place.program, group.host());
    Attempt attempt(files, clock, owned, identity.name, fence, *journal, group, config, options);
    return ended(*journal, attempt.run(), true, first);
  } catch (const Fenced&) {
    return ended(*journal, failure(ExitCode::Fenced, "fenced", "a newer attempt owns the run"),
                 true, first);
  } catch (const AgreedError& error) {
    return ended(*journal, failure(exit_code_of(error.code()), "failed", error.what()), true,
                 first);
  } catch (const base::Error& error) {
    group.abandon();
    return ended(*journal, failure(exit_code_of(error.code()), "failed", error.what()), false,
                 first);
  } catch (const std::exception& error) {
    group.abandon();
    return ended(*journal, failure(ExitCode::Developer, "failed", error.what()), false, first);
  }
}

}  // namespace regatta::trainer
