// Determines the memory that each kind of instruction reads and writes.
#include "runtime/device/cuda/Accesses.h"
#include <algorithm>

namespace psrt::cuda {

namespace {
struct Writes {
  const Instruction &instruction;
  size_t index;
  bool operator()(const KernelOp &op) const {
    return !op.hasWrites ||
           std::find(op.writes.begin(), op.writes.end(), int(index)) != op.writes.end();
  }
  bool operator()(const MatmulOp &op) const {
    return index == MatmulOp::Out || index == MatmulOp::BiasGrad ||
           (index == MatmulOp::Aux && op.activation == MatmulOp::Activation::Gelu);
  }
  bool operator()(const LibraryOp auto &op) const { return op.writes(index); }
  bool operator()(const ShardIndexOp &) const { return true; }
  bool operator()(const CopyOp &op) const { return op.zero || index == 1; }
  bool operator()(const CollectiveOp &) const { return index >= instruction.buffers.size() / 2; }
  bool operator()(const MessageOp &op) const { return op.receives; }
  bool operator()(const TransferOp &op) const { return index >= op.sizes.size(); }
  bool operator()(const WaitOp &) const { return false; }
};
} // namespace

bool writesBuffer(const Instruction &instruction, size_t index) {
  return std::visit(Writes{instruction, index}, instruction.op);
}

/// Returns the number of bytes from the first to the last element that a matmul accesses in buffer
/// `index`. This span can be smaller than the buffer, because the chunks of a split matmul share
/// one buffer. Example: a 2x3 f32 chunk with row stride 8 spans (1 * 8 + 2 * 1 + 1) * 4 = 44 bytes.
static int64_t spanOf(const MatmulOp &op, size_t index) {
  if (index == MatmulOp::Bias)
    return op.n * dtypeSize(op.outDtype);
  if (index == MatmulOp::BiasGrad)
    return op.countBiasGrad() * dtypeSize(op.outDtype);
  if (index == MatmulOp::LhsScale || index == MatmulOp::RhsScale)
    return dtypeSize(Dtype::F32);
  bool isOut = index == MatmulOp::Out || index == MatmulOp::Aux;
  const std::array<int64_t, 4> &strides = isOut ? op.out : index == MatmulOp::Lhs ? op.lhs : op.rhs;
  const std::array<int64_t, 4> sizes = {op.batch[0], op.batch[1],
                                        index == MatmulOp::Rhs ? op.k : op.m,
                                        index == MatmulOp::Lhs ? op.k : op.n};
  int64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0)
      return 0;
    elements += (sizes[i] - 1) * strides[i];
  }
  return elements * dtypeSize(isOut ? op.outDtype : op.dtype);
}

/// Returns the number of bytes that an instruction accesses in a buffer of `extent` bytes. Only
/// matmuls access less than the whole buffer.
static int64_t bytesTouched(const Instruction &instruction, size_t index, int64_t extent) {
  const auto *matmul = std::get_if<MatmulOp>(&instruction.op);
  return matmul ? std::min(extent, spanOf(*matmul, index)) : extent;
}

std::vector<Access> accessesOf(const Bound &bound) {
  std::vector<Access> result;
  for (size_t i = 0; i < bound.instruction->buffers.size(); ++i)
    if (bound.buffers[i]) {
      auto begin = reinterpret_cast<CUdeviceptr>(bound.buffers[i]);
      auto bytes =
          CUdeviceptr(bytesTouched(*bound.instruction, i, bound.extents ? bound.extents[i] : 1));
      result.push_back({begin, begin + bytes, writesBuffer(*bound.instruction, i)});
    }
  return result;
}

} // namespace psrt::cuda
