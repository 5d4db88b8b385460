// Splits a matmul into tiles, copies their operands and runs them.
#include "runtime/device/cpu/TiledMatmul.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include <cstring>

namespace psrt {
namespace {

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Splits `size` into as few equal parts as possible, of at most `most` each. Returns the size of a
/// part, rounded up to a multiple of 16. Example: 500 with most = 256 gives two parts of 250, and
/// returns 256.
int64_t evenPart(int64_t size, int64_t most) {
  int64_t part = divideUp(size, std::max<int64_t>(1, divideUp(size, most)));
  return std::clamp<int64_t>(divideUp(part, 16) * 16, 1, most);
}

/// Smallest side of a matmul for which copying the operands pays off.
constexpr int64_t kMinSide = 64;

/// Sets to[i][j] = from[j][i] for i < rows, j < columns; rows of `from` are `fromStride` apart.
void transpose(const float *from, int64_t fromStride, float *to, int64_t toStride, int64_t rows,
               int64_t columns) {
  constexpr int64_t block = 8;
  for (int64_t j = 0; j < columns; j += block)
    for (int64_t i = 0; i < rows; i += block) {
      const float *source = from + j * fromStride + i;
      float *target = to + i * toStride + j;
      if (i + block <= rows && j + block <= columns) {
        for (int64_t a = 0; a < block; ++a)
          for (int64_t b = 0; b < block; ++b)
            target[a * toStride + b] = source[b * fromStride + a];
        continue;
      }
      for (int64_t a = 0; a < std::min(block, rows - i); ++a)
        for (int64_t b = 0; b < std::min(block, columns - j); ++b)
          target[a * toStride + b] = source[b * fromStride + a];
    }
}

/// A matrix with any strides, read as f32.
struct Source {
  const void *data;
  Dtype dtype;
  std::array<int64_t, 2> strides;

  /// Reads `count` elements of row `row`, or of column `row` if `transposed`.
  void read(int64_t row, bool transposed, int64_t count, float *to) const {
    int64_t step = strides[!transposed];
    const void *from = elementAt(data, dtype, row * strides[transposed]);
    if (step == 1)
      return dtype == Dtype::F32 ? void(std::memcpy(to, from, count * sizeof(float)))
                                 : widen(dtype, from, to, count);
    for (int64_t j = 0; j < count; ++j)
      if (dtype == Dtype::F32)
        to[j] = static_cast<const float *>(from)[j * step];
      else
        widen(dtype, static_cast<const uint16_t *>(from) + j * step, to + j, 1);
  }
};

/// Transposes a tile of 16-bit floats to f32. Widens eight contiguous columns at a time.
template <int64_t most>
void transposeWidened(const Source &from, float *to, int64_t toStride, int64_t rows,
                      int64_t columns) {
  constexpr int64_t block = 8;
  float lines[block][most];
  for (int64_t j = 0; j < columns; j += block) {
    int64_t count = std::min(block, columns - j);
    for (int64_t b = 0; b < count; ++b)
      from.read(j + b, /*transposed=*/true, rows, lines[b]);
    transpose(lines[0], most, to + j, toStride, rows, count);
  }
}

/// Copies a tile of at most `most` rows as f32. The rows of the copy have `columns` floats and are
/// `toStride` apart.
template <int64_t most>
void copyTile(const Source &from, float *to, int64_t toStride, int64_t rows, int64_t columns) {
  bool isTransposed = from.strides[1] != 1 && from.strides[0] == 1;
  if (isTransposed && from.dtype != Dtype::F32)
    return transposeWidened<most>(from, to, toStride, rows, columns);
  if (isTransposed)
    return transpose(static_cast<const float *>(from.data), from.strides[1], to, toStride, rows,
                     columns);
  for (int64_t i = 0; i < rows; ++i)
    from.read(i, /*transposed=*/false, columns, to + i * toStride);
}

/// Rounds a row of f32 to a row of 16-bit floats with any stride.
void narrowRow(const float *from, Dtype dtype, void *to, int64_t stride, int64_t columns) {
  if (stride == 1)
    return narrow(from, dtype, to, columns);
  for (int64_t j = 0; j < columns; ++j)
    narrow(from + j, dtype, elementAt(to, dtype, j * stride), 1);
}

} // namespace

bool hasWideKernels() {
  switch (dnnl::get_effective_cpu_isa()) {
  case dnnl::cpu_isa::all:
  case dnnl::cpu_isa::sse41:
  case dnnl::cpu_isa::avx:
  case dnnl::cpu_isa::avx2:
  case dnnl::cpu_isa::avx2_vnni:
    return false;
  default:
    return true;
  }
}

TiledMatmul::TiledMatmul(CpuRank &rank, const MatmulShape &shape, bool copiesToBeFast)
    : shape(shape), rows(shape.m), columns(shape.n), depth(shape.k) {
  bool widens = !hasMatmuls(shape.dtype);
  bool isSlow = !hasWideKernels() && shape.dtype == Dtype::F32 &&
                std::min({shape.m, shape.n, shape.k}) >= kMinSide;
  if (widens || (copiesToBeFast && isSlow)) {
    chooseTiles();
    copiesLhs = widens || shape.lhs[1] != 1;
    copiesRhs = true;
    narrowsResult = widens && isNarrowFloat(shape.outDtype);
    rank.needScratch(getScratchFloats() * sizeof(float));
  }
  for (int bits = 0; bits < 16; ++bits)
    preparePrimitive(rank, bits & 8, bits & 4, bits & 2, bits & 1);
}

void TiledMatmul::chooseTiles() {
  rows = evenPart(shape.m, kRows);
  columns = evenPart(shape.n, kColumns);
  depth = evenPart(shape.k, kDepth);
}

void TiledMatmul::preparePrimitive(CpuRank &rank, bool lastRows, bool lastColumns, bool lastDepth,
                                   bool first) {
  if ((!lastRows && rows >= shape.m) || (!lastColumns && columns >= shape.n) ||
      (!lastDepth && depth >= shape.k) || (!first && depth >= shape.k) ||
      (lastDepth && first && depth < shape.k))
    return; // no such tile
  auto sizeOf = [](int64_t whole, int64_t part, bool last) {
    return last ? whole - (divideUp(whole, part) - 1) * part : part;
  };
  MatmulShape tile = shape;
  tile.m = sizeOf(shape.m, rows, lastRows);
  tile.n = sizeOf(shape.n, columns, lastColumns);
  tile.k = sizeOf(shape.k, depth, lastDepth);
  if (copiesLhs)
    tile.lhs = {depth + kGap, 1};
  if (copiesRhs)
    tile.rhs = {columns + kGap, 1};
  if (narrowsResult)
    tile.out = {columns + kGap, 1};
  if (!hasMatmuls(shape.dtype))
    tile.dtype = tile.outDtype = Dtype::F32;
  tile.accumulate |= !first;
  tile.bias &= first;
  primitives[lastRows][lastColumns][lastDepth][first] = rank.prepareMatmul(tile);
}

struct TiledMatmul::Pass {
  MatmulRunner &runner;
  float *lhsCopy, *rhsCopy, *result;
  const void *lhs, *rhs;
  void *out;
  const float *bias;
};

void TiledMatmul::copyRhs(const Pass &pass, const Tile &tile) const {
  const void *from =
      elementAt(pass.rhs, shape.dtype, tile.k * shape.rhs[0] + tile.n * shape.rhs[1]);
  copyTile<kDepth>({from, shape.dtype, shape.rhs}, pass.rhsCopy, columns + kGap,
                   std::min(depth, shape.k - tile.k), std::min(columns, shape.n - tile.n));
}

/// Multiplies a tile of lhs by a tile of rhs. If rhs is copied, copyRhs() has copied its tile.
void TiledMatmul::runTile(const Pass &pass, const Tile &tile) const {
  auto [m, n, k] = tile;
  const void *left = elementAt(pass.lhs, shape.dtype, m * shape.lhs[0] + k * shape.lhs[1]);
  const void *right = elementAt(pass.rhs, shape.dtype, k * shape.rhs[0] + n * shape.rhs[1]);
  void *out = elementAt(pass.out, shape.outDtype, m * shape.out[0] + n * shape.out[1]);
  if (copiesLhs)
    copyTile<kRows>({left, shape.dtype, shape.lhs}, pass.lhsCopy, depth + kGap,
                    std::min(rows, shape.m - m), std::min(depth, shape.k - k));
  const MatmulPrimitive *primitive =
      primitives[m + rows >= shape.m][n + columns >= shape.n][k + depth >= shape.k][k == 0];
  pass.runner.run(primitive, copiesLhs ? pass.lhsCopy : left, copiesRhs ? pass.rhsCopy : right,
                  narrowsResult ? pass.result : out, k == 0 && pass.bias ? pass.bias + n : nullptr);
}

void TiledMatmul::runInPlace(const Pass &pass) const {
  for (int64_t k = 0; k < shape.k; k += depth)
    for (int64_t n = 0; n < shape.n; n += columns) {
      if (copiesRhs)
        copyRhs(pass, {0, n, k});
      for (int64_t m = 0; m < shape.m; m += rows)
        runTile(pass, {m, n, k});
    }
}

void TiledMatmul::runNarrowed(const Pass &pass) const {
  for (int64_t n = 0; n < shape.n; n += columns)
    for (int64_t m = 0; m < shape.m; m += rows) {
      void *out = elementAt(pass.out, shape.outDtype, m * shape.out[0] + n * shape.out[1]);
      int64_t rowsHere = std::min(rows, shape.m - m), columnsHere = std::min(columns, shape.n - n);
      if (shape.accumulate)
        copyTile<kRows>({out, shape.outDtype, shape.out}, pass.result, columns + kGap, rowsHere,
                        columnsHere);
      for (int64_t k = 0; k < shape.k; k += depth) {
        copyRhs(pass, {m, n, k});
        runTile(pass, {m, n, k});
      }
      for (int64_t i = 0; i < rowsHere; ++i)
        narrowRow(pass.result + i * (columns + kGap), shape.outDtype,
                  elementAt(out, shape.outDtype, i * shape.out[0]), shape.out[1], columnsHere);
    }
}

void TiledMatmul::run(MatmulRunner &runner, float *scratch, const void *lhs, const void *rhs,
                      void *out, const float *bias) const {
  float *rhsCopy = scratch + kLhsFloats;
  Pass pass{runner, scratch, rhsCopy, rhsCopy + kRhsFloats, lhs, rhs, out, bias};
  narrowsResult ? runNarrowed(pass) : runInPlace(pass);
}

} // namespace psrt
