// MPI itself and its communicators, as handles.
#pragma once

#include <mpi.h>

#include <atomic>
#include <string>

namespace regatta::trainer::mpi {

// Throws Code::Retry with MPI's own words: what fails at run time is a rank or the network.
void check(int status, const char* what);

// "Open MPI v4.1.4". From any thread, at any time.
[[nodiscard]] std::string mpi_library_name();

// The process's MPI, from MPI_Init to MPI_Finalize. Throws Code::Operator when MPI cannot be
// started or does not allow threads.
class MpiLibrary {
 public:
  MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;
  ~MpiLibrary();

  // After a failure the other ranks are somewhere else, or gone: waiting for them, as the end of
  // collectives and of MPI does, could last for ever. MPI is left alone, and the launcher ends the
  // other ranks when this process goes.
  void lose() { lost_ = true; }
  [[nodiscard]] bool is_lost() const { return lost_; }

 private:
  std::atomic<bool> lost_ = false;
};

// Owns a communicator, which all its ranks make and free together. The library outlives it. Made
// and destroyed by the thread that may call MPI at the time; the rest is for any thread.
class MpiComm {
 public:
  static MpiComm copy_of(const MpiLibrary& library, MPI_Comm other);
  // Ranks of one colour, in their order in `other`.
  static MpiComm split(const MpiLibrary& library, MPI_Comm other, int color);
  MpiComm(const MpiLibrary& library, MPI_Comm owned);
  MpiComm(MpiComm&& other) noexcept;
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;
  ~MpiComm();

  [[nodiscard]] MPI_Comm get() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  const MpiLibrary& library_;
  MPI_Comm comm_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace regatta::trainer::mpi
