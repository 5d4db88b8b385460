// Whether a launcher (torchrun, Slurm, MPI) started this process as one of several.
#ifndef PSRT_BOOTSTRAP_PROCESSES_H
#define PSRT_BOOTSTRAP_PROCESSES_H

#include <cstdint>
#include <string>

namespace psrt {

/// This process among those of one job, as the environment says; alone: 0 of 1.
struct ProcessPlace {
  std::string rank = "0"; ///< "?" where the launcher does not say
  int64_t size = 1;
  std::string variable; ///< that says so
};

ProcessPlace findProcessPlace();

} // namespace psrt

#endif
