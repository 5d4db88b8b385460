// Connects to several addresses at once, so that an address without an answer does not delay the
// others.
#ifndef PSRT_BOOTSTRAP_CONNECTOR_H
#define PSRT_BOOTSTRAP_CONNECTOR_H

#include "runtime/bootstrap/Socket.h"
#include <map>
#include <optional>

namespace psrt {

/// An address and port where rank 0 may listen.
struct Candidate {
  std::string address;
  uint16_t port;
};

/// Connects to candidates in parallel.
class Connector {
public:
  struct Answer {
    Candidate candidate;
    Socket socket;
  };

  /// A candidate counts as answering when it has sent `bytes` bytes or has closed the connection.
  explicit Connector(size_t bytes) : bytes(int(bytes)) {}

  /// Starts connecting to the candidates that have no attempt in progress.
  void start(const std::vector<Candidate> &candidates);
  /// Waits for the next candidate that answers. Returns nullopt if none answers before the
  /// deadline.
  std::optional<Answer> next(Deadline until);
  /// Describes the errors of the addresses: "Connection refused" if all have the same error, else
  /// "10.0.0.1: Connection timed out, 127.0.0.1: Connection refused".
  std::string describeErrors() const;

private:
  struct Attempt {
    Candidate candidate;
    Socket socket;
    Deadline until;
  };
  /// Returns the first attempt that has answered, and removes failed attempts.
  std::optional<Answer> take();
  /// Returns whether the attempt has failed.
  bool check(Attempt &attempt, short events);

  int bytes;
  std::vector<Attempt> attempts;
  std::map<std::string, int> errors; ///< last error by address
};

} // namespace psrt

#endif
