// Implements the rendezvous of a job: all processes connect to rank 0, which sends the addresses of
// all processes.
#ifndef PSRT_BOOTSTRAP_RENDEZVOUS_H
#define PSRT_BOOTSTRAP_RENDEZVOUS_H

#include "runtime/bootstrap/Connector.h"
#include "runtime/bootstrap/JobKey.h"
#include <functional>

namespace psrt {

/// The address and cores of a process. Sent as raw bytes.
struct ProcessInfo {
  int32_t rank = 0, size = 0;
  uint64_t job = 0;     ///< identifies the job; not secret
  uint64_t host = 0;    ///< id of the host
  uint64_t cores = 0;   ///< id of the set of cores that the process may run on
  uint64_t command = 0; ///< hash of the program and its flags; must be equal on all ranks of a job
  int32_t coreCount = 1;
  uint16_t port = 0;     ///< listening port; 0: not listening
  char address[50] = ""; ///< as seen by rank 0; loopback if the process is on rank 0's host
  Nonce nonce{};         ///< nonce that connecting processes sign
};
static_assert(sizeof(ProcessInfo) == 112,
              "ProcessInfo is sent as raw bytes and must have no padding");

/// Returns the info of this process, including its host and cores and a new nonce. Address, port
/// and command are not set.
ProcessInfo makeProcessInfo(int rank, int size, uint64_t job);

/// Checks the list of processes that rank 0 sent. `mine` is the info of this process. Returns a
/// description of the first invalid info, or "".
std::string findBadProcessInfo(const std::vector<ProcessInfo> &infos, const ProcessInfo &mine);

/// The connections after a rendezvous. On rank 0, `sockets` is indexed by rank. On other ranks, it
/// only has the connection to rank 0, at index 0.
struct Rendezvous {
  std::vector<Socket> sockets;
  std::vector<ProcessInfo> infos; ///< by rank
  std::string rank0Address;       ///< address at which this process reached rank 0

  /// Returns the address at which this process can connect to a rank.
  std::string addressOf(int rank) const;
};

/// Runs on rank 0: accepts the other ranks, each of which must prove that it knows the key. Fails
/// if ranks are missing after `seconds`; the error names them.
Rendezvous hostRendezvous(const Socket &listener, const ProcessInfo &info, const JobKey &key,
                          double seconds);

/// Returns the candidates for rank 0 that are known at this time. Sets `info.job` and `key` if the
/// job was not known before.
using Search = std::function<std::vector<Candidate>(ProcessInfo &info, JobKey &key)>;

/// Runs on the other ranks: connects to all candidates at once, repeatedly, until one proves that
/// it is rank 0 of this job. Error messages contain `where`, the address at which rank 0 was
/// expected.
Rendezvous joinRendezvous(const Search &search, ProcessInfo &info, JobKey &key, double seconds,
                          const std::string &where);
Rendezvous joinRendezvous(const std::vector<Candidate> &candidates, const ProcessInfo &info,
                          const JobKey &key, double seconds, const std::string &where);

} // namespace psrt

#endif
