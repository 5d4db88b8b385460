// A file mapped for reading: bytes are read from disk when they are touched.
#ifndef PSRT_DATA_MAPPEDFILE_H
#define PSRT_DATA_MAPPEDFILE_H

#include <cstddef>
#include <string>

namespace psrt {

class MappedFile {
public:
  /// Fails with BadInput when the file cannot be opened.
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
