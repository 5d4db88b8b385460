// Emits kernels for a CPU: loops over rows and vectors of columns, reductions in a fixed order.
#include "CpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Number of partial sums of a row reduction: column i is added to sum i mod 64. The number does
/// not depend on the vector width, so results have the same bits on all CPUs.
static constexpr unsigned kPartialSums = 64;

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void CpuKernel::beginFunction(StringRef functionName) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          {pointer, pointer, i64, i64});
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, loc, functionName, type);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  entryMark = LLVM::ReturnOp::create(b, loc, ValueRange{});
  b.setInsertionPoint(entryMark);
  buffersArgument = entry->getArgument(0);
  scalarsArgument = entry->getArgument(1);
  lo = entry->getArgument(2);
  hi = entry->getArgument(3);
  // Allocations and constants go before this op, other code after it.
  entryMark = constant(0).getDefiningOp();
}

Value CpuKernel::takeBuffer(unsigned number) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::LoadOp::create(b, loc, pointer,
                              pointerAt(buffersArgument, pointer, constant(number)), 8);
}

Value CpuKernel::chunkNumber() {
  return arith::DivUIOp::create(b, loc, lo, constant(space.getChunkRows()));
}

void CpuKernel::emitRows() {
  clearPartials();
  auto rows = scf::ForOp::create(b, loc, lo, hi, constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rows.getBody());
  emitRow(rows.getInductionVar());
  call.rows = space.getRows();
  call.grain = space.hasColumnReduction() ? space.getChunkRows() : chooseGrain(space.getColumns());
}

/// Returns the number of rows, with `columns` columns each, that a thread processes per call: about
/// 96 KiB of data.
int64_t CpuKernel::chooseGrain(int64_t columns) const {
  constexpr int64_t kTargetBytes = 96 * 1024;
  int64_t columnBytes = 0;
  for (const Output &output : space.getOutputs())
    columnBytes += output.buffer.strides.back() != 0 ? 4 : 0;
  columnBytes += 4 * std::max<int64_t>(1, pointers.size());
  int64_t rowBytes = columnBytes * columns;
  return std::max<int64_t>(1, kTargetBytes / rowBytes);
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

void CpuKernel::forColumns(unsigned unroll, SmallVectorImpl<Value> &carried, Body body) {
  forColumnsInRuns(unroll, carried, body, /*runLength=*/0, [] {});
}

void CpuKernel::forColumnsInRuns(unsigned unroll, SmallVectorImpl<Value> &carried, Body body,
                                 int64_t runLength, llvm::function_ref<void()> endRun) {
  int64_t columnCount = space.getColumns();
  unsigned width = columnCount == 1 ? 1 : this->width;
  int64_t block = int64_t(width) * unroll, full = columnCount / block;
  inColumns = true;
  auto visit = [&](Value first, int64_t count) {
    for (unsigned step = 0; step < unroll && count > 0; ++step, count -= width) {
      Value column =
          step == 0 ? first : arith::AddIOp::create(b, loc, first, constant(step * width));
      moveTo(column, width, std::min<int64_t>(width, count));
      body(step);
    }
  };
  auto visitFrom = [&](Value from, Value to) {
    auto body = [&](Value column) { visit(column, block); };
    loop(from, to, block, carried, body, /*isInner=*/runLength != 0);
  };
  Value end = constant(full * block);
  if (runLength)
    loop(constant(0), end, runLength * block, carried, [&](Value from) {
      Value to = arith::AddIOp::create(b, loc, from, constant(runLength * block));
      visitFrom(from, arith::MinSIOp::create(b, loc, to, end));
      endRun();
    });
  else if (full > 1)
    visitFrom(constant(0), end);
  else if (full == 1)
    visit(constant(0), block);
  if (columnCount % block)
    visit(constant(full * block), columnCount % block);
  endLoop();
}

void CpuKernel::forElements(int64_t total, int64_t block, KernelCall &call,
                            llvm::function_ref<void()> visit) {
  call.rows = (total + block - 1) / block;
  call.grain = chooseGrain(block);
  unsigned width = total == 1 ? 1 : this->width;
  Value from = arith::MulIOp::create(b, loc, lo, constant(block));
  Value to = arith::MulIOp::create(b, loc, hi, constant(block));
  to = arith::MinSIOp::create(b, loc, to, constant(total));
  Value end = arith::MinSIOp::create(b, loc, to, constant(total - total % width));
  SmallVector<Value> none;
  if (total >= width)
    loop(from, end, width, none, [&](Value column) {
      moveTo(column, width, width);
      visit();
    });
  if (total % width) {
    Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, to, constant(total));
    auto tail = scf::IfOp::create(b, loc, isLast, /*withElseRegion=*/false);
    Operation *before = std::exchange(loopOp, tail.getOperation());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&tail.getThenRegion().front());
      moveTo(constant(total - total % width), width, total % width);
      visit();
    }
    loopOp = before;
  }
}

Value CpuKernel::reduce(ps::ReductionKind kind, const Column &column) {
  int64_t columnCount = space.getColumns();
  unsigned width = columnCount == 1 ? 1 : this->width;
  unsigned unroll =
      std::min<int64_t>(kPartialSums / this->width, (columnCount + width - 1) / width);
  unsigned cycle = kPartialSums / width;
  if (columnCount > kPartialSums)
    unroll = cycle;
  SmallVector<Value> sums(unroll);
  Type element = probeElement(column);
  Type type = width == 1 ? element : VectorType::get({width}, element);
  Value identity = identityOf(b, loc, kind, type);
  for (Value &sum : sums)
    sum = identity;
  // Long float sums are split into runs, so that small terms are not lost in a large sum. `sums`
  // contains the sums of the current run, followed by the sums of all earlier runs.
  bool hasRuns = kind == ps::ReductionKind::Sum && isa<FloatType>(element) &&
                 columnCount / (int64_t(width) * unroll) > 2 * kSumRunLength;
  auto addRun = [&] {
    for (unsigned i = 0; i < unroll; ++i) {
      sums[unroll + i] = combine(b, loc, kind, sums[unroll + i], sums[i]);
      sums[i] = identity;
    }
  };
  if (hasRuns)
    sums.resize(2 * unroll, identity);
  auto add = [&](unsigned step) {
    Value value = splat(column(lanes));
    if (position.active < position.lanes)
      value = arith::SelectOp::create(b, loc, mask(), value, identity);
    sums[step] = combine(b, loc, kind, sums[step], value);
  };
  forColumnsInRuns(unroll, sums, add, hasRuns ? kSumRunLength : 0, addRun);
  if (hasRuns) {
    addRun();
    sums.erase(sums.begin(), sums.begin() + unroll);
  }
  // Combines the upper half of the partial sums with the lower half until one is left, like the
  // lanes of one long vector.
  unsigned count = cycle;
  sums.resize(count, identity);
  for (unsigned half = count / 2; half > 0; half /= 2)
    for (unsigned i = 0; i < half; ++i)
      if (i + half < unroll)
        sums[i] = combine(b, loc, kind, sums[i], sums[i + half]);
  return foldLanes(b, loc, kind, sums[0]);
}

//===----------------------------------------------------------------------===//
// Values that a row kernel stores for several passes over a row
//===----------------------------------------------------------------------===//

/// Returns true if recomputing a value takes only a few cheap operations, which cost less than
/// storing and loading the value.
static bool isCheap(Value value, Block *block, int &budget) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != block ||
      isa<arith::ConstantOp, LLVM::GEPOp, vector::BroadcastOp>(def))
    return true;
  if (isa<arith::DivFOp>(def) || def->getDialect()->getNamespace() == "math")
    return false;
  if (--budget < 0)
    return false;
  if (isa<LLVM::LoadOp, LLVM::MaskedLoadOp>(def))
    return true;
  return llvm::all_of(def->getOperands(),
                      [&](Value operand) { return isCheap(operand, block, budget); });
}

Value CpuKernel::read(const std::shared_ptr<Kept> &kept) {
  if (Value known = keptAtPosition.lookup(kept.get()))
    return known;
  bool inLoop = llvm::is_contained(pending, kept);
  Value result;
  if (kept->state == Kept::Stored && !inLoop) {
    result = loadLanes(kept->scratch, kept->element, constant(0), 1);
  } else {
    result = splat(kept->column(lanes));
    int budget = 3;
    if (kept->state == Kept::Unknown && inColumns) {
      bool large = space.getColumns() * kept->element.getIntOrFloatBitWidth() / 8 > 512 * 1024;
      if (large || space.isFlat() || isCheap(result, b.getInsertionBlock(), budget))
        kept->state = Kept::Cheap;
    }
    if (inColumns && kept->state != Kept::Cheap) {
      if (!kept->scratch) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(entryMark);
        int64_t padded = (space.getColumns() + 63) / 64 * 64;
        kept->scratch = LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()),
                                               getStorageType(kept->element), constant(padded), 64);
      }
      storeLanes(result, kept->scratch, kept->element, constant(0), 1);
      kept->state = Kept::Stored;
      if (!inLoop)
        pending.push_back(kept);
    }
  }
  return keptAtPosition[kept.get()] = result;
}
