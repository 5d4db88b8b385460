// TCP connections with deadlines.
#ifndef PSRT_BOOTSTRAP_SOCKET_H
#define PSRT_BOOTSTRAP_SOCKET_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace psrt {

using Deadline = std::chrono::steady_clock::time_point;
Deadline secondsFromNow(double seconds);
/// Milliseconds until then, at least 0, for poll().
int millisecondsUntil(Deadline deadline);

/// A file descriptor that is closed with its owner.
class Socket {
public:
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  ~Socket() { close(); }
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    if (this != &other) {
      close();
      fd = std::exchange(other.fd, -1);
    }
    return *this;
  }
  explicit operator bool() const { return fd >= 0; }
  int get() const { return fd; }
  void close();

private:
  int fd = -1;
};

/// A socket that listens at `port` (0: a free one), on this host's loopback alone when `local`;
/// none when the port is taken.
Socket listenAt(uint16_t port, bool local);
uint16_t portOf(const Socket &socket);
/// A connection that has come in; none when there is none.
Socket acceptFrom(const Socket &listener);
/// A connection to a numeric address that is being made; none when it fails, errno says why.
Socket startConnecting(const std::string &address, uint16_t port);
/// Returns what has gone wrong with a connection (errno's numbers); 0: nothing.
int connectionError(const Socket &socket);
/// A connection to a numeric address; none when it fails, errno says why.
Socket connectTo(const std::string &address, uint16_t port, Deadline deadline);
/// The numeric addresses of a host name; empty when it has none.
std::vector<std::string> resolve(const std::string &host);
/// The numeric address of the other end.
std::string peerAddress(const Socket &socket);
bool isLoopback(const std::string &address);
/// Returns whether the other end is on this host: both ends have one address.
bool isOwnHost(const Socket &socket);
/// The numeric addresses of this host, loopback last.
std::vector<std::string> ownAddresses();

/// All bytes or false: the deadline passed, or the connection ended.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Deadline deadline);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Deadline deadline);

} // namespace psrt

#endif
