// Compares the weights in a model's archive with the checksums that were recorded at compile time.
#ifndef PSRT_CORE_ENTRYCHECKS_H
#define PSRT_CORE_ENTRYCHECKS_H

#include "runtime/core/Program.h"
#include <map>
#include <memory>
#include <mutex>

namespace psrt {

/// Returns the CRC-32 of bytes, as used by zip archives.
uint32_t computeCrc32(const char *data, size_t bytes);

/// Checks each archive entry once per process. The first rank that needs an entry checks it, while
/// other ranks wait.
class EntryChecks {
public:
  /// Checks `bytes`, the contents of the archive entry with the initial value of `variable`. Fails
  /// with BadInput if the CRC differs from the one recorded at compile time. Thread-safe.
  void check(const Variable &variable, const std::string &path, const char *bytes);

private:
  struct Entry {
    std::mutex mutex;
    bool isGood = false;
  };
  std::mutex mutex;
  std::map<std::pair<std::string, int64_t>, std::unique_ptr<Entry>>
      entries; ///< key: path and offset
};

} // namespace psrt

#endif
