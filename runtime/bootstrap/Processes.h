// Who this process is among those that a launcher (mpirun, srun, torchrun) started, and where they
// meet.
#ifndef PSRT_BOOTSTRAP_PROCESSES_H
#define PSRT_BOOTSTRAP_PROCESSES_H

#include "runtime/bootstrap/JobKey.h"
#include <cstdint>
#include <string>
#include <vector>

namespace psrt {

/// This process among those of one job, as the environment says; alone: 0 of 1.
struct ProcessIdentity {
  enum Launcher { None, Mpi, Torchrun, Slurm };
  Launcher launcher = None;
  int64_t rank = 0, size = 1;
  bool rankKnown = true; ///< false where the launcher does not say which one this is
  std::string variable;  ///< that says how many there are
};

ProcessIdentity findProcessIdentity();

/// Where the processes of a job that have no MPI find each other: rank 0 listens at the first free
/// one of the ports, the others look for it; or it listens anywhere, and says in a file where.
struct RendezvousAddress {
  std::string file;               ///< all that counts where it is not empty
  std::vector<std::string> hosts; ///< names or addresses of rank 0's host
  uint16_t firstPort = 0;
  int ports = 1;
  uint64_t job = 0;   ///< equal in all processes of the job, and in no other job on the host
  JobKey key;         ///< of PSRT_JOB_SECRET and of what the launcher calls the job
  bool local = false; ///< all processes are on one host
};

/// As PSRT_RENDEZVOUS_FILE says, or MASTER_ADDR and MASTER_PORT, or else Slurm's list of nodes; fails
/// when none is there.
RendezvousAddress findRendezvousAddress(const ProcessIdentity &place);

/// The first host of a list as Slurm writes it: "gpu[07-09,12],login" is gpu07.
std::string firstSlurmHost(const std::string &list);

/// FNV-1a over text.
uint64_t hashText(const std::string &text);

/// Seconds that a rank may be silent: PSRT_TIMEOUT, 60.
double silenceAllowed();

} // namespace psrt

#endif
