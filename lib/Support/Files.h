// Files that appear whole or not at all.
#ifndef PARASHARD_LIB_SUPPORT_FILES_H
#define PARASHARD_LIB_SUPPORT_FILES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace parashard {

/// Writes what `write` prints to `path`. The text goes to a new file (O_EXCL) under an
/// unpredictable name beside `path`, which is then renamed, or removed where that fails: nothing
/// else that is in the folder is touched. A symbolic link is written through. `mode`: permissions,
/// before the umask. Errors name `path` and the cause when it cannot be written or is not a regular
/// file. Errors of `write` are returned unchanged.
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write,
                            unsigned mode);
llvm::Error writeAtomically(llvm::StringRef path,
                            llvm::function_ref<void(llvm::raw_ostream &)> write);

/// A folder for temporary files, in the system's one, that no other user can read or write. It goes
/// away with the files that were named; on SIGINT, SIGTERM or SIGHUP with all that is in it.
class PrivateFolder {
public:
  static llvm::Expected<PrivateFolder> create();
  PrivateFolder(PrivateFolder &&other) noexcept;
  ~PrivateFolder();
  llvm::StringRef getPath() const { return path; }
  /// The path of a file in the folder.
  std::string name(llvm::StringRef file);

private:
  PrivateFolder() = default;
  void removeOnSignal();
  std::string path;
  std::vector<std::string> files;
  int slot = -1; ///< of the folders that a signal removes
};

} // namespace parashard

#endif
