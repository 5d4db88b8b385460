// Maps a file for reading. The system reads a page from disk when it is first accessed.
#ifndef PSRT_DATA_MAPPEDFILE_H
#define PSRT_DATA_MAPPEDFILE_H

#include <cstddef>
#include <string>

namespace psrt {

/// Fails with BadArgument unless `path`, which the user gave, is a regular file that can be read.
/// Errors begin with `flag`.
void checkReadable(const char *flag, const std::string &path);

/// A read-only mapping of a whole file.
class MappedFile {
public:
  /// Maps the file. Fails with BadInput if it cannot be opened.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const char *data() const { return bytes; }
  size_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  std::string name;
  const char *bytes = nullptr;
  size_t length = 0;
};

} // namespace psrt

#endif
