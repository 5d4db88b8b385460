// MPI as this process loaded it.
#ifndef PSRT_COMM_PROCESS_MPI_H
#define PSRT_COMM_PROCESS_MPI_H

#include "runtime/comm/process/MpiCalls.h"
#include "runtime/core/Status.h"
#include <string>

namespace psrt {

class Mpi {
public:
  /// Loads libpsrt_comm_mpi.so and starts MPI; fails, saying what is missing.
  Mpi();
  int getRank() const { return rank; }
  int getSize() const { return size; }
  /// Whether two threads may exchange at once.
  bool hasThreads() const { return threads != 0; }
  std::string library() const { return calls->library(); }
  void share(void *data, size_t bytes) { check(calls->share(data, bytes), "sharing an address"); }
  const psrt_mpi_calls &get() const { return *calls; }
  /// Fails with MPI's own words when `code` is an error.
  void check(int code, const std::string &what) const {
    if (code)
      PSRT_FAIL(Failed, "MPI failed in %s: %s", what.c_str(), calls->error());
  }

private:
  const psrt_mpi_calls *calls = nullptr;
  int rank = 0, size = 1, threads = 0;
};

} // namespace psrt

#endif
