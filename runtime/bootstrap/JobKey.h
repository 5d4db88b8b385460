// The key of a job: its processes know it, and prove so to each other without sending it.
#ifndef PSRT_BOOTSTRAP_JOBKEY_H
#define PSRT_BOOTSTRAP_JOBKEY_H

#include "runtime/bootstrap/Sha256.h"
#include <initializer_list>
#include <string>

namespace psrt {

/// Equal in all processes of a job.
struct JobKey {
  Digest bytes{};
};

/// Drawn at random for one exchange, so that no proof is of use a second time.
using Nonce = std::array<uint8_t, 16>;

/// Derives the key of a job from a secret (may be empty) and from what tells the job from others.
JobKey makeJobKey(const std::string &secret, const std::string &identity);
JobKey drawJobKey();
Nonce drawNonce();

/// Proves knowledge of the key: an HMAC over a purpose and the parts that it is about.
Digest sign(const JobKey &key, std::string_view purpose,
            std::initializer_list<std::string_view> parts);

/// The bytes of a value that is sent as it lies in memory.
template <typename T> std::string_view bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

/// Returns PSRT_JOB_SECRET; empty when it is not set.
/// \throws BadArgument when it is set and shorter than 16 characters.
std::string jobSecret();

} // namespace psrt

#endif
