// What each subcommand does. Data goes to stdout, everything else to stderr; all text that comes
// from a run passes through base::printable.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::cli {

// The controller that REGATTA_SERVER names, or the one in the default data directory.
[[nodiscard]] ControllerAddress controller_address(const site::ProgramEnvironment& environment);

enum class Format { Text, Json };

struct ServeOptions {
  std::string address = "127.0.0.1";
  int port = 8420;
  std::string data;     // empty: the default
  std::string runs;     // empty: the default
  std::string trainer;  // empty: looked for
  std::string page_directory;
  int parallel = 0;                   // 0: 1 on this machine, and no limit of ours under Slurm
  std::string scheduler = "auto";     // auto, local, slurm_cli
  std::vector<std::string> clusters;  // the machines that runs are planned for; none: no plans
  std::vector<std::string> measured;  // logs of nccl-tests of them
  double stop_grace_seconds = 60;
  bool allow_privileged = false;
};
// Runs until SIGINT or SIGTERM; attempts go on after it.
int serve(const ServeOptions& options, const site::ProgramEnvironment& environment);

struct ClientOptions {
  ControllerAddress server;
  double timeout_seconds = 10;
  Format format = Format::Text;
};

struct SubmitOptions {
  std::string file;  // "-": stdin
  std::string plan;  // plan.json; empty: none
  bool wait = false;
  std::optional<std::string> idempotency_key;
  std::vector<std::string> after;  // runs that must have succeeded before it begins
};
int submit(const ClientOptions& client, const SubmitOptions& options);
struct ListOptions {
  int limit = 100;
  std::string state;
  bool archived = false;  // only those
  bool all = false;       // archived ones, too
};
int list(const ClientOptions& client, const ListOptions& options);
enum class Secrets { Hidden, Shown };  // values of slurm.environment
int show(const ClientOptions& client, const std::string& run, Secrets secrets);
int explain(const ClientOptions& client, const std::string& run);
int cancel(const ClientOptions& client, const std::string& run);
// changes: of what the run asks of Slurm, each "slurm.KEY=VALUE".
int resume(const ClientOptions& client, const std::string& run,
           const std::vector<std::string>& changes);
enum class Follow { No, Yes };
int logs(const ClientOptions& client, const std::string& run, Follow follow);
// names: hostlists of the nodes to show; empty: all.
int nodes(const ClientOptions& client, const std::vector<std::string>& names);
// commit: that this program was built from; empty: not known.
int version(const ClientOptions& client, const std::string& commit);
struct OpenOptions {
  std::string run;  // empty: all runs
  std::string url;  // the page's address as the browser reaches it; empty: the controller's own
  bool browser = false;
};
// Prints a link that opens the page once; only over the controller's socket.
int open_page(const ClientOptions& client, const OpenOptions& options);

// What watch() returns when the run has ended.
enum class WatchResult { Zero, RunExitCode };
// Shows the run until it ends. Ctrl-C detaches (130): the run goes on.
int watch(const ClientOptions& client, const std::string& run, WatchResult result);

}  // namespace regatta::orchestrator::cli
