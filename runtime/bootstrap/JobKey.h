// Defines the key of a job. Processes prove to each other that they know the key, without sending
// it.
#ifndef PSRT_BOOTSTRAP_JOBKEY_H
#define PSRT_BOOTSTRAP_JOBKEY_H

#include "runtime/bootstrap/Sha256.h"
#include <initializer_list>
#include <string>

namespace psrt {

/// A key that is equal in all processes of a job.
struct JobKey {
  Digest bytes{};
};

/// A random number for one handshake, so that a recorded proof cannot be replayed.
using Nonce = std::array<uint8_t, 16>;

/// Derives the key of a job from a secret (may be empty) and the job's name.
JobKey makeJobKey(const std::string &secret, const std::string &identity);
JobKey drawJobKey();
Nonce drawNonce();

/// Returns an HMAC over `purpose` and `parts`, which proves that the sender knows the key.
Digest sign(const JobKey &key, std::string_view purpose,
            std::initializer_list<std::string_view> parts);

/// Returns the in-memory bytes of a value, for sending.
template <typename T> std::string_view bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

/// Returns PSRT_JOB_SECRET, or "" if it is not set. Throws BadArgument if it is shorter than 16
/// characters.
std::string jobSecret();

} // namespace psrt

#endif
