// One operation, whose scores a graph of its own masks.
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <deque>

namespace psrt::cuda {
namespace {

/// Which has attention with a graph of what is done with scores.
constexpr size_t kLeastVersion = 92100;

/// What an operation and its attributes are called.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t scale, lse, mask, maskInput, maskOutput;
};
constexpr Operation kForward = {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID};
constexpr Operation kBackward = {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID};

/// A tensor of heads: its attribute, buffer, and whether it has a row for each query.
struct Heads {
  cudnnBackendAttributeName_t name;
  int buffer;
  bool isOfQueries;
  std::array<int64_t, 3> AttentionOp::*strides;
};
using A = AttentionOp;
constexpr Heads kForwardHeads[] = {{CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, A::Q, true, &A::q},
                                   {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, A::K, false, &A::k},
                                   {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, A::V, false, &A::v},
                                   {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, A::Out, true, &A::out}};
constexpr Heads kBackwardHeads[] = {
    {CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, A::Q, true, &A::q},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, A::K, false, &A::k},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, A::V, false, &A::v},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, A::Out, true, &A::out},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, A::Dout, true, &A::dout},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, A::Dq, true, &A::dq},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, A::Dk, false, &A::dk},
    {CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, A::Dv, false, &A::dv}};

std::vector<Heads> getHeads(const AttentionOp &op) {
  if (op.grad)
    return {std::begin(kBackwardHeads), std::end(kBackwardHeads)};
  return {std::begin(kForwardHeads), std::end(kForwardHeads)};
}

/// The parts of one graph, as they are made.
class Builder {
public:
  Builder(const DnnTarget &target, const AttentionProblem &problem)
      : target(target), problem(problem), op(problem.op) {}

  DnnGraph build() {
    const Operation &names = op.grad ? kBackward : kForward;
    Descriptor operation(target.library, names.type);
    for (const Heads &heads : getHeads(op)) {
      std::array<int64_t, 3> strides = op.*heads.strides;
      if (heads.buffer == AttentionOp::Dout && problem.scalesDout())
        strides = {op.h * op.t * op.d, op.t * op.d, op.d};
      operation.set(heads.name, keep(describeTensor(target.library, heads.buffer + 1, op.dtype,
                                                    {op.b, heads.isOfQueries ? op.h : op.g,
                                                     heads.isOfQueries ? op.t : op.s, op.d},
                                                    {strides[0], strides[1], strides[2], 1}),
                                     "heads"));
    }
    operation
        .set(names.lse, keep(describeTensor(target.library, AttentionOp::Lse + 1, Dtype::F32,
                                            {op.b, op.h, op.t, 1}),
                             "log-sums"))
        .set(names.scale, makeNumber(kScaleId, CUDNN_DATA_FLOAT));
    addMask(operation, names);
    operation.finalize("attention");
    DnnGraph result(std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
    result.push_back(std::move(operation));
    finishGraph(target, result, "a graph of attention");
    return result;
  }

private:
  const Descriptor &keep(Descriptor descriptor, const char *what) {
    return kept.emplace_back(std::move(descriptor)).finalize(what);
  }

  Descriptor describeInside(int64_t id, cudnnDataType_t type, const std::vector<int64_t> &sizes) {
    Descriptor result = describeTensor(target.library, id, Dtype::F32, sizes);
    result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    return result;
  }
  /// A number that the host gives to each run.
  const Descriptor &makeNumber(int64_t id, cudnnDataType_t type) {
    Descriptor result = describeInside(id, type, {1, 1, 1, 1});
    result.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    return keep(std::move(result), "a number");
  }
  const Descriptor &getHidden() {
    if (!hidden)
      hidden = &makeNumber(kHiddenId, CUDNN_DATA_FLOAT);
    return *hidden;
  }
  /// Something of each score that is computed on the way.
  const Descriptor &makeScores(cudnnDataType_t type) {
    Descriptor result = describeInside(++lastInside, type, {op.b, op.h, op.t, op.s});
    result.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    return keep(std::move(result), "scores");
  }

  /// Adds y = mode(x, b, t), those that are not there null, in arithmetic of y's type; gives y.
  const Descriptor &addPointwise(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                 const Descriptor &x, const Descriptor *b = nullptr,
                                 const Descriptor *t = nullptr, int64_t axis = -1) {
    const Descriptor &y = makeScores(type);
    Descriptor arithmetic(target.library, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    arithmetic.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
    if (axis >= 0)
      arithmetic.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    result
        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
             keep(std::move(arithmetic), "a function"))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b)
      result.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (t)
      result.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
    steps.push_back(&keep(std::move(result), "a step of masking"));
    return y;
  }

  /// The scores where `isSeen`, else -inf.
  const Descriptor &addSelect(const Descriptor &scores, const Descriptor &isSeen) {
    return addPointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, scores, &getHidden(),
                        &isSeen);
  }

  const Descriptor &addBias(const Descriptor &scores) {
    std::array<int64_t, 4> sizes = problem.getBiasSizes();
    const Descriptor &bias = keep(describeTensor(target.library, AttentionOp::Mask + 1, Dtype::F32,
                                                 {sizes.begin(), sizes.end()}),
                                  "what is added to scores");
    return addPointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, scores, &bias);
  }

  /// Query i sees key j where i >= j, and where j + window > i.
  const Descriptor &addDiagonal(const Descriptor &first, const Descriptor &scores) {
    constexpr cudnnDataType_t integer = CUDNN_DATA_INT32, boolean = CUDNN_DATA_BOOLEAN;
    const Descriptor *result = &scores;
    const Descriptor &i =
        addPointwise(CUDNN_POINTWISE_GEN_INDEX, integer, first, nullptr, nullptr, 2);
    const Descriptor &j =
        addPointwise(CUDNN_POINTWISE_GEN_INDEX, integer, first, nullptr, nullptr, 3);
    if (op.causal)
      result = &addSelect(*result, addPointwise(CUDNN_POINTWISE_CMP_GE, boolean, i, &j));
    if (op.window > 0) {
      const Descriptor &last =
          addPointwise(CUDNN_POINTWISE_ADD, integer, j, &makeNumber(kWindowId, CUDNN_DATA_INT32));
      result = &addSelect(*result, addPointwise(CUDNN_POINTWISE_CMP_GT, boolean, last, &i));
    }
    return *result;
  }

  /// What is done with scores between the products.
  void addMask(Descriptor &operation, const Operation &names) {
    if (!problem.hasBias() && !op.causal && op.window == 0)
      return;
    const Descriptor &first = makeScores(CUDNN_DATA_FLOAT);
    int64_t firstId = lastInside;
    const Descriptor *scores = &first;
    if (problem.hasBias())
      scores = &addBias(*scores);
    if (op.causal || op.window > 0)
      scores = &addDiagonal(first, *scores);
    Descriptor graph(target.library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target.handle)
      graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, steps);
    operation.set(names.mask, keep(std::move(graph), "a mask"))
        .set(names.maskInput, firstId)
        .set(names.maskOutput, lastInside);
  }

  const DnnTarget &target;
  const AttentionProblem &problem;
  const AttentionOp &op;
  std::deque<Descriptor> kept;
  std::vector<const Descriptor *> steps;
  const Descriptor *hidden = nullptr;
  int64_t lastInside = 200;
};

std::string joinStrides(const std::array<int64_t, 3> &strides) {
  return format("%lld/%lld/%lld", (long long)strides[0], (long long)strides[1],
                (long long)strides[2]);
}

} // namespace

std::array<int64_t, 4> AttentionProblem::getBiasSizes() const {
  auto get = [&](size_t dim, int64_t size) { return hasMask && op.mask[dim] != 0 ? size : 1; };
  return {hasPadding ? op.b : get(0, op.b), get(1, op.h), get(2, op.t), op.s};
}

int64_t getMostWorkspace(const AttentionOp &op) {
  return std::max(int64_t(256) << 20, 16 * op.b * op.h * std::max(op.t, op.s) * op.d);
}

bool hasAttentionGraph(const AttentionProblem &problem) {
  const AttentionOp &op = problem.op;
  if (!isNarrowFloat(op.dtype) || op.dropout != 0)
    return false;
  if ((op.causal || op.window > 0) && op.t != op.s)
    return false;
  for (int64_t size : {op.b, op.h, op.g, op.t, op.s, op.d})
    if (size <= 0)
      return false;
  for (const Heads &heads : getHeads(op))
    for (int64_t stride : op.*heads.strides)
      if (stride * dtypeSize(op.dtype) % kDnnAlignment != 0)
        return false;
  return true;
}

DnnGraph makeAttentionGraph(const DnnTarget &target, const AttentionProblem &problem) {
  if (target.library.version < kLeastVersion)
    throw CudnnFailure(format("it is cuDNN %s, attention needs %s",
                              cudnnVersionText(target.library.version).c_str(),
                              cudnnVersionText(kLeastVersion).c_str()));
  return Builder(target, problem).build();
}

std::string describeAttention(const AttentionProblem &problem) {
  const AttentionOp &op = problem.op;
  std::string text = format("attention %s, %s, %lldx%lldx%lldx%lld", op.grad ? "gradient" : "value",
                            dtypeName(op.dtype), (long long)op.b, (long long)op.h, (long long)op.t,
                            (long long)op.d);
  if (op.g != op.h || op.s != op.t)
    text += format(" over %lld heads of %lld keys", (long long)op.g, (long long)op.s);
  text += op.causal ? ", causal" : "";
  text += op.window > 0 ? format(", window %lld", (long long)op.window) : "";
  text += problem.hasPadding ? ", padding" : "";
  if (std::array<int64_t, 4> sizes = problem.getBiasSizes(); problem.hasMask)
    text += format(", %s mask %lldx%lldx%lldx%lld", dtypeName(op.maskDtype), (long long)sizes[0],
                   (long long)sizes[1], (long long)sizes[2], (long long)sizes[3]);
  text += ", strides";
  for (const Heads &heads : getHeads(op))
    text += " " + joinStrides(op.*heads.strides);
  return text + format(", scale %.9g", double(op.scale));
}

} // namespace psrt::cuda
