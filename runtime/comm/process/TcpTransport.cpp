// Exchanges data over sockets. A channel has one connection per peer.
#include "runtime/bootstrap/Acceptor.h"
#include "runtime/comm/process/Transport.h"
#include <cerrno>
#include <cstring>
#include <map>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <sys/uio.h>

namespace psrt {

void Patience::check(int peer) {
  monitor.check(activity);
  if (std::chrono::steady_clock::now() < until)
    return;
  JobFailure jobFailure{peer, StatusCode::Failed,
                        format("did not take part in %s for %g s (10 x PSRT_TIMEOUT)",
                               activity.c_str(), 10 * monitor.getSilence()),
                        false};
  monitor.report(std::move(jobFailure));
  monitor.check(activity);
}

namespace {

constexpr uint64_t meshMagic = 0x32687365'6d737370; // "pssmesh2"

/// The first message on a connection. The proof covers the receiver's nonce, so that a recorded
/// proof cannot be replayed.
struct MeshHello {
  uint64_t magic;
  int32_t from, to, channel, unused;
  Digest proof;

  Digest sign(const JobKey &key, const Nonce &nonceOfTo) const {
    return psrt::sign(key, "channel",
                      {bytesOf(from), bytesOf(to), bytesOf(channel), bytesOf(nonceOfTo)});
  }
};

/// The progress of one direction of a transfer.
struct Cursor {
  size_t span = 0, at = 0;
  bool done(const std::vector<Span> &spans) {
    while (span < spans.size() && at == spans[span].bytes)
      ++span, at = 0;
    return span == spans.size();
  }
  /// Sets the next pieces of memory for sendmsg or recvmsg. Returns their number.
  int fill(const std::vector<Span> &spans, iovec (&pieces)[16]) const {
    int count = 0;
    size_t skip = at;
    for (size_t s = span; s < spans.size() && count < 16; ++s, skip = 0)
      if (spans[s].bytes > skip)
        pieces[count++] = {spans[s].data + skip, spans[s].bytes - skip};
    return count;
  }
  void advance(const std::vector<Span> &spans, size_t bytes) {
    while (bytes > 0) {
      size_t n = std::min(bytes, spans[span].bytes - at);
      at += n, bytes -= n;
      if (at == spans[span].bytes)
        ++span, at = 0;
    }
  }
};

struct Progress {
  Cursor out, in;
};

class TcpTransport : public Transport {
public:
  TcpTransport(HeartbeatMonitor &monitor, std::vector<Socket> sockets, int spins)
      : monitor(monitor), spins(spins), sockets(std::move(sockets)) {}

  void run(const Exchange &exchange, const std::string &activity) override {
    Patience patience(monitor, activity);
    progress.assign(exchange.transfers.size(), {});
    for (int idle = 0;;) {
      bool moved = false, open = false;
      int awaited = 0;
      for (size_t i = 0; i < exchange.transfers.size(); ++i) {
        const Exchange::Transfer &transfer = exchange.transfers[i];
        moved |= push(transfer, progress[i], activity);
        moved |= pull(transfer, progress[i], activity);
        if (!progress[i].out.done(transfer.out) || !progress[i].in.done(transfer.in))
          open = true, awaited = transfer.peer;
      }
      if (!open)
        return;
      idle = moved ? 0 : idle + 1;
      if (idle < spins)
        continue;
      patience.check(awaited);
      sleep(exchange);
    }
  }

private:
  bool push(const Exchange::Transfer &transfer, Progress &at, const std::string &activity) {
    if (at.out.done(transfer.out))
      return false;
    iovec pieces[16];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = at.out.fill(transfer.out, pieces);
    ssize_t n = sendmsg(sockets[transfer.peer].get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
      at.out.advance(transfer.out, n);
    else if (errno != EAGAIN && errno != EINTR)
      monitor.failLost(transfer.peer, activity, std::strerror(errno));
    return n > 0;
  }

  bool pull(const Exchange::Transfer &transfer, Progress &at, const std::string &activity) {
    if (at.in.done(transfer.in))
      return false;
    iovec pieces[16];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = at.in.fill(transfer.in, pieces);
    ssize_t n = recvmsg(sockets[transfer.peer].get(), &message, MSG_DONTWAIT);
    if (n > 0)
      at.in.advance(transfer.in, n);
    else if (n == 0)
      monitor.failLost(transfer.peer, activity, "its connection ended");
    else if (errno != EAGAIN && errno != EINTR)
      monitor.failLost(transfer.peer, activity, std::strerror(errno));
    return n > 0;
  }

  /// Waits until data can be sent or received, the job has failed, or a short time has passed.
  void sleep(const Exchange &exchange) {
    entries.assign(1, {monitor.wakeDescriptor(), POLLIN, 0});
    for (size_t i = 0; i < exchange.transfers.size(); ++i) {
      const Exchange::Transfer &transfer = exchange.transfers[i];
      short events = (progress[i].out.done(transfer.out) ? 0 : POLLOUT) |
                     (progress[i].in.done(transfer.in) ? 0 : POLLIN);
      if (events)
        entries.push_back({sockets[transfer.peer].get(), events, 0});
    }
    poll(entries.data(), entries.size(), 500);
  }

  HeartbeatMonitor &monitor;
  int spins;
  std::vector<Socket> sockets; ///< by rank
  std::vector<Progress> progress;
  std::vector<pollfd> entries;
};

/// Connects ranks, one channel at a time. Each rank connects to lower ranks, and accepts
/// connections from higher ranks.
class TcpTransports : public Transports {
public:
  TcpTransports(HeartbeatMonitor &monitor, Socket listener, std::vector<MeshPeer> known,
                const JobKey &key, const ProcessInfo &info, bool dedicated)
      : monitor(monitor), listener(std::move(listener)), known(std::move(known)), key(key),
        info(info), dedicated(dedicated) {}

  std::unique_ptr<Transport> open(int channel, const std::vector<int> &peers) override {
    std::vector<Socket> sockets(info.size);
    for (int peer : peers)
      if (peer < info.rank)
        sockets[peer] = connectWith(peer, channel);
    for (int peer : peers)
      if (peer > info.rank)
        sockets[peer] = acceptFrom(peer, channel);
    int spins = channel > 0 ? 1 : dedicated ? 2000 : 20;
    return std::make_unique<TcpTransport>(monitor, std::move(sockets), spins);
  }

  bool hasThreads() const override { return true; }

  void stopListening() override {
    listener.close();
    acceptor.clear();
    accepted.clear();
  }

private:
  Socket connectWith(int peer, int channel) {
    const Candidate &candidate = known[peer].where;
    Socket socket =
        connectTo(candidate.address, candidate.port, secondsFromNow(monitor.getSilence()));
    MeshHello hello{meshMagic, info.rank, peer, channel, 0, {}};
    hello.proof = hello.sign(key, known[peer].nonce);
    if (!socket || !sendAll(socket, &hello, sizeof(hello), secondsFromNow(monitor.getSilence())))
      monitor.failLost(peer, activity,
                       format("rank %d cannot connect to rank %d at %s port %d: %s", info.rank,
                              peer, candidate.address.c_str(), int(candidate.port),
                              std::strerror(errno)));
    return socket;
  }

  Socket acceptFrom(int peer, int channel) {
    Patience patience(monitor, activity);
    while (true) {
      if (auto found = accepted.extract({channel, peer}))
        return std::move(found.mapped());
      patience.check(peer);
      for (Arrival &arrival : acceptor.wait(listener, 500, monitor.wakeDescriptor()))
        admit(arrival);
    }
  }

  void admit(Arrival &arrival) {
    MeshHello hello;
    std::memcpy(&hello, arrival.message.data(), sizeof(hello));
    std::string address = peerAddress(arrival.socket);
    if (hello.magic != meshMagic || hello.to != info.rank)
      return;
    if (!isEqual(hello.proof, hello.sign(key, info.nonce)))
      warnRefused(format("a process at %s claims to be rank %d but does not know this job's secret "
                         "(PSRT_JOB_SECRET); it was refused",
                         address.c_str(), hello.from));
    else if (!admitted.emplace(hello.channel, hello.from).second)
      warnRefused(format("two processes claim rank %d: the second, from %s, was refused",
                         hello.from, address.c_str()));
    else
      accepted.emplace(std::pair(hello.channel, hello.from), std::move(arrival.socket));
  }

  HeartbeatMonitor &monitor;
  Socket listener;
  std::vector<MeshPeer> known;
  const JobKey key;
  const ProcessInfo info;
  bool dedicated;
  Acceptor acceptor{sizeof(MeshHello), /*greets=*/false};
  /// Connections that arrived before this rank waited for them, by channel and rank.
  std::map<std::pair<int, int>, Socket> accepted;
  std::set<std::pair<int, int>>
      admitted; ///< (channel, rank) pairs that have connected; each may connect once
  const std::string activity = "connecting the ranks";
};

} // namespace

std::unique_ptr<Transports> makeTcpTransports(HeartbeatMonitor &monitor, Socket listener,
                                              std::vector<MeshPeer> peers, const JobKey &key,
                                              const ProcessInfo &info, bool dedicated) {
  return std::make_unique<TcpTransports>(monitor, std::move(listener), std::move(peers), key, info,
                                         dedicated);
}

} // namespace psrt
