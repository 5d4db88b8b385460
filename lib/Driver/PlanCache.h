// Keeps the results of a plan search in files, for later searches of the same model.
#ifndef PARASHARD_LIB_DRIVER_PLANCACHE_H
#define PARASHARD_LIB_DRIVER_PLANCACHE_H

#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <optional>
#include <string>

namespace parashard::driver {

/// Small files in `parashard/plans` of the user's cache folder. Without such a folder, nothing is
/// kept. All functions may be called from several threads and processes.
class PlanCache {
public:
  PlanCache();
  /// Removes the least recently used entries until the others have at most `kMostBytes` bytes. Does
  /// nothing if `keep` was not called.
  ~PlanCache();
  PlanCache(const PlanCache &) = delete;
  PlanCache &operator=(const PlanCache &) = delete;

  /// Returns the bytes that `keep` stored for a key; nullopt if the key has no file, or if the file
  /// is damaged. A key must contain everything that the bytes depend on, except the compiler
  /// itself.
  std::optional<std::string> find(llvm::StringRef key) const;
  void keep(llvm::StringRef key, llvm::StringRef bytes);

  static constexpr uint64_t kMostBytes = 256 << 20;

private:
  std::string getPath(llvm::StringRef key) const;

  std::string folder;   ///< empty: nothing is kept
  std::string compiler; ///< identifies the running program
  std::atomic<bool> hasGrown = false;
};

/// Returns 32 hexadecimal digits that identify a text.
std::string hashText(llvm::StringRef text);
/// Returns `hashText` of a file's content; "" if the file cannot be read.
std::string hashFile(llvm::StringRef path);

} // namespace parashard::driver

#endif
