// Creates every file that a program writes: exclusively, under an unpredictable name.
#ifndef PSRT_CORE_NEWFILE_H
#define PSRT_CORE_NEWFILE_H

#include <cstdint>
#include <string>
#include <utility>

namespace psrt {

/// Returns 16 random hex digits of the system's generator.
std::string drawUniqueName();

/// A file that is open for writing, and its temporary path.
struct NewFile {
  int descriptor = -1; ///< -1: the file cannot be created, and errno says why
  std::string path;
};

/// Creates a file in the folder of `target`, under an unpredictable name ("w.pt" gives
/// "w.pt.0123456789abcdef.tmp"), with O_EXCL and O_NOFOLLOW: no file or link of another user is
/// opened. It gets the permissions of a regular file of this user at `target`.
NewFile createBeside(const std::string &target);

/// Space on a disk for what is written later: of a file without a name, which is gone with the
/// process, however that ends.
class ReservedSpace {
public:
  ReservedSpace() = default;
  /// Takes `bytes` on the disk of `target`, a file or a folder. Fails with BadInput where it has
  /// not so many; takes nothing where the file system cannot reserve space.
  ReservedSpace(const std::string &target, int64_t bytes);
  ReservedSpace(ReservedSpace &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  ReservedSpace &operator=(ReservedSpace &&other) noexcept;
  ~ReservedSpace() { release(); }
  /// Gives the space back, to be written to.
  void release();

private:
  int descriptor = -1;
};

/// Whether a file is one that `createBeside` made for `target` and a killed process left. Both are
/// names without folders.
bool isLeftover(const std::string &name, const std::string &target);

/// Returns the file that a temporary name stands for: "w.pt" for "w.pt.0123456789abcdef.tmp"; empty
/// for other names. Names of more than 234 bytes were cut.
std::string findLeftoverTarget(const std::string &name);

/// Writes the names in a folder to the disk, as far as the file system can.
void syncFolderOf(const std::string &path);

} // namespace psrt

#endif
