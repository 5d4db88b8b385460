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
/// unpredictable name in the same folder, then renames this file to `path`. Removes the new file on
/// failure. Follows symbolic links. `mode` is the file's permissions before the umask (default
/// 0666). Fails if `path` cannot be written or is not a regular file. Returns errors of `write`
/// unchanged.
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode);
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Returns Parashard's folder for caches: $XDG_CACHE_HOME/parashard or, if this variable is empty
/// or unset, ~/.cache/parashard. Returns nullopt if there is neither the variable nor a home
/// folder. Does not create the folder.
std::optional<std::string> findCacheFolder();

/// A new folder in the system's temporary folder. Other users cannot read or write the new folder.
/// The destructor removes the folder, and the files whose paths `name` returned. SIGINT, SIGTERM
/// and SIGHUP also remove the folder with all of its files, unless 8 other folders existed when the
/// folder was created.
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
  int slot = -1; ///< index in `signalFolders`; -1 if a signal does not remove this folder
};

} // namespace parashard::support

#endif
