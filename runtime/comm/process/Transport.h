// Defines the transport of bytes between the processes of a job, which the collectives use.
#ifndef PSRT_COMM_PROCESS_TRANSPORT_H
#define PSRT_COMM_PROCESS_TRANSPORT_H

#include "runtime/comm/process/HeartbeatMonitor.h"
#include <memory>
#include <vector>

namespace psrt {

/// Memory to send from or to receive into.
struct Span {
  char *data;
  size_t bytes;
};

/// A set of simultaneous transfers of one process. For each pair of ranks, one rank's `out` spans
/// match the other rank's `in` spans one by one.
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

/// A channel between the ranks of a job. Several threads may communicate at once, each on its own
/// channel.
class Transport {
public:
  virtual ~Transport() = default;
  /// Performs an exchange. Throws if the job has ended, naming `activity`.
  virtual void run(const Exchange &exchange, const std::string &activity) = 0;
};

/// Fails a wait that lasts too long although every rank is alive.
class Patience {
public:
  Patience(HeartbeatMonitor &monitor, const std::string &activity)
      : monitor(monitor), activity(activity), until(secondsFromNow(10 * monitor.getSilence())) {}
  /// Throws if the job has ended, or if this rank has waited for `peer` for ten times the allowed
  /// silence.
  void check(int peer);

private:
  HeartbeatMonitor &monitor;
  const std::string &activity;
  Deadline until;
};

/// Opens the channels of a job. All ranks agree on their numbers: 0 is the ranks' own channel,
/// followed by one per queue.
class Transports {
public:
  virtual ~Transports() = default;
  /// Opens a channel to `peers`. Every rank opens the same numbers in the same order.
  virtual std::unique_ptr<Transport> open(int channel, const std::vector<int> &peers) = 0;
  /// Announces that no further channel will be opened.
  virtual void stopListening() {}
  /// Returns whether channels other than 0 can be used, each by its own thread.
  virtual bool hasThreads() const = 0;
};

/// Where a rank listens, and the nonce that connecting ranks sign.
struct MeshPeer {
  Candidate where;
  Nonce nonce;
};

/// Makes transports over sockets. They connect when a channel is opened and prove that both ends
/// know `key`. `peers` is by rank.
std::unique_ptr<Transports> makeTcpTransports(HeartbeatMonitor &monitor, Socket listener,
                                              std::vector<MeshPeer> peers, const JobKey &key,
                                              const ProcessInfo &info, bool dedicated);

/// The MPI library loaded by this process.
class Mpi;
std::unique_ptr<Transports> makeMpiTransports(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi,
                                              bool dedicated);

} // namespace psrt

#endif
