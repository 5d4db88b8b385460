// Draws, derives and uses the key of a job.
#include "runtime/bootstrap/JobKey.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/random.h>

namespace psrt {

static void draw(void *data, size_t bytes) {
  if (getrandom(data, bytes, 0) != ssize_t(bytes))
    PSRT_FAIL(Failed, "cannot get random bytes from the system: %s", std::strerror(errno));
}

/// Concatenates parts, each preceded by its length, so that ("ab", "c") and ("a", "bc") give
/// different texts.
static std::string join(std::string_view purpose, std::initializer_list<std::string_view> parts) {
  std::string text = "parashard " + std::string(purpose);
  for (std::string_view part : parts) {
    uint64_t size = part.size();
    text.append(bytesOf(size)).append(part);
  }
  return text;
}

JobKey makeJobKey(const std::string &secret, const std::string &identity) {
  return {hmacSha256(secret, join("job", {identity}))};
}

JobKey drawJobKey() {
  JobKey key;
  draw(key.bytes.data(), key.bytes.size());
  return key;
}

Nonce drawNonce() {
  Nonce nonce;
  draw(nonce.data(), nonce.size());
  return nonce;
}

Digest sign(const JobKey &key, std::string_view purpose,
            std::initializer_list<std::string_view> parts) {
  return hmacSha256(bytesOf(key.bytes), join(purpose, parts));
}

std::string jobSecret() {
  constexpr size_t least = 16;
  const char *text = std::getenv("PSRT_JOB_SECRET");
  if (!text)
    return "";
  if (std::strlen(text) < least)
    PSRT_FAIL(BadArgument,
              "PSRT_JOB_SECRET has %zu characters; give at least %zu unpredictable characters "
              "(openssl rand -hex 32), the same in all processes of the job",
              std::strlen(text), least);
  return text;
}

} // namespace psrt
