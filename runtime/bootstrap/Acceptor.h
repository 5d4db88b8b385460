// Accepts connections and reads the first message of each. All connections are polled together, so
// a connection without a message does not delay the others.
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
  Nonce challenge{}; ///< challenge sent to the connection
};

/// Accepts connections, and returns each connection with its first message, which has a fixed size.
/// The caller checks the message to decide whether the connection belongs to the job.
class Acceptor {
public:
  /// `bytes` is the size of a message. With `greets`, the acceptor first sends a challenge to each
  /// connection.
  Acceptor(size_t bytes, bool greets) : bytes(bytes), greets(greets) {}

  /// Waits until a connection arrives or sends bytes, `wake` is readable, or `milliseconds` have
  /// passed. Returns the connections whose first message is complete.
  std::vector<Arrival> wait(const Socket &listener, int milliseconds, int wake = -1);
  /// Drops all connections without a complete message.
  void clear() { waiting.clear(); }

private:
  struct Newcomer {
    Arrival arrival;
    Deadline until;
    bool done = false;
  };
  void acceptAll(const Socket &listener);
  /// Reads the available bytes; returns whether the message is complete.
  bool read(Newcomer &newcomer) const;

  size_t bytes;
  bool greets;
  std::deque<Newcomer> waiting; ///< oldest first
};

/// The challenge that an Acceptor sends first on each connection, if `greets` is set.
struct Challenge {
  static constexpr uint64_t kMagic = 0x32747261'74737370; // "psstart2"
  uint64_t magic = kMagic;
  Nonce nonce{};
};

/// Prints a warning about a refused process. Prints each text once, and at most eight texts.
void warnRefused(const std::string &text);

} // namespace psrt

#endif
