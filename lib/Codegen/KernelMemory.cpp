// Emits loads and stores of lanes at a kernel's current position.
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

/// Returns true for 8-bit floats, whose bits kernels handle as bytes.
static bool isFloat8(Type element) { return isa<Float8E4M3FNType, Float8E5M2Type>(element); }

Type codegen::getStorageType(Type element) {
  if (element.isInteger(1) || isFloat8(element))
    return IntegerType::get(element.getContext(), 8);
  if (element.isUnsignedInteger()) // LLVM integers have no sign
    return IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth());
  return element;
}

/// Returns the bytes of one element in memory.
static unsigned getWidth(Type element) { return std::max(8u, element.getIntOrFloatBitWidth()) / 8; }

unsigned KernelEmitter::getAlignment(Type element) const { return getWidth(element); }

Value KernelEmitter::constant(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}

Type KernelEmitter::laneType(Type element) const {
  if (isFloat8(element))
    element = getStorageType(element);
  return position.lanes == 1 ? element : VectorType::get({position.lanes}, element);
}

Value KernelEmitter::splat(Value scalar) {
  if (position.lanes == 1 || !scalar || isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(b, loc, laneType(scalar.getType()), scalar);
}

Value KernelEmitter::columnLanes() {
  if (position.lanes == 1)
    return position.column ? position.column : constant(0);
  auto steps = llvm::to_vector(llvm::seq<int64_t>(0, position.lanes));
  auto type = cast<VectorType>(laneType(b.getI64Type()));
  Value lane = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef(steps)));
  return arith::AddIOp::create(b, loc, splat(position.column), lane);
}

Value KernelEmitter::pointerAt(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(b, loc, base.getType(), getStorageType(element), base,
                             ValueRange{index});
}

Value KernelEmitter::mask() {
  SmallVector<bool> bits(position.lanes);
  for (unsigned i = 0; i < position.active; ++i)
    bits[i] = true;
  auto type = VectorType::get({position.lanes}, b.getI1Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef(bits)));
}

/// Converts bytes to bools if the element is i1.
static Value fromStorage(OpBuilder &b, Location loc, Value value, Type element) {
  if (!element.isInteger(1))
    return value;
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
}

static Value toStorage(OpBuilder &b, Location loc, Value value, Type element) {
  if (!element.isInteger(1))
    return value;
  Type bytes = b.getI8Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    bytes = VectorType::get(vector.getShape(), bytes);
  return arith::ExtUIOp::create(b, loc, bytes, value);
}

Value KernelEmitter::loadLanes(Value base, Type element, Value row, int64_t stride) {
  Type storage = getStorageType(element);
  unsigned align = getWidth(element);
  auto load = [&](Type type, Value index, unsigned aligned) -> Value {
    return LLVM::LoadOp::create(b, loc, type, pointerAt(base, element, index), aligned);
  };
  if (stride == 0 || position.lanes == 1) {
    Value index = row;
    if (stride != 0 && position.column) {
      Value column = arith::MulIOp::create(b, loc, position.column, constant(stride));
      index = arith::AddIOp::create(b, loc, row, column);
    }
    return splat(fromStorage(b, loc, load(storage, index, align), element));
  }
  auto type = cast<VectorType>(laneType(storage));
  if (stride == 1) {
    Value index = arith::AddIOp::create(b, loc, row, position.column);
    if (position.active == position.lanes)
      return fromStorage(b, loc, load(type, index, getAlignment(element)), element);
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    Value loaded = LLVM::MaskedLoadOp::create(b, loc, type, pointerAt(base, element, index), mask(),
                                              zero, b.getI32IntegerAttr(align));
    return fromStorage(b, loc, loaded, element);
  }
  Value all = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  for (unsigned lane = 0; lane < position.active; ++lane) {
    Value column = arith::AddIOp::create(b, loc, position.column, constant(lane));
    Value index =
        arith::AddIOp::create(b, loc, row, arith::MulIOp::create(b, loc, column, constant(stride)));
    all = vector::InsertOp::create(b, loc, load(storage, index, align), all, int64_t(lane));
  }
  return fromStorage(b, loc, all, element);
}

void KernelEmitter::storeLanes(Value value, Value base, Type element, Value row, int64_t stride) {
  unsigned align = getWidth(element);
  value = toStorage(b, loc, value, element);
  OpBuilder::InsertionGuard guard(b);
  if (Value condition = getStoreCondition()) {
    auto stored = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
    b.setInsertionPointToStart(&stored.getThenRegion().front());
  }
  if (position.lanes == 1) {
    Value index = row;
    if (position.column && stride != 0) {
      Value column = arith::MulIOp::create(b, loc, position.column, constant(stride));
      index = arith::AddIOp::create(b, loc, row, column);
    }
    LLVM::StoreOp::create(b, loc, value, pointerAt(base, element, index), align);
    return;
  }
  if (stride == 1) {
    Value pointer = pointerAt(base, element, arith::AddIOp::create(b, loc, row, position.column));
    if (position.active == position.lanes)
      LLVM::StoreOp::create(b, loc, value, pointer, getAlignment(element));
    else
      LLVM::MaskedStoreOp::create(b, loc, value, pointer, mask(), b.getI32IntegerAttr(align));
    return;
  }
  for (unsigned lane = 0; lane < position.active; ++lane) {
    Value column = arith::AddIOp::create(b, loc, position.column, constant(lane));
    Value index =
        arith::AddIOp::create(b, loc, row, arith::MulIOp::create(b, loc, column, constant(stride)));
    Value scalar = vector::ExtractOp::create(b, loc, value, int64_t(lane));
    LLVM::StoreOp::create(b, loc, scalar, pointerAt(base, element, index), align);
  }
}

Value KernelEmitter::rowOffset(const Access &access) {
  Value offset = constant(access.offset);
  for (auto [index, stride] : llvm::zip(rowIndices, access.strides))
    if (stride != 0)
      offset = arith::AddIOp::create(b, loc, offset,
                                     arith::MulIOp::create(b, loc, index, constant(stride)));
  return offset;
}

Value KernelEmitter::constantBuffer(ps::ConstantOp constantOp) {
  std::vector<char> bytes = ps::Tensor::fromAttr(constantOp.getValue()).toBytes();
  std::string symbol = name + ".constant" + std::to_string(pointers.size());
  OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
  auto global =
      LLVM::GlobalOp::create(top, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, symbol,
                             top.getStringAttr(StringRef(bytes.data(), bytes.size())), 64);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryMark);
  return LLVM::AddressOfOp::create(b, loc, global);
}

Value KernelEmitter::loadScalarSlot(unsigned slot) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryMark);
  return LLVM::LoadOp::create(b, loc, b.getI64Type(),
                              pointerAt(scalarsArgument, b.getI64Type(), constant(slot)), 8);
}
