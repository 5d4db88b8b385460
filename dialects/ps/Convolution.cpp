// Implements convolutions: geometry, sharding rules, evaluation, derivatives and cost.
#include "dialects/ps/Windows.h"
#include "shared/Counts.h"
#include <limits>

using namespace mlir;
using namespace parashard::ps;

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

int64_t Windows::getElement(int64_t position, int64_t tap) const {
  int64_t element = 0, stride = 1;
  for (unsigned d = getRank(); d-- > 0;) {
    int64_t at = position % out[d] * strides[d] + tap % kernel[d] * dilation[d] - low[d];
    if (at < 0 || at >= in[d])
      return -1;
    element += at * stride;
    stride *= in[d];
    position /= out[d];
    tap /= kernel[d];
  }
  return element;
}

/// Limit of sizes, strides, low and dilation, so that size * stride + tap * dilation fits 64 bits.
constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

LogicalResult parashard::ps::verifyWindows(Operation *op, const Windows &windows, TypeRange tensors,
                                           StringRef label) {
  int64_t rank = cast<RankedTensorType>(tensors.front()).getRank();
  for (Type type : tensors) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() != rank || rank < 3)
      return op->emitOpError("has a tensor of type ")
             << tensor << ", expected " << std::max<int64_t>(rank, 3)
             << " dims: batch, channels and space (" << label << ")";
    if (llvm::is_contained(tensor.getShape().drop_front(), 0))
      return op->emitOpError("has an empty tensor of type ")
             << tensor << "; only the batch may be empty (" << label << ")";
    if (llvm::any_of(getSpace(tensor), [](int64_t size) { return size > kLargest; }))
      return op->emitOpError("has a tensor of type ")
             << tensor << ", expected space dims of at most " << kLargest << " (" << label << ")";
  }
  size_t space = rank - 2;
  for (auto [name, list, least] :
       {std::tuple("window sizes", windows.kernel, 1), std::tuple("strides", windows.strides, 1),
        std::tuple("low", windows.low, 0), std::tuple("dilation", windows.dilation, 1)})
    if (list.size() != space ||
        llvm::any_of(list, [&](int64_t x) { return x < least || x > kLargest; }))
      return op->emitOpError("has ") << name << " [" << list << "], expected " << space
                                     << " numbers (one per space dim) from " << least << " to "
                                     << kLargest << " (" << label << ")";
  return success();
}

void parashard::ps::addSpace(ShardingRule &rule, TensorFactors &tensor, ArrayRef<int64_t> sizes) {
  for (int64_t size : sizes)
    tensor.push_back({rule.addWhole(size, "windows of neighboring shards overlap")});
}

//===----------------------------------------------------------------------===//
// The relation between x, w and y
//===----------------------------------------------------------------------===//

namespace {
/// The types of x [N, G x C, in], w [G x O, C, kernel] and y [N, G x O, out], and the geometry of
/// the windows. There are G groups; C and O are the channels per group.
struct Relation {
  Type x, w, y;
  Windows windows;

  template <typename Op>
  Relation(Op op, Type x, Type w, Type y)
      : x(x), w(w), y(y), windows{getSpace(x),     getSpace(y), getSpace(w),
                                  op.getStrides(), op.getLow(), op.getDilation()} {}

  static int64_t getSize(Type type, unsigned dim) {
    return cast<RankedTensorType>(type).getDimSize(dim);
  }
  int64_t getBatch() const { return getSize(x, 0); }
  int64_t getGroups() const { return getSize(x, 1) / getSize(w, 1); }
  int64_t getIn() const { return getSize(w, 1); }                ///< channels of x per group
  int64_t getOut() const { return getSize(y, 1) / getGroups(); } ///< channels of y per group

  LogicalResult verify(Operation *op) const;
  OpCost getCost() const;
  /// Calls `visit` once for each multiplication of the convolution, with the linear indices into x,
  /// w and y.
  template <typename Fn> void forEachProduct(Fn visit) const;
};
} // namespace

static Relation getRelation(ConvolutionOp op) {
  return {op, op.getOperand().getType(), op.getKernel().getType(), op.getType()};
}
static Relation getRelation(ConvolutionInputOp op) {
  return {op, op.getType(), op.getKernel().getType(), op.getCotangent().getType()};
}
static Relation getRelation(ConvolutionKernelOp op) {
  return {op, op.getOperand().getType(), op.getType(), op.getCotangent().getType()};
}

LogicalResult Relation::verify(Operation *op) const {
  if (failed(verifyWindows(op, windows, {x, w, y}, "convolution_c1")))
    return failure();
  if (getSize(x, 0) != getSize(y, 0))
    return op->emitOpError("batch size of x is ")
           << getSize(x, 0) << ", but that of y is " << getSize(y, 0) << " (convolution_c2)";
  if (getSize(w, 0) != getSize(y, 1) || getSize(x, 1) % getSize(w, 1) != 0 ||
      getSize(y, 1) % getGroups() != 0)
    return op->emitOpError("kernel ")
           << w << " does not fit " << parashard::describeCount(getSize(x, 1), "channel")
           << " of x and " << parashard::describeCount(getSize(y, 1), "channel")
           << " of y, with any number of groups (convolution_c2)";
  for (unsigned d = 0; d < windows.getRank(); ++d) {
    int64_t begin = (windows.out[d] - 1) * windows.strides[d] - windows.low[d];
    if (begin >= windows.in[d] + windows.low[d])
      return op->emitOpError("last window along space dim ")
             << d << " begins at element " << begin << ", past the size " << windows.in[d]
             << " + low " << windows.low[d] << " (convolution_c3)";
  }
  Type left = getElementTypeOrSelf(op->getOperand(0)),
       right = getElementTypeOrSelf(op->getOperand(1));
  if (left != right || !mayYield(left, getElementTypeOrSelf(op->getResult(0))))
    return op->emitOpError("element types are ")
           << getElementTypeOrSelf(x) << ", " << getElementTypeOrSelf(w) << " and "
           << getElementTypeOrSelf(y) << "; they must be equal (convolution_c4)";
  return success();
}

OpCost Relation::getCost() const {
  OpCost cost;
  cost.contractionFlops =
      2 * cast<RankedTensorType>(y).getNumElements() * getIn() * windows.getTaps();
  return cost;
}

template <typename Fn> void Relation::forEachProduct(Fn visit) const {
  int64_t groups = getGroups(), in = getIn(), out = getOut(), taps = windows.getTaps();
  int64_t elements = windows.getElements(), positions = windows.countPositions();
  for (int64_t n = 0; n < getBatch(); ++n)
    for (int64_t o = 0; o < groups * out; ++o)
      for (int64_t c = 0; c < in; ++c)
        for (int64_t p = 0; p < positions; ++p)
          for (int64_t k = 0; k < taps; ++k)
            if (int64_t at = windows.getElement(p, k); at >= 0)
              visit((n * groups * in + o / out * in + c) * elements + at, (o * in + c) * taps + k,
                    (n * groups * out + o) * positions + p);
}

/// Evaluates one of the three ops. `product` adds one product to an element of the result; sums are
/// accumulated in double.
template <typename Fn>
static llvm::SmallVector<Tensor> sumProducts(const Relation &relation, Type type, Fn product) {
  Tensor result(cast<RankedTensorType>(type));
  std::vector<double> sums(result.size());
  relation.forEachProduct([&](int64_t x, int64_t w, int64_t y) { product(sums, x, w, y); });
  for (int64_t i = 0; i < result.size(); ++i)
    result.set(i, sums[i]);
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(result));
  return results;
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

namespace {
/// The factors of x, w and y: batch, groups, and the channels of x and of y per group. The result
/// of each op lacks one of these factors, over which the op sums.
struct RelationFactors {
  ShardingRule rule;
  TensorFactors x, w, y;

  enum class Summed { In, Out, Batch };
  RelationFactors(const Relation &relation, Summed summed) {
    auto add = [&](int64_t size, bool isSummed) {
      return isSummed ? rule.addReduction(size, ReductionKind::Sum) : rule.addFactor(size);
    };
    unsigned n = add(relation.getBatch(), summed == Summed::Batch);
    DimFactors in, out, kernelIn;
    int64_t groups = relation.getGroups();
    if (groups > 1) {
      in.push_back(rule.addFactor(groups));
      out = in;
    }
    if (groups == 1 || relation.getIn() > 1) {
      kernelIn.push_back(add(relation.getIn(), summed == Summed::In));
      in.append(kernelIn);
    }
    if (groups == 1 || relation.getOut() > 1)
      out.push_back(add(relation.getOut(), summed == Summed::Out));
    x = {{n}, in};
    w = {out, kernelIn};
    y = {{n}, out};
    addSpace(rule, x, relation.windows.in);
    addSpace(rule, w, relation.windows.kernel);
    addSpace(rule, y, relation.windows.out);
    rule.linear = {{0}, {1}};
  }
  ShardingRule get(TensorFactors first, TensorFactors second, TensorFactors result) {
    rule.operands = {std::move(first), std::move(second)};
    rule.results = {std::move(result)};
    return rule;
  }
};
} // namespace

static OpCost withBytes(OpCost cost, TypeRange operands, TypeRange results) {
  for (Type type : operands)
    cost.bytesRead += getByteSize(type);
  for (Type type : results)
    cost.bytesWritten += getByteSize(type);
  return cost;
}

//===----------------------------------------------------------------------===//
// convolution
//===----------------------------------------------------------------------===//

LogicalResult ConvolutionOp::verify() { return getRelation(*this).verify(*this); }
LoweringKind ConvolutionOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule ConvolutionOp::getShardingRule() {
  RelationFactors f(getRelation(*this), RelationFactors::Summed::In);
  return f.get(f.x, f.w, f.y);
}

OpCost ConvolutionOp::getCost(TypeRange operands, TypeRange results) {
  return withBytes(Relation(*this, operands[0], operands[1], results[0]).getCost(), operands,
                   results);
}

FailureOr<llvm::SmallVector<Tensor>> ConvolutionOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                             const EvaluateContext &) {
  return sumProducts(getRelation(*this), getType(),
                     [&](std::vector<double> &sums, int64_t x, int64_t w, int64_t y) {
                       sums[y] += operands[0].get(x) * operands[1].get(w);
                     });
}

/// Builds the cotangent of a kernel. If the kernel is a variable, the op gets the phase
/// `backward_weight`.
static Value buildKernelCotangent(BackwardBuilder &builder, Value kernel, Value x, Value y,
                                  ArrayRef<int64_t> strides, ArrayRef<int64_t> low,
                                  ArrayRef<int64_t> dilation) {
  std::optional<BackwardBuilder::WeightScope> scope;
  if (isVariableValue(kernel))
    scope.emplace(builder);
  return builder.make<ConvolutionKernelOp>(kernel.getType(), x, y, strides, low, dilation);
}

FailureOr<llvm::SmallVector<Value>> ConvolutionOp::differentiate(BackwardBuilder &builder,
                                                                 ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  Value g = cotangents[0];
  if (g && builder.needs(0))
    answer[0] = builder.make<ConvolutionInputOp>(getOperand().getType(), g, getKernel(),
                                                 getStrides(), getLow(), getDilation());
  if (g && builder.needs(1))
    answer[1] = buildKernelCotangent(builder, getKernel(), getOperand(), g, getStrides(), getLow(),
                                     getDilation());
  return answer;
}

//===----------------------------------------------------------------------===//
// convolution_input
//===----------------------------------------------------------------------===//

LogicalResult ConvolutionInputOp::verify() { return getRelation(*this).verify(*this); }
LoweringKind ConvolutionInputOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule ConvolutionInputOp::getShardingRule() {
  RelationFactors f(getRelation(*this), RelationFactors::Summed::Out);
  return f.get(f.y, f.w, f.x);
}

OpCost ConvolutionInputOp::getCost(TypeRange operands, TypeRange results) {
  return withBytes(Relation(*this, results[0], operands[1], operands[0]).getCost(), operands,
                   results);
}

FailureOr<llvm::SmallVector<Tensor>> ConvolutionInputOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                                  const EvaluateContext &) {
  return sumProducts(getRelation(*this), getType(),
                     [&](std::vector<double> &sums, int64_t x, int64_t w, int64_t y) {
                       sums[x] += operands[0].get(y) * operands[1].get(w);
                     });
}

FailureOr<llvm::SmallVector<Value>> ConvolutionInputOp::differentiate(BackwardBuilder &builder,
                                                                      ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  Value g = cotangents[0];
  if (g && builder.needs(0))
    answer[0] = builder.make<ConvolutionOp>(getCotangent().getType(), g, getKernel(), getStrides(),
                                            getLow(), getDilation());
  if (g && builder.needs(1))
    answer[1] = buildKernelCotangent(builder, getKernel(), g, getCotangent(), getStrides(),
                                     getLow(), getDilation());
  return answer;
}

//===----------------------------------------------------------------------===//
// convolution_kernel
//===----------------------------------------------------------------------===//

LogicalResult ConvolutionKernelOp::verify() { return getRelation(*this).verify(*this); }
LoweringKind ConvolutionKernelOp::getLoweringKind() { return LoweringKind::Library; }

ShardingRule ConvolutionKernelOp::getShardingRule() {
  RelationFactors f(getRelation(*this), RelationFactors::Summed::Batch);
  return f.get(f.x, f.y, f.w);
}

OpCost ConvolutionKernelOp::getCost(TypeRange operands, TypeRange results) {
  return withBytes(Relation(*this, operands[0], results[0], operands[1]).getCost(), operands,
                   results);
}

FailureOr<llvm::SmallVector<Tensor>> ConvolutionKernelOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                                   const EvaluateContext &) {
  return sumProducts(getRelation(*this), getType(),
                     [&](std::vector<double> &sums, int64_t x, int64_t w, int64_t y) {
                       sums[w] += operands[0].get(x) * operands[1].get(y);
                     });
}

FailureOr<llvm::SmallVector<Value>> ConvolutionKernelOp::differentiate(BackwardBuilder &builder,
                                                                       ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  Value g = cotangents[0];
  if (g && builder.needs(0))
    answer[0] = builder.make<ConvolutionInputOp>(getOperand().getType(), getCotangent(), g,
                                                 getStrides(), getLow(), getDilation());
  if (g && builder.needs(1))
    answer[1] = builder.make<ConvolutionOp>(getCotangent().getType(), getOperand(), g, getStrides(),
                                            getLow(), getDilation());
  return answer;
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

/// Adds the instruction fields of a convolution, in which x [N, C, space...] and the kernel w give
/// y [N, O, space...].
template <typename Op>
static LogicalResult addConvolution(CallBuilder &call, Op op, Value x, Value w, Value y) {
  RankedTensorType in = getTensorType(x), kernel = getTensorType(w), out = getTensorType(y);
  int64_t groups = in.getDimSize(1) / kernel.getDimSize(1);
  call.addTypes(op->getOperand(0), op->getResult(0));
  call.add("batch", in.getDimSize(0));
  call.add("groups", groups);
  call.add("channels", llvm::json::Array{kernel.getDimSize(1), out.getDimSize(1) / groups});
  call.addBuffer("x", x);
  call.addBuffer("w", w);
  call.addBuffer("y", y);
  addWindows(call, op, x, y, getSpace(kernel));
  return success();
}

LogicalResult ConvolutionOp::emitCall(CallBuilder &call) {
  return addConvolution(call, *this, getOperand(), getKernel(), getResult());
}

LogicalResult ConvolutionInputOp::emitCall(CallBuilder &call) {
  return addConvolution(call, *this, getResult(), getKernel(), getCotangent());
}

LogicalResult ConvolutionKernelOp::emitCall(CallBuilder &call) {
  return addConvolution(call, *this, getOperand(), getResult(), getCotangent());
}
