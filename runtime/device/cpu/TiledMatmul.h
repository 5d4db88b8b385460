// Computes a matmul in tiles. Operands are first copied to a layout and dtype in which oneDNN is
// fast.
#ifndef PSRT_DEVICE_CPU_TILEDMATMUL_H
#define PSRT_DEVICE_CPU_TILEDMATMUL_H

#include "runtime/device/cpu/Matmul.h"

namespace psrt {

class CpuRank;

/// Computes out[m, n] = lhs[m, k] rhs[k, n] on one thread, tile by tile. The contracted dim is the
/// outer loop, except for 16-bit results that are accumulated in f32 (see below).
///
/// Without AVX-512 kernels, oneDNN 2.6 takes twice as long if an operand is transposed, or if its
/// rows are pages apart in memory. oneDNN itself copies such operands only if m and n are large,
/// that is, if 1/m + 1/n < 0.0038. For f32, this class therefore copies rhs, and lhs if it is
/// transposed. An f32 matmul in which m, n or k is less than 64 is a single tile without copies.
/// The same is true for all f32 matmuls on machines with AVX-512.
///
/// If oneDNN has no native matmuls of a 16-bit dtype, the operands are widened to f32 while they
/// are copied. A 16-bit result is then accumulated in f32, one tile at a time, and rounded once.
class TiledMatmul {
public:
  /// Creates the primitives on all threads of the rank. Without `copiesToBeFast`, operands are
  /// copied only if they must be widened.
  TiledMatmul(CpuRank &rank, const MatmulShape &shape, bool copiesToBeFast = true);

  /// Runs the matmul. If the matmul is tiled, `scratch` is the calling thread's memory of
  /// getScratchFloats() floats.
  void run(MatmulRunner &runner, float *scratch, const void *lhs, const void *rhs, void *out,
           const float *bias) const;

  /// Returns the scratch size in floats, which is the same for all matmuls.
  static constexpr int64_t getScratchFloats() { return kLhsFloats + kRhsFloats + kOutFloats; }

private:
  /// Tile sizes. Each row of a copy is followed by a gap of kGap floats (one cache line), which
  /// spreads the rows over the cache sets.
  static constexpr int64_t kRows = 256, kColumns = 512, kDepth = 384, kGap = 16;
  static constexpr int64_t kLhsFloats = kRows * (kDepth + kGap);
  static constexpr int64_t kRhsFloats = kDepth * (kColumns + kGap);
  static constexpr int64_t kOutFloats = kRows * (kColumns + kGap);

  /// The arguments and the scratch memory of one run.
  struct Pass;
  /// The indices of a tile's first element.
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
  int64_t rows, columns, depth; ///< sizes of a tile; the last tiles may be smaller
  bool copiesLhs = false, copiesRhs = false;
  bool narrowsResult = false; ///< whether tiles of the result are accumulated in scratch memory
  const MatmulPrimitive *primitives[2][2][2][2] =
      {}; ///< [last rows][last columns][last k][first k]
};

/// Returns whether oneDNN has AVX-512 kernels on this machine.
bool hasWideKernels();

} // namespace psrt

#endif
