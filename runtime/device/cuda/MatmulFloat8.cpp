// Runs matmuls of 8-bit floats. Before Blackwell, cuBLASLt requires operands whose inner dim is
// contiguous. For these GPUs, a kernel of the runtime first transposes all other operands.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CublasLtMatmul.h"
#include "runtime/device/cuda/CudaDevice.h"
#include <optional>

namespace psrt::cuda {
namespace {

/// An operand of rows x inner elements, with its strides in memory.
struct Operand {
  int buffer;
  int64_t rows = 0, inner = 0, batches = 1,
          batchStride = 0; ///< in elements, which have one byte
  int64_t rowStride = 0, innerStride = 0;
  CUdeviceptr copy = 0; ///< address of the transposed copy; 0 if the inner dim is contiguous

  bool isDense() const { return innerStride == 1; }
  int64_t countBytes() const { return batches * rows * inner; }
};

struct PreparedFloat8 : Prepared {
  std::string name;
  std::optional<CublasLtMatmul> matmul;
  Operand lhs, rhs;

  void *find(const Operand &operand, void *const *buffers) const {
    return operand.copy ? reinterpret_cast<void *>(operand.copy) : buffers[operand.buffer];
  }
};

void copyDense(CudaRank &rank, const Bound &bound, const Operand &operand) {
  if (!operand.copy)
    return;
  // If the inner dim is not contiguous, the row dim is: memory holds an inner x rows matrix.
  Launches launches = launchTranspose(
      bound.buffers[operand.buffer], reinterpret_cast<void *>(operand.copy),
      {operand.inner, operand.rows, operand.innerStride, operand.batches, operand.batchStride});
  auto end = operand.copy + CUdeviceptr(operand.countBytes());
  rank.getLibrary().launch(*rank.getStream(), launches,
                           rank.findAccesses(bound, {{operand.copy, end, 1}}));
}

void runFloat8(const Bound &bound) {
  const auto &p = *static_cast<const PreparedFloat8 *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  CUdeviceptr work = rank.getBlas().getWorkspace();
  std::vector<Access> more{{work, work + kWorkspaceBytes, 1}};
  for (const Operand *operand : {&p.lhs, &p.rhs}) {
    copyDense(rank, bound, *operand);
    if (operand->copy)
      more.push_back({operand->copy, operand->copy + CUdeviceptr(operand->countBytes()), 0});
  }
  rank.announce(bound, p.name.c_str(), more);
  p.matmul->run(rank.getStream()->get(),
                {.lhs = p.find(p.lhs, bound.buffers),
                 .rhs = p.find(p.rhs, bound.buffers),
                 .out = bound.buffers[MatmulOp::Out],
                 .vector = bound.buffers[MatmulOp::Bias],
                 .lhsScale = bound.buffers[MatmulOp::LhsScale],
                 .rhsScale = bound.buffers[MatmulOp::RhsScale]},
                bound.accumulate);
}

void check(const MatmulOp &op) {
  for (int64_t size : {op.m, op.n, op.k})
    if (size == 0 || size % 16 != 0)
      PSRT_FAIL(
          BadInput,
          "a %lldx%lldx%lld matmul of %s is not supported on cuda; sizes must be multiples of 16",
          (long long)op.m, (long long)op.n, (long long)op.k, dtypeName(op.dtype));
  if (op.batch[0] != 1)
    PSRT_FAIL(BadInput, "matmuls of %s with two batch dims are not supported on cuda",
              dtypeName(op.dtype));
}

/// Requests the matmul from cuBLASLt. Returns false if cuBLASLt does not offer it.
bool emplace(CudaRank &rank, const MatmulOp &op, PreparedFloat8 &p, bool hasBias,
             int64_t alignment) {
  MatmulBatch batch{op.batch[1], op.lhs[1], op.rhs[1], op.out[1]};
  p.matmul.emplace(rank.getBlas(), op, batch,
                   hasBias ? CublasLtMatmul::Epilogue::Bias : CublasLtMatmul::Epilogue::None,
                   alignment);
  return p.matmul->isOffered();
}

/// Allocates transposed copies of the operands whose inner dim is not contiguous, and sets the
/// strides of the matmul to those of the copies.
void makeDense(CudaRank &rank, MatmulOp &op, PreparedFloat8 &p) {
  auto bytesOf = [](const Operand &operand) {
    return operand.isDense() ? 0 : (operand.countBytes() + 255) / 256 * 256;
  };
  CUdeviceptr at = rank.getScratch(bytesOf(p.lhs) + bytesOf(p.rhs));
  if (!p.lhs.isDense()) {
    p.lhs.copy = at;
    op.lhs = {0, op.m * op.k, op.k, 1};
  }
  if (!p.rhs.isDense()) {
    p.rhs.copy = at + CUdeviceptr(bytesOf(p.lhs));
    op.rhs = {0, op.k * op.n, 1, op.k};
  }
}

} // namespace

void bindFloat8Matmul(CudaRank &rank, const MatmulOp &op, Bound &bound) {
  check(op);
  auto p = std::make_unique<PreparedFloat8>();
  p->name =
      format("matmul %lldx%lldx%lld of 8 bits", (long long)op.m, (long long)op.n, (long long)op.k);
  p->lhs = {MatmulOp::Lhs, op.m, op.k, op.batch[1], op.lhs[1], op.lhs[2], op.lhs[3]};
  p->rhs = {MatmulOp::Rhs, op.n, op.k, op.batch[1], op.rhs[1], op.rhs[3], op.rhs[2]};
  bool hasBias = bound.buffers[MatmulOp::Bias] != nullptr;
  int64_t alignment = alignmentOf(bound);
  MatmulOp dense = op;
  bool isOffered = emplace(rank, op, *p, hasBias, alignment);
  if (!isOffered && !(p->lhs.isDense() && p->rhs.isDense())) {
    makeDense(rank, dense, *p);
    isOffered = emplace(rank, dense, *p, hasBias, alignment);
  }
  if (!isOffered)
    PSRT_FAIL(BadInput,
              "cuBLASLt has no %lldx%lldx%lld matmul of %s and %s on this GPU; compile with "
              "--precision bf16, or for cuda:sm_80, which uses 16-bit matmuls",
              (long long)op.m, (long long)op.n, (long long)op.k, dtypeName(op.dtype),
              dtypeName(op.rhsDtype()));
  bound.run = runFloat8;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

} // namespace psrt::cuda
