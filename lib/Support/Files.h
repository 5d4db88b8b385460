// Declares atomic file writes and private temporary folders.
#ifndef PARASHARD_LIB_SUPPORT_FILES_H
#define PARASHARD_LIB_SUPPORT_FILES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace parashard::support {

/// Writes the output of `write` to `path` atomically: writes a new file (O_EXCL) with an
/// unpredictable name in the same folder, then renames this file to `path`. Removes the file on
/// failure. Follows symbolic links. `mode` is the file's permissions before the umask (default
/// 0666). Fails if `path` cannot be written or is not a regular file. Returns errors of `write`
/// unchanged.
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode);
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Returns Parashard's folder for caches: $XDG_CACHE_HOME/parashard, or ~/.cache/parashard if the
/// variable is empty or unset. Does not create it. Returns nullopt if the user has no home folder.
std::optional<std::string> findCacheFolder();

/// A subfolder of the system's temporary folder that no other user can read or write. The
/// destructor removes the folder and the files that `name` returned. SIGINT, SIGTERM and SIGHUP
/// also remove the folder with all of its files, unless 8 other folders existed when the folder was
/// created.
class PrivateFolder {
public:
  static llvm::Expected<PrivateFolder> create();
  PrivateFolder(PrivateFolder &&other) noexcept;
  ~PrivateFolder();
  llvm::StringRef getPath() const { return path; }
  /// Returns the path of `file` in the folder. The destructor removes this file.
  std::string name(llvm::StringRef file);

private:
  PrivateFolder() = default;
  void removeOnSignal();
  std::string path;
  std::vector<std::string> files;
  int slot = -1; ///< index in the list of folders that a signal removes; -1: none
};

} // namespace parashard::support

#endif
