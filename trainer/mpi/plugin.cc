#include "trainer/mpi/plugin.h"

#include <cstdio>
#include <exception>

#include "base/error.h"
#include "trainer/mpi/mpi_communicator.h"

namespace {

void describe(regatta::base::Code code, const char* message,
              regatta::trainer::MpiPluginError* error) {
  error->code = static_cast<int>(code);
  std::snprintf(error->message, sizeof error->message, "%s", message);
}

}  // namespace

const char* regatta_mpi_plugin_version() { return regatta::trainer::kMpiPluginVersion; }

regatta::trainer::Communicator* regatta_make_mpi_communicator(
    regatta::trainer::MpiPluginError* error) {
  try {
    return regatta::trainer::make_mpi_communicator().release();
  } catch (const regatta::base::Error& failure) {
    describe(failure.code(), failure.what(), error);
  } catch (const std::exception& failure) {
    describe(regatta::base::Code::Developer, failure.what(), error);
  }
  return nullptr;
}
