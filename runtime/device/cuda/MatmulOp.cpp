// Runs a matmul instruction as one cuBLASLt call, or as one call per index of an outer batch dim.
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CublasLtMatmul.h"
#include "runtime/device/cuda/CudaDevice.h"
#include <cstring>
#include <optional>

namespace psrt::cuda {
namespace {

/// Computes a bias gradient as a matmul with a vector of ones. Used if cuBLASLt does not offer the
/// bias-gradient epilogue for the main matmul.
struct OnesMatmul {
  OnesMatmul(CudaRank &rank, const MatmulOp &op, int64_t alignment)
      : ones(rank.getBlas().getGpu(), size_t(op.k * dtypeSize(op.dtype)),
             "the ones of a bias gradient"),
        matmul(rank.getBlas(), op, {}, CublasLtMatmul::Epilogue::None, alignment) {}

  DeviceMemory ones;
  CublasLtMatmul matmul;
};

struct PreparedMatmul : Prepared {
  MatmulOp op;
  std::string name;
  std::optional<CublasLtMatmul> matmul;
  std::unique_ptr<OnesMatmul> biasGrad;
  int64_t outer = 1;                                ///< number of cuBLASLt calls
  int64_t lhsBytes = 0, rhsBytes = 0, outBytes = 0; ///< strides between calls
};

/// Returns the address of the bias or of the bias gradient, or null if there is neither.
void *findVector(const Bound &bound) {
  return bound.buffers[hasBiasGrad(bound) ? MatmulOp::BiasGrad : MatmulOp::Bias];
}

void runOnes(CudaRank &rank, const PreparedMatmul &p, const Bound &bound) {
  CUdeviceptr work = rank.getBlas().getWorkspace(), ones = p.biasGrad->ones.get();
  rank.announce(bound, "bias gradient by a matmul with ones",
                {{work, work + kWorkspaceBytes, 1}, {ones, ones + p.biasGrad->ones.size(), 0}});
  const void *all[] = {bound.buffers[p.op.summed], reinterpret_cast<void *>(ones)};
  bool isLhs = p.op.summed == MatmulOp::Lhs;
  p.biasGrad->matmul.run(
      rank.getStream()->get(),
      {.lhs = all[!isLhs], .rhs = all[isLhs], .out = bound.buffers[MatmulOp::BiasGrad]},
      /*accumulate=*/false);
}

void runMatmul(const Bound &bound) {
  const auto &p = *static_cast<const PreparedMatmul *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  CUdeviceptr work = rank.getBlas().getWorkspace();
  void *vector = p.biasGrad ? nullptr : findVector(bound);
  auto at = [&](int buffer, int64_t offset) {
    return static_cast<char *>(bound.buffers[buffer]) + offset;
  };
  for (int64_t i = 0; i < p.outer; ++i) {
    rank.announce(bound, p.name.c_str(), {{work, work + kWorkspaceBytes, 1}});
    p.matmul->run(rank.getStream()->get(),
                  {.lhs = at(MatmulOp::Lhs, i * p.lhsBytes),
                   .rhs = at(MatmulOp::Rhs, i * p.rhsBytes),
                   .out = at(MatmulOp::Out, i * p.outBytes),
                   .vector = vector},
                  bound.accumulate);
  }
  if (p.biasGrad)
    runOnes(rank, p, bound);
}

/// Returns true if both batch dims can be merged into one with a single stride per operand.
/// Example: sizes 2x3 with strides 30 and 10 merge into 6 with stride 10.
bool canMerge(const MatmulOp &op) {
  auto fits = [&](const std::array<int64_t, 4> &strides) {
    return strides[0] == strides[1] * op.batch[1];
  };
  return fits(op.lhs) && fits(op.rhs) && fits(op.out);
}

/// Splits the batch dims into a cuBLASLt batch and an outer loop.
MatmulBatch batchOf(const MatmulOp &op, PreparedMatmul &p) {
  if (op.batch[1] == 1)
    return {op.batch[0], op.lhs[0], op.rhs[0], op.out[0]};
  MatmulBatch result{op.batch[1], op.lhs[1], op.rhs[1], op.out[1]};
  if (op.batch[0] == 1)
    return result;
  if (canMerge(op)) {
    result.count *= op.batch[0];
    return result;
  }
  p.outer = op.batch[0];
  p.lhsBytes = op.lhs[0] * dtypeSize(op.dtype);
  p.rhsBytes = op.rhs[0] * dtypeSize(op.dtype);
  p.outBytes = op.out[0] * dtypeSize(op.outDtype);
  return result;
}

/// Returns the alignment in bytes that all operands and results have at all batch indices.
int64_t findAlignment(const Bound &bound, const PreparedMatmul &p, const MatmulBatch &batch) {
  int64_t bits = alignmentOf(bound) | p.lhsBytes | p.rhsBytes | p.outBytes |
                 batch.lhs * dtypeSize(p.op.dtype) | batch.rhs * dtypeSize(p.op.dtype) |
                 batch.out * dtypeSize(p.op.outDtype);
  return bits & -bits;
}

/// Runs a matmul with an empty dim: zeros the result, unless the matmul accumulates.
void runEmpty(const Bound &bound) {
  const MatmulOp &op = std::get<MatmulOp>(bound.instruction->op);
  CudaRank &rank = CudaRank::of(bound);
  if (bound.accumulate)
    return;
  auto bytes = size_t(op.batch[0] * op.batch[1] * op.m * op.n * dtypeSize(op.outDtype));
  if (bytes)
    rank.getGpu().check(
        rank.getDriver().memsetD8Async(reinterpret_cast<CUdeviceptr>(bound.buffers[MatmulOp::Out]),
                                       0, bytes, rank.getStream()->get()),
        "to zero memory");
}

//===--- f64 with a bias, which cuBLASLt does not support ---------------------===//

/// Fills the rows of the result with the bias, by copies whose size doubles each time. Then adds
/// the matmul to these rows.
void runBiased(const Bound &bound) {
  const auto &p = *static_cast<const PreparedMatmul *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  auto out = reinterpret_cast<CUdeviceptr>(bound.buffers[MatmulOp::Out]);
  auto copy = [&](CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
    rank.getGpu().check(
        rank.getDriver().memcpyDtoDAsync(to, from, size_t(bytes), rank.getStream()->get()),
        "to copy within the GPU");
  };
  int64_t row = p.op.n * dtypeSize(p.op.outDtype), rows = p.op.batch[0] * p.op.batch[1] * p.op.m;
  copy(out, reinterpret_cast<CUdeviceptr>(bound.buffers[MatmulOp::Bias]), row);
  for (int64_t done = 1; done < rows; done *= 2)
    copy(out + CUdeviceptr(done * row), out, std::min(done, rows - done) * row);
  Bound adding = bound;
  void *buffers[MatmulOp::Buffers] = {};
  std::copy(bound.buffers, bound.buffers + MatmulOp::Bias, buffers);
  adding.buffers = buffers;
  adding.accumulate = true;
  runMatmul(adding);
}

bool isDense(const MatmulOp &op) {
  return op.out[2] == op.n && (op.batch[1] == 1 || op.out[1] == op.m * op.n) &&
         (op.batch[0] == 1 || op.out[0] == op.batch[1] * op.m * op.n);
}

//===--- bias gradients -----------------------------------------------===//

/// Returns the matmul that computes the bias gradient: the operand times a column of ones, or a row
/// of ones times the operand.
MatmulOp makeOnesOp(const MatmulOp &op) {
  MatmulOp result = op;
  result.accumulate = -1;
  (op.summed == MatmulOp::Lhs ? result.n : result.m) = 1;
  (op.summed == MatmulOp::Lhs ? result.rhs : result.lhs) = {0, 0, 1, 1};
  result.out = {0, 0, op.summed == MatmulOp::Lhs ? 1 : op.n, 1};
  return result;
}

/// Returns the bits of the number 1 in a dtype.
uint32_t oneOf(Dtype dtype) {
  return dtype == Dtype::F32 ? 0x3f800000 : dtype == Dtype::F16 ? 0x3c00 : 0x3f80;
}

/// Writes `count` ones.
void writeOnes(const CudaRank &rank, const DeviceMemory &ones, Dtype dtype, int64_t count) {
  uint32_t bits = oneOf(dtype);
  int64_t size = dtypeSize(dtype);
  std::vector<char> bytes(count * size);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(bytes.data() + i * size, &bits, size); // little-endian
  rank.getGpu().check(rank.getDriver().memcpyHtoDAsync(ones.get(), bytes.data(), bytes.size(),
                                                       rank.getStream()->get()),
                      "to copy to the GPU");
  rank.getStream()->synchronize();
}

void bindOnes(CudaRank &rank, const MatmulOp &op, PreparedMatmul &p, int64_t alignment) {
  p.biasGrad = std::make_unique<OnesMatmul>(rank, makeOnesOp(op), alignment);
  writeOnes(rank, p.biasGrad->ones, op.dtype, op.k);
}

/// Binds a matmul with a bias gradient: as one matmul with cuBLASLt's epilogue, or as two plain
/// matmuls.
void bindBiasGrad(CudaRank &rank, const MatmulOp &op, PreparedMatmul &p, const MatmulBatch &batch,
                  int64_t alignment) {
  auto epilogue = op.summed == MatmulOp::Lhs ? CublasLtMatmul::Epilogue::LhsBiasGrad
                                             : CublasLtMatmul::Epilogue::RhsBiasGrad;
  p.matmul.emplace(rank.getBlas(), op, batch, epilogue, alignment);
  if (p.matmul->isOffered())
    return;
  p.matmul.emplace(rank.getBlas(), op, batch, CublasLtMatmul::Epilogue::None, alignment);
  bindOnes(rank, op, p, alignment);
}

} // namespace

void bindMatmul(CudaRank &rank, const MatmulOp &op, Bound &bound) {
  if (isFloat8(op.dtype))
    return bindFloat8Matmul(rank, op, bound);
  bool hasBias = bound.buffers[MatmulOp::Bias] != nullptr, hasBiasGrad = psrt::hasBiasGrad(bound);
  bool isEmpty = op.batch[0] * op.batch[1] * op.m * op.n * op.k == 0;
  bool fillsFirst = hasBias && op.dtype == Dtype::F64;
  bool activates = op.activation != MatmulOp::Activation::None;
  if ((isEmpty && (hasBias || hasBiasGrad || activates || !isDense(op))) ||
      (activates && (op.dtype == Dtype::F64 || bound.accumulate || !isDense(op))) ||
      (hasBiasGrad && op.dtype == Dtype::F64) || (fillsFirst && (bound.accumulate || !isDense(op))))
    PSRT_FAIL(
        BadInput,
        "a %lldx%lldx%lld matmul of %s with this combination of strides, bias, bias gradient, "
        "activation and accumulation is not supported on cuda",
        (long long)op.m, (long long)op.n, (long long)op.k, dtypeName(op.dtype));
  if (isEmpty) {
    bound.run = runEmpty;
    return;
  }
  if (activates)
    return bindActivatedMatmul(rank, op, bound, alignmentOf(bound));
  auto p = std::make_unique<PreparedMatmul>();
  p->op = op;
  p->name = format("matmul %lldx%lldx%lld", (long long)op.m, (long long)op.n, (long long)op.k);
  MatmulBatch batch = batchOf(op, *p);
  int64_t alignment = findAlignment(bound, *p, batch);
  auto epilogue =
      hasBias && !fillsFirst ? CublasLtMatmul::Epilogue::Bias : CublasLtMatmul::Epilogue::None;
  if (hasBiasGrad)
    bindBiasGrad(rank, op, *p, batch, alignment);
  else
    p->matmul.emplace(rank.getBlas(), op, batch, epilogue, alignment);
  bound.run = fillsFirst ? runBiased : runMatmul;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

} // namespace psrt::cuda
