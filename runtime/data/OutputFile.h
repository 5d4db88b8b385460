// Files that readers see whole or not at all.
#ifndef PSRT_DATA_OUTPUTFILE_H
#define PSRT_DATA_OUTPUTFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// A file under a temporary name beside `path`; `commit` gives it its own, and without that it is
/// removed. Links are written through. All fail with BadInput when it cannot be written, and with
/// BadArgument when something other than a regular file is at `path`.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  void write(const void *data, size_t bytes);
  /// All is on the disk, under the temporary name: `commit` needs no more room.
  void finish();
  void commit();

private:
  [[noreturn]] void fail() const;
  std::string path, target, temporary;
  std::FILE *file = nullptr;
  bool committed = false;
};

/// Fails, now rather than after hours, when an OutputFile cannot be created at `path`.
void checkReplaceable(const std::string &path);
/// The same for a file that is written in place: it may be a device or a pipe.
void checkWritable(const std::string &path);

} // namespace psrt

#endif
