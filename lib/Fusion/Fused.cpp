// Describes the kernels of a ps.fused op and their iteration spaces.
#include "Fused.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

static Piece concatPiece(ps::ConcatOp op, unsigned operand) {
  auto type = cast<RankedTensorType>(op.getType());
  OutputRequest request{op.getOperands()[operand], type, {}, {}};
  request.offsets.assign(type.getRank(), 0);
  for (Value before : op.getOperands().take_front(operand))
    request.offsets[op.getDim()] +=
        cast<RankedTensorType>(before.getType()).getDimSize(op.getDim());
  return {{request}, {0}, false};
}

static Piece padPiece(ps::PadOp op) {
  OutputRequest request{op.getOperand(), cast<RankedTensorType>(op.getType()), {}, {}};
  request.offsets.assign(op.getLow().begin(), op.getLow().end());
  request.scales.assign(op.getStrides().begin(), op.getStrides().end());
  return {{request}, {0}, true};
}

FailureOr<SmallVector<Piece, 1>> fusion::getPieces(ValueRange outputs) {
  SmallVector<Piece, 1> pieces;
  if (outputs.size() == 1) {
    if (auto concat = outputs[0].getDefiningOp<ps::ConcatOp>()) {
      for (unsigned i = 0; i < concat.getOperands().size(); ++i)
        if (cast<RankedTensorType>(concat.getOperands()[i].getType()).getNumElements() > 0)
          pieces.push_back(concatPiece(concat, i));
      return pieces;
    }
    if (auto pad = outputs[0].getDefiningOp<ps::PadOp>())
      return SmallVector<Piece, 1>{padPiece(pad)};
  }
  Piece whole;
  for (auto [i, value] : llvm::enumerate(outputs)) {
    if (value.getDefiningOp<ps::ConcatOp>() || value.getDefiningOp<ps::PadOp>())
      return failure();
    whole.outputs.push_back({value, cast<RankedTensorType>(value.getType()), {}, {}});
    whole.results.push_back(i);
  }
  pieces.push_back(std::move(whole));
  return pieces;
}

SmallVector<Operation *> fusion::getBodyOps(ps::FusedOp op) {
  SmallVector<Operation *> ops;
  for (Operation &inner : op.getBody().front().without_terminator())
    ops.push_back(&inner);
  return ops;
}

int64_t fusion::getMaxChunks(ps::FusedOp op) {
  auto mark = op->getAttrOfType<IntegerAttr>(kMaxChunksMark);
  return mark ? mark.getInt() : 0;
}

static bool isColumnSum(const IterationSpace &space, Value value) {
  auto reduce = value.getDefiningOp<ps::ReduceOp>();
  return reduce && space.getLayout(reduce) == ReductionLayout::Column;
}

bool fusion::needsPartials(const IterationSpace &space, Value output, bool accumulates) {
  if (!isColumnSum(space, output))
    return false;
  Type element = getElementTypeOrSelf(output.getType());
  return accumulates || space.getChunksPerResult() > 1 ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32);
}

int64_t fusion::getPartialBytes(const IterationSpace &space, Type element) {
  int64_t width = std::max(32u, element.getIntOrFloatBitWidth()) / 8;
  return llvm::alignTo(space.getChunks() * space.getColumns() * width, 64);
}
