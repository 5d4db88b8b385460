// Emits the second kernel of a reduction over rows. The first kernel writes one partial result per
// chunk. The second kernel combines the partial results in a fixed order.
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Elements per row of the second kernel, on a CPU.
static constexpr int64_t kBlock = 256;

void KernelEmitter::forSums(int64_t total, int64_t, KernelCall &call,
                            llvm::function_ref<void()> visit) {
  forElements(total, kBlock, call, visit);
}

/// Adds chunks in ascending order.
Value KernelEmitter::addUpChunks(const Partial &partial, Value from, int64_t chunks,
                                 int64_t total) {
  Position here = position;
  auto load = [&](Value chunk) {
    position = here;
    Value row = arith::MulIOp::create(b, loc, chunk, constant(total));
    return loadLanes(from, partial.element, row, 1);
  };
  auto addUp = [&](Value first, Value end) {
    SmallVector<Value> sum{load(first)};
    Value second = arith::AddIOp::create(b, loc, first, constant(1));
    loop(second, end, 1, sum,
         [&](Value chunk) { sum[0] = combine(b, loc, partial.kind, sum[0], load(chunk)); });
    return sum[0];
  };
  if (chunks == 1)
    return load(constant(0));
  if (chunks <= 2 * kSumRunLength)
    return addUp(constant(0), constant(chunks));
  // Many chunks are added in runs, so that small terms are not lost in a large sum.
  SmallVector<Value> sum{addUp(constant(0), constant(kSumRunLength))};
  loop(constant(kSumRunLength), constant(chunks), kSumRunLength, sum, [&](Value first) {
    Value end = arith::AddIOp::create(b, loc, first, constant(kSumRunLength));
    end = arith::MinSIOp::create(b, loc, end, constant(chunks));
    sum[0] = combine(b, loc, partial.kind, sum[0], addUp(first, end));
  });
  return sum[0];
}

/// Emits a kernel that computes out[e] = sum over the chunks c of partial[c * n + e], where n is
/// the number of elements of the output. For an accumulated output, also adds the old value, unless
/// the `first` flag is set.
KernelCall KernelEmitter::emitPartialSum(const Partial &partial, int64_t workspace) {
  const Output &output = space.getOutputs()[partial.output];
  unsigned result = piece.results[partial.output];
  int64_t chunks = space.getChunksPerResult();
  int64_t total = space.getChunks() / chunks * space.getColumns();
  KernelCall second;
  second.name = name + "_sum" + std::to_string(partial.output);
  second.buffers = {{KernelCall::Argument::Workspace, 0, workspace, false},
                    {KernelCall::Argument::Output, result, 0, true}};

  OpBuilder::InsertionGuard guard(b);
  beginFunction(second.name);
  Value from = takeBuffer(0), to = takeBuffer(1);
  Type element = getElementTypeOrSelf(output.buffer.source.getType());
  int slot = context.firstSlots[result];
  Value first;
  if (slot >= 0)
    first =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, loadScalarSlot(slot), constant(0));

  auto visit = [&] {
    Value value = addUpChunks(partial, from, chunks, total);
    if (element != partial.element)
      value = arith::TruncFOp::create(b, loc, laneType(element), value);
    if (first) {
      Value added =
          combine(b, loc, ps::ReductionKind::Sum, loadLanes(to, element, constant(0), 1), value);
      value = arith::SelectOp::create(b, loc, splat(first), value, added);
    }
    storeLanes(value, to, element, constant(0), 1);
  };
  forSums(total, chunks, second, visit);
  second.grain = 8;
  endFunction();
  return second;
}
