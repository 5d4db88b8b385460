// Determines the memory that a matmul accesses.
#include "runtime/testing/cublaslt/Matmul.h"
#include <string>

namespace psrt::fake {

namespace {

/// Maximum number of pieces of an operand. The accesses of an operand with more pieces are omitted;
/// the caller must report them with psrt_fake_access.
constexpr int64_t maxPieces = 256;

void add(std::vector<PsrtFakeAccess> &accesses, const void *data, size_t bytes, bool writes) {
  auto begin = reinterpret_cast<CUdeviceptr>(data);
  if (data)
    accesses.push_back({begin, begin + bytes, writes});
}

/// Adds one access per contiguous line of a matrix, or a single access if the lines have no gaps in
/// between.
void addMatrix(std::vector<PsrtFakeAccess> &accesses, const void *data, const Layout &layout,
               bool writes) {
  bool byColumn = layout.order == CUBLASLT_ORDER_COL;
  int64_t length = int64_t(byColumn ? layout.rows : layout.columns);
  int64_t lines = int64_t(byColumn ? layout.columns : layout.rows), step = layout.ld;
  if (length == step || lines == 1) {
    length *= lines;
    lines = 1;
  }
  int64_t batches = layout.batches, batchStep = layout.batchStride;
  if (batches == 1 || (lines == 1 && length == batchStep)) {
    length *= batches;
    batches = 1;
  }
  if (lines * batches > maxPieces)
    return;
  auto size = int64_t(typeBytes(layout.type));
  auto *begin = static_cast<const char *>(data);
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t line = 0; line < lines; ++line)
      add(accesses, begin + (batch * batchStep + line * step) * size, size_t(length * size),
          writes);
}

} // namespace

std::string Matmul::name() const {
  return "cublasLtMatmul algorithm " + std::to_string(algorithm.number);
}

std::vector<PsrtFakeAccess> Matmul::accesses() const {
  std::vector<PsrtFakeAccess> all;
  bool onDevice = desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE;
  addMatrix(all, aData, a, false);
  addMatrix(all, bData, b, false);
  if ((onDevice || beta != 0) && cData != dData)
    addMatrix(all, cData, c, false);
  addMatrix(all, dData, d, true);
  add(all, workspace, algorithm.workspace, true);
  if (hasBias())
    addMatrix(all, desc.bias,
              {biasType(), m(), 1, int64_t(m()), CUBLASLT_ORDER_COL, d.batches, desc.biasStride},
              false);
  if (hasAux())
    addMatrix(all, desc.aux, auxLayout(), hasGelu());
  if (writesABiasGrad() || writesBBiasGrad())
    add(all, desc.bias, vectorLength() * typeBytes(biasType()), true);
  for (const float *scale : {desc.aScale, desc.bScale, desc.dScale})
    add(all, scale, sizeof(float), false);
  if (onDevice)
    for (const void *factor : {alphaData, betaData})
      add(all, factor, typeBytes(desc.scale), false);
  return all;
}

} // namespace psrt::fake
