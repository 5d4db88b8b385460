// Exchanges over sockets: every rank is connected with every other.
#include "runtime/bootstrap/Processes.h"
#include "runtime/comm/process/Transport.h"
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace psrt {

void Patience::check(int peer) {
  watch.check(what);
  if (std::chrono::steady_clock::now() < until)
    return;
  Verdict verdict{peer, StatusCode::Failed,
                  format("did not take part in %s for %g s (10 x PSRT_TIMEOUT)", what.c_str(),
                         10 * watch.getSilence()),
                  false};
  watch.report(std::move(verdict));
  watch.check(what);
}

namespace {

constexpr uint64_t meshMagic = 0x31687365'6d737370; // "pssmesh1"

struct MeshHello {
  uint64_t magic, job;
  int32_t from, to, channel, unused;
};

/// How far one direction of a lane has come.
struct Cursor {
  size_t span = 0, at = 0;
  bool done(const std::vector<Span> &spans) {
    while (span < spans.size() && at == spans[span].bytes)
      ++span, at = 0;
    return span == spans.size();
  }
  /// The next pieces as the system takes them.
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
  TcpTransport(Watch &watch, std::vector<Socket> sockets, Channel channel, bool dedicated)
      : watch(watch), spins(channel == Channel::Background ? 1
                            : dedicated                    ? 2000
                                                           : 20),
        sockets(std::move(sockets)) {}

  void run(const Exchange &exchange, const std::string &what) override {
    Patience patience(watch, what);
    progress.assign(exchange.lanes.size(), {});
    for (int idle = 0;;) {
      bool moved = false, open = false;
      int awaited = 0;
      for (size_t i = 0; i < exchange.lanes.size(); ++i) {
        const Exchange::Lane &lane = exchange.lanes[i];
        moved |= push(lane, progress[i], what);
        moved |= pull(lane, progress[i], what);
        if (!progress[i].out.done(lane.out) || !progress[i].in.done(lane.in))
          open = true, awaited = lane.peer;
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
  bool push(const Exchange::Lane &lane, Progress &at, const std::string &what) {
    if (at.out.done(lane.out))
      return false;
    iovec pieces[16];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = at.out.fill(lane.out, pieces);
    ssize_t n = sendmsg(sockets[lane.peer].get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
      at.out.advance(lane.out, n);
    else if (errno != EAGAIN && errno != EINTR)
      watch.failLost(lane.peer, what, std::strerror(errno));
    return n > 0;
  }

  bool pull(const Exchange::Lane &lane, Progress &at, const std::string &what) {
    if (at.in.done(lane.in))
      return false;
    iovec pieces[16];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = at.in.fill(lane.in, pieces);
    ssize_t n = recvmsg(sockets[lane.peer].get(), &message, MSG_DONTWAIT);
    if (n > 0)
      at.in.advance(lane.in, n);
    else if (n == 0)
      watch.failLost(lane.peer, what, "its connection ended");
    else if (errno != EAGAIN && errno != EINTR)
      watch.failLost(lane.peer, what, std::strerror(errno));
    return n > 0;
  }

  /// Until something can move, the job ends, or a moment has passed.
  void sleep(const Exchange &exchange) {
    entries.assign(1, {watch.wakeDescriptor(), POLLIN, 0});
    for (size_t i = 0; i < exchange.lanes.size(); ++i) {
      const Exchange::Lane &lane = exchange.lanes[i];
      short events = (progress[i].out.done(lane.out) ? 0 : POLLOUT) |
                     (progress[i].in.done(lane.in) ? 0 : POLLIN);
      if (events)
        entries.push_back({sockets[lane.peer].get(), events, 0});
    }
    poll(entries.data(), entries.size(), 500);
  }

  Watch &watch;
  int spins;
  std::vector<Socket> sockets; ///< by rank
  std::vector<Progress> progress;
  std::vector<pollfd> entries;
};

/// Connects every rank with every other, once for each channel: with those below it by itself.
class SocketMesh {
public:
  SocketMesh(Watch &watch, const ProcessCard &card) : watch(watch), card(card) {
    for (std::vector<Socket> &row : sockets)
      row.resize(card.size);
  }

  void connectWith(int peer, const Candidate &where) {
    for (int channel = 0; channel < kChannels; ++channel) {
      Socket socket = connectTo(where.address, where.port, secondsFromNow(watch.getSilence()));
      MeshHello hello{meshMagic, card.job, card.rank, peer, channel, 0};
      if (!socket || !sendAll(socket, &hello, sizeof(hello), secondsFromNow(watch.getSilence())))
        watch.failLost(peer, what,
                       format("rank %d cannot connect to it at %s port %d: %s", card.rank,
                              where.address.c_str(), int(where.port), std::strerror(errno)));
      sockets[channel][peer] = std::move(socket);
    }
  }

  void acceptHigher(const Socket &listener) {
    Patience patience(watch, what);
    for (int missing = kChannels * (card.size - 1 - card.rank); missing > 0;) {
      pollfd pair[] = {{listener.get(), POLLIN, 0}, {watch.wakeDescriptor(), POLLIN, 0}};
      poll(pair, 2, 500);
      patience.check(card.rank + 1);
      Socket socket = acceptFrom(listener);
      MeshHello hello{};
      if (!socket || !receiveAll(socket, &hello, sizeof(hello), secondsFromNow(2)) ||
          !isAwaited(hello))
        continue; // a stranger
      sockets[hello.channel][hello.from] = std::move(socket);
      --missing;
    }
  }

  std::vector<Socket> sockets[kChannels];

private:
  bool isAwaited(const MeshHello &hello) const {
    return hello.magic == meshMagic && hello.job == card.job && hello.to == card.rank &&
           hello.from > card.rank && hello.from < card.size && hello.channel >= 0 &&
           hello.channel < kChannels && !sockets[hello.channel][hello.from];
  }

  Watch &watch;
  const ProcessCard &card;
  const std::string what = "connecting the ranks";
};

} // namespace

TransportPair makeTcpTransports(Watch &watch, const Socket &listener,
                                const std::vector<Candidate> &addresses, const ProcessCard &card,
                                bool dedicated) {
  SocketMesh mesh(watch, card);
  for (int peer = 0; peer < card.rank; ++peer)
    mesh.connectWith(peer, addresses[peer]);
  mesh.acceptHigher(listener);
  TransportPair result;
  for (Channel channel : {Channel::Rank, Channel::Background})
    result[int(channel)] = std::make_unique<TcpTransport>(
        watch, std::move(mesh.sockets[int(channel)]), channel, dedicated);
  return result;
}

} // namespace psrt
