// Bytes between the processes of a job: what a transport offers to the collectives.
#ifndef PSRT_COMM_PROCESS_TRANSPORT_H
#define PSRT_COMM_PROCESS_TRANSPORT_H

#include "runtime/comm/process/HeartbeatMonitor.h"
#include <memory>
#include <vector>

namespace psrt {

/// Memory that is sent, or received into.
struct Span {
  char *data;
  size_t bytes;
};

/// What a process exchanges with others at once. Of each pair of ranks, what one lists as `out` is,
/// span by span, what the other lists as `in`.
struct Exchange {
  struct Transfer {
    int peer;
    std::vector<Span> out, in;
  };
  std::vector<Transfer> transfers;

  Transfer &with(int peer) {
    for (Transfer &transfer : transfers)
      if (transfer.peer == peer)
        return transfer;
    return transfers.emplace_back(Transfer{peer, {}, {}});
  }
};

/// A channel between the ranks of a job. Several threads may exchange at once, each on a channel of
/// its own.
class Transport {
public:
  virtual ~Transport() = default;
  /// Returns when all is sent and received; throws when the job has ended, naming `what`.
  virtual void run(const Exchange &exchange, const std::string &what) = 0;
};

/// Fails a wait that goes on when every rank is alive.
class Patience {
public:
  Patience(HeartbeatMonitor &monitor, const std::string &what)
      : monitor(monitor), what(what), until(secondsFromNow(10 * monitor.getSilence())) {}
  /// Throws when the job has ended, or when `peer` has let this rank wait ten times as long as one
  /// may be silent.
  void check(int peer);

private:
  HeartbeatMonitor &monitor;
  const std::string &what;
  Deadline until;
};

/// Opens the channels of a job, by numbers that all ranks know: the rank's own is 0, those of
/// queues come behind.
class Transports {
public:
  virtual ~Transports() = default;
  /// Every rank opens the same numbers in the same order; `peers`: whom this one exchanges with.
  virtual std::unique_ptr<Transport> open(int channel, const std::vector<int> &peers) = 0;
  /// No further channel will be opened.
  virtual void stopListening() {}
  /// Whether there may be channels besides the rank's own.
  virtual bool hasThreads() const = 0;
};

/// Where a rank listens, and what those that connect to it sign.
struct MeshPeer {
  Candidate where;
  Nonce nonce;
};

/// Over sockets, which it connects when a channel is opened, with proofs that both ends know `key`;
/// `peers`: by rank.
std::unique_ptr<Transports> makeTcpTransports(HeartbeatMonitor &monitor, Socket listener,
                                              std::vector<MeshPeer> peers, const JobKey &key,
                                              const ProcessInfo &info, bool dedicated);

/// The MPI library that this process loaded.
class Mpi;
std::unique_ptr<Transports> makeMpiTransports(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi,
                                              bool dedicated);

} // namespace psrt

#endif
