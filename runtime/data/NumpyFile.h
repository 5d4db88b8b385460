// Reads NumPy's files: .npy (one array) and .npz (a zip archive of arrays), as written by
// numpy.save and numpy.savez.
#ifndef PSRT_DATA_NUMPYFILE_H
#define PSRT_DATA_NUMPYFILE_H

#include "runtime/data/MappedFile.h"
#include "runtime/data/Samples.h"
#include <string_view>

namespace psrt {

/// A mapped file whose arrays are read in place.
class NumpyFile {
public:
  /// Opens a file. Fails with BadInput if it is truncated, compressed or not a NumPy file, or if an
  /// array is in Fortran order, big-endian, or of an unsupported dtype.
  explicit NumpyFile(const std::string &path);
  /// Returns the arrays with their names in the archive. The array of a .npy file has an empty
  /// name.
  const std::vector<HostTensor> &arrays() const { return table; }

private:
  void readArchive();
  size_t readEntry(size_t at);
  void addArray(const std::string &name, std::string_view bytes);
  /// Returns an integer of `bytes` bytes at an offset. Fails beyond the end of the file.
  uint64_t read(size_t at, size_t bytes) const;
  [[noreturn]] void fail(const std::string &message) const;

  MappedFile file;
  std::vector<HostTensor> table;
};

} // namespace psrt

#endif
