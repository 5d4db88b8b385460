// Compares the weights in a model's archive with the checksums that they had when it was compiled.
#ifndef PSRT_CORE_ENTRYCHECKS_H
#define PSRT_CORE_ENTRYCHECKS_H

#include "runtime/core/Program.h"
#include <map>
#include <memory>
#include <mutex>

namespace psrt {

/// CRC-32 as zip archives have it.
uint32_t computeCrc32(const char *data, size_t bytes);

/// The entries of archives that the ranks of a process read. The first rank that needs an entry
/// compares all of it, the others wait for that.
class EntryChecks {
public:
  /// `bytes`: those of the entry that `variable` is read from. Fails with BadInput where they do
  /// not have the CRC that was recorded at compile time. Any thread may call it.
  void check(const Variable &variable, const std::string &path, const char *bytes);

private:
  struct Entry {
    std::mutex mutex;
    bool isGood = false;
  };
  std::mutex mutex;
  std::map<std::pair<std::string, int64_t>, std::unique_ptr<Entry>> entries; ///< path and offset
};

} // namespace psrt

#endif
