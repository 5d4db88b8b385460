// Writes files under a temporary name. A file gets its own name when it is complete, or when
// `publish` is called. Devices and pipes are written in place.
#ifndef PSRT_DATA_OUTPUTFILE_H
#define PSRT_DATA_OUTPUTFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// A file with a temporary name next to `path`. `commit` renames it to `path`; the destructor
/// removes an uncommitted file. The temporary file is locked (flock), so that other processes know
/// that its writer is alive. Symbolic links are followed. All functions fail with BadInput if the
/// file cannot be written. The constructor fails with BadArgument if `path` is a folder or, without
/// Takes::Devices, a device or pipe.
class OutputFile {
public:
  enum class Takes {
    RegularFiles,
    /// `path` may also be a device, a pipe, or the file to which stdout or stderr is redirected.
    /// Such outputs are written in place.
    Devices
  };
  explicit OutputFile(const std::string &path, Takes takes = Takes::RegularFiles);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  void write(const void *data, size_t bytes);
  /// Writes all data to disk under the temporary name, so that `commit` needs no further space.
  void finish();
  /// Calls `finish`, then renames the file to `path`.
  void commit();
  /// Removes the existing file at `path`. Example: before the new files of a set are committed, the
  /// old index of the set is removed.
  void retract();
  /// Renames the file to `path`, and keeps it open and locked for further writes. Fails with
  /// BadArgument if another run has published a file at `path` and is still writing it.
  void publish();
  /// Flushes the buffer, so that readers see all written data.
  void flush();
  /// Syncs written data to disk (fsync).
  void sync();

private:
  [[noreturn]] void fail() const;
  void rename();
  std::string path, target;
  std::string temporary; ///< empty: written in place
  std::FILE *file = nullptr;
  bool committed = false;
};

/// Fails if an OutputFile cannot be created at `path`. Called before a run, to report the error
/// early.
void checkReplaceable(const std::string &path);
/// As `checkReplaceable`, but `path` may be a device or a pipe. Also fails if another run is still
/// writing a published file at `path`.
void checkWritable(const std::string &path);
/// Returns whether stdout or stderr goes to the regular file at `path`.
bool isOwnStream(const std::string &path);

} // namespace psrt

#endif
