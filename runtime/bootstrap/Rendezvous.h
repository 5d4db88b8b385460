// How the processes of a job meet: all connect to rank 0, which tells everyone where all are.
#ifndef PSRT_BOOTSTRAP_RENDEZVOUS_H
#define PSRT_BOOTSTRAP_RENDEZVOUS_H

#include "runtime/bootstrap/Connector.h"
#include "runtime/bootstrap/JobKey.h"
#include <functional>

namespace psrt {

/// Where a process is and what it has, as it tells the others. Sent as it lies in memory.
struct ProcessInfo {
  int32_t rank = 0, size = 0;
  uint64_t job = 0;     ///< tells jobs apart; no secret
  uint64_t host = 0;    ///< equal on one host
  uint64_t cores = 0;   ///< equal for processes that may use the same cores of a host
  uint64_t command = 0; ///< of the program and its flags: equal in a job, unless a user errs
  int32_t coreCount = 1;
  uint16_t port = 0;     ///< where it listens; 0: nowhere
  char address[50] = ""; ///< as rank 0 sees it; loopback: rank 0's own host
  Nonce nonce{};         ///< what those that connect to it sign
};
static_assert(sizeof(ProcessInfo) == 112, "it is sent without padding");

/// The info of this process: host and cores filled in, the nonce drawn.
ProcessInfo makeProcessInfo(int rank, int size, uint64_t job);

/// Returns the error in the infos that rank 0 sent to a process with the info `mine`; empty:
/// nothing.
std::string findBadProcessInfo(const std::vector<ProcessInfo> &infos, const ProcessInfo &mine);

/// The connections: of rank 0 to every other (by rank), of any other to rank 0 (alone, in place 0).
struct Rendezvous {
  std::vector<Socket> sockets;
  std::vector<ProcessInfo> infos; ///< by rank
  std::string hub;                ///< the address at which this process reached rank 0

  /// Where to connect to a rank.
  std::string addressOf(int rank) const;
};

/// Rank 0: takes in all others, which prove that they know the key. Fails after `seconds`, naming
/// who has not come.
Rendezvous hostRendezvous(const Socket &listener, const ProcessInfo &info, const JobKey &key, double seconds);

/// Where rank 0 may be, as far as is known now, and in `info` and `key` the job, where that was not
/// known.
using Search = std::function<std::vector<Candidate>(ProcessInfo &info, JobKey &key)>;

/// The others: connect to all candidates at once, again and again, until one is rank 0 of this job,
/// which proves that it knows the key; `where` is for the message.
Rendezvous joinRendezvous(const Search &search, ProcessInfo &info, JobKey &key, double seconds,
              const std::string &where);
Rendezvous joinRendezvous(const std::vector<Candidate> &candidates, const ProcessInfo &info, const JobKey &key,
              double seconds, const std::string &where);

} // namespace psrt

#endif
