// Computes SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), which prove that a process knows a
// job's key.
#ifndef PSRT_BOOTSTRAP_SHA256_H
#define PSRT_BOOTSTRAP_SHA256_H

#include <array>
#include <cstdint>
#include <string_view>

namespace psrt {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view data);
Digest hmacSha256(std::string_view key, std::string_view data);
/// Returns whether two digests are equal. The time does not depend on where they differ.
bool isEqual(const Digest &a, const Digest &b);

} // namespace psrt

#endif
