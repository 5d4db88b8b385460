// Computes the iteration space of a group of ops. Unifies the factors of operands and results, and
// maps the result index of a movement op to the index of its operand (`pull`). Example: y =
// reshape(tanh(x)) with x of shape [6, 4] and y of shape [24] gives one flat dim of 24.
#include "IterationSpace.h"
#include "FoldEmpty.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;
using ps::LoweringKind;

static LoweringKind getKind(Operation *op) {
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  return lowering ? lowering.getLoweringKind() : LoweringKind::None;
}

bool fusion::isFusable(Operation *op) {
  LoweringKind kind = getKind(op);
  return kind == LoweringKind::Elementwise || kind == LoweringKind::Row ||
         kind == LoweringKind::Movement;
}

/// Returns true for constants and iotas, which are computed at their uses.
static bool isSource(Operation *op) { return isa<ps::ConstantOp, ps::IotaOp>(op); }

static bool isPure(const DimIndex &dim) { return dim.offset == 0 && dim.scale == 1; }

static SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

Index IterationSpace::freshIndex(ArrayRef<int64_t> shape) {
  Index index;
  for (int64_t size : shape)
    index.push_back({0, 1, factors.make(size)});
  return index;
}

bool IterationSpace::isInside(Value value) const {
  return value.getDefiningOp() && members.contains(value.getDefiningOp());
}

FactorList IterationSpace::resolveAll(const Index &index) const {
  FactorList all;
  for (const DimIndex &dim : index)
    all.append(factors.resolve(dim.factors));
  return all;
}

//===----------------------------------------------------------------------===//
// Pulling indices through movement ops
//===----------------------------------------------------------------------===//

/// Returns how many leading dims of `from` and of `to` have the same number of elements (at least
/// one dim each); {0, 0} if none match. Example: [2, 3, 5] and [6, 5] give {2, 1}.
static std::pair<unsigned, unsigned> matchDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  unsigned i = 0, j = 0;
  int64_t left = from[i++], right = to[j++];
  while (left != right) {
    if (left < right) {
      if (i == from.size())
        return {0, 0};
      left *= from[i++];
    } else {
      if (j == to.size())
        return {0, 0};
      right *= to[j++];
    }
  }
  return {i, j};
}

bool IterationSpace::pullReshape(Operation *op, const Index &index, Index &operandIndex) {
  ArrayRef<int64_t> from = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  ArrayRef<int64_t> to = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  unsigned fromDim = 0, toDim = 0;
  while (fromDim < from.size() && toDim < to.size()) {
    auto [n, m] = matchDims(from.drop_front(fromDim), to.drop_front(toDim));
    if (n == 0)
      return fail("a reshape regroups elements");
    if (n == 1 && m == 1) {
      operandIndex.push_back(index[toDim]);
    } else {
      FactorList all;
      for (unsigned i = 0; i < m; ++i) {
        if (!isPure(index[toDim + i]))
          return fail("a reshape of a slice");
        all.append(index[toDim + i].factors);
      }
      SmallVector<FactorList> parts;
      if (!factors.cut(all, from.slice(fromDim, n), parts))
        return fail("a reshape cuts across factors");
      for (FactorList &part : parts)
        operandIndex.push_back({0, 1, std::move(part)});
    }
    fromDim += n;
    toDim += m;
  }
  for (; fromDim < from.size(); ++fromDim) // trailing dims of size 1
    operandIndex.push_back({});
  return true;
}

bool IterationSpace::pull(Value value, Index index, Access &access) {
  while (isInside(value)) {
    Operation *op = value.getDefiningOp();
    if (isSource(op))
      break;
    if (auto own = computed.find(value); own != computed.end()) {
      for (auto [mine, asked] : llvm::zip_equal(own->second, index))
        if (!isPure(asked) || !factors.unify(mine.factors, asked.factors))
          return fail("a value is read at two different indices");
      break;
    }
    Index operand;
    if (isa<ps::ReshapeOp>(op)) {
      if (!pullReshape(op, index, operand))
        return false;
    } else if (auto transpose = dyn_cast<ps::TransposeOp>(op)) {
      operand.resize(index.size());
      for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
        operand[from] = index[i];
    } else if (auto broadcast = dyn_cast<ps::BroadcastOp>(op)) {
      for (int64_t dim : broadcast.getDims())
        operand.push_back(index[dim]);
    } else if (auto slice = dyn_cast<ps::SliceOp>(op)) {
      operand = index;
      for (auto [i, dim] : llvm::enumerate(operand)) {
        dim.offset = slice.getStarts()[i] + slice.getStrides()[i] * dim.offset;
        dim.scale *= slice.getStrides()[i];
      }
    } else {
      return fail("a concat or pad inside a group");
    }
    index = std::move(operand);
    value = op->getOperand(0);
  }
  access.source = value;
  access.index = std::move(index);
  return true;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

bool IterationSpace::addReduce(ps::ReduceOp op) {
  if (isEmpty(op.getOperand()) && !isEmpty(op.getResult()))
    return fail("a reduction over no elements, which folds to its identity");
  auto type = cast<RankedTensorType>(op.getOperand().getType());
  Index index = freshIndex(type.getShape()), result;
  for (auto [i, dim] : llvm::enumerate(index))
    if (!llvm::is_contained(op.getDims(), int64_t(i)))
      result.push_back(dim);
  computed[op.getResult()] = result;
  spaces[op] = index;
  return pull(op.getOperand(), index, accesses[&op->getOpOperand(0)]);
}

bool IterationSpace::addOp(Operation *op) {
  compute.push_back(op);
  if (auto reduce = dyn_cast<ps::ReduceOp>(op))
    return addReduce(reduce);
  bool isRow = getKind(op) == LoweringKind::Row;
  auto main =
      cast<RankedTensorType>(isRow ? op->getOperand(0).getType() : op->getResult(0).getType());
  Index index = freshIndex(main.getShape());
  Index rows(index);
  if (isRow) {
    hasRowOp = true;
    rows.pop_back();
    spaces[op] = index;
  }
  auto indexOf = [&](Type type) -> Index {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || (tensor.getRank() == 0 && main.getRank() > 0 && !(isRow && rows.empty())))
      return {};
    return tensor.getRank() == main.getRank() ? index : rows;
  };
  for (Value result : op->getResults())
    computed[result] = indexOf(result.getType());
  if (isa<ps::DropoutOp>(op)) {
    Access &access = results[op->getResult(0)];
    access.source = op->getResult(0);
    access.index = index;
    SmallVector<int64_t> strides = denseStrides(main.getShape());
    access.strides.assign(strides.begin(), strides.end());
  }
  for (OpOperand &operand : op->getOpOperands())
    if (!pull(operand.get(), indexOf(operand.get().getType()), accesses[&operand]))
      return false;
  return true;
}

bool IterationSpace::addOutput(const OutputRequest &request) {
  auto type = cast<RankedTensorType>(request.value.getType());
  Index index = freshIndex(type.getShape());
  Output output;
  output.buffer.source = request.value;
  output.buffer.index = index;
  for (auto [i, offset] : llvm::enumerate(request.offsets))
    output.buffer.index[i].offset = offset;
  for (auto [i, scale] : llvm::enumerate(request.scales))
    output.buffer.index[i].scale = scale;
  SmallVector<int64_t> strides = denseStrides(request.bufferType.getShape());
  output.buffer.strides.assign(strides.begin(), strides.end()); // one stride per dim
  outputs.push_back(output);
  return pull(request.value, index, outputs.back().value);
}

/// Fails if one loop runs over two dims of a value, which would compute only the diagonal. Example:
/// t + transpose(t) with t = tanh(x) reads t at [i, j] and at [j, i]. With both reads in one
/// kernel, i and j become one loop.
bool IterationSpace::checkDims() {
  auto isDistinct = [&](const Index &index) {
    FactorList all = resolveAll(index);
    llvm::sort(all);
    return std::adjacent_find(all.begin(), all.end()) == all.end() ||
           fail("one loop runs over two dims of a value");
  };
  auto areDistinct = [&](const auto &indices) {
    return llvm::all_of(indices, [&](const auto &entry) { return isDistinct(entry.second); });
  };
  return areDistinct(computed) && areDistinct(spaces) &&
         llvm::all_of(outputs,
                      [&](const Output &output) { return isDistinct(output.buffer.index); });
}

//===----------------------------------------------------------------------===//
// The order of the space's dims
//===----------------------------------------------------------------------===//

/// Returns the leaves that a row op or reduction needs as columns.
static FactorList columnsOf(Operation *op, const Index &space, const Factors &factors) {
  auto reduce = dyn_cast<ps::ReduceOp>(op);
  if (!reduce)
    return factors.resolve(space.back().factors);
  FactorList columns;
  int64_t rank = space.size();
  bool lastReduced = llvm::is_contained(reduce.getDims(), rank - 1);
  int64_t first = rank;
  while (first > 0 && llvm::is_contained(reduce.getDims(), first - 1) == lastReduced)
    --first;
  for (int64_t i = first; i < rank; ++i)
    columns.append(factors.resolve(space[i].factors));
  return columns;
}

bool IterationSpace::chooseColumns() {
  bool known = false;
  for (Operation *op : compute) {
    auto space = spaces.find(op);
    if (space == spaces.end())
      continue;
    FactorList columns = columnsOf(op, space->second, factors);
    if (known && columns != columnLeaves)
      return fail("ops need different columns");
    columnLeaves = columns;
    known = true;
  }
  if (known)
    return true;
  FactorList widest;
  for (const Output &output : outputs)
    if (FactorList all = resolveAll(output.buffer.index);
        factors.getSize(all) > factors.getSize(widest))
      widest = all;
  if (!widest.empty())
    columnLeaves = {widest.back()};
  return true;
}

bool IterationSpace::findLayouts() {
  bool first = true;
  for (Operation *op : compute) {
    auto reduce = dyn_cast<ps::ReduceOp>(op);
    if (!reduce)
      continue;
    const Index &space = spaces[op];
    FactorList reduced, kept;
    for (auto [i, dim] : llvm::enumerate(space))
      (llvm::is_contained(reduce.getDims(), int64_t(i)) ? reduced : kept)
          .append(factors.resolve(dim.factors));
    if (reduced == columnLeaves) {
      layouts[op] = ReductionLayout::Row;
      hasRowOp = true;
      continue;
    }
    layouts[op] = ReductionLayout::Column;
    columnReduction = true;
    llvm::DenseSet<unsigned> keptRows(kept.begin(), kept.end());
    for (unsigned leaf : columnLeaves) {
      if (llvm::is_contained(reduced, leaf))
        return fail("a reduction over rows and columns");
      keptRows.erase(leaf);
    }
    if (!first && keptRows != keptLeaves)
      return fail("reductions that keep different rows");
    keptLeaves = keptRows;
    first = false;
  }
  return true;
}

bool IterationSpace::orderLeaves() {
  FactorList reference, rest;
  auto consider = [&](const Index &index) {
    FactorList all = resolveAll(index);
    for (unsigned leaf : all)
      if (!llvm::is_contained(rest, leaf))
        rest.push_back(leaf);
    if (all.size() > reference.size())
      reference = all;
  };
  for (const Output &output : outputs)
    consider(output.buffer.index);
  for (Operation *op : compute) {
    if (auto space = spaces.find(op); space != spaces.end())
      consider(space->second);
    for (Value result : op->getResults())
      consider(computed[result]);
  }
  FactorList ordered;
  for (unsigned leaf : rest)
    if (!llvm::is_contained(reference, leaf))
      ordered.push_back(leaf);
  ordered.append(reference);
  auto take = [&](auto which) {
    for (unsigned leaf : ordered)
      if (!llvm::is_contained(columnLeaves, leaf) && which(leaf))
        leaves.push_back(leaf);
  };
  take([&](unsigned leaf) { return keptLeaves.contains(leaf); });
  take([&](unsigned leaf) { return !keptLeaves.contains(leaf); });
  for (unsigned leaf : leaves)
    groups.push_back({leaf});
  leaves.append(columnLeaves.begin(), columnLeaves.end());
  groups.push_back({});
  groups.back().assign(columnLeaves.begin(), columnLeaves.end());
  return true;
}

/// Fills `access.strides` (one per leaf, in the given order) and `access.offset`.
void IterationSpace::computeStrides(Access &access, ArrayRef<unsigned> order) {
  SmallVector<int64_t> dimStrides(access.index.size(), 0);
  Operation *op = access.source.getDefiningOp();
  if (!access.strides.empty()) { // an output's buffer has strides by dim
    dimStrides.assign(access.strides.begin(), access.strides.end());
  } else if (auto iota = dyn_cast_or_null<ps::IotaOp>(op); iota && isInside(access.source)) {
    dimStrides[iota.getDim()] = 1;
  } else if (auto type = dyn_cast<RankedTensorType>(access.source.getType())) {
    auto constant = dyn_cast_or_null<ps::ConstantOp>(op);
    if (!constant || !constant.getValue().isSplat())
      dimStrides = denseStrides(type.getShape());
  }
  SmallVector<int64_t, 4> byLeaf(order.size(), 0);
  access.offset = 0;
  for (auto [dim, stride] : llvm::zip_equal(access.index, dimStrides)) {
    access.offset += dim.offset * stride;
    int64_t step = stride * dim.scale;
    FactorList own = factors.resolve(dim.factors);
    for (unsigned leaf : llvm::reverse(own)) {
      byLeaf[llvm::find(order, leaf) - order.begin()] += step;
      step *= factors.getSize(leaf);
    }
  }
  access.strides = byLeaf;
}

template <typename Fn> void IterationSpace::forEachAccess(Fn fn) {
  for (auto &entry : accesses)
    fn(entry.second);
  for (auto &entry : results)
    fn(entry.second);
  for (Output &output : outputs) {
    fn(output.value);
    fn(output.buffer);
  }
}

bool IterationSpace::coalesce() {
  auto position = [&](unsigned leaf) { return llvm::find(leaves, leaf) - leaves.begin(); };
  auto mergeable = [&](unsigned a, unsigned b) {
    bool ok = true;
    int64_t size = factors.getSize(b);
    forEachAccess([&](Access &access) {
      if (!computed.contains(access.source))
        ok &= access.strides[position(a)] == access.strides[position(b)] * size;
    });
    for (auto &entry : results)
      ok &= entry.second.strides[position(a)] == entry.second.strides[position(b)] * size;
    for (Output &output : outputs)
      ok &= output.buffer.strides[position(a)] == output.buffer.strides[position(b)] * size;
    return ok;
  };
  for (size_t i = 1; i < columnLeaves.size(); ++i)
    if (!mergeable(columnLeaves[i - 1], columnLeaves[i]))
      return fail("columns that are not evenly spaced");
  for (int64_t i = int64_t(groups.size()) - 2; i >= 0; --i) {
    bool isColumn = i + 2 == int64_t(groups.size());
    if (groups[i + 1].empty() || (isColumn && (hasRowOp || columnReduction)))
      continue;
    unsigned a = groups[i].back(), b = groups[i + 1].front();
    if (keptLeaves.contains(a) != keptLeaves.contains(b) && !isColumn)
      continue;
    if (!mergeable(a, b))
      continue;
    groups[i].append(groups[i + 1]);
    groups.erase(groups.begin() + i + 1);
  }
  for (auto &group : groups)
    sizes.push_back(factors.getSize(group));
  // The stride in a dim of the space is the stride of the group's minor leaf.
  forEachAccess([&](Access &access) {
    SmallVector<int64_t, 4> strides;
    for (auto &group : groups)
      strides.push_back(group.empty() ? 0 : access.strides[position(group.back())]);
    access.strides = strides;
  });
  flat = !hasRowOp && !columnReduction && sizes.size() == 1;
  return true;
}

bool IterationSpace::hasColumns(Value value) const {
  auto index = computed.find(value);
  FactorList own = resolveAll(index->second);
  return llvm::any_of(groups.back(), [&](unsigned leaf) { return llvm::is_contained(own, leaf); });
}

int64_t IterationSpace::getRows() const {
  int64_t rows = 1;
  for (int64_t size : getSizes().drop_back())
    rows *= size;
  return rows;
}

/// Returns true if an output's elements over `dims` of the space (outer to inner) fill the buffer
/// from its first element on without gaps. Example: a slice of shape [4, 8] in a buffer of shape
/// [4, 6, 8] has strides (48, 1) instead of (8, 1), so the result is false.
static bool isContiguous(const Access &buffer, ArrayRef<size_t> dims, ArrayRef<int64_t> sizes) {
  int64_t expected = 1;
  for (size_t dim : llvm::reverse(dims)) {
    if (sizes[dim] != 1 && buffer.strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return buffer.offset == 0;
}

/// Checks that the operand of each column reduction varies along all loops, because a column
/// reduction adds up every iteration.
bool IterationSpace::checkColumnSums() {
  for (auto [op, layout] : layouts)
    if (layout == ReductionLayout::Column && resolveAll(spaces[op]).size() != leaves.size())
      return fail("a sum over rows that do not vary along all dims");
  return true;
}

/// Returns the rows per chunk of a reduction over `rows` rows: at most 128 if `maxChunks` is 0
/// (CPU). On a GPU, one thread computes `width` columns of a chunk. The number of chunks keeps all
/// threads busy, but is at most `maxChunks`, and a chunk has at least 8 rows. Example: 4096 rows
/// on a CPU form 32 chunks.
static int64_t chooseChunkRows(int64_t rows, int64_t columns, int64_t width, int64_t maxChunks) {
  constexpr int64_t kRows = 128, kMinRows = 8, kThreads = 1 << 17;
  if (maxChunks == 0)
    return std::min(kRows, rows);
  int64_t chunks = kThreads / std::max<int64_t>(1, columns / width);
  chunks = std::clamp<int64_t>(chunks, 1, maxChunks);
  return std::min(rows, std::max<int64_t>(kMinRows, llvm::divideCeil(rows, chunks)));
}

bool IterationSpace::checkOutputs() {
  for (auto &entry : accesses)
    if (auto layout = layouts.find(entry.second.source.getDefiningOp());
        layout != layouts.end() && layout->second == ReductionLayout::Column)
      return fail("a sum over rows is used in its own group");
  keptRows = 1;
  int64_t reducedRows = 1;
  for (size_t i = 0; i + 1 < groups.size(); ++i)
    (keptLeaves.contains(groups[i].front()) ? keptRows : reducedRows) *= sizes[i];
  // In kernels with row ops, each thread computes more columns.
  chunkRows = keptRows == 1
                  ? chooseChunkRows(reducedRows, getColumns(), hasRowOp ? 16 : 4, maxChunks)
                  : reducedRows;
  chunksPerResult = (reducedRows + chunkRows - 1) / std::max<int64_t>(chunkRows, 1);
  for (Output &output : outputs) {
    auto layout = layouts.find(output.value.source.getDefiningOp());
    bool isColumnSum = layout != layouts.end() && layout->second == ReductionLayout::Column;
    FactorList own = resolveAll(output.buffer.index);
    if (isColumnSum) {
      // Partial rows and their sum are stored contiguously, from the buffer's first element on.
      SmallVector<size_t> kept;
      FactorList order;
      for (size_t i = 0; i < groups.size(); ++i)
        if (i + 1 == groups.size() || keptLeaves.contains(groups[i].front())) {
          kept.push_back(i);
          order.append(groups[i].begin(), groups[i].end());
        }
      if (order != own)
        return fail("a sum over rows has reordered dims");
      bool isWhole =
          llvm::all_of(output.value.index, [](const DimIndex &dim) { return isPure(dim); });
      if (!isWhole || !isContiguous(output.buffer, kept, sizes))
        return fail("a sum over rows is sliced, or is a part of an output");
    }
    for (size_t i = 0; i + 1 < groups.size(); ++i)
      for (unsigned leaf : groups[i])
        if (llvm::is_contained(own, leaf) == (isColumnSum && !keptLeaves.contains(leaf)))
          return fail("an output that does not vary along all rows");
  }
  return true;
}

/// Fails if the number of iterations overflows 64 bits. Small values can have a large common space.
/// Example: a value of 2^32 rows and a value of 2^32 columns.
bool IterationSpace::isCountable() {
  int64_t count = 1;
  for (unsigned leaf : leaves)
    if (llvm::MulOverflow(count, factors.getSize(leaf), count))
      return fail("the number of iterations exceeds 64 bits");
  return true;
}

LogicalResult IterationSpace::analyze(ArrayRef<Operation *> ops, ArrayRef<OutputRequest> requests,
                                      int64_t maxChunks) {
  this->maxChunks = maxChunks;
  members.insert(ops.begin(), ops.end());
  for (Operation *op : ops)
    if (isFusable(op) && !isView(op) && !isSource(op) && !isa<ps::ConcatOp, ps::PadOp>(op) &&
        !addOp(op))
      return failure();
  for (const OutputRequest &request : requests)
    if (!addOutput(request))
      return failure();
  if (!checkDims() || !chooseColumns() || !findLayouts() || !orderLeaves() || !isCountable())
    return failure();
  forEachAccess([&](Access &access) { computeStrides(access, leaves); });
  return success(coalesce() && checkColumnSums() && checkOutputs());
}
