// Connects to several ends at once: one that does not answer costs the others no time.
#ifndef PSRT_BOOTSTRAP_CONNECTOR_H
#define PSRT_BOOTSTRAP_CONNECTOR_H

#include "runtime/bootstrap/Socket.h"
#include <map>
#include <optional>

namespace psrt {

/// An end where rank 0 may listen, seen from the others.
struct Candidate {
  std::string address;
  uint16_t port;
};

class Connector {
public:
  struct Answer {
    Candidate candidate;
    Socket socket;
  };

  /// An end has answered when it has sent `bytes` bytes, or closes.
  explicit Connector(size_t bytes) : bytes(int(bytes)) {}

  /// Connects to those to which no attempt is under way.
  void start(const std::vector<Candidate> &candidates);
  /// Returns the next end that answers; none until then.
  std::optional<Answer> next(Deadline until);
  /// Describes why addresses do not answer: "Connection refused" where all have one reason, else
  /// "10.0.0.1: Connection timed out, 127.0.0.1: Connection refused".
  std::string describeErrors() const;

private:
  struct Attempt {
    Candidate candidate;
    Socket socket;
    Deadline until;
  };
  /// Returns the first attempt that has answered, without those that have failed.
  std::optional<Answer> take();
  /// Returns whether the attempt has failed.
  bool check(Attempt &attempt, short events);

  int bytes;
  std::vector<Attempt> attempts;
  std::map<std::string, int> errors; ///< by address, the last one
};

} // namespace psrt

#endif
