// A matmul computed in tiles, whose operands are first copied so that they lie well for oneDNN, or
// are of a dtype that it is fast in.
#ifndef PSRT_DEVICE_CPU_TILEDMATMUL_H
#define PSRT_DEVICE_CPU_TILEDMATMUL_H

#include "runtime/device/cpu/Matmul.h"

namespace psrt {

class CpuRank;

/// out[m, n] = lhs[m, k] rhs[k, n] on one thread, tile by tile, with the summed dim outside.
/// Without kernels for AVX-512, oneDNN 2.6 takes twice the time where an operand is transposed, or
/// its rows lie pages apart, and it does not copy them itself (it does where 1/m + 1/n < 0.0038). A
/// matmul that is small, or that runs on AVX-512, is one tile, as it lies.
/// 16-bit floats that the machine has no matmuls of are widened as they are copied; a result that
/// is one of them is summed up in f32, a tile of it at a time, and rounded once.
class TiledMatmul {
public:
  /// Makes the primitives on all threads of the rank. Without `copiesToBeFast`, operands are copied
  /// only where they must be widened.
  TiledMatmul(CpuRank &rank, const MatmulShape &shape, bool copiesToBeFast = true);

  /// `scratch`: getScratchFloats() floats of the calling thread, if it isTiled().
  void run(MatmulRunner &runner, float *scratch, const void *lhs, const void *rhs, void *out,
           const float *bias) const;

  /// The same of every matmul.
  static constexpr int64_t getScratchFloats() { return kLhsFloats + kRhsFloats + kOutFloats; }

private:
  /// Copies' rows lie apart by a few cache lines more than they have, so that no two share a set.
  static constexpr int64_t kRows = 256, kColumns = 512, kDepth = 384, kGap = 16;
  static constexpr int64_t kLhsFloats = kRows * (kDepth + kGap);
  static constexpr int64_t kRhsFloats = kDepth * (kColumns + kGap);
  static constexpr int64_t kOutFloats = kRows * (kColumns + kGap);

  /// One matmul as it runs.
  struct Pass;
  /// Where a tile begins.
  struct Tile {
    int64_t m = 0, n = 0, k = 0;
  };
  void chooseTiles();
  void preparePrimitive(CpuRank &rank, bool lastRows, bool lastColumns, bool lastDepth, bool first);
  void copyRhs(const Pass &pass, const Tile &tile) const;
  void runTile(const Pass &pass, const Tile &tile) const;
  void runInPlace(const Pass &pass) const;
  void runNarrowed(const Pass &pass) const;

  MatmulShape shape;
  int64_t rows, columns, depth; ///< of a tile; the last ones have fewer
  bool copiesLhs = false, copiesRhs = false;
  bool narrowsResult = false; ///< a tile of it is summed up in scratch memory
  const MatmulPrimitive *primitives[2][2][2][2] =
      {}; ///< [last rows][last columns][last k][first k]
};

/// Whether oneDNN has kernels for AVX-512 here.
bool hasWideKernels();

} // namespace psrt

#endif
