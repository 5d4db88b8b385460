// Groups ops into kernels greedily; the iteration space decides whether a group is valid.
#include "Groups.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;
using ps::LoweringKind;
using Members = llvm::SetVector<Operation *>;

/// Maximum number of ops of one kernel. Larger kernels spill registers, which costs more than
/// fusion saves.
static constexpr unsigned kMaxOps = 96;
/// Maximum number of buffers of one kernel.
static constexpr unsigned kMaxBuffers = 32;

static LoweringKind getKind(Operation *op) {
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  return lowering ? lowering.getLoweringKind() : LoweringKind::None;
}

static bool isSource(Operation *op) { return isa<ps::ConstantOp, ps::IotaOp>(op); }

Groups::Groups(Block &block) : block(block) {}

bool Groups::isReadThrough(Operation *op) const {
  return (isView(op) || isSource(op)) && !isMaterialized(op);
}

//===----------------------------------------------------------------------===//
// Values that need their own buffers
//===----------------------------------------------------------------------===//

/// Makes `value` a dense buffer. Copies a view or constant. For a reshape, makes the operand dense.
void Groups::requireDense(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !(isView(op) || isSource(op)) || isMaterialized(op))
    return;
  if (isa<ps::ReshapeOp>(op))
    return requireDense(op->getOperand(0));
  materialized.insert(op);
}

void Groups::prepareLibraryOperands(Operation *op) {
  auto stop = [&](Operation *view) { return isMaterialized(view); };
  auto viewOf = [&](Value value) {
    auto view = getView(value, stop);
    if (view && (!view->base.getDefiningOp() || !isReadThrough(view->base.getDefiningOp())))
      return view;
    requireDense(value);
    return getView(value, stop);
  };
  if (auto contract = dyn_cast<ps::ContractOp>(op)) {
    if (contract.getBias())
      requireDense(contract.getBias());
    if (contract.getAux())
      requireDense(contract.getAux());
    auto lhs = viewOf(contract.getLhs()), rhs = viewOf(contract.getRhs());
    if (getMatmul(contract, *lhs, *rhs))
      return;
    requireDense(contract.getLhs());
    lhs = viewOf(contract.getLhs());
    if (getMatmul(contract, *lhs, *rhs))
      return;
    requireDense(contract.getRhs());
    return;
  }
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    bool strided = lowering && lowering.readsStrides(operand.getOperandNumber());
    auto view = strided ? viewOf(operand.get()) : std::nullopt;
    if (!view || view->strides.back() != 1)
      requireDense(operand.get());
  }
}

//===----------------------------------------------------------------------===//
// One group
//===----------------------------------------------------------------------===//

/// Returns the members and the ops that they read through, in program order.
Groups::Ops Groups::addReadThroughOps(const Members &members) const {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Operation *> work(members.begin(), members.end()), all;
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (!seen.insert(op).second)
      continue;
    all.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && isReadThrough(def))
        work.push_back(def);
  }
  llvm::sort(all, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return all;
}

bool Groups::isUsedOutside(Value value, const Members &members) const {
  for (Operation *user : value.getUsers()) {
    if (members.contains(user))
      continue;
    if (!isReadThrough(user) || isUsedOutside(user->getResult(0), members))
      return true;
  }
  return false;
}

SmallVector<Value> Groups::getOutputs(const Members &members) const {
  SmallVector<Operation *> ordered(members.begin(), members.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  SmallVector<Value> outputs;
  for (Operation *op : ordered)
    for (Value result : op->getResults())
      if (isUsedOutside(result, members))
        outputs.push_back(result);
  return outputs;
}

/// Returns true if the members can form one fused op, or are dead code.
bool Groups::fits(const Members &members, std::string &reason) const {
  SmallVector<Value> outputs = getOutputs(members);
  if (outputs.empty())
    return true; // dead code
  auto pieces = getPieces(outputs);
  bool moves =
      llvm::any_of(members, [](Operation *op) { return isa<ps::ConcatOp, ps::PadOp>(op); });
  if (failed(pieces) || (moves && outputs.size() > 1) ||
      (moves && !isa<ps::ConcatOp, ps::PadOp>(outputs[0].getDefiningOp()))) {
    reason = "a concat or pad inside a group";
    return false;
  }
  Ops all = addReadThroughOps(members);
  for (const Piece &piece : *pieces) {
    IterationSpace space;
    if (failed(space.analyze(all, piece.outputs))) {
      reason = space.getReason().str();
      return false;
    }
  }
  return true;
}

LogicalResult Groups::formAlone(Operation *op) {
  Members alone;
  alone.insert(op);
  std::string reason;
  // Copies views that cannot be read through, nearest first.
  while (!fits(alone, reason)) {
    Operation *nearest = nullptr;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && isReadThrough(def) && isView(def))
        nearest = def;
    if (!nearest)
      return op->emitError() << "'" << op->getName()
                             << "' cannot be compiled to one kernel: " << reason;
    requireDense(nearest->getResult(0));
    if (!isMaterialized(nearest))
      reshaped.insert(nearest);
  }
  groupOf[op] = groups.size();
  groups.push_back(alone);
  return success();
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// Returns true if a def-use path leaves the group and reenters it, so that the fused op would
/// depend on itself.
bool Groups::makesCycle(const Members &members) const {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Operation *> work;
  auto push = [&](Operation *user) {
    if (auto group = groupOf.find(user); group != groupOf.end() && !members.contains(user)) {
      for (Operation *op : groups[group->second])
        if (seen.insert(op).second)
          work.push_back(op);
    } else if (seen.insert(user).second) {
      work.push_back(user);
    }
  };
  for (Operation *op : members)
    for (Operation *user : op->getUsers())
      if (!members.contains(user))
        push(user);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    bool readThrough = isReadThrough(op);
    for (Operation *user : op->getUsers()) {
      if (members.contains(user)) {
        // A view between two members is read through; it does not leave the group.
        if (!readThrough || !comesStraightFrom(op, members))
          return true;
        continue;
      }
      push(user);
    }
  }
  return false;
}

bool Groups::comesStraightFrom(Operation *view, const Members &members) const {
  Operation *def = view->getNumOperands() ? view->getOperand(0).getDefiningOp() : nullptr;
  while (def && isReadThrough(def) && def->getNumOperands())
    def = def->getOperand(0).getDefiningOp();
  return def && members.contains(def);
}

/// Returns the values that the ops read and none of them produces, in order of first use.
static llvm::SetVector<Value> getInputs(ArrayRef<Operation *> ops) {
  llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  return inputs;
}

bool Groups::tryMerge(int a, int b) {
  Members both = groups[a];
  both.insert(groups[b].begin(), groups[b].end());
  if (both.size() > kMaxOps || makesCycle(both))
    return false;
  std::string reason;
  if (!fits(both, reason) ||
      getInputs(addReadThroughOps(both)).size() + getOutputs(both).size() > kMaxBuffers)
    return false;
  for (Operation *op : groups[a])
    groupOf[op] = b;
  groups[b] = both;
  groups[a].clear();
  return true;
}

SmallVector<int> Groups::getProducers(int group) const {
  llvm::SetVector<int> producers;
  for (Operation *op : addReadThroughOps(groups[group]))
    for (Value operand : op->getOperands())
      if (auto at = groupOf.find(operand.getDefiningOp());
          at != groupOf.end() && at->second != group)
        producers.insert(at->second);
  return llvm::to_vector(llvm::reverse(producers));
}

/// Merges groups that share a large input and an iteration space, so that the input is read once.
void Groups::mergeSiblings() {
  auto inputsOf = [&](int group) {
    llvm::DenseSet<Value> inputs;
    for (Operation *op : addReadThroughOps(groups[group]))
      for (Value operand : op->getOperands()) {
        auto type = dyn_cast<RankedTensorType>(operand.getType());
        bool inside = operand.getDefiningOp() && (groups[group].contains(operand.getDefiningOp()) ||
                                                  isReadThrough(operand.getDefiningOp()));
        if (type && type.getNumElements() > 4096 && !inside)
          inputs.insert(operand);
      }
    return inputs;
  };
  for (size_t b = 0; b < groups.size(); ++b) {
    if (groups[b].empty())
      continue;
    llvm::DenseSet<Value> inputs = inputsOf(b);
    for (size_t a = 0; a < b; ++a)
      if (!groups[a].empty() &&
          llvm::any_of(inputsOf(a), [&](Value value) { return inputs.contains(value); }) &&
          tryMerge(a, b))
        inputs = inputsOf(b);
  }
}

/// Forms groups until every fusable op is in a group. Each new group may require more views to be
/// copied.
LogicalResult Groups::formRemaining() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : block) {
      bool moves = isView(&op) || isSource(&op);
      if (!isFusable(&op) || op.use_empty() || groupOf.contains(&op) ||
          (moves && !materialized.contains(&op)))
        continue;
      if (failed(formAlone(&op)))
        return failure();
      changed = true;
    }
  }
  return success();
}

/// Makes the operands of library ops dense. Ops that were visited earlier can no longer read
/// through a view that is now copied. The loop therefore repeats until no view is added.
void Groups::prepareAllLibraryOperands() {
  size_t before;
  do {
    before = materialized.size();
    for (Operation &op : block) {
      LoweringKind kind = getKind(&op);
      bool fusable = kind == LoweringKind::Elementwise || kind == LoweringKind::Row ||
                     kind == LoweringKind::Movement;
      if (!fusable && !isa<ps::FusedOp>(op))
        prepareLibraryOperands(&op);
    }
  } while (materialized.size() > before);
}

LogicalResult Groups::form() {
  prepareAllLibraryOperands();
  if (failed(formRemaining()))
    return failure();
  for (size_t group = 0; group < groups.size(); ++group) {
    bool changed = true;
    while (changed && !groups[group].empty()) {
      changed = false;
      for (int producer : getProducers(group))
        changed |= tryMerge(producer, group);
    }
  }
  mergeSiblings();
  return success();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

void Groups::buildOne(const Members &members) {
  SmallVector<Value> outputs = getOutputs(members);
  if (outputs.empty())
    return;
  Ops ops = addReadThroughOps(members);
  llvm::SetVector<Value> inputs = getInputs(ops);
  Operation *last = outputs.back().getDefiningOp();
  for (Operation *op : members)
    if (last->isBeforeInBlock(op))
      last = op;
  OpBuilder b(last);
  SmallVector<Type> types;
  for (Value output : outputs)
    types.push_back(output.getType());
  auto fused = ps::FusedOp::create(b, last->getLoc(), types, inputs.getArrayRef());
  ps::copyMarks(last, fused);
  Block *body = b.createBlock(&fused.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  for (Operation *op : ops)
    b.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  ps::YieldOp::create(b, last->getLoc(), yielded);
  for (auto [output, result] : llvm::zip_equal(outputs, fused.getResults()))
    output.replaceUsesWithIf(result,
                             [&](OpOperand &use) { return !members.contains(use.getOwner()); });
}

void Groups::build() {
  // Clones the ops of all groups before any op is erased, because groups share views.
  for (const Members &members : groups)
    if (!members.empty())
      buildOne(members);
  bool erased = true;
  while (erased) {
    erased = false;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isFusable(&op) && op.use_empty()) {
        op.erase();
        erased = true;
      }
  }
}
