// Wraps the MPI library that this process has loaded.
#ifndef PSRT_COMM_PROCESS_MPI_H
#define PSRT_COMM_PROCESS_MPI_H

#include "runtime/comm/process/MpiCalls.h"
#include "runtime/core/Status.h"
#include <string>

namespace psrt {

/// The loaded MPI library.
class Mpi {
public:
  /// Loads libpsrt_comm_mpi.so and starts MPI. Fails if the library or MPI cannot be loaded.
  Mpi();
  int getRank() const { return rank; }
  int getSize() const { return size; }
  /// Returns whether several threads may call MPI (one at a time).
  bool hasThreads() const { return threads != 0; }
  std::string library() const { return calls->library(); }
  void broadcast(void *data, size_t bytes) {
    check(calls->broadcast(data, bytes), "broadcasting an address");
  }
  const psrt_mpi_calls &get() const { return *calls; }
  /// Fails with MPI's error text if `code` is an error.
  void check(int code, const std::string &activity) const {
    if (code)
      PSRT_FAIL(Failed, "MPI failed in %s: %s", activity.c_str(), calls->error());
  }

private:
  const psrt_mpi_calls *calls = nullptr;
  int rank = 0, size = 1, threads = 0;
};

} // namespace psrt

#endif
