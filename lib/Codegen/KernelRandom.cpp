// Emits random numbers: Philox4x32-10 in lanes, as defined in docs/program-format.md ("Random
// numbers").
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;

namespace {
/// Builds wrapping arithmetic on i64 lanes.
struct Words {
  KernelEmitter &emitter;
  OpBuilder &b;
  Location loc;

  Value number(uint64_t value) { return emitter.splat(emitter.constant(int64_t(value))); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value exclusive(Value x, Value y) { return arith::XOrIOp::create(b, loc, x, y); }
  Value low(Value x) { return arith::AndIOp::create(b, loc, x, number(0xFFFFFFFFull)); }
  Value shift(Value x, unsigned bits) { return arith::ShRUIOp::create(b, loc, x, number(bits)); }

  /// Builds a step of splitmix64.
  Value mix(Value x) {
    x = add(x, number(0x9E3779B97F4A7C15ull));
    x = mul(exclusive(x, shift(x, 30)), number(0xBF58476D1CE4E5B9ull));
    x = mul(exclusive(x, shift(x, 27)), number(0x94D049BB133111EBull));
    return exclusive(x, shift(x, 31));
  }

  /// Builds word 0 of Philox4x32-10 (Salmon et al., SC 2011) for counter (lo, hi, 0, 0) and a
  /// 64-bit key.
  Value philox(Value counter, Value key) {
    Value c0 = low(counter), c1 = shift(counter, 32), c2 = number(0), c3 = number(0);
    Value k0 = low(key), k1 = shift(key, 32);
    for (unsigned round = 0; round < 10; ++round) {
      Value first = mul(c0, number(0xD2511F53ull)), second = mul(c2, number(0xCD9E8D57ull));
      Value n0 = exclusive(exclusive(shift(second, 32), c1), k0);
      Value n2 = exclusive(exclusive(shift(first, 32), c3), k1);
      c0 = n0;
      c1 = low(second);
      c2 = n2;
      c3 = low(first);
      k0 = low(add(k0, number(0x9E3779B9ull)));
      k1 = low(add(k1, number(0xBB67AE85ull)));
    }
    return c0;
  }
};
} // namespace

Value KernelEmitter::elementIndex() {
  const Access &access = space.getResultAccess(currentOp->getResult(0));
  Value index = splat(rowOffset(access));
  if (!position.column || access.strides.back() == 0)
    return index;
  Value step = splat(constant(access.strides.back()));
  return arith::AddIOp::create(b, loc, index, arith::MulIOp::create(b, loc, columnLanes(), step));
}

Value LaneBuilder::random(const ps::RandomPosition &position, Value like) {
  Words w{emitter, b, loc};
  Value index = emitter.elementIndex();
  Value global = index;
  if (!position.factorSizes.empty()) {
    global = w.number(0);
    int64_t inner = 1;
    for (auto [size, stride] :
         llvm::reverse(llvm::zip_equal(position.factorSizes, position.factorStrides))) {
      Value digit = arith::DivUIOp::create(b, loc, index, w.number(inner));
      digit = arith::RemUIOp::create(b, loc, digit, w.number(size));
      global = w.add(global, w.mul(digit, w.number(stride)));
      inner *= size;
    }
  }
  if (position.offset)
    global = w.add(global, emitter.splat(position.offset));
  if (position.microBatch)
    global =
        w.add(global, w.mul(emitter.splat(position.microBatch), w.number(position.globalSize)));
  Value seed = emitter.splat(emitter.loadScalarSlot(0)),
        step = emitter.splat(emitter.loadScalarSlot(1));
  Value key = w.mix(w.add(seed, w.mix(w.add(emitter.splat(position.key), w.mix(step)))));
  Value word = w.shift(w.philox(global, key), 8);
  Type type = emitter.laneType(b.getF32Type());
  Value number = arith::SIToFPOp::create(b, loc, type, word);
  return mul(number, constant(number, 0x1p-24));
}
