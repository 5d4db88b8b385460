// Files that readers see whole or not at all.
#ifndef PSRT_DATA_OUTPUTFILE_H
#define PSRT_DATA_OUTPUTFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// A file under a temporary name beside `path`; `commit` gives it its own, and without that it is
/// removed. Until it is finished it is locked (flock), so that others can see that it is no
/// leftover. Links are written through. All fail with BadInput when it cannot be written, and with
/// BadArgument when something other than a regular file is at `path`.
class OutputFile {
public:
  enum class Takes {
    RegularFiles,
    /// A device, a pipe, or the file that stdout or stderr goes to is written in place.
    Devices
  };
  explicit OutputFile(const std::string &path, Takes takes = Takes::RegularFiles);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  void write(const void *data, size_t bytes);
  /// All is on the disk, under the temporary name: `commit` needs no more room.
  void finish();
  void commit();
  /// Removes what is at the path, before other files of a set are committed: until this one is,
  /// readers find none.
  void retract();
  /// Gives the file its name and leaves it open and locked: what is written later is added to it.
  /// Fails with BadArgument while another one is open at the path.
  void publish();
  /// Others see what has been written.
  void flush();
  /// All that has been written is on the disk.
  void sync();

private:
  [[noreturn]] void fail() const;
  void rename();
  std::string path, target;
  std::string temporary; ///< empty: the file is written in place
  std::FILE *file = nullptr;
  bool committed = false;
};

/// Fails, now rather than after hours, when an OutputFile cannot be created at `path`.
void checkReplaceable(const std::string &path);
/// The same for a file that may also be a device or a pipe. Fails too when another run has
/// published a file there that it still writes.
void checkWritable(const std::string &path);
/// Whether stdout or stderr goes to the regular file at `path`.
bool isOwnStream(const std::string &path);

} // namespace psrt

#endif
