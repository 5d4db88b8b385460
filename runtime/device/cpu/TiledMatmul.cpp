// Cutting a product into tiles, copying their operands, running them.
#include "runtime/device/cpu/TiledMatmul.h"
#include "runtime/device/cpu/CpuDevice.h"
#include <cstring>

namespace psrt {
namespace {

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// `size` in as few parts of at most `most` as there can be, of about the same size: a part's size.
int64_t evenPart(int64_t size, int64_t most) {
  int64_t part = divideUp(size, divideUp(size, most));
  return std::min(most, divideUp(part, 16) * 16);
}

/// Products with a side below this are not worth a copy of the other one's operand.
constexpr int64_t kLeastSide = 64;

/// to[i][j] = from[j][i] for i < rows, j < columns; rows of `from` are `fromStride` apart.
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

/// Rows of `columns` floats, `toStride` apart, of a matrix with any strides.
void copyTile(const float *from, const std::array<int64_t, 2> &strides, float *to, int64_t toStride,
              int64_t rows, int64_t columns) {
  if (strides[1] != 1 && strides[0] == 1)
    return transpose(from, strides[1], to, toStride, rows, columns);
  for (int64_t i = 0; i < rows; ++i, to += toStride, from += strides[0])
    if (strides[1] == 1)
      std::memcpy(to, from, columns * sizeof(float));
    else
      for (int64_t j = 0; j < columns; ++j)
        to[j] = from[j * strides[1]];
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

TiledMatmul::TiledMatmul(CpuRank &rank, const MatmulShape &shape)
    : shape(shape), rows(shape.m), columns(shape.n), depth(shape.k) {
  if (!hasWideKernels() && std::min({shape.m, shape.n, shape.k}) >= kLeastSide) {
    rows = evenPart(shape.m, kRows);
    columns = evenPart(shape.n, kColumns);
    depth = evenPart(shape.k, kDepth);
    copiesLhs = shape.lhs[1] != 1;
    copiesRhs = true;
    rank.needScratch(getScratchFloats() * sizeof(float));
  }
  auto sizeOf = [](int64_t whole, int64_t part, bool last) {
    return last ? whole - (divideUp(whole, part) - 1) * part : part;
  };
  for (int bits = 0; bits < 16; ++bits) {
    bool lastRows = bits & 8, lastColumns = bits & 4, lastDepth = bits & 2, first = bits & 1;
    if ((!lastRows && rows >= shape.m) || (!lastColumns && columns >= shape.n) ||
        (!lastDepth && depth >= shape.k) || (!first && depth >= shape.k) ||
        (lastDepth && first && depth < shape.k))
      continue; // no such tile
    MatmulShape tile = shape;
    tile.m = sizeOf(shape.m, rows, lastRows);
    tile.n = sizeOf(shape.n, columns, lastColumns);
    tile.k = sizeOf(shape.k, depth, lastDepth);
    if (copiesLhs)
      tile.lhs = {depth + kGap, 1};
    if (copiesRhs)
      tile.rhs = {columns + kGap, 1};
    tile.accumulate |= !first;
    tile.bias &= first;
    primitives[lastRows][lastColumns][lastDepth][first] = rank.prepareMatmul(tile);
  }
}

void TiledMatmul::run(MatmulRunner &runner, float *scratch, const float *lhs, const float *rhs,
                      float *out, const float *bias) const {
  float *lhsCopy = scratch, *rhsCopy = scratch + kLhsFloats;
  for (int64_t k = 0; k < shape.k; k += depth) {
    int64_t depthHere = std::min(depth, shape.k - k);
    for (int64_t n = 0; n < shape.n; n += columns) {
      const float *right = rhs + k * shape.rhs[0] + n * shape.rhs[1];
      if (copiesRhs)
        copyTile(right, shape.rhs, rhsCopy, columns + kGap, depthHere,
                 std::min(columns, shape.n - n));
      for (int64_t m = 0; m < shape.m; m += rows) {
        const float *left = lhs + m * shape.lhs[0] + k * shape.lhs[1];
        if (copiesLhs)
          copyTile(left, shape.lhs, lhsCopy, depth + kGap, std::min(rows, shape.m - m), depthHere);
        const MatmulPrimitive *primitive =
            primitives[m + rows >= shape.m][n + columns >= shape.n][k + depth >= shape.k][k == 0];
        runner.run(primitive, copiesLhs ? lhsCopy : left, copiesRhs ? rhsCopy : right,
                   out + m * shape.out[0] + n * shape.out[1], k == 0 && bias ? bias + n : nullptr);
      }
    }
  }
}

} // namespace psrt
