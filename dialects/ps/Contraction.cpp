// Implements contractions: verifier, sharding rule, evaluation, derivative and cost.
#include "dialects/ps/Activations.h"
#include "dialects/ps/Ps.h"
#include "shared/Counts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace parashard::ps;

using Labels = llvm::ArrayRef<int64_t>;

/// Returns the size of every label, in order of appearance on the left, then on the right.
static llvm::MapVector<int64_t, int64_t> getLabelSizes(Type lhs, Labels lhsLabels, Type rhs,
                                                       Labels rhsLabels) {
  llvm::MapVector<int64_t, int64_t> sizes;
  for (auto [label, size] : llvm::zip(lhsLabels, cast<RankedTensorType>(lhs).getShape()))
    sizes.insert({label, size});
  for (auto [label, size] : llvm::zip(rhsLabels, cast<RankedTensorType>(rhs).getShape()))
    sizes.insert({label, size});
  return sizes;
}

void ContractOp::build(OpBuilder &builder, OperationState &state, Value lhs, Labels lhsLabels,
                       Value rhs, Labels rhsLabels, Labels resultLabels) {
  auto sizes = getLabelSizes(lhs.getType(), lhsLabels, rhs.getType(), rhsLabels);
  llvm::SmallVector<int64_t> shape;
  for (int64_t label : resultLabels)
    shape.push_back(sizes.lookup(label));
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(lhs.getType()));
  build(builder, state, type, /*second=*/Type(), lhs, rhs, /*bias=*/Value(), /*lhs_scale=*/Value(),
        /*rhs_scale=*/Value(), /*aux=*/Value(), lhsLabels, rhsLabels, resultLabels,
        /*summed=*/IntegerAttr(), /*gelu=*/false);
}

void ContractOp::build(OpBuilder &builder, OperationState &state, ContractOp like, Value bias) {
  build(builder, state, like.getType(), /*second=*/Type(), like.getLhs(), like.getRhs(), bias,
        like.getLhsScale(), like.getRhsScale(), /*aux=*/Value(), like.getLhsLabels(),
        like.getRhsLabels(), like.getResultLabels(), /*summed=*/IntegerAttr(), /*gelu=*/false);
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// Verifies contract_c1.
static LogicalResult verifyLabels(ContractOp op, llvm::StringRef name, Labels labels, Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  if (int64_t(labels.size()) != rank)
    return op.emitOpError("has ") << parashard::describeCount(labels.size(), "label") << " for the "
                                  << parashard::describeCount(rank, "dim") << " of its " << name
                                  << " (contract_c1)";
  llvm::SmallSet<int64_t, 8> seen;
  for (int64_t label : labels)
    if (label < 0 || label > INT32_MAX)
      return op.emitOpError("has label ")
             << label << " in its " << name << ", must be from 0 to 2^31 - 1 (contract_c1)";
    else if (!seen.insert(label).second)
      return op.emitOpError("has label ") << label << " twice in its " << name << " (contract_c1)";
  return success();
}

bool ContractOp::isBiasable(int64_t dims) {
  llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(getResult().getType()).getShape();
  Labels labels = getResultLabels();
  int64_t rows = int64_t(labels.size()) - dims;
  auto fits = [&](Labels operand, Labels other) {
    for (auto [i, label] : llvm::enumerate(labels)) {
      bool isFree = llvm::is_contained(operand, label) && !llvm::is_contained(other, label);
      if ((int64_t(i) >= rows || shape[i] != 1) && isFree != (int64_t(i) >= rows))
        return false;
    }
    return true;
  };
  return dims > 0 && rows >= 0 &&
         (fits(getLhsLabels(), getRhsLabels()) || fits(getRhsLabels(), getLhsLabels()));
}

/// Verifies contract_c5.
static LogicalResult verifyBias(ContractOp op) {
  if (!op.getBias())
    return success();
  auto bias = cast<RankedTensorType>(op.getBias().getType());
  auto result = cast<RankedTensorType>(op.getResult().getType());
  if (bias.getElementType() != result.getElementType() || bias.getRank() > result.getRank() ||
      bias.getShape() != result.getShape().take_back(bias.getRank()))
    return op.emitOpError("has bias type ")
           << bias << ", must have the last dims of the result " << result << " (contract_c5)";
  if (!op.isBiasable(bias.getRank()))
    return op.emitOpError("has a bias along dims that are not exactly the result dims of one "
                          "operand (contract_c5)");
  return success();
}

llvm::SmallVector<int64_t> ContractOp::getFreeLabels(unsigned i) {
  Labels own = i == 0 ? getLhsLabels() : getRhsLabels();
  Labels other = i == 0 ? getRhsLabels() : getLhsLabels();
  llvm::SmallVector<int64_t> free;
  for (int64_t label : getResultLabels())
    if (llvm::is_contained(own, label) && !llvm::is_contained(other, label))
      free.push_back(label);
  return free;
}

/// Returns the type of the second result with `sums of i`.
static RankedTensorType getSumsType(ContractOp op, unsigned i) {
  llvm::SmallVector<int64_t> shape;
  for (auto [label, size] : llvm::zip_equal(op.getResultLabels(), op.getType().getShape()))
    if (llvm::is_contained(op.getFreeLabels(i), label))
      shape.push_back(size);
  return RankedTensorType::get(shape, op.getType().getElementType());
}

/// Verifies contract_c6.
static LogicalResult verifySums(ContractOp op) {
  std::optional<uint64_t> summed = op.getSummed();
  if (summed.has_value() != (op.getSecond() && !op.getGelu()))
    return op.emitOpError() << (summed ? "sums an operand but has no second result"
                                       : "has a second result but sums no operand")
                            << " (contract_c6)";
  if (!summed)
    return success();
  if (*summed > 1)
    return op.emitOpError("has sums of operand ") << *summed << ", must be 0 or 1 (contract_c6)";
  if (op.getBias())
    return op.emitOpError("has both a bias and sums (contract_c6)");
  if (op.getFreeLabels(0).size() + op.getFreeLabels(1).size() != op.getResultLabels().size())
    return op.emitOpError("has sums and a batch label (contract_c6)");
  if (Type type = getSumsType(op, *summed); op.getSums().getType() != type)
    return op.emitOpError("has sums ")
           << op.getSums().getType() << ", must be " << type << " (contract_c6)";
  return success();
}

static bool isFloat8(Value value) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(value.getType()));
}

bool ContractOp::isOfFloat8() { return isFloat8(getLhs()) && isFloat8(getRhs()); }

/// Verifies contract_c4.
static LogicalResult verifyElements(ContractOp op) {
  Type lhs = getElementTypeOrSelf(op.getLhs().getType()),
       rhs = getElementTypeOrSelf(op.getRhs().getType()), result = op.getType().getElementType();
  if (op.isOfFloat8() ? result.isF64() : lhs != rhs || !mayYield(lhs, result))
    return op.emitOpError("element types are ")
           << lhs << ", " << rhs << " and " << result << "; "
           << (op.isOfFloat8() ? "the result must have 32 or 16 bits" : "they must be equal")
           << " (contract_c4)";
  return success();
}

/// Verifies contract_c7.
static LogicalResult verifyScales(ContractOp op) {
  int64_t count = bool(op.getLhsScale()) + bool(op.getRhsScale());
  if (count != (op.isOfFloat8() ? 2 : 0))
    return op.emitOpError("has ") << count << " scales, must have " << (op.isOfFloat8() ? 2 : 0)
                                  << " (contract_c7)";
  if (count == 0)
    return success();
  for (Value scale : {op.getLhsScale(), op.getRhsScale()})
    if (auto type = cast<RankedTensorType>(scale.getType());
        type.getRank() != 0 || !type.getElementType().isF32())
      return op.emitOpError("has a scale ") << type << ", must be tensor<f32> (contract_c7)";
  if (op.getSums())
    return op.emitOpError("has both scales and sums (contract_c7)");
  return success();
}

/// Verifies contract_c8.
static LogicalResult verifyActivation(ContractOp op) {
  if (!op.hasActivation())
    return success();
  if (op.getSummed() || op.isOfFloat8() || (op.getGelu() && op.getAux()) ||
      (op.getAux() && op.getBias()))
    return op.emitOpError(op.getGelu() ? "has a GELU and " : "has a GELU's derivative and ")
           << (op.getSummed()    ? "sums"
               : op.isOfFloat8() ? "scales"
               : op.getGelu()    ? "a GELU's derivative"
                                 : "a bias")
           << " (contract_c8)";
  if (op.getFreeLabels(0).size() + op.getFreeLabels(1).size() != op.getResultLabels().size())
    return op.emitOpError("has a GELU or its derivative and a batch label (contract_c8)");
  for (Value value : {Value(op.getAux()), op.getPreActivation()})
    if (value && value.getType() != op.getType())
      return op.emitOpError("has a GELU or its derivative with type ")
             << value.getType() << ", must be " << op.getType() << " (contract_c8)";
  return success();
}

LogicalResult ContractOp::verify() {
  if (failed(verifyLabels(*this, "left operand", getLhsLabels(), getLhs())) ||
      failed(verifyLabels(*this, "right operand", getRhsLabels(), getRhs())) ||
      failed(verifyLabels(*this, "result", getResultLabels(), getResult())))
    return failure();
  llvm::DenseMap<int64_t, int64_t> left, right, result;
  auto fill = [](auto &map, Labels labels, Value value) {
    for (auto [label, size] : llvm::zip(labels, cast<RankedTensorType>(value.getType()).getShape()))
      map[label] = size;
  };
  fill(left, getLhsLabels(), getLhs());
  fill(right, getRhsLabels(), getRhs());
  fill(result, getResultLabels(), getResult());
  for (int64_t label : getLhsLabels()) {
    if (right.contains(label) && left[label] != right[label])
      return emitOpError(result.contains(label) ? "batch" : "contracted")
             << " dim has size " << left[label] << " on the left and " << right[label]
             << " on the right (contract_c2)";
    if (!right.contains(label) && !result.contains(label))
      return emitOpError("label ") << label << " is on the left only; sum that dim with ps.reduce "
                                   << "(contract_c3)";
  }
  for (int64_t label : getRhsLabels())
    if (!left.contains(label) && !result.contains(label))
      return emitOpError("label ") << label << " is on the right only; sum that dim with ps.reduce "
                                   << "(contract_c3)";
  for (int64_t label : getResultLabels()) {
    if (!left.contains(label) && !right.contains(label))
      return emitOpError("result label ") << label << " is in no operand (contract_c3)";
    int64_t size = left.contains(label) ? left[label] : right[label];
    if (result[label] != size)
      return emitOpError("result dim of label ") << label << " has size " << result[label]
                                                 << ", operands have " << size << " (contract_c2)";
  }
  return failure(failed(verifyElements(*this)) || failed(verifyBias(*this)) ||
                 failed(verifyActivation(*this)) || failed(verifySums(*this)) ||
                 failed(verifyScales(*this)));
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

ShardingRule ContractOp::getShardingRule() {
  ShardingRule rule;
  llvm::DenseMap<int64_t, unsigned> factorOf;
  for (auto [label, size] :
       getLabelSizes(getLhs().getType(), getLhsLabels(), getRhs().getType(), getRhsLabels()))
    if (llvm::is_contained(getResultLabels(), label))
      factorOf[label] = rule.addFactor(size);
    else
      factorOf[label] = getBias()   ? rule.addWhole(size, "a bias is added once to the whole sum")
                        : getGelu() ? rule.addWhole(size, "a GELU applies to the whole sum")
                                    : rule.addReduction(size, ReductionKind::Sum);
  auto factors = [&](Labels labels) {
    TensorFactors dims;
    for (int64_t label : labels)
      dims.push_back({factorOf[label]});
    return dims;
  };
  rule.operands = {factors(getLhsLabels()), factors(getRhsLabels())};
  rule.results = {factors(getResultLabels())};
  rule.linear = {{0}, {1}};
  if (getBias()) {
    rule.operands.push_back(factors(
        getResultLabels().take_back(cast<RankedTensorType>(getBias().getType()).getRank())));
    rule.linear = {{0, 2}, {1, 2}};
  }
  rule.operands.resize(getNumOperands()); // scales have no dims
  if (getAux())
    rule.operands.back() = factors(getResultLabels());
  if (getGelu())
    rule.linear.clear();
  if (getPreActivation())
    rule.results.push_back(factors(getResultLabels()));
  if (std::optional<uint64_t> summed = getSummed()) {
    rule.results.push_back(factors(getFreeLabels(*summed)));
    rule.linear = {{unsigned(*summed)}};
  }
  return rule;
}

LoweringKind ContractOp::getLoweringKind() { return LoweringKind::Library; }
/// Reads lhs and rhs, which are the first operands, through strides that form a matmul.
bool ContractOp::readsStrides(unsigned operand) { return operand < 2; }

OpCost ContractOp::getCost(TypeRange operands, TypeRange results) {
  OpCost cost;
  cost.contractionFlops = 2;
  for (auto [label, size] : getLabelSizes(operands[0], getLhsLabels(), operands[1], getRhsLabels()))
    cost.contractionFlops *= size;
  cost.bytesRead = getByteSize(operands[0]) + getByteSize(operands[1]);
  for (Type bias : operands.drop_front(2))
    cost.bytesRead += getByteSize(bias);
  for (Type result : results)
    cost.bytesWritten += getByteSize(result);
  return cost;
}

/// Returns the tensor's stride along each label of `order`; 0 for a label that the tensor does not
/// have.
static llvm::SmallVector<int64_t> stridesOf(const Tensor &tensor, Labels labels, Labels order) {
  llvm::SmallVector<int64_t> own = tensor.getStrides(), strides;
  for (int64_t label : order) {
    auto it = llvm::find(labels, label);
    strides.push_back(it == labels.end() ? 0 : own[it - labels.begin()]);
  }
  return strides;
}

/// Returns the linear offsets of all elements of a space of `sizes` under `strides`, in row-major
/// order. Example: sizes {2, 2} and strides {4, 1} give {0, 1, 4, 5}.
static std::vector<int64_t> getOffsets(llvm::ArrayRef<int64_t> sizes,
                                       llvm::ArrayRef<int64_t> strides) {
  std::vector<int64_t> offsets{0};
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * size);
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < size; ++i)
        next.push_back(offset + i * stride);
    offsets = std::move(next);
  }
  return offsets;
}

FailureOr<llvm::SmallVector<Tensor>> ContractOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                          const EvaluateContext &context) {
  auto sizes =
      getLabelSizes(getLhs().getType(), getLhsLabels(), getRhs().getType(), getRhsLabels());
  llvm::SmallVector<int64_t> summed, outSizes, summedSizes;
  for (int64_t label : getResultLabels())
    outSizes.push_back(sizes.lookup(label));
  for (auto [label, size] : sizes)
    if (!llvm::is_contained(getResultLabels(), label)) {
      summed.push_back(label);
      summedSizes.push_back(size);
    }
  auto offsets = [&](const Tensor &tensor, Labels labels, Labels order,
                     llvm::ArrayRef<int64_t> sizes) {
    return getOffsets(sizes, stridesOf(tensor, labels, order));
  };
  auto leftOut = offsets(operands[0], getLhsLabels(), getResultLabels(), outSizes);
  auto leftSum = offsets(operands[0], getLhsLabels(), summed, summedSizes);
  auto rightOut = offsets(operands[1], getRhsLabels(), getResultLabels(), outSizes);
  auto rightSum = offsets(operands[1], getRhsLabels(), summed, summedSizes);
  Tensor result(cast<RankedTensorType>(getType()));
  double scale = isOfFloat8() ? operands.end()[-2].get(0) * operands.back().get(0) : 1;
  llvm::SmallVector<double> sumsBefore; // inputs of the GELU
  for (int64_t i = 0, n = result.size(); i < n; ++i) {
    double sum = 0;
    for (size_t k = 0; k < leftSum.size(); ++k)
      sum += operands[0].get(leftOut[i] + leftSum[k]) * operands[1].get(rightOut[i] + rightSum[k]);
    sum *= scale;
    if (getBias())
      sum += operands[2].get(i % operands[2].size());
    if (getPreActivation())
      sumsBefore.push_back(sum);
    if (getAux())
      sum *= evaluateGeluSlope(GeluKind::Tanh, operands.back().get(i));
    result.set(i, getGelu() ? evaluateGelu(GeluKind::Tanh, sum) : sum);
  }
  llvm::SmallVector<Tensor> results{std::move(result)};
  if (getPreActivation()) {
    results.emplace_back(getType());
    for (auto [i, sum] : llvm::enumerate(sumsBefore))
      results.back().set(i, sum);
  }
  if (std::optional<uint64_t> summed = getSummed()) {
    const Tensor &operand = operands[*summed];
    Labels labels = *summed == 0 ? getLhsLabels() : getRhsLabels();
    Tensor sums(cast<RankedTensorType>(getSums().getType()));
    auto out = offsets(operand, labels, getFreeLabels(*summed), sums.getType().getShape());
    for (int64_t i = 0, n = sums.size(); i < n; ++i) {
      double sum = 0;
      for (int64_t at : *summed == 0 ? leftSum : rightSum)
        sum += operand.get(out[i] + at);
      sums.set(i, sum);
    }
    results.push_back(std::move(sums));
  }
  return results;
}

bool parashard::ps::isVariableValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<ReadOp>(op))
      return true;
    if (!isa<ConvertOp, TransposeOp, ReshapeOp, SliceOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

FailureOr<llvm::SmallVector<Value>> ContractOp::differentiate(BackwardBuilder &builder,
                                                              ValueRange cotangents) {
  if (getSums() || isOfFloat8() || hasActivation())
    return emitOpError("has ") << (getSums()      ? "sums"
                                   : isOfFloat8() ? "scales"
                                                  : "a GELU or its derivative")
                               << ", which ps-fuse creates; run ps-autodiff before ps-fuse",
           failure();
  llvm::SmallVector<Value> result(getNumOperands());
  if (!cotangents[0])
    return result;
  auto build = [&](Value other, Labels otherLabels, Labels labels) -> Value {
    return builder.make<ContractOp>(cotangents[0], getResultLabels(), other, otherLabels, labels)
        .getResult();
  };
  auto side = [&](Value operand, Value other, Labels otherLabels, Labels labels) -> Value {
    if (!isVariableValue(operand))
      return build(other, otherLabels, labels);
    auto scope = builder.weight();
    return build(other, otherLabels, labels);
  };
  if (builder.needs(0))
    result[0] = side(getLhs(), getRhs(), getRhsLabels(), getLhsLabels());
  if (builder.needs(1))
    result[1] = side(getRhs(), getLhs(), getLhsLabels(), getRhsLabels());
  if (getBias() && builder.needs(2)) {
    int64_t rows = getType().getRank() - cast<RankedTensorType>(getBias().getType()).getRank();
    auto scope = builder.weight();
    result[2] = builder
                    .make<ReduceOp>(ReductionKind::Sum, cotangents[0],
                                    llvm::to_vector(llvm::seq<int64_t>(rows)))
                    .getResult();
  }
  return result;
}
