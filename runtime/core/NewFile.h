// Creates every file that a program writes: exclusively, under an unpredictable name.
#ifndef PSRT_CORE_NEWFILE_H
#define PSRT_CORE_NEWFILE_H

#include <cstdint>
#include <string>
#include <utility>

namespace psrt {

/// Returns 16 random hex digits from the system's generator.
std::string drawUniqueName();

/// A file that is open for writing, and its temporary path.
struct NewFile {
  int descriptor = -1; ///< -1: the file cannot be created; errno has the reason
  std::string path;
};

/// Creates a file next to `target` under an unpredictable name: "w.pt" gives
/// "w.pt.0123456789abcdef.tmp". With O_EXCL and O_NOFOLLOW, the call never opens a file or link of
/// another user. If `target` is a regular file of this user, the new file gets the same
/// permissions.
NewFile createBeside(const std::string &target);

/// Disk space reserved for a later write. An unnamed file holds the space and disappears with the
/// process.
class ReservedSpace {
public:
  ReservedSpace() = default;
  /// Reserves `bytes` on the file system of `target`, a file or a folder. Fails with BadInput if
  /// too little space is free. Does nothing if the file system cannot reserve space.
  ReservedSpace(const std::string &target, int64_t bytes);
  ReservedSpace(ReservedSpace &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  ReservedSpace &operator=(ReservedSpace &&other) noexcept;
  ~ReservedSpace() { release(); }
  /// Releases the space, before the file that needs it is written.
  void release();

private:
  int descriptor = -1;
};

/// Returns whether `createBeside` can give the temporary name `name` to a file for `target`. Both
/// are names without folders.
bool isLeftover(const std::string &name, const std::string &target);

/// Returns the target of a temporary name: "w.pt" for "w.pt.0123456789abcdef.tmp", "" for other
/// names. A target of more than 234 bytes is returned truncated.
std::string findLeftoverTarget(const std::string &name);

/// Syncs the folder of `path` to disk (fsync), if the folder is readable.
void syncFolderOf(const std::string &path);

} // namespace psrt

#endif
