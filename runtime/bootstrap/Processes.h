// Finds the rank of this process, the number of processes, and their rendezvous from the variables
// of a launcher (mpirun, srun, torchrun).
#ifndef PSRT_BOOTSTRAP_PROCESSES_H
#define PSRT_BOOTSTRAP_PROCESSES_H

#include "runtime/bootstrap/JobKey.h"
#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// The rank of this process in its job. Without a launcher: rank 0 of 1.
struct ProcessIdentity {
  enum Launcher { None, Mpi, Torchrun, Slurm };
  Launcher launcher = None;
  int64_t rank = 0, size = 1;
  bool rankKnown = true; ///< false if the launcher does not set the rank
  std::string variable;  ///< environment variable with the number of processes
};

/// Returns the identity of this process from the launcher's variables.
ProcessIdentity findProcessIdentity();

/// The rendezvous of a job without MPI. Either rank 0 listens at the first free port of a range and
/// the other ranks try all its ports, or rank 0 listens at any port and writes its address to a
/// file.
struct RendezvousAddress {
  std::string file;               ///< path of the file; if set, the other fields are not used
  std::vector<std::string> hosts; ///< names or addresses of rank 0's host
  uint16_t firstPort = 0;
  int ports = 1;
  uint64_t job = 0;   ///< equal in all processes of a job, different from other jobs on the host
  JobKey key;         ///< from PSRT_JOB_SECRET and the launcher's name of the job
  bool local = false; ///< whether all processes are on one host
};

/// Returns the rendezvous of PSRT_RENDEZVOUS_FILE, else of MASTER_ADDR and MASTER_PORT, else of
/// Slurm's node list. Fails if none of them is set.
RendezvousAddress findRendezvousAddress(const ProcessIdentity &identity);

/// Returns the first host of a Slurm node list: "gpu07" for "gpu[07-09,12],login".
std::string firstSlurmHost(const std::string &list);

/// Returns the FNV-1a hash of a text.
uint64_t hashText(const std::string &text);

/// Returns the timeout of heartbeats and rendezvous in seconds: PSRT_TIMEOUT, or 60.
double silenceAllowed();

} // namespace psrt

#endif
