// Bytes between the processes of a job: what a transport offers to the collectives.
#ifndef PSRT_COMM_PROCESS_TRANSPORT_H
#define PSRT_COMM_PROCESS_TRANSPORT_H

#include "runtime/comm/process/Watch.h"
#include <array>
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
  struct Lane {
    int peer;
    std::vector<Span> out, in;
  };
  std::vector<Lane> lanes;

  Lane &with(int peer) {
    for (Lane &lane : lanes)
      if (lane.peer == peer)
        return lane;
    return lanes.emplace_back(Lane{peer, {}, {}});
  }
};

/// Two threads may exchange at once, each on a channel of its own: the rank's, and that of what it
/// started.
enum class Channel { Rank, Background };
inline constexpr int kChannels = 2;

class Transport {
public:
  virtual ~Transport() = default;
  /// Returns when all is sent and received; throws when the job has ended, naming `what`.
  virtual void run(const Exchange &exchange, const std::string &what) = 0;
};

/// Fails a wait that goes on when every rank is alive.
class Patience {
public:
  Patience(Watch &watch, const std::string &what)
      : watch(watch), what(what), until(secondsFromNow(10 * watch.getSilence())) {}
  /// Throws when the job has ended, or when `peer` has let this rank wait ten times as long as one
  /// may be silent.
  void check(int peer);

private:
  Watch &watch;
  const std::string &what;
  Deadline until;
};

/// By channel. Without one in the background, what is started is over at once.
using TransportPair = std::array<std::unique_ptr<Transport>, kChannels>;

/// Over sockets to every other rank, which it connects.
TransportPair makeTcpTransports(Watch &watch, const Socket &listener,
                                const std::vector<Candidate> &addresses, const ProcessCard &card,
                                bool dedicated);

/// The MPI library that this process loaded.
class Mpi;
TransportPair makeMpiTransports(Watch &watch, std::shared_ptr<Mpi> mpi, bool dedicated);

} // namespace psrt

#endif
