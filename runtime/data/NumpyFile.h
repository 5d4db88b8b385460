// Arrays in NumPy's files: .npy (one array) and .npz (a zip archive of them), as numpy.save and
// numpy.savez write them.
#ifndef PSRT_DATA_NUMPYFILE_H
#define PSRT_DATA_NUMPYFILE_H

#include "runtime/data/MappedFile.h"
#include "runtime/data/Samples.h"
#include <string_view>

namespace psrt {

/// A mapped file; arrays are read in place.
class NumpyFile {
public:
  /// Fails with BadInput on a truncated, foreign or compressed file, and on arrays in Fortran
  /// order, of other byte orders or of dtypes that programs do not have.
  explicit NumpyFile(const std::string &path);
  /// By the archive's names; the one array of a .npy file has an empty name.
  const std::vector<HostTensor> &arrays() const { return table; }

private:
  void readArchive();
  size_t readEntry(size_t at);
  void addArray(const std::string &name, std::string_view bytes);
  /// Integers of `bytes` bytes at an offset; fails beyond the end.
  uint64_t read(size_t at, size_t bytes) const;
  [[noreturn]] void fail(const std::string &what) const;

  MappedFile file;
  std::vector<HostTensor> table;
};

} // namespace psrt

#endif
