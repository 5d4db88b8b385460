// Keeps the compiler's results in files of the user's cache folder. Only the same build of the
// compiler reads these files again.
#ifndef PARASHARD_LIB_SUPPORT_FILECACHE_H
#define PARASHARD_LIB_SUPPORT_FILECACHE_H

#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <optional>
#include <string>

namespace parashard::support {

/// Small files in one folder of the user's cache folder (`findCacheFolder`). If the folder cannot
/// be created, nothing is kept. All functions may be called from several threads and processes.
class FileCache {
public:
  /// `name` is the folder. `maxBytes` is the size of all files together, above which old ones are
  /// removed.
  FileCache(llvm::StringRef name, uint64_t maxBytes);
  /// After `keep`, removes the least recently used files until the others have at most `maxBytes`
  /// bytes. Does so at most once an hour per folder.
  ~FileCache();
  FileCache(const FileCache &) = delete;
  FileCache &operator=(const FileCache &) = delete;

  /// Returns the bytes that `keep` stored for a key; nullopt if the key has no file, or if the file
  /// is damaged. A key must contain everything that the bytes depend on, except the compiler
  /// itself.
  std::optional<std::string> find(llvm::StringRef key) const;
  void keep(llvm::StringRef key, llvm::StringRef bytes);

private:
  std::string getPath(llvm::StringRef key) const;
  bool isTimeToPrune() const;
  void prune() const;

  uint64_t maxBytes;
  std::string folder;   ///< empty: nothing is kept
  std::string compiler; ///< identifies this build of the compiler
  std::atomic<bool> hasGrown = false;
};

/// Returns 32 hexadecimal digits that identify a text.
std::string hashText(llvm::StringRef text);
/// Returns `hashText` of a file's content; "" if the file cannot be read.
std::string hashFile(llvm::StringRef path);

} // namespace parashard::support

#endif
