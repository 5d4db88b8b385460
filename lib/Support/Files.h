// Declares atomic file writes and private temporary folders.
#ifndef PARASHARD_LIB_SUPPORT_FILES_H
#define PARASHARD_LIB_SUPPORT_FILES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace parashard::support {

/// Writes the output of `write` to `path` atomically. Creates a new file (O_EXCL) with an
/// unpredictable name in the same folder. Renames this file to `path`, or removes it on failure.
/// Follows symbolic links. `mode` is the file's permissions before the umask (default 0666). Errors
/// name `path` and the cause: the file cannot be written, or is not a regular file. Errors of
/// `write` are returned unchanged.
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode);
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write);

/// A private subfolder of the system's temporary folder: no other user can read or write it. The
/// destructor removes the folder and the files that `name` returned. A SIGINT, SIGTERM or SIGHUP
/// removes the folder with all of its files, for at most 8 folders at a time.
class PrivateFolder {
public:
  static llvm::Expected<PrivateFolder> create();
  PrivateFolder(PrivateFolder &&other) noexcept;
  ~PrivateFolder();
  llvm::StringRef getPath() const { return path; }
  /// Returns a path in the folder, for a file that the destructor removes.
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
