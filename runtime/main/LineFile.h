// A text file that is written line by line.
#ifndef PSRT_MAIN_LINEFILE_H
#define PSRT_MAIN_LINEFILE_H

#include <cstdio>
#include <string>

namespace psrt {

/// Flushed by line, so that it can be followed. Fails with BadInput when it cannot be written.
class LineFile {
public:
  /// Without a path, nothing is written.
  explicit LineFile(const std::string &path);
  ~LineFile();
  LineFile(const LineFile &) = delete;
  void write(const std::string &line);

private:
  [[noreturn]] void fail() const;
  std::string path;
  std::FILE *file = nullptr;
};

} // namespace psrt

#endif
