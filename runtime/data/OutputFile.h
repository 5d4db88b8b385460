// Files that readers see whole or not at all.
#ifndef PSRT_DATA_OUTPUTFILE_H
#define PSRT_DATA_OUTPUTFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// A file under a temporary name beside `path`; `commit` gives it its own, and without that it is
/// removed. All fail with BadInput when it cannot be written.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  void write(const void *data, size_t bytes);
  void commit();

private:
  [[noreturn]] void fail() const;
  std::string path, temporary;
  std::FILE *file = nullptr;
  bool committed = false;
};

/// Fails with BadInput, now rather than after hours, when a file cannot be created at `path`.
void checkWritable(const std::string &path);

} // namespace psrt

#endif
