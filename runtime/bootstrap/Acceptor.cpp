// Accepts connections with poll().
#include "runtime/bootstrap/Acceptor.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/socket.h>

namespace psrt {

/// Time after which a connection without a complete message is dropped. Processes of the job send
/// their message immediately.
static constexpr double kSeconds = 5;
/// Maximum number of connections without a complete message. The oldest are dropped first.
static constexpr size_t kMax = 256;

void Acceptor::acceptAll(const Socket &listener) {
  // Bounds the loop: many new connections must not delay the connections already accepted.
  for (size_t count = 0; count < kMax; ++count) {
    Socket socket = acceptFrom(listener);
    if (!socket && (errno == EMFILE || errno == ENFILE) && !waiting.empty()) {
      waiting.pop_front();
      continue;
    }
    if (!socket)
      return;
    Newcomer newcomer{{std::move(socket), "", {}}, secondsFromNow(kSeconds), false};
    if (greets) {
      Challenge challenge{Challenge::kMagic, newcomer.arrival.challenge = drawNonce()};
      if (!sendAll(newcomer.arrival.socket, &challenge, sizeof(challenge), secondsFromNow(0)))
        continue;
    }
    waiting.push_back(std::move(newcomer));
    if (waiting.size() > kMax)
      waiting.pop_front();
  }
}

bool Acceptor::read(Newcomer &newcomer) const {
  std::string &message = newcomer.arrival.message;
  char buffer[512];
  size_t room = std::min(sizeof(buffer), bytes - message.size());
  ssize_t n = recv(newcomer.arrival.socket.get(), buffer, room, MSG_DONTWAIT);
  if (n > 0)
    message.append(buffer, n);
  bool waits = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  newcomer.done =
      message.size() == bytes || !waits || std::chrono::steady_clock::now() > newcomer.until;
  return message.size() == bytes;
}

std::vector<Arrival> Acceptor::wait(const Socket &listener, int milliseconds, int wake) {
  std::vector<pollfd> entries{{listener.get(), POLLIN, 0}, {wake, POLLIN, 0}};
  for (const Newcomer &newcomer : waiting)
    entries.push_back({newcomer.arrival.socket.get(), POLLIN, 0});
  poll(entries.data(), entries.size(), milliseconds);
  acceptAll(listener);
  std::vector<Arrival> arrivals;
  for (Newcomer &newcomer : waiting)
    if (read(newcomer))
      arrivals.push_back(std::move(newcomer.arrival));
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                               [](const Newcomer &newcomer) { return newcomer.done; }),
                waiting.end());
  return arrivals;
}

void warnRefused(const std::string &text) {
  constexpr size_t most = 8;
  static std::mutex mutex;
  static std::set<std::string> printed;
  std::lock_guard<std::mutex> lock(mutex);
  if (printed.size() < most && printed.insert(text).second)
    std::fprintf(stderr, "warning: %s%s\n", text.c_str(),
                 printed.size() == most ? "; later ones are not reported" : "");
}

} // namespace psrt
