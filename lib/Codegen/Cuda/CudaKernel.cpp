// Emits kernels for a GPU: groups of threads for rows, vectors for columns, shuffles for
// reductions.
#include "CudaKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Maximum elements of a row per thread. With more elements, registers would spill.
static constexpr int64_t kRowRegisters = 32;
/// Minimum elements of a row per thread. With fewer elements, a reduction over the threads costs
/// more than the work of each thread.
static constexpr int64_t kMinElements = 8;
static constexpr int64_t kMaxThreads = 512;

ThreadLayout codegen::chooseLayout(int64_t rows, int64_t columns, unsigned width) {
  ThreadLayout best;
  best.width = width;
  best.threads = best.block = kMaxThreads;
  best.steps = 0;
  int64_t bestColumns = 0;
  // Prefers the fewest idle threads, then the most threads with enough work.
  for (int64_t threads = kMaxThreads; threads >= 1; threads /= 2) {
    int64_t steps = llvm::divideCeil(columns, threads * width), covered = steps * threads * width;
    if (steps * width > std::max<int64_t>(kRowRegisters, width))
      break;
    bool isIdle = steps * width < kMinElements && threads > 1 && covered > columns;
    if (best.steps == 0 || covered < bestColumns ||
        (covered == bestColumns && best.steps * width < kMinElements) || isIdle) {
      best.threads = threads;
      best.steps = steps;
      bestColumns = covered;
    }
  }
  best.block = std::max<int64_t>(256, best.threads);
  return best;
}

ThreadLayout codegen::chooseTiles(int64_t columns, unsigned width) {
  ThreadLayout best;
  best.width = width;
  best.threads = 1;
  // Uses as many threads as possible, of which at most a ninth may be idle.
  for (int64_t threads = best.block; threads > 1; threads /= 2) {
    int64_t covered = llvm::alignTo(columns, threads * width);
    if (covered <= columns + columns / 8) {
      best.threads = threads;
      break;
    }
  }
  best.tiles = llvm::divideCeil(columns, best.threads * width);
  return best;
}

/// Returns true if columns are independent and each output has all columns.
bool CudaKernel::canSplitRows() const {
  if (space.isFlat() || space.hasRowOps())
    return false;
  return llvm::all_of(space.getOutputs(),
                      [](const Output &output) { return output.buffer.strides.back() != 0; });
}

CudaKernel::CudaKernel(ps::FusedOp op, const Piece &piece, const IterationSpace &space,
                       const FusedContext &context, ModuleOp module, StringRef name, bool replays)
    : KernelEmitter(op, piece, space, context, module, name), code(replays) {
  layout = canSplitRows() ? chooseTiles(space.getColumns(), chooseWidth())
                          : chooseLayout(space.getRows(), space.getColumns(), chooseWidth());
}

/// Returns the columns per memory access: 8 if a buffer that is contiguous along the columns has
/// elements of at most 16 bits, else 4. Halves this number until it divides the row length, all
/// offsets and all row strides. Returns 1 for unaligned buffers.
unsigned CudaKernel::chooseWidth() const {
  if (!context.aligned)
    return 1;
  int64_t width = 4;
  SmallVector<const Access *> accesses;
  for (Operation *compute : space.getComputeOps())
    for (OpOperand &operand : compute->getOpOperands())
      accesses.push_back(&space.getAccess(operand));
  for (const Output &output : space.getOutputs()) {
    accesses.push_back(&output.buffer);
    accesses.push_back(&output.value);
  }
  auto isInMemory = [](const Access &access) {
    return isa<RankedTensorType>(access.source.getType()) && access.strides.back() == 1;
  };
  for (const Access *access : accesses)
    if (isInMemory(*access) &&
        getElementTypeOrSelf(access->source.getType()).getIntOrFloatBitWidth() <= 16)
      width = 8;
  auto narrow = [&](int64_t number) {
    while (number % width)
      width /= 2;
  };
  narrow(space.getColumns());
  for (const Access *access : accesses) {
    if (!isInMemory(*access))
      continue;
    narrow(access->offset);
    for (int64_t stride : ArrayRef(access->strides).drop_back())
      narrow(stride);
  }
  return unsigned(width);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void CudaKernel::beginFunction(StringRef functionName) {
  code.begin(b, loc, module, functionName, layout.block);
  scalarsArgument = code.getLastPointer();
  bufferCount = 0;
  thread = code.threadIndex(b, loc);
  block = code.blockIndex(b, loc);
  threadOfRow = layout.threads == layout.block
                    ? thread
                    : arith::RemUIOp::create(b, loc, thread, constant(layout.threads));
  rowCondition = columnCondition = {};
  // Pointers and constants go before this op, other code after it.
  entryMark = constant(0).getDefiningOp();
}

void CudaKernel::endFunction() { code.end(b, loc, bufferCount); }

Value CudaKernel::takeBuffer(unsigned number) {
  ++bufferCount;
  return code.takePointer(b, loc, number);
}

Value CudaKernel::isBelow(Value value, int64_t bound) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, value, constant(bound));
}

Value CudaKernel::both(Value x, Value y) {
  return !x ? y : !y ? x : Value(arith::AndIOp::create(b, loc, x, y));
}

Value CudaKernel::getStoreCondition() {
  if (position.column || space.isFlat())
    return both(rowCondition, columnCondition);
  Value isFirst = layout.threads == 1 ? Value()
                                      : arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                                              threadOfRow, constant(0));
  return both(rowCondition, isFirst);
}

/// Waits until all threads of the group have read the values that one thread overwrites next.
void CudaKernel::beginRowOutputs() {
  if (layout.threads > 1)
    code.barrier(b, loc);
}

unsigned CudaKernel::getAlignment(Type element) const {
  return KernelEmitter::getAlignment(element) * (position.lanes > 1 ? position.lanes : 1);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value CudaKernel::clampRow(Value row, int64_t rows) {
  rowCondition = both(rowCondition, isBelow(row, rows));
  return arith::MinSIOp::create(b, loc, row, constant(rows - 1));
}

/// Returns the index of this thread's group in the grid.
Value CudaKernel::groupNumber() {
  Value first = arith::MulIOp::create(b, loc, block, constant(layout.rowsOfBlock()));
  Value group = arith::DivUIOp::create(b, loc, thread, constant(layout.threads));
  return arith::AddIOp::create(b, loc, first, group);
}

/// Returns the index of the row, or chunk of rows, of this thread's group.
Value CudaKernel::chunkNumber() {
  Value group = groupNumber();
  if (layout.tiles == 1)
    return group;
  return arith::DivUIOp::create(b, loc, group, constant(layout.tiles));
}

void CudaKernel::emitRows() {
  int64_t rows = partials.empty() ? space.getRows() : space.getChunks();
  int64_t groups = rows * layout.tiles;
  call.block = layout.block;
  call.grid = llvm::divideCeil(groups, layout.rowsOfBlock());
  call.rows = space.getRows();
  if (!partials.empty())
    return emitChunk();
  Value row = chunkNumber();
  if (groups % layout.rowsOfBlock())
    row = clampRow(row, rows);
  emitRow(row);
}

/// Emits a loop in which a group adds up the rows of a chunk. All groups of a block run the same
/// number of iterations, because they share barriers.
void CudaKernel::emitChunk() {
  Value chunk = chunkNumber();
  bool holds = layout.steps > 0;
  sums.clear();
  for (Partial &partial : partials)
    for (int64_t i = 0; holds && i < layout.steps; ++i) {
      position.lanes = layout.width;
      sums.push_back(identityOf(b, loc, partial.kind, laneType(partial.element)));
      position = {};
    }
  if (space.getChunks() * layout.tiles % layout.rowsOfBlock())
    rowCondition = isBelow(chunk, space.getChunks());
  Value chunkCondition = rowCondition;
  if (!holds)
    clearPartials();
  Value first = arith::MulIOp::create(b, loc, chunk, constant(space.getChunkRows()));
  auto rows =
      scf::ForOp::create(b, loc, constant(0), constant(space.getChunkRows()), constant(1), sums);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    sums.assign(rows.getRegionIterArgs().begin(), rows.getRegionIterArgs().end());
    inChunk = true;
    Value row = arith::AddIOp::create(b, loc, first, rows.getInductionVar());
    emitRow(clampRow(row, space.getRows()));
    inChunk = false;
    if (holds)
      scf::YieldOp::create(b, loc, sums);
  }
  rowCondition = chunkCondition;
  sums.assign(rows.getResults().begin(), rows.getResults().end());
  if (holds)
    storePartials();
}

void CudaKernel::storePartials() {
  SmallVector<Value> none;
  forColumns(1, none, [&](unsigned) {
    for (auto [i, partial] : llvm::enumerate(partials))
      storeLanes(sums[i * layout.steps + step], partial.pointer, partial.element, constant(0), 1);
  });
}

void CudaKernel::addPartial(Partial &partial, unsigned unused) {
  if (layout.steps == 0)
    return KernelEmitter::addPartial(partial, unused);
  Value &sum = sums[(&partial - partials.data()) * layout.steps + step];
  Value added = combine(b, loc, partial.kind, sum, splat(evaluatePartial(partial)));
  sum = rowCondition ? Value(arith::SelectOp::create(b, loc, splat(rowCondition), added, sum))
                     : added;
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Visits a fixed number of vectors per thread, without a loop. Threads beyond the last column read
/// the last vector and store nothing.
void CudaKernel::visitSteps(Body body) {
  int64_t columns = space.getColumns(), stride = layout.threads * layout.width;
  Value own = arith::MulIOp::create(b, loc, threadOfRow, constant(layout.width));
  if (layout.tiles > 1) {
    Value tile = arith::RemUIOp::create(b, loc, groupNumber(), constant(layout.tiles));
    own = arith::AddIOp::create(b, loc, own, arith::MulIOp::create(b, loc, tile, constant(stride)));
  }
  for (step = 0; step < layout.steps; ++step) {
    Value column = step == 0 ? own : arith::AddIOp::create(b, loc, own, constant(step * stride));
    columnCondition = {};
    if ((step + layout.tiles) * stride > columns) {
      columnCondition = isBelow(column, columns);
      column = arith::MinSIOp::create(b, loc, column, constant(columns - layout.width));
    }
    moveTo(column, layout.width, layout.width);
    body(step);
  }
  step = 0;
}

void CudaKernel::visitLoop(SmallVectorImpl<Value> &carried, Body body) {
  int64_t stride = layout.threads * layout.width;
  Value own = arith::MulIOp::create(b, loc, threadOfRow, constant(layout.width));
  loop(own, constant(space.getColumns()), stride, carried, [&](Value column) {
    moveTo(column, layout.width, layout.width);
    body(0);
  });
}

void CudaKernel::forColumns(unsigned, SmallVectorImpl<Value> &carried, Body body) {
  inColumns = true;
  layout.steps > 0 ? visitSteps(body) : visitLoop(carried, body);
  columnCondition = {};
  endLoop();
}

/// Visits one vector per thread.
void CudaKernel::forElements(int64_t total, int64_t, KernelCall &call,
                             llvm::function_ref<void()> visit) {
  unsigned width = layout.width;
  while (total % width)
    width /= 2;
  int64_t vectors = total / width;
  call.block = layout.block;
  call.grid = llvm::divideCeil(vectors, layout.block);
  call.rows = vectors;
  Value first = arith::MulIOp::create(b, loc, block, constant(layout.block));
  Value vector = arith::AddIOp::create(b, loc, first, thread);
  if (vectors % layout.block) {
    columnCondition = isBelow(vector, vectors);
    vector = arith::MinSIOp::create(b, loc, vector, constant(vectors - 1));
  }
  moveTo(arith::MulIOp::create(b, loc, vector, constant(width)), width, width);
  visit();
}

//===----------------------------------------------------------------------===//
// Sums of chunks
//===----------------------------------------------------------------------===//

/// Threads per block of the second kernel, which adds up the chunks of a column reduction, and how
/// many numbers a thread loads before it adds them.
static constexpr int64_t kSumThreads = 512, kSumUnroll = 8;

/// Emits the second kernel with a layout of its own, because its threads cover columns and pieces
/// of sums instead of rows.
KernelCall CudaKernel::emitPartialSum(const Partial &partial, int64_t workspace) {
  ThreadLayout ofRows = layout;
  layout = {kSumThreads, kSumThreads, 1, 1, 1};
  KernelCall result = KernelEmitter::emitPartialSum(partial, workspace);
  layout = ofRows;
  return result;
}

/// Visits one column per thread. Each block covers at least as many columns as a warp has threads.
/// A long sum is cut into pieces that different threads add, because a single thread would load one
/// number after another.
void CudaKernel::forSums(int64_t total, int64_t chunks, KernelCall &call,
                         llvm::function_ref<void()> visit) {
  sumPieces = 1;
  while (sumPieces * kWarpThreads < kSumThreads && sumPieces * 2 * kSumUnroll <= chunks)
    sumPieces *= 2;
  int64_t columns = kSumThreads / sumPieces;
  call.block = kSumThreads;
  call.grid = llvm::divideCeil(total, columns);
  call.rows = total;
  Value own = arith::RemUIOp::create(b, loc, thread, constant(columns));
  Value column =
      arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, block, constant(columns)), own);
  if (total % columns) {
    columnCondition = isBelow(column, total);
    column = arith::MinSIOp::create(b, loc, column, constant(total - 1));
  }
  moveTo(column, 1, 1);
  visit();
}

/// Adds the chunks of each piece in ascending order, then adds the pieces.
Value CudaKernel::addUpChunks(const Partial &partial, Value from, int64_t chunks, int64_t total) {
  int64_t columns = kSumThreads / sumPieces, ofPiece = llvm::divideCeil(chunks, sumPieces);
  int64_t unroll = std::min(kSumUnroll, ofPiece), iterations = llvm::divideCeil(ofPiece, unroll);
  Value piece = arith::DivUIOp::create(b, loc, thread, constant(columns));
  Value first = arith::MulIOp::create(b, loc, piece, constant(ofPiece));
  Value end = arith::MinSIOp::create(
      b, loc, arith::AddIOp::create(b, loc, first, constant(ofPiece)), constant(chunks));
  bool isWhole = iterations * unroll * sumPieces == chunks;
  SmallVector<Value> sum{identityOf(b, loc, partial.kind, laneType(partial.element))};
  Position here = position;
  loop(constant(0), constant(iterations), 1, sum, [&](Value iteration) {
    position = here;
    Value at = arith::AddIOp::create(b, loc, first,
                                     arith::MulIOp::create(b, loc, iteration, constant(unroll)));
    SmallVector<Value> parts, exist;
    for (int64_t i = 0; i < unroll; ++i) {
      Value chunk = arith::AddIOp::create(b, loc, at, constant(i));
      exist.push_back(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, chunk, end));
      if (!isWhole)
        chunk = arith::MinSIOp::create(b, loc, chunk, constant(chunks - 1));
      Value row = arith::MulIOp::create(b, loc, chunk, constant(total));
      parts.push_back(loadLanes(from, partial.element, row, 1));
    }
    for (auto [part, exists] : llvm::zip(parts, exist)) {
      Value added = combine(b, loc, partial.kind, sum[0], part);
      sum[0] = isWhole ? added : Value(arith::SelectOp::create(b, loc, exists, added, sum[0]));
    }
  });
  position = here;
  if (sumPieces > 1)
    sum[0] = addUpPieces(partial.kind, sum[0], piece);
  return sum[0];
}

/// Adds pieces through shared memory; the threads of the first piece store the result.
Value CudaKernel::addUpPieces(ps::ReductionKind kind, Value value, Value piece) {
  Type element = value.getType();
  int64_t columns = kSumThreads / sumPieces;
  std::string symbol = name + "_shared" + std::to_string(sharedCount++);
  Value slots = code.shared(b, loc, module, symbol, element, kSumThreads);
  LLVM::StoreOp::create(b, loc, value, pointerAt(slots, element, thread));
  code.barrier(b, loc);
  Value own = arith::RemUIOp::create(b, loc, thread, constant(columns)), result;
  for (int64_t i = 0; i < sumPieces; ++i) {
    Value slot = arith::AddIOp::create(b, loc, own, constant(i * columns));
    Value part = LLVM::LoadOp::create(b, loc, element, pointerAt(slots, element, slot));
    result = result ? combine(b, loc, kind, result, part) : part;
  }
  rowCondition = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, piece, constant(0));
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Returns the value of another thread of the warp, sent as 32-bit words. The index of that thread
/// is this thread's index xor `mask`.
Value CudaKernel::exchange(Value value, unsigned mask) {
  Type type = value.getType(), word = b.getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  Type integer = b.getIntegerType(bits);
  Value raw = type.isInteger() ? value : arith::BitcastOp::create(b, loc, integer, value);
  Value result;
  if (bits <= 32) {
    Value wide = bits < 32 ? Value(arith::ExtUIOp::create(b, loc, word, raw)) : raw;
    result = code.shuffleXor(b, loc, wide, mask);
    if (bits < 32)
      result = arith::TruncIOp::create(b, loc, integer, result);
  } else {
    Value half = constant(32);
    Value low = arith::TruncIOp::create(b, loc, word, raw);
    Value high = arith::TruncIOp::create(b, loc, word, arith::ShRUIOp::create(b, loc, raw, half));
    low = arith::ExtUIOp::create(b, loc, integer, code.shuffleXor(b, loc, low, mask));
    high = arith::ExtUIOp::create(b, loc, integer, code.shuffleXor(b, loc, high, mask));
    result = arith::OrIOp::create(b, loc, low, arith::ShLIOp::create(b, loc, high, half));
  }
  return type.isInteger() ? result : arith::BitcastOp::create(b, loc, type, result);
}

Value CudaKernel::reduceWarp(ps::ReductionKind kind, Value value) {
  for (unsigned mask = std::min<int64_t>(layout.threads, kWarpThreads) / 2; mask > 0; mask /= 2)
    value = combine(b, loc, kind, value, exchange(value, mask));
  return value;
}

/// Reduces over the warps of a group. Each warp stores its value in shared memory, and every thread
/// combines the values of all warps in the same order.
Value CudaKernel::reduceGroup(ps::ReductionKind kind, Value value) {
  Type element = value.getType(), storage = getStorageType(element);
  std::string symbol = name + "_shared" + std::to_string(sharedCount++);
  Value slots = code.shared(b, loc, module, symbol, storage, layout.block / kWarpThreads);
  Value warp = arith::DivUIOp::create(b, loc, thread, constant(kWarpThreads));
  Value lane = arith::RemUIOp::create(b, loc, thread, constant(kWarpThreads));
  auto slotAt = [&](Value index) { return pointerAt(slots, element, index); };
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, constant(0));
  {
    auto stored = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&stored.getThenRegion().front());
    Value kept = storage == element ? value : arith::ExtUIOp::create(b, loc, storage, value);
    LLVM::StoreOp::create(b, loc, kept, slotAt(warp));
  }
  code.barrier(b, loc);
  int64_t warps = layout.threads / kWarpThreads;
  Value first = arith::MulIOp::create(b, loc, arith::DivUIOp::create(b, loc, warp, constant(warps)),
                                      constant(warps));
  Value result;
  for (int64_t i = 0; i < warps; ++i) {
    Value index = arith::AddIOp::create(b, loc, first, constant(i));
    Value part = LLVM::LoadOp::create(b, loc, storage, slotAt(index));
    if (storage != element)
      part = arith::TruncIOp::create(b, loc, element, part);
    result = result ? combine(b, loc, kind, result, part) : part;
  }
  if (inChunk) // the next row reuses the slots
    code.barrier(b, loc);
  return result;
}

Value CudaKernel::reduce(ps::ReductionKind kind, const Column &column) {
  Type element = probeElement(column);
  Type type = layout.width == 1 ? element : VectorType::get({int64_t(layout.width)}, element);
  Value identity = identityOf(b, loc, kind, type);
  SmallVector<Value> sum{identity};
  forColumns(1, sum, [&](unsigned) {
    Value value = splat(column(lanes));
    if (columnCondition)
      value = arith::SelectOp::create(b, loc, columnCondition, value, identity);
    sum[0] = combine(b, loc, kind, sum[0], value);
  });
  Value value = reduceWarp(kind, foldLanes(b, loc, kind, sum[0]));
  return layout.threads > kWarpThreads ? reduceGroup(kind, value) : value;
}

/// Returns a kept value: from registers if the row is in registers, else recomputed.
Value CudaKernel::read(const std::shared_ptr<Kept> &kept) {
  if (Value known = keptAtPosition.lookup(kept.get()))
    return known;
  bool holds = inColumns && layout.steps > 0;
  if (holds && kept->registers.empty())
    kept->registers.resize(layout.steps);
  Value result = holds ? kept->registers[step] : Value();
  if (!result)
    result = splat(kept->column(lanes));
  if (holds)
    kept->registers[step] = result;
  return keptAtPosition[kept.get()] = result;
}
