// Opens TCP connections, and sends and receives with deadlines.
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
/// Returns the milliseconds until the deadline, at least 0, for poll().
int millisecondsUntil(Deadline deadline);

/// Owns a file descriptor, and closes it when the object is destroyed.
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

/// Returns a socket that listens at `port` (0: any free port), only on loopback if `local`. Returns
/// an empty socket on failure (for example, if the port is taken), with the reason in errno.
Socket listenAt(uint16_t port, bool local);
/// Returns the local port of a socket.
uint16_t portOf(const Socket &socket);
/// Returns an incoming connection, or an empty socket if there is none.
Socket acceptFrom(const Socket &listener);
/// Starts connecting to a numeric address. Returns an empty socket on failure, with the reason in
/// errno.
Socket startConnecting(const std::string &address, uint16_t port);
/// Returns the error of a connection as an errno value, or 0.
int connectionError(const Socket &socket);
/// Connects to a numeric address. Returns an empty socket on failure, with the reason in errno.
Socket connectTo(const std::string &address, uint16_t port, Deadline deadline);
/// Returns the numeric addresses of a host name, or none if it does not resolve.
std::vector<std::string> resolve(const std::string &host);
/// Returns the numeric address of the other end.
std::string peerAddress(const Socket &socket);
bool isLoopback(const std::string &address);
/// Returns whether the other end is on this host: its address is a loopback address, or equal to
/// the address of this end.
bool isOwnHost(const Socket &socket);
/// Returns the numeric IPv4 addresses of this host, with 127.0.0.1 at the end.
std::vector<std::string> ownAddresses();

/// Send or receive all bytes. Return false if the deadline passed or the connection ended.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Deadline deadline);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Deadline deadline);

} // namespace psrt

#endif
