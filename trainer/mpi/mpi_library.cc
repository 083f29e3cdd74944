#include "trainer/mpi/mpi_library.h"

#include <exception>
#include <string>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::mpi {

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw base::Error(base::Code::Retry, std::string("MPI failed at ") + what + " (" +
                                           std::string(text, static_cast<std::size_t>(length)) +
                                           "); a rank or the network was lost");
}

std::string mpi_library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "MPI";
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));  // who packed it, and when, comes after
}

MpiLibrary::MpiLibrary() {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
    throw base::Error(base::Code::Operator, "MPI does not start; check the Open MPI installation");
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    throw base::Error(base::Code::Operator,
                      "this MPI may be called by one thread only; use one built with threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiLibrary::~MpiLibrary() {
  if (!lost_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

MpiComm MpiComm::copy_of(const MpiLibrary& library, MPI_Comm other) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(other, &comm), "making a communicator");
  return {library, comm};
}

MpiComm MpiComm::split(const MpiLibrary& library, MPI_Comm other, int color) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(other, color, 0, &comm), "making a communicator");
  return {library, comm};
}

MpiComm::MpiComm(const MpiLibrary& library, MPI_Comm owned) : library_(library), comm_(owned) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(comm_, &rank_), "finding the rank");
  check(MPI_Comm_size(comm_, &ranks_), "counting the ranks");
}

MpiComm::MpiComm(MpiComm&& other) noexcept
    : library_(other.library_),
      comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(other.rank_),
      ranks_(other.ranks_) {}

MpiComm::~MpiComm() {
  if (comm_ != MPI_COMM_NULL && !library_.is_lost()) MPI_Comm_free(&comm_);
}

}  // namespace regatta::trainer::mpi
