// Detects whether two paths of one run name the same file, such as "a" and "./a". Shared by
// compiler and runtime; does not use LLVM.
#ifndef PARASHARD_SHARED_FILECLAIMS_H
#define PARASHARD_SHARED_FILECLAIMS_H

#include <filesystem>
#include <map>
#include <string>
#include <sys/stat.h>

namespace parashard {

/// Returns the same text for all spellings of a regular or missing file. Example: "./a", a link to
/// "a" and a hard link of "a" give the same text. A regular file is identified by its device and
/// inode, a missing file by its canonical folder and name. Devices, pipes and folders are
/// identified by the path as given. Two spellings of one device or pipe therefore count as two
/// files. This is harmless: the writers of a device or pipe do not overwrite each other's data.
inline std::string identifyFile(const std::string &path) {
  namespace fs = std::filesystem;
  struct stat info;
  if (stat(path.c_str(), &info) == 0)
    return S_ISREG(info.st_mode) ? std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)
                                 : path;
  std::error_code error;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(target, error); ++links)
    target = target.parent_path() / fs::read_symlink(target, error);
  fs::path canonical = fs::weakly_canonical(fs::absolute(target, error), error);
  return error ? path : canonical.string();
}

/// The files that one run of a tool uses, each with a description of its use.
class FileClaims {
public:
  /// Adds a file. `use` continues a message about the file, such as `is read as "data.npz"`. Adding
  /// a file again keeps its first use.
  void add(const std::string &path, const std::string &use) {
    uses.emplace(identifyFile(path), use);
  }
  /// Returns the use of a claimed file, or null.
  const std::string *find(const std::string &path) const {
    auto it = uses.find(identifyFile(path));
    return it == uses.end() ? nullptr : &it->second;
  }

private:
  std::map<std::string, std::string> uses;
};

} // namespace parashard

#endif
