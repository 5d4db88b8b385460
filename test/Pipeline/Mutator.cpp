// Implements the kinds of mutations.
#include "test/Pipeline/Mutator.h"
#include "mlir/IR/Dominance.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::test {

static bool isMessage(Operation *op) { return isa<rank::SendOp, rank::RecvOp>(op); }
static bool isTensorCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op);
}
static bool isCommunication(Operation *op) {
  return isMessage(op) || isTensorCollective(op) || isa<rank::StartOp>(op);
}
/// Returns whether an op reduces over coordinates of a pipeline.
static bool isReduction(Operation *op) {
  return op->hasAttr(kReducedMark) && (isa<rank::StartOp, AllReduceOp>(op));
}
static bool isProgramOrStage(Operation *op) {
  return isa<rank::ProgramOp>(op) || op->hasAttr(kStageMark);
}

Mutator::Mutator(ModuleOp module, uint64_t seed)
    : module(module), rng(seed), coordinates(rank::getPipelineSize(module)) {
  module.walk([&](Operation *op) {
    ops.push_back(op);
    if (auto queue = op->getAttrOfType<StringAttr>("queue"))
      queues.push_back(queue.str());
  });
  for (Attribute axis : getMesh(module).getAxes())
    axes.push_back(cast<AxisAttr>(axis).getName().str());
}

ArrayRef<Mutator::Kind> Mutator::getKinds() {
  static const Kind kinds[] = {
      {"axes", &Mutator::changeAxes},
      {"members", &Mutator::changeMembers},
      {"reduction kind", &Mutator::changeReductionKind},
      {"reduced variable", &Mutator::changeReducedVariable},
      {"queue", &Mutator::changeQueue},
      {"peer", &Mutator::changePeer},
      {"message", &Mutator::changeMessage},
      {"swapped messages", &Mutator::swapMessages},
      {"shape", &Mutator::changeShape},
      {"moved op", &Mutator::move},
      {"swapped ops", &Mutator::swap},
      {"removed op", &Mutator::remove},
      {"dropped wait", &Mutator::dropWait},
      {"duplicated op", &Mutator::duplicate},
      {"removed function", &Mutator::removeFunction},
      {"crossing value", &Mutator::changeCrossingValue},
      {"split over pipeline", &Mutator::splitOverPipeline},
  };
  return kinds;
}

size_t Mutator::mutate() {
  for (;;) {
    size_t kind = pick(getKinds().size());
    if ((this->*getKinds()[kind].apply)())
      return kind;
  }
}

Operation *Mutator::pickOp(llvm::function_ref<bool(Operation *)> take) {
  std::vector<Operation *> taken;
  llvm::copy_if(ops, std::back_inserter(taken), take);
  return taken.empty() ? nullptr : taken[pick(taken.size())];
}

void Mutator::describe(Operation *op, const Twine &change) {
  llvm::raw_string_ostream os(description);
  os << change << ": " << *op;
  if (auto function = op->getParentOfType<func::FuncOp>())
    os << " in @" << function.getName();
  else if (auto program = op->getParentOfType<rank::ProgramOp>())
    os << " in @" << program.getSymName();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

bool Mutator::changeAxes() {
  Operation *op = pickOp(
      [](Operation *o) { return isCommunication(o) && o->getAttrOfType<ArrayAttr>("axes"); });
  if (!op)
    return false;
  std::vector<std::string> chosen = axes;
  std::shuffle(chosen.begin(), chosen.end(), rng);
  chosen.resize(1 + pick(std::min<int64_t>(2, chosen.size())));
  SmallVector<StringRef> names(chosen.begin(), chosen.end());
  describe(op, "axes become " + llvm::join(names, ","));
  op->setAttr("axes", Builder(op).getStrArrayAttr(names));
  return true;
}

bool Mutator::changeMembers() {
  Operation *op = pickOp([](Operation *o) { return isReduction(o) || o->getAttr("over_pp"); });
  if (!op)
    return false;
  std::vector<int64_t> members;
  for (int64_t i = 0; i < coordinates; ++i)
    if (pick(3))
      members.push_back(i);
  if (pick(8) == 0)
    std::shuffle(members.begin(), members.end(), rng);
  std::string name = isa<rank::StartOp>(op) ? "over_pp" : kCoordinatesMark.str();
  std::string text;
  for (int64_t member : members)
    text += " " + std::to_string(member);
  describe(op, "members become" + text);
  op->setAttr(name, Builder(op).getDenseI64ArrayAttr(members));
  return true;
}

bool Mutator::changeReductionKind() {
  Operation *op = pickOp([](Operation *o) {
    return isCommunication(o) && o->getAttrOfType<ReductionKindAttr>("kind");
  });
  if (!op)
    return false;
  describe(op, "max instead of sum");
  op->setAttr("kind", ReductionKindAttr::get(op->getContext(), ReductionKind::Max));
  return true;
}

bool Mutator::changeReducedVariable() {
  Operation *op = pickOp(isReduction);
  if (!op)
    return false;
  describe(op, "another reduced variable");
  op->setAttr(kReducedMark, StringAttr::get(op->getContext(), "something else"));
  return true;
}

bool Mutator::changeQueue() {
  Operation *op = pickOp([](Operation *o) { return o->hasAttr("queue"); });
  if (!op)
    return false;
  std::string queue = pick(4) ? queues[pick(queues.size())] : "new";
  describe(op, "queue becomes " + queue);
  op->setAttr("queue", StringAttr::get(op->getContext(), queue));
  return true;
}

bool Mutator::changePeer() {
  Operation *op = pickOp(isMessage);
  if (!op)
    return false;
  int64_t peer = pick(coordinates);
  describe(op, "peer becomes " + Twine(peer));
  op->setAttr("pp", Builder(op).getI64IntegerAttr(peer));
  return true;
}

bool Mutator::changeMessage() {
  Operation *op = pickOp(isMessage);
  if (!op)
    return false;
  StringRef name = pick(2) ? "value" : "micro_batch";
  describe(op, "another " + name);
  op->setAttr(name, Builder(op).getI64IntegerAttr(pick(4)));
  return true;
}

bool Mutator::swapMessages() {
  Operation *a = pickOp(isMessage);
  Operation *b = pickOp([&](Operation *o) { return a && o != a && o->getName() == a->getName(); });
  if (!a || !b)
    return false;
  describe(b, "swapped messages");
  for (StringRef name : {"pp", "queue", "value", "micro_batch"}) {
    Attribute kept = a->getAttr(name);
    a->setAttr(name, b->getAttr(name));
    b->setAttr(name, kept);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static RankedTensorType flatten(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape{1};
  llvm::append_range(shape, tensor.getShape());
  return tensor.clone(shape);
}

/// Reshapes the value that one side sends, receives or reduces. Users still get the old shape.
/// Example: tensor<4xf32> is sent as tensor<1x4xf32>.
bool Mutator::changeShape() {
  Operation *op = pickOp([](Operation *o) { return isMessage(o) || isReduction(o); });
  if (!op)
    return false;
  describe(op, "another shape");
  OpBuilder builder(op);
  if (op->getNumOperands() == 1) {
    Value operand = op->getOperand(0);
    op->setOperand(0,
                   ReshapeOp::create(builder, op->getLoc(), flatten(operand.getType()), operand));
  }
  if (op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return true;
  Value result = op->getResult(0);
  Type before = result.getType();
  result.setType(flatten(before));
  Operation *after = op;
  for (Operation *user : op->getResults().back().getUsers())
    if (isa<rank::WaitOp>(user))
      after = user;
  builder.setInsertionPointAfter(after);
  auto again = ReshapeOp::create(builder, op->getLoc(), before, result);
  result.replaceAllUsesExcept(again, again);
  return true;
}

bool Mutator::move() {
  Operation *op = pickOp([](Operation *o) { return isCommunication(o) || isa<rank::WaitOp>(o); });
  if (!op)
    return false;
  describe(op, "moved");
  std::vector<Operation *> all;
  for (Operation &blockOp : *op->getBlock())
    all.push_back(&blockOp);
  Operation *target = all[pick(all.size())];
  if (target != op)
    op->moveBefore(target);
  return true;
}

bool Mutator::swap() {
  Operation *a = pickOp([](Operation *o) { return isCommunication(o) || isa<rank::WaitOp>(o); });
  Operation *b = pickOp([&](Operation *o) {
    return a && o != a && o->getBlock() == a->getBlock() && o->getName() == a->getName();
  });
  if (!a || !b)
    return false;
  describe(b, "swapped with another");
  Operation *next = a->getNextNode();
  a->moveBefore(b);
  if (next && next != b)
    b->moveBefore(next);
  return true;
}

Value Mutator::makeZero(OpBuilder &builder, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute zero = builder.getZeroAttr(tensor.getElementType());
  return ConstantOp::create(builder, builder.getUnknownLoc(), DenseElementsAttr::get(tensor, zero));
}

void Mutator::replaceAndErase(Operation *op) {
  OpBuilder builder(op);
  for (Value result : op->getResults()) {
    for (Operation *user : llvm::make_early_inc_range(result.getUsers()))
      if (isa<rank::WaitOp>(user))
        user->erase();
    if (!result.use_empty())
      result.replaceAllUsesWith(makeZero(builder, result.getType()));
  }
  op->erase();
}

bool Mutator::remove() {
  Operation *op = pickOp(isCommunication);
  if (!op)
    return false;
  describe(op, "removed");
  replaceAndErase(op);
  return true;
}

bool Mutator::dropWait() {
  Operation *op = pickOp([](Operation *o) { return isa<rank::WaitOp>(o); });
  if (!op)
    return false;
  describe(op, "dropped");
  op->erase();
  return true;
}

bool Mutator::duplicate() {
  Operation *op = pickOp(isCommunication);
  if (!op)
    return false;
  describe(op, "duplicated");
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  if (isa<rank::ProgramOp>(op->getParentOp()))
    rank::WaitOp::create(builder, op->getLoc(), copy->getResults().back());
  return true;
}

bool Mutator::removeFunction() {
  // With one coordinate, the module would stay valid. With more, the verifier detects this change
  // easily, so it is rare: one attempt of 8.
  if (coordinates == 1 || pick(8))
    return false;
  Operation *op = pickOp(isProgramOrStage);
  description = "removed @" + SymbolTable::getSymbolName(op).str();
  op->erase();
  return true;
}

//===----------------------------------------------------------------------===//
// Level 3
//===----------------------------------------------------------------------===//

bool Mutator::changeCrossingValue() {
  std::vector<std::function<void()>> changes;
  std::vector<int64_t> numbers;
  Builder b(module.getContext());
  for (auto function : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto value = function.getArgAttrOfType<IntegerAttr>(i, kValueMark)) {
        numbers.push_back(value.getInt());
        changes.emplace_back([=, this]() mutable {
          int64_t number = pick(5) ? numbers[pick(numbers.size())] : 99;
          function.setArgAttr(i, kValueMark, b.getI64IntegerAttr(number));
          description = "argument " + std::to_string(i) + " of @" + function.getName().str() +
                        " becomes value " + std::to_string(number);
        });
      }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto value = function.getResultAttrOfType<IntegerAttr>(i, kValueMark))
        changes.emplace_back([=, this]() mutable {
          int64_t number = value.getInt() + 1 - 2 * pick(2);
          function.setResultAttr(i, kValueMark, b.getI64IntegerAttr(number));
          description = "result " + std::to_string(i) + " of @" + function.getName().str() +
                        " becomes value " + std::to_string(number);
        });
  }
  if (changes.empty())
    return false;
  changes[pick(changes.size())]();
  return true;
}

bool Mutator::splitOverPipeline() {
  Operation *op = pickOp([](Operation *o) {
    auto variable = dyn_cast<VariableOp>(o);
    return variable && variable.getSharding() && !variable.getSharding().getDims().empty();
  });
  auto pipeline = getMesh(module).getAxesOfKind(AxisKind::Pipeline);
  if (!op || pipeline.empty() || pick(4))
    return false;
  auto variable = cast<VariableOp>(op);
  describe(op, "split over the pipeline");
  ShardingAttr before = variable.getSharding();
  SmallVector<DimAttr> dims(before.getDims());
  dims[pick(dims.size())] = DimAttr::getSplit(op->getContext(), pipeline);
  variable.setSharding(
      ShardingAttr::get(op->getContext(), before.getMesh(), dims, before.getPartial()));
  return true;
}

} // namespace parashard::test
