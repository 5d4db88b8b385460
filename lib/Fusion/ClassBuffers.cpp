// Assigns the values of a class function to buffers.
#include "ClassBuffers.h"
#include "Fused.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

Value fusion::getRoot(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

bool fusion::producesValue(Operation *op) {
  return op->getNumResults() > 0 && !isView(op) && !isa<ps::ReadOp>(op);
}

ClassBuffers::ClassBuffers(func::FuncOp function) : function(function) {
  unsigned next = 0;
  SmallVector<Value> scalars;
  for (BlockArgument argument : function.getArguments()) {
    if (isa<ps::RefType>(argument.getType())) {
      refNumbers[argument] = refs.size();
      refs.push_back(argument);
    }
    if (argument.getType().isInteger(64))
      scalars.push_back(argument);
    else
      bases[argument] = next++;
  }
  // The i64 arguments are the keys, followed by the micro-batch.
  for (Value scalar : scalars)
    slots[scalar] = scalar == scalars.back() ? 2 : 3 + int(keys++);
  firstResult = next;
  scratch = next + function.getNumResults();

  Block &block = function.getBody().front();
  for (Operation &op : block)
    if (auto read = dyn_cast<ps::ReadOp>(op))
      bases[read.getResult()] = bases.lookup(read.getRef());
  Operation *terminator = block.getTerminator();
  for (OpOperand &result : terminator->getOpOperands()) {
    Value root = getRoot(result.get());
    bool made = root.getDefiningOp() && producesValue(root.getDefiningOp());
    if (made && bases.try_emplace(root, getResultBase(result.getOperandNumber())).second)
      continue;
    copies.push_back({result.get(), getResultBase(result.getOperandNumber())});
  }
  for (Operation &op : block) {
    if (auto accumulate = dyn_cast<ps::AccumulateOp>(op)) {
      Value ref = accumulate.getRef();
      bases[accumulate.getValue()] = bases.lookup(ref);
      accumulated[accumulate.getValue()] = refNumbers.lookup(ref);
    } else if (auto write = dyn_cast<ps::WriteOp>(op)) {
      if (write->hasAttr(kInPlaceMark))
        bases[write.getValue()] = bases.lookup(write.getRef());
      else
        copies.push_back({write.getValue(), bases.lookup(write.getRef())});
    }
  }
}

/// Returns the number that the attribute `mark` has for coordinate `pp`. The attribute is a list
/// with one number per coordinate, or a single number for coordinate 0. A negative number in a list
/// gives nullopt.
static std::optional<int64_t> getByCoordinate(Operation *op, StringRef mark, int64_t pp) {
  if (auto single = op->getAttrOfType<IntegerAttr>(mark))
    return pp == 0 && single.getValue().isSignedIntN(64) ? std::optional(single.getInt())
                                                         : std::nullopt;
  auto list = op->getAttrOfType<DenseI64ArrayAttr>(mark);
  return list && pp < list.size() && list[pp] >= 0 ? std::optional(list[pp]) : std::nullopt;
}

std::optional<int64_t> fusion::getVariableAddress(ps::VariableOp variable, int64_t pp) {
  return getByCoordinate(variable, kAddressMark, pp);
}

std::optional<int64_t> fusion::getArenaBytes(ModuleOp module, int64_t pp) {
  return getByCoordinate(module, kArenaBytesMark, pp);
}

std::optional<HostPart> fusion::getHostPart(ModuleOp module, int64_t pp) {
  std::optional<int64_t> base = getByCoordinate(module, kHostBaseMark, pp),
                         bytes = getByCoordinate(module, kHostBytesMark, pp);
  return base && bytes ? std::optional(HostPart{*base, *bytes}) : std::nullopt;
}

void fusion::setByCoordinate(Operation *op, StringRef mark, ArrayRef<int64_t> values) {
  Builder b(op->getContext());
  op->setAttr(mark, values.size() == 1 ? Attribute(b.getI64IntegerAttr(values[0]))
                                       : Attribute(b.getDenseI64ArrayAttr(values)));
}

unsigned ClassBuffers::getBase(Value made) const {
  auto base = bases.find(made);
  return base == bases.end() ? scratch : base->second;
}

int ClassBuffers::getAccumulated(Value made) const {
  auto ref = accumulated.find(made);
  return ref == accumulated.end() ? -1 : ref->second;
}
