// Fills and reads tensors in a rank's memory from the host: in place for host memory, otherwise
// through a staging buffer.
#ifndef PSRT_CORE_MEMORYPIECES_H
#define PSRT_CORE_MEMORYPIECES_H

#include "runtime/core/RankMemory.h"
#include <algorithm>
#include <vector>

namespace psrt {

/// Size of the staging buffer for copies between host and device; a multiple of every element size.
inline constexpr int64_t kPieceBytes = 4 << 20;

/// Writes contiguous runs of a tensor's elements at ascending offsets. In host memory, the elements
/// between the runs keep their values. In a staged piece, these elements become zeros. If the
/// caller zeroes the tensor first, both cases give zeros.
class PieceWriter {
public:
  PieceWriter(RankMemory &memory, int64_t address, int64_t bytes)
      : memory(memory), address(address), bytes(bytes), base(memory.host(address)) {}

  /// Writes `count` elements of `size` bytes, starting at element `local`. Calls body(char *to,
  /// int64_t first, int64_t n) for each part of this run: the body writes elements [first, first +
  /// n) of the run to `to`.
  template <typename Body> void write(int64_t local, int64_t count, int64_t size, Body &&body) {
    if (base)
      return body(base + local * size, int64_t(0), count);
    for (int64_t done = 0; done < count;) {
      int64_t at = (local + done) * size;
      stageAt(at);
      int64_t n = std::min(count - done, (end - at) / size);
      body(piece + (at - begin), done, n);
      done += n;
    }
  }
  /// Writes the last piece to the memory. Without this call the piece is lost.
  void finish();

private:
  void stageAt(int64_t at);

  RankMemory &memory;
  int64_t address, bytes;
  char *base, *piece = nullptr;
  int64_t begin = 0, end = 0; ///< range of the piece in the tensor
};

/// Reads contiguous runs of a tensor's elements.
class PieceReader {
public:
  PieceReader(RankMemory &memory, int64_t address, int64_t bytes)
      : memory(memory), address(address), bytes(bytes), base(memory.host(address)) {}

  /// Calls body(const char *from, int64_t first, int64_t n) for each part of the run, like
  /// PieceWriter::write.
  template <typename Body> void read(int64_t local, int64_t count, int64_t size, Body &&body) {
    if (base)
      return body(base + local * size, int64_t(0), count);
    for (int64_t done = 0; done < count;) {
      int64_t at = (local + done) * size;
      stageAt(at);
      int64_t n = std::min(count - done, (end - at) / size);
      body(piece.data() + (at - begin), done, n);
      done += n;
    }
  }

private:
  void stageAt(int64_t at);

  RankMemory &memory;
  int64_t address, bytes;
  const char *base;
  std::vector<char> piece;
  int64_t begin = 0, end = 0;
};

/// Swaps the `bytes` bytes at address `one` with those at address `other`.
void exchange(RankMemory &memory, int64_t one, int64_t other, int64_t bytes);

} // namespace psrt

#endif
