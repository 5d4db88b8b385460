// Implements the rendezvous of a job: all processes connect to rank 0, which sends everyone's
// address.
#ifndef PSRT_BOOTSTRAP_RENDEZVOUS_H
#define PSRT_BOOTSTRAP_RENDEZVOUS_H

#include "runtime/bootstrap/Connector.h"
#include "runtime/bootstrap/JobKey.h"
#include <functional>

namespace psrt {

/// The address and resources of a process. Sent as raw bytes.
struct ProcessInfo {
  int32_t rank = 0, size = 0;
  uint64_t job = 0;   ///< identifies the job; not secret
  uint64_t host = 0;  ///< equal on one host
  uint64_t cores = 0; ///< equal for processes that may use the same cores of a host
  uint64_t command =
      0; ///< hash of the program and its flags; equal in a job unless the user made a mistake
  int32_t coreCount = 1;
  uint16_t port = 0;     ///< listening port; 0: not listening
  char address[50] = ""; ///< as seen by rank 0; loopback: rank 0's own host
  Nonce nonce{};         ///< nonce that connecting processes sign
};
static_assert(sizeof(ProcessInfo) == 112, "it is sent without padding");

/// Returns the info of this process with host, cores and nonce filled in.
ProcessInfo makeProcessInfo(int rank, int size, uint64_t job);

/// Returns the error in the infos that rank 0 sent to a process with the info `mine`, or "".
std::string findBadProcessInfo(const std::vector<ProcessInfo> &infos, const ProcessInfo &mine);

/// The connections after a rendezvous: on rank 0 one per other rank (by rank), elsewhere only the
/// one to rank 0 (index 0).
struct Rendezvous {
  std::vector<Socket> sockets;
  std::vector<ProcessInfo> infos; ///< by rank
  std::string hub;                ///< address at which this process reached rank 0

  /// Returns the address to connect to a rank.
  std::string addressOf(int rank) const;
};

/// Runs on rank 0: accepts all other ranks, which prove that they know the key. Fails after
/// `seconds`, naming the missing ranks.
Rendezvous hostRendezvous(const Socket &listener, const ProcessInfo &info, const JobKey &key,
                          double seconds);

/// Returns the currently known candidates for rank 0. Sets the job in `info` and `key` if it was
/// not known.
using Search = std::function<std::vector<Candidate>(ProcessInfo &info, JobKey &key)>;

/// Runs on the other ranks: connects to all candidates at once, repeatedly, until one proves to be
/// rank 0 of this job. `where` is for messages.
Rendezvous joinRendezvous(const Search &search, ProcessInfo &info, JobKey &key, double seconds,
                          const std::string &where);
Rendezvous joinRendezvous(const std::vector<Candidate> &candidates, const ProcessInfo &info,
                          const JobKey &key, double seconds, const std::string &where);

} // namespace psrt

#endif
