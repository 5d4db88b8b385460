// Transposes byte matrices in tiles. Global memory is read and written along rows; the
// transposition happens in shared memory.
#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {
namespace {

constexpr int kTile = kTransposeTile, kWords = kTile / 4; ///< a thread transposes 4 x 4 bytes

/// Rows are padded by one word, so that threads that write a column of words use different banks.
struct Tile {
  uint32_t words[kTile][kWords + 1];
};

/// Returns byte `j` of each of the four words.
PSRT_DEVICE uint32_t gather(const uint32_t (&words)[4], int j) {
  uint32_t result = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result |= (words[i] >> (8 * j) & 0xff) << (8 * i);
  return result;
}

} // namespace

PSRT_KERNEL(psrt_transpose_bytes, TransposeArguments) {
  PSRT_SHARED(Tile, tile);
  int64_t across = (a.columns + kTile - 1) / kTile, down = (a.rows + kTile - 1) / kTile;
  int64_t number = blockIndex();
  int64_t column = number % across * kTile, row = number / across % down * kTile;
  int64_t batch = number / (across * down);
  int32_t x = int32_t(threadIndex()) % kWords, y = int32_t(threadIndex()) / kWords;
  const uint8_t *in = a.in + batch * a.batchStride;
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (row + 4 * y + i < a.rows && column + 4 * x < a.columns)
      words[i] =
          *reinterpret_cast<const uint32_t *>(in + (row + 4 * y + i) * a.ld + column + 4 * x);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    tile.words[4 * x + j][y] = gather(words, j);
  barrier();
  uint8_t *out = a.out + batch * a.rows * a.columns;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int32_t line = y + i * kWords;
    if (column + line < a.columns && row + 4 * x < a.rows)
      *reinterpret_cast<uint32_t *>(out + (column + line) * a.rows + row + 4 * x) =
          tile.words[line][x];
  }
}

} // namespace psrt::cuda
