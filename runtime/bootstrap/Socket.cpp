// Implements connections over system sockets. All sockets are non-blocking; waits use poll().
#include "runtime/bootstrap/Socket.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace psrt {

Deadline secondsFromNow(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

int millisecondsUntil(Deadline deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return int(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

namespace {

constexpr int socketFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// Storage for an IPv4 or IPv6 address.
struct AnyAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
};

std::string textOf(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, text,
              sizeof(text));
    return text;
  }
  const in6_addr &six = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six))
    inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof(text));
  else
    inet_ntop(AF_INET6, &six, text, sizeof(text));
  return text;
}

void disableNagle(const Socket &socket) {
  int enabled = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
}

Socket listenOn(int family, const sockaddr *address, socklen_t length) {
  Socket socket(::socket(family, socketFlags, 0));
  int disabled = 0, enabled = 1;
  if (!socket)
    return Socket();
  // Without this option, the port of a job that has just ended would stay blocked for a minute.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof(enabled));
  if (family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &disabled, sizeof(disabled));
  if (bind(socket.get(), address, length) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return Socket();
  return socket;
}

bool awaitReady(const Socket &socket, short events, Deadline deadline) {
  pollfd entry{socket.get(), events, 0};
  int ready;
  do
    ready = poll(&entry, 1, millisecondsUntil(deadline));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

} // namespace

Socket listenAt(uint16_t port, bool local) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(port);
  if (!local)
    if (Socket socket = listenOn(AF_INET6, reinterpret_cast<sockaddr *>(&six), sizeof(six)))
      return socket;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
  four.sin_port = htons(port);
  return listenOn(AF_INET, reinterpret_cast<sockaddr *>(&four), sizeof(four));
}

uint16_t portOf(const Socket &socket) {
  AnyAddress address;
  getsockname(socket.get(), address.get(), &address.length);
  return ntohs(address.storage.ss_family == AF_INET
                   ? reinterpret_cast<sockaddr_in *>(address.get())->sin_port
                   : reinterpret_cast<sockaddr_in6 *>(address.get())->sin6_port);
}

Socket acceptFrom(const Socket &listener) {
  Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket)
    disableNagle(socket);
  return socket;
}

/// Returns whether a connection is connected to itself. This happens if no process listens at the
/// port and the system chooses the same port for the local end. Such a connection would prevent
/// rank 0 from listening at the port.
static bool isOwnEnd(const Socket &socket) {
  AnyAddress own, other;
  return getsockname(socket.get(), own.get(), &own.length) == 0 &&
         getpeername(socket.get(), other.get(), &other.length) == 0 && own.length == other.length &&
         std::memcmp(own.get(), other.get(), own.length) == 0;
}

Socket startConnecting(const std::string &address, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    errno = EINVAL;
    return Socket();
  }
  Socket socket(::socket(found->ai_family, socketFlags, 0));
  int status = socket ? connect(socket.get(), found->ai_addr, found->ai_addrlen) : -1;
  freeaddrinfo(found);
  if (!socket || (status != 0 && errno != EINPROGRESS))
    return Socket();
  if (isOwnEnd(socket)) {
    socket.close();
    errno = ECONNREFUSED;
    return Socket();
  }
  disableNagle(socket);
  return socket;
}

int connectionError(const Socket &socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

Socket connectTo(const std::string &address, uint16_t port, Deadline deadline) {
  Socket socket = startConnecting(address, port);
  if (!socket)
    return Socket();
  if (!awaitReady(socket, POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    return Socket();
  }
  if (int error = connectionError(socket)) {
    errno = error;
    return Socket();
  }
  return socket;
}

std::vector<std::string> resolve(const std::string &host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> result;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0)
    return result;
  for (addrinfo *it = found; it; it = it->ai_next)
    result.push_back(textOf(it->ai_addr));
  freeaddrinfo(found);
  return result;
}

std::string peerAddress(const Socket &socket) {
  AnyAddress address;
  getpeername(socket.get(), address.get(), &address.length);
  return textOf(address.get());
}

bool isLoopback(const std::string &address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

bool isOwnHost(const Socket &socket) {
  AnyAddress own;
  getsockname(socket.get(), own.get(), &own.length);
  std::string other = peerAddress(socket);
  return isLoopback(other) || other == textOf(own.get());
}

std::vector<std::string> ownAddresses() {
  std::vector<std::string> result;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (ifaddrs *it = list; it; it = it->ifa_next)
      if (it->ifa_addr && it->ifa_addr->sa_family == AF_INET && !isLoopback(textOf(it->ifa_addr)))
        result.push_back(textOf(it->ifa_addr));
    freeifaddrs(list);
  }
  result.emplace_back("127.0.0.1");
  return result;
}

bool sendAll(const Socket &socket, const void *data, size_t bytes, Deadline deadline) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = send(socket.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n, bytes -= n;
    } else if (errno == EAGAIN) {
      if (!awaitReady(socket, POLLOUT, deadline))
        return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receiveAll(const Socket &socket, void *data, size_t bytes, Deadline deadline) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t n = recv(socket.get(), at, bytes, MSG_DONTWAIT);
    if (n > 0) {
      at += n, bytes -= n;
    } else if (n < 0 && errno == EAGAIN) {
      if (!awaitReady(socket, POLLIN, deadline))
        return false;
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

} // namespace psrt
