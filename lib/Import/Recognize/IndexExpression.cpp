// Builds and evaluates index expressions. Folds each linear expression of the indices to one node
// of kind `Linear`.
#include "lib/Import/Recognize/IndexExpression.h"
#include "lib/Import/Recognize/Matching.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;

namespace parashard::import::recognize {

using Kind = Expression::Kind;

bool Expression::isConstant() const {
  return kind == Linear && llvm::all_of(coefficients, [](int64_t c) { return c == 0; });
}

bool Expression::hasLeaf() const {
  return kind == Leaf ||
         llvm::any_of(operands, [](const ExpressionPtr &e) { return e->hasLeaf(); });
}

bool Expression::dependsOn(unsigned index) const {
  return coefficients[index] != 0 ||
         llvm::any_of(operands, [&](const ExpressionPtr &e) { return e->dependsOn(index); });
}

static bool holds(ps::Predicate predicate, double x, double y) {
  switch (predicate) {
  case ps::Predicate::Eq:
    return x == y;
  case ps::Predicate::Ne:
    return x != y;
  case ps::Predicate::Lt:
    return x < y;
  case ps::Predicate::Le:
    return x <= y;
  case ps::Predicate::Gt:
    return x > y;
  case ps::Predicate::Ge:
    return x >= y;
  }
  return false;
}

/// Computes the value of a node from the values of its operands.
static double apply(const Expression &e, llvm::ArrayRef<double> x) {
  switch (e.kind) {
  case Kind::Add:
    return x[0] + x[1];
  case Kind::Sub:
    return x[0] - x[1];
  case Kind::Mul:
    return x[0] * x[1];
  case Kind::Div: // indices are integers
    return std::trunc(x[0] / x[1]);
  case Kind::Mod:
    return x[0] - std::floor(x[0] / x[1]) * x[1];
  case Kind::Neg:
    return -x[0];
  case Kind::Max:
    return std::max(x[0], x[1]);
  case Kind::Min:
    return std::min(x[0], x[1]);
  case Kind::Compare:
    return holds(e.predicate, x[0], x[1]);
  case Kind::And:
    return x[0] != 0 && x[1] != 0;
  case Kind::Or:
    return x[0] != 0 || x[1] != 0;
  case Kind::Not:
    return x[0] == 0;
  case Kind::Select:
    return x[0] != 0 ? x[1] : x[2];
  case Kind::Table: {
    SmallVector<int64_t> at;
    for (double index : x)
      at.push_back(int64_t(index));
    return e.table->get(e.table->linearize(at));
  }
  case Kind::Linear:
  case Kind::Leaf:
    break;
  }
  return std::nan("");
}

double Expression::evaluate(const std::array<int64_t, kNumIndices> &indices) const {
  if (kind == Linear) {
    double sum = constant;
    for (unsigned i = 0; i < kNumIndices; ++i)
      sum += double(coefficients[i] * indices[i]);
    return sum;
  }
  SmallVector<double, 4> values;
  for (const ExpressionPtr &operand : operands)
    values.push_back(operand->evaluate(indices));
  return apply(*this, values);
}

ExpressionPtr makeConstant(double value) {
  auto e = std::make_shared<Expression>();
  e->constant = value;
  return e;
}

ExpressionPtr makeIndex(unsigned index) {
  auto e = std::make_shared<Expression>();
  e->coefficients[index] = 1;
  return e;
}

namespace {

/// Returns a x + b y for two linear expressions.
ExpressionPtr combine(const Expression &x, int64_t a, const Expression &y, int64_t b) {
  auto e = std::make_shared<Expression>();
  e->constant = a * x.constant + b * y.constant;
  for (unsigned i = 0; i < kNumIndices; ++i)
    e->coefficients[i] = a * x.coefficients[i] + b * y.coefficients[i];
  return e;
}

bool isInteger(const Expression &e) { return e.constant == std::trunc(e.constant); }

/// Returns the result as one linear expression, or null if the operands or the result are not
/// linear.
ExpressionPtr foldLinear(Kind kind, llvm::ArrayRef<ExpressionPtr> x) {
  auto linear = [&](unsigned i) { return x[i]->kind == Kind::Linear; };
  if ((kind == Kind::Add || kind == Kind::Sub) && linear(0) && linear(1))
    return combine(*x[0], 1, *x[1], kind == Kind::Add ? 1 : -1);
  if (kind == Kind::Neg && linear(0))
    return combine(*x[0], -1, *x[0], 0);
  if (kind == Kind::Mul && linear(0) && linear(1))
    for (const auto &[a, b] : {std::pair(x[0], x[1]), std::pair(x[1], x[0])})
      if (b->isConstant() && isInteger(*b) && std::abs(b->constant) < 1e9)
        return combine(*a, int64_t(b->constant), *a, 0);
  return {};
}

ExpressionPtr make(Kind kind, std::vector<ExpressionPtr> operands,
                   ps::Predicate predicate = ps::Predicate::Eq) {
  auto e = std::make_shared<Expression>();
  e->kind = kind;
  e->predicate = predicate;
  e->operands = std::move(operands);
  if (llvm::all_of(e->operands, [](const ExpressionPtr &x) { return x->isConstant(); }))
    return makeConstant(e->evaluate({}));
  if (ExpressionPtr linear = foldLinear(kind, e->operands))
    return linear;
  // Simplifies `true and x`, `false or x` and similar expressions.
  if (kind == Kind::And || kind == Kind::Or)
    for (unsigned i : {0, 1})
      if (e->operands[i]->isConstant())
        return (e->operands[i]->constant != 0) == (kind == Kind::And) ? e->operands[1 - i]
                                                                      : e->operands[i];
  if (kind == Kind::Select && e->operands[0]->isConstant())
    return e->operands[e->operands[0]->constant != 0 ? 1 : 2];
  return e;
}

ExpressionPtr makeLeaf(Value value, llvm::ArrayRef<ExpressionPtr> indices) {
  auto e = std::make_shared<Expression>();
  e->kind = Kind::Leaf;
  e->value = value;
  e->operands.assign(indices.begin(), indices.end());
  return e;
}

ExpressionPtr buildTable(ps::ConstantOp op, llvm::ArrayRef<ExpressionPtr> indices) {
  if (std::optional<double> splat = getSplat(op.getResult()))
    return makeConstant(*splat);
  auto e = std::make_shared<Expression>();
  e->kind = Kind::Table;
  e->table = std::make_shared<ps::Tensor>(ps::Tensor::fromAttr(op.getValue()));
  e->operands.assign(indices.begin(), indices.end());
  return e;
}

/// Converts indices of the result of a reshape to indices of its operand. If only dims of size 1
/// are added or dropped, the other indices are kept. Otherwise computes the row-major offset, and
/// splits it into indices of the operand. Example: for a reshape from [2, 3] to [6], index i
/// becomes (i / 3 mod 2, i mod 3).
SmallVector<ExpressionPtr> unreshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                     llvm::ArrayRef<ExpressionPtr> indices) {
  SmallVector<int64_t> fromSizes, toSizes;
  llvm::copy_if(from, std::back_inserter(fromSizes), [](int64_t s) { return s != 1; });
  llvm::copy_if(to, std::back_inserter(toSizes), [](int64_t s) { return s != 1; });
  SmallVector<ExpressionPtr> out;
  if (fromSizes == toSizes) {
    unsigned at = 0;
    for (int64_t size : from) {
      while (size != 1 && to[at] == 1)
        ++at;
      out.push_back(size == 1 ? makeConstant(0) : indices[at++]);
    }
    return out;
  }
  ExpressionPtr linear = makeConstant(0);
  for (auto [size, index] : llvm::zip(to, indices))
    linear = make(Kind::Add, {make(Kind::Mul, {linear, makeConstant(double(size))}), index});
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(from)) {
    out.push_back(make(Kind::Mod, {make(Kind::Div, {linear, makeConstant(double(stride))}),
                                   makeConstant(double(size))}));
    stride *= size;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

ExpressionPtr buildSlice(ps::SliceOp op, llvm::ArrayRef<ExpressionPtr> indices) {
  SmallVector<ExpressionPtr> inner;
  for (auto [dim, index] : llvm::enumerate(indices))
    inner.push_back(
        make(Kind::Add, {make(Kind::Mul, {index, makeConstant(double(op.getStrides()[dim]))}),
                         makeConstant(double(op.getStarts()[dim]))}));
  return buildExpression(op.getOperand(), inner);
}

/// Expands a broadcast, transpose, reshape or slice: converts indices of its result to indices of
/// its operand. Returns null for other ops.
ExpressionPtr buildMovement(Operation *op, llvm::ArrayRef<ExpressionPtr> indices) {
  SmallVector<ExpressionPtr> inner;
  if (auto broadcast = dyn_cast<ps::BroadcastOp>(op)) {
    for (int64_t dim : broadcast.getDims())
      inner.push_back(indices[dim]);
    return buildExpression(broadcast.getOperand(), inner);
  }
  if (auto transpose = dyn_cast<ps::TransposeOp>(op)) {
    inner.resize(indices.size());
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
      inner[from] = indices[i];
    return buildExpression(transpose.getOperand(), inner);
  }
  if (auto reshape = dyn_cast<ps::ReshapeOp>(op))
    return buildExpression(reshape.getOperand(), unreshape(getShape(reshape.getOperand()),
                                                           getShape(reshape.getResult()), indices));
  if (auto slice = dyn_cast<ps::SliceOp>(op))
    return buildSlice(slice, indices);
  return {};
}

std::optional<Kind> getElementwiseKind(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Kind>>(op)
      .Case([](ps::AddOp) { return Kind::Add; })
      .Case([](ps::SubOp) { return Kind::Sub; })
      .Case([](ps::MulOp) { return Kind::Mul; })
      .Case([](ps::NegOp) { return Kind::Neg; })
      .Case([](ps::MaxOp) { return Kind::Max; })
      .Case([](ps::MinOp) { return Kind::Min; })
      .Case([](ps::CompareOp) { return Kind::Compare; })
      .Case([](ps::NotOp) { return Kind::Not; })
      .Case([](ps::SelectOp) { return Kind::Select; })
      .Default([](Operation *) { return std::optional<Kind>(); });
}

/// Expands a cast. A cast to bool becomes x != 0. A cast from float to integer is a leaf, because
/// it truncates. Other casts do not change the value.
ExpressionPtr buildConvert(ps::ConvertOp op, llvm::ArrayRef<ExpressionPtr> indices) {
  ExpressionPtr x = buildExpression(op.getOperand(), indices);
  Type from = getType(op.getOperand()).getElementType(),
       to = getType(op.getResult()).getElementType();
  if (to.isInteger(1) && !from.isInteger(1))
    return make(Kind::Compare, {x, makeConstant(0)}, ps::Predicate::Ne);
  if (isa<FloatType>(from) && !isa<FloatType>(to))
    return makeLeaf(op.getResult(), indices);
  return x;
}

} // namespace

ExpressionPtr buildExpression(Value value, llvm::ArrayRef<ExpressionPtr> indices) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return makeLeaf(value, indices);
  if (auto constant = dyn_cast<ps::ConstantOp>(op))
    return buildTable(constant, indices);
  if (auto iota = dyn_cast<ps::IotaOp>(op))
    return indices[iota.getDim()];
  if (auto convert = dyn_cast<ps::ConvertOp>(op))
    return buildConvert(convert, indices);
  if (ExpressionPtr moved = buildMovement(op, indices))
    return moved;
  std::optional<Kind> kind = getElementwiseKind(op);
  // `ps.and`, `ps.or` and `ps.mul` of bools are logical ops. `ps.and` and `ps.or` of integers are
  // bitwise, so they become leaves.
  if (getType(value).getElementType().isInteger(1) && isa<ps::AndOp, ps::OrOp, ps::MulOp>(op))
    kind = isa<ps::OrOp>(op) ? Kind::Or : Kind::And;
  if (!kind)
    return makeLeaf(value, indices);
  std::vector<ExpressionPtr> operands;
  for (Value operand : op->getOperands())
    operands.push_back(buildExpression(operand, indices));
  auto compare = dyn_cast<ps::CompareOp>(op);
  return make(*kind, std::move(operands), compare ? compare.getPredicate() : ps::Predicate::Eq);
}

} // namespace parashard::import::recognize
