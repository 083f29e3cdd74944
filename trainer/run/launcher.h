// A run of several ranks on one machine: this program starts itself under Open MPI's mpirun, once
// per rank, and stands for them to whoever started it.
#pragma once

#include <string>
#include <vector>

#include "trainer/ranks/rendezvous.h"

namespace regatta::trainer::run {

struct MpiLaunch {
  std::string mpirun = "mpirun";       // or its path
  std::string program;                 // path of this program
  std::vector<std::string> arguments;  // of each rank
  int ranks = 2;
};

// REGATTA_MPIRUN, else mpirun of PATH.
[[nodiscard]] std::string mpirun_of(const ranks::Variables& variables);

// Returns an exit code of ExitCode: that of the ranks; Retry when one was lost, whatever mpirun
// makes of it. TERM, INT and USR2 (which catch_stop_signals() has taken over) reach the ranks as
// what they mean. Ranks see REGATTA_LAUNCHER, this process's id, and stop when it goes. Throws
// Code::Operator when mpirun cannot be started.
[[nodiscard]] int launch_ranks(const MpiLaunch& launch);

constexpr const char* kLauncherVariable = "REGATTA_LAUNCHER";
// Where rank 0 of an orderly end leaves its exit code, while all ranks return 0.
constexpr const char* kExitFileVariable = "REGATTA_EXIT_FILE";
constexpr const char* kMpirunVariable = "REGATTA_MPIRUN";  // its path; else mpirun of PATH

// The other side, in each rank's process. From now on the end of the launcher, if there is one, is
// a request to stop.
void stop_with_launcher(const ranks::Variables& variables);
// Leaves an exit code for whoever started the ranks, from a rank that cannot end in order.
void leave_exit_code(const ranks::Variables& variables, int code);
// What the process of a rank returns that ends in order, as all ranks do: `code`, or 0 where there
// is a launcher, which rank 0 tells the code.
[[nodiscard]] int rank_exit_code(const ranks::Variables& variables, int rank, int code);

}  // namespace regatta::trainer::run
