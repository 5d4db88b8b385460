// Identifies this process among those started by a launcher (mpirun, srun, torchrun), and finds
// their rendezvous.
#ifndef PSRT_BOOTSTRAP_PROCESSES_H
#define PSRT_BOOTSTRAP_PROCESSES_H

#include "runtime/bootstrap/JobKey.h"
#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// This process in its job, from the environment. Without a launcher: rank 0 of 1.
struct ProcessIdentity {
  enum Launcher { None, Mpi, Torchrun, Slurm };
  Launcher launcher = None;
  int64_t rank = 0, size = 1;
  bool rankKnown = true; ///< false if the launcher does not set the rank
  std::string variable;  ///< variable with the number of processes
};

/// Returns the identity of this process from the launcher's variables.
ProcessIdentity findProcessIdentity();

/// The rendezvous of a job without MPI. Rank 0 listens at the first free port and the other ranks
/// try all ports; or rank 0 listens at any port and writes its address to a file.
struct RendezvousAddress {
  std::string file;               ///< path of the file; if set, nothing else is used
  std::vector<std::string> hosts; ///< names or addresses of rank 0's host
  uint16_t firstPort = 0;
  int ports = 1;
  uint64_t job = 0;   ///< equal in all processes of a job, different from other jobs on the host
  JobKey key;         ///< from PSRT_JOB_SECRET and the launcher's name of the job
  bool local = false; ///< whether all processes are on one host
};

/// Returns the rendezvous from PSRT_RENDEZVOUS_FILE, else from MASTER_ADDR and MASTER_PORT, else
/// from Slurm's node list. Fails if none is set.
RendezvousAddress findRendezvousAddress(const ProcessIdentity &identity);

/// Returns the first host of a Slurm node list: "gpu07" for "gpu[07-09,12],login".
std::string firstSlurmHost(const std::string &list);

/// Returns the FNV-1a hash of a text.
uint64_t hashText(const std::string &text);

/// Returns the seconds that a rank may be silent: PSRT_TIMEOUT, or 60.
double silenceAllowed();

} // namespace psrt

#endif
