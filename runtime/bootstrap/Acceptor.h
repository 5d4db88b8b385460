// Accepts connections and reads the first message of each, polling over all of them: a connection
// that stays silent costs nobody time.
#ifndef PSRT_BOOTSTRAP_ACCEPTOR_H
#define PSRT_BOOTSTRAP_ACCEPTOR_H

#include "runtime/bootstrap/JobKey.h"
#include "runtime/bootstrap/Socket.h"
#include <deque>

namespace psrt {

/// A connection whose first message is complete.
struct Arrival {
  Socket socket;
  std::string message;
  Nonce challenge{}; ///< that it was sent
};

class Acceptor {
public:
  /// Messages have `bytes` bytes. With `greets`, each connection is first sent a challenge.
  Acceptor(size_t bytes, bool greets) : bytes(bytes), greets(greets) {}

  /// Waits until something happens, `wake` is readable, or the time is over.
  std::vector<Arrival> wait(const Socket &listener, int milliseconds, int wake = -1);
  /// Drops all connections that have not said who they are.
  void clear() { waiting.clear(); }

private:
  struct Newcomer {
    Arrival arrival;
    Deadline until;
    bool done = false;
  };
  void acceptAll(const Socket &listener);
  /// Reads what is there; returns whether the message is complete.
  bool read(Newcomer &newcomer);

  size_t bytes;
  bool greets;
  std::deque<Newcomer> waiting; ///< the oldest first
};

/// The first bytes on a connection to a greeting listener.
struct Challenge {
  static constexpr uint64_t kMagic = 0x32747261'74737370; // "psstart2"
  uint64_t magic = kMagic;
  Nonce nonce{};
};

/// Prints a warning about a process that was refused, each one once and no more than eight.
void warnRefused(const std::string &text);

} // namespace psrt

#endif
