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

/// A set of simultaneous transfers of one rank. For each pair of ranks, `out` span i of one rank
/// has the size of `in` span i of the other rank.
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
  /// Performs an exchange. Throws if the job has failed; the message contains `activity`.
  virtual void run(const Exchange &exchange, const std::string &activity) = 0;
};

/// Limits the time of a wait. A peer may never send data although all ranks send heartbeats.
class Patience {
public:
  Patience(HeartbeatMonitor &monitor, const std::string &activity)
      : monitor(monitor), activity(activity), until(secondsFromNow(10 * monitor.getSilence())) {}
  /// Throws if the job has failed, or if this rank has waited for `peer` for ten times
  /// PSRT_TIMEOUT.
  void check(int peer);

private:
  HeartbeatMonitor &monitor;
  const std::string &activity;
  Deadline until;
};

/// Opens the channels of a job: channel 0 for synchronous communication, followed by one channel
/// per queue.
class Transports {
public:
  virtual ~Transports() = default;
  /// Opens a channel to `peers`. Every rank must open the same channels in the same order.
  virtual std::unique_ptr<Transport> open(int channel, const std::vector<int> &peers) = 0;
  /// Closes the listening socket. Afterwards `open` must not be called.
  virtual void stopListening() {}
  /// Returns whether several threads may communicate, each on its own channel. If not, only channel
  /// 0 can be used.
  virtual bool hasThreads() const = 0;
};

/// The address at which a rank listens, and the nonce that connecting ranks sign.
struct MeshPeer {
  Candidate where;
  Nonce nonce;
};

/// Makes transports over sockets. Opening a channel connects the ranks, which prove that they know
/// `key`. `peers` is indexed by rank.
std::unique_ptr<Transports> makeTcpTransports(HeartbeatMonitor &monitor, Socket listener,
                                              std::vector<MeshPeer> peers, const JobKey &key,
                                              const ProcessInfo &info, bool dedicated);

/// The MPI library loaded by this process.
class Mpi;
std::unique_ptr<Transports> makeMpiTransports(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi,
                                              bool dedicated);

} // namespace psrt

#endif
