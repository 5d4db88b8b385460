// Writes files that readers see either complete or not at all.
#ifndef PSRT_DATA_OUTPUTFILE_H
#define PSRT_DATA_OUTPUTFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// A file with a temporary name next to `path`. `commit` renames it to `path`; without a commit it
/// is removed. An unfinished file is locked (flock) to show that it is not a leftover. Links are
/// followed. All functions fail with BadInput if the file cannot be written, and with BadArgument
/// if something other than a regular file is at `path`.
class OutputFile {
public:
  enum class Takes {
    RegularFiles,
    /// Devices, pipes and the file of stdout or stderr are written in place.
    Devices
  };
  explicit OutputFile(const std::string &path, Takes takes = Takes::RegularFiles);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  void write(const void *data, size_t bytes);
  /// Writes everything to disk under the temporary name, so that `commit` needs no more space.
  void finish();
  /// Finishes the file and gives it its name.
  void commit();
  /// Removes the file at the path before other files of a set are committed, so that readers see no
  /// file until this one is committed.
  void retract();
  /// Gives the file its name and keeps it open and locked; later writes are appended. Fails with
  /// BadArgument if another run has a published file open at the path.
  void publish();
  /// Makes written data visible to readers.
  void flush();
  /// Syncs written data to disk.
  void sync();

private:
  [[noreturn]] void fail() const;
  void rename();
  std::string path, target;
  std::string temporary; ///< empty: written in place
  std::FILE *file = nullptr;
  bool committed = false;
};

/// Fails early if an OutputFile cannot be created at `path`.
void checkReplaceable(const std::string &path);
/// Fails early if an OutputFile cannot be created at `path`, which may also be a device or a pipe,
/// or if another run still writes a published file there.
void checkWritable(const std::string &path);
/// Returns whether stdout or stderr goes to the regular file at `path`.
bool isOwnStream(const std::string &path);

} // namespace psrt

#endif
