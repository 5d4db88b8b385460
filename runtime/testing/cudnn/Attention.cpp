// Computes attention with plain loops over heads, rows and columns, in f64.
#include "runtime/testing/cudnn/Attention.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace psrt::fake {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Attributes by kind of tensor. The last three attributes of the gradient are results.
constexpr cudnnBackendAttributeName_t kForward[] = {
    CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC};
constexpr cudnnBackendAttributeName_t kBackward[] = {
    CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC,     CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC,     CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,    CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC};

/// Returns the offset of element (b, h, i, j). Dims of size 1 are broadcast.
int64_t offsetOf(const Tensor &tensor, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t index[] = {b, h, i, j};
  int64_t at = 0;
  for (size_t d = 0; d < 4; ++d)
    at += tensor.sizes[d] == 1 ? 0 : index[d] * tensor.strides[d];
  return at;
}

bool isOfMask(cudnnPointwiseMode_t mode) {
  return mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_CMP_GT ||
         mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_GEN_INDEX ||
         mode == CUDNN_POINTWISE_BINARY_SELECT;
}

bool isNarrow(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

} // namespace

bool Attention::isOne(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
}

Attention::Attention(const Descriptor &operation)
    : isGradient(operation.type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR), heads(Kinds) {
  for (int kind = 0; kind < (isGradient ? Kinds : Dout); ++kind) {
    heads[size_t(kind)] = Tensor(operation.child(isGradient ? kBackward[kind] : kForward[kind]));
    heads[size_t(kind)]->isWritten = isGradient ? kind >= Dq : kind >= Out;
  }
  scale = Tensor(operation.child(isGradient ? CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC
                                            : CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC));
  cudnnBackendAttributeName_t graph =
      isGradient ? CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH : CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH;
  cudnnBackendAttributeName_t input = isGradient ? CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID
                                                 : CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID;
  cudnnBackendAttributeName_t output = isGradient
                                           ? CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID
                                           : CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID;
  const auto &attributes = operation.attributes;
  if (attributes.count(graph) != attributes.count(input) ||
      attributes.count(graph) != attributes.count(output))
    refuse(CUDNN_STATUS_BAD_PARAM, "a graph of scores needs an input and an output");
  checkShapes();
  if (attributes.contains(graph))
    takeMask(operation.child(graph), operation.get<int64_t>(input), operation.get<int64_t>(output));
  checkIds();
}

std::vector<Tensor *> Attention::tensors() {
  std::vector<Tensor *> result;
  for (std::vector<std::optional<Tensor>> *list : {&heads, &inputs})
    for (std::optional<Tensor> &tensor : *list)
      if (tensor)
        result.push_back(&*tensor);
  for (std::optional<Tensor> *tensor : {&scale, &kept, &keptScale, &keptPart, &rowSums, &querySums})
    if (*tensor)
      result.push_back(&**tensor);
  return result;
}

void Attention::checkShapes() const {
  auto check = [](bool isRight, const char *text) {
    if (!isRight)
      refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, text);
  };
  for (const std::optional<Tensor> &tensor : heads)
    check(!tensor || tensor->sizes.size() == 4, "tensors of attention must have four dims");
  const auto &q = heads[Q]->sizes, &k = heads[K]->sizes;
  check(q[0] == k[0] && q[3] == k[3] && q[1] % k[1] == 0,
        "queries and keys have incompatible sizes");
  check(heads[Lse]->sizes == std::vector<int64_t>({q[0], q[1], q[2], 1}),
        "log-sum-exps must have sizes b, h, t, 1");
  if (heads[Lse]->type != CUDNN_DATA_FLOAT || scale->type != CUDNN_DATA_FLOAT || !scale->isNumber)
    refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
           "log-sum-exps must be f32, and the scale an f32 scalar");
  for (int kind : {Q, K, V, Out, Dout, Dq, Dk, Dv}) {
    const std::optional<Tensor> &tensor = heads[size_t(kind)];
    if (!tensor)
      continue;
    bool isOfKeys = kind == K || kind == V || kind == Dk || kind == Dv;
    check(tensor->sizes == (isOfKeys ? k : q),
          "a tensor's sizes differ from those of queries or keys");
    if (!isNarrow(tensor->type) || tensor->type != heads[Q]->type || tensor->strides[3] != 1)
      refuse(CUDNN_STATUS_NOT_SUPPORTED, "heads must be f16 or bf16, with contiguous rows");
    for (size_t d = 0; d < 3; ++d)
      if (tensor->strides[d] % 8 != 0)
        refuse(CUDNN_STATUS_NOT_SUPPORTED, "row strides must be multiples of 16 bytes");
  }
}

//===--- masks ------------------------------------------------------------===//

int Attention::numberOf(const Descriptor &tensor) {
  auto id = tensor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  auto found = std::find(ids.begin(), ids.end(), id);
  if (found != ids.end())
    return int(found - ids.begin());
  ids.push_back(id);
  bool isInside = tensor.attributes.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                  tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  inputs.push_back(isInside ? std::nullopt : std::optional<Tensor>(Tensor(tensor)));
  const auto &q = heads[Q]->sizes, &k = heads[K]->sizes;
  const int64_t all[] = {q[0], q[1], q[2], k[2]};
  auto sizes = tensor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  for (size_t d = 0; d < 4; ++d)
    if (sizes.size() != 4 || (sizes[d] != all[d] && (isInside || sizes[d] != 1)))
      refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
             "a mask's sizes differ from those of the scores");
  return int(ids.size()) - 1;
}

void Attention::takeStep(const Descriptor &operation) {
  const Descriptor &kind = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  Step step{kind.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE)};
  auto take = [&](cudnnBackendAttributeName_t name) {
    return operation.attributes.contains(name) ? numberOf(operation.child(name)) : -1;
  };
  step.x = take(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  step.b = take(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  step.t = take(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  step.y = take(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (kind.attributes.contains(CUDNN_ATTR_POINTWISE_AXIS))
    step.axis = kind.get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  if (!isOfMask(step.mode))
    refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
           "the pointwise mode is not supported in masks");
  bool isIndex = step.mode == CUDNN_POINTWISE_GEN_INDEX;
  bool isSelect = step.mode == CUDNN_POINTWISE_BINARY_SELECT;
  if (isIndex != (step.axis >= 0) || step.axis > 3 || isIndex == (step.b >= 0) ||
      isSelect != (step.t >= 0))
    refuse(CUDNN_STATUS_BAD_PARAM, "a pointwise operation has wrong operands");
  steps.push_back(step);
}

void Attention::relay(const Descriptor &tensor) {
  Step step{CUDNN_POINTWISE_IDENTITY};
  step.x = last, step.y = last = numberOf(tensor);
  steps.push_back(step);
}

void Attention::takeMask(const Descriptor &graph, int64_t inputId, int64_t outputId) {
  for (const DescriptorRef &operation :
       graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
             "graphs of scores support only pointwise operations");
    takeStep(*operation);
  }
  auto find = [&](int64_t id) { return int(std::find(ids.begin(), ids.end(), id) - ids.begin()); };
  first = find(inputId), last = find(outputId);
  std::vector<bool> isKnown(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    isKnown[i] = inputs[i] || int(i) == first;
  for (const Step &step : steps) {
    for (int operand : {step.x, step.b, step.t})
      if (operand >= 0 && !isKnown[size_t(operand)])
        refuse(CUDNN_STATUS_BAD_PARAM, "a step reads a tensor that is not computed");
    isKnown[size_t(step.y)] = true;
  }
  if (first == int(ids.size()) || last == int(ids.size()) || !isKnown[size_t(last)])
    refuse(CUDNN_STATUS_BAD_PARAM, "the input or output is not in the graph of scores");
}

double Attention::mask(double score, int64_t b, int64_t h, int64_t i, int64_t j,
                       std::vector<double> &values) const {
  if (steps.empty())
    return score;
  const int64_t index[] = {b, h, i, j};
  for (size_t n = 0; n < inputs.size(); ++n)
    if (inputs[n])
      values[n] = inputs[n]->isNumber ? inputs[n]->number
                                      : inputs[n]->load(offsetOf(*inputs[n], b, h, i, j));
  values[size_t(first)] = score;
  for (const Step &step : steps) {
    double x = values[size_t(step.x)], other = step.b < 0 ? 0 : values[size_t(step.b)];
    double &y = values[size_t(step.y)];
    switch (step.mode) {
    case CUDNN_POINTWISE_ADD:
      y = x + other;
      break;
    case CUDNN_POINTWISE_CMP_GT:
      y = x > other;
      break;
    case CUDNN_POINTWISE_CMP_GE:
      y = x >= other;
      break;
    case CUDNN_POINTWISE_GEN_INDEX:
      y = double(index[step.axis]);
      break;
    case CUDNN_POINTWISE_BINARY_SELECT:
      y = values[size_t(step.t)] != 0 ? x : other;
      break;
    default: // CUDNN_POINTWISE_IDENTITY
      y = x;
      break;
    }
  }
  return values[size_t(last)];
}

//===--- values -----------------------------------------------------------===//

double Attention::at(int kind, int64_t b, int64_t h, int64_t i, int64_t d) const {
  const Tensor &tensor = *heads[size_t(kind)];
  int64_t head =
      tensor.sizes[1] == heads[Q]->sizes[1] ? h : h / (heads[Q]->sizes[1] / tensor.sizes[1]);
  return tensor.load(offsetOf(tensor, b, head, i, d));
}

std::vector<double> Attention::scoresOf(int64_t b, int64_t h, int64_t i) const {
  int64_t columns = heads[K]->sizes[2], width = heads[Q]->sizes[3];
  std::vector<double> result(size_t(columns), 0), values(ids.size());
  for (int64_t j = 0; j < columns; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < width; ++d)
      dot += at(Q, b, h, i, d) * at(K, b, h, j, d);
    result[size_t(j)] = float(mask(dot * scale->number, b, h, i, j, values));
  }
  return result;
}

double Attention::keepOf(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return kept ? kept->load(offsetOf(*kept, b, h, i, j)) * keptScale->number : 1;
}

void Attention::computeRow(int64_t b, int64_t h, int64_t i) const {
  std::vector<double> p = scoresOf(b, h, i);
  double most = *std::max_element(p.begin(), p.end()), sum = 0;
  for (double &x : p)
    sum += x = most > -kInfinity ? std::exp(x - most) : 0;
  double lse = sum > 0 ? most + std::log(sum) : hasNans ? NAN : -kInfinity;
  heads[Lse]->store(offsetOf(*heads[Lse], b, h, i, 0), float(lse));
  for (int64_t d = 0; d < heads[Q]->sizes[3]; ++d) {
    double value = sum > 0 || !hasNans ? 0 : NAN;
    for (size_t j = 0; sum > 0 && j < p.size(); ++j)
      value += p[j] / sum * keepOf(b, h, i, int64_t(j)) * at(V, b, h, int64_t(j), d);
    heads[Out]->store(offsetOf(*heads[Out], b, h, i, d), float(value));
  }
}

void Attention::addGradients(int64_t b, int64_t h, int64_t i, std::vector<double> *sums) const {
  std::vector<double> p = scoresOf(b, h, i);
  int64_t width = heads[Q]->sizes[3], keyHeads = heads[K]->sizes[1];
  int64_t columns = heads[K]->sizes[2], g = h / (heads[Q]->sizes[1] / keyHeads);
  double lse = heads[Lse]->load(offsetOf(*heads[Lse], b, h, i, 0)), delta = 0;
  for (int64_t d = 0; d < width; ++d)
    delta += at(Out, b, h, i, d) * at(Dout, b, h, i, d);
  if (rowSums)
    rowSums->store(offsetOf(*rowSums, b, h, i, 0), float(delta * keptPart->number));
  int64_t row = ((b * heads[Q]->sizes[1] + h) * heads[Q]->sizes[2] + i) * width;
  for (int64_t j = 0; j < columns; ++j) {
    if (lse == -kInfinity && !hasNans && !rowSums) // composite graphs subtract -inf
      continue;
    double probability = std::exp(p[size_t(j)] - lse), keep = keepOf(b, h, i, j), dp = 0;
    int64_t column = ((b * keyHeads + g) * columns + j) * width;
    for (int64_t d = 0; d < width; ++d)
      dp += at(Dout, b, h, i, d) * at(V, b, h, j, d);
    double ds = probability * (dp * keep - delta) * scale->number;
    for (int64_t d = 0; d < width; ++d) {
      sums[0][size_t(row + d)] += ds * at(K, b, h, j, d);
      sums[1][size_t(column + d)] += ds * at(Q, b, h, i, d);
      sums[2][size_t(column + d)] += probability * keep * at(Dout, b, h, i, d);
    }
  }
}

void Attention::storeAll(const Tensor &to, const std::vector<double> &values) const {
  size_t number = 0;
  for (int64_t b = 0; b < to.sizes[0]; ++b)
    for (int64_t h = 0; h < to.sizes[1]; ++h)
      for (int64_t i = 0; i < to.sizes[2]; ++i)
        for (int64_t d = 0; d < to.sizes[3]; ++d)
          to.store(offsetOf(to, b, h, i, d), float(values[number++]));
}

void Attention::compute() const {
  std::memset(workspace, 0x5a, size_t(workspaceBytes));
  const auto &q = heads[Q]->sizes, &k = heads[K]->sizes;
  std::vector<double> sums[3];
  if (isGradient) {
    sums[0].resize(size_t(q[0] * q[1] * q[2] * q[3]));
    sums[1].resize(size_t(k[0] * k[1] * k[2] * k[3]));
    sums[2] = sums[1];
  }
  for (int64_t b = 0; b < q[0]; ++b)
    for (int64_t h = 0; h < q[1]; ++h)
      for (int64_t i = 0; i < q[2]; ++i)
        if (isGradient)
          addGradients(b, h, i, sums);
        else
          computeRow(b, h, i);
  for (int kind : {Dq, Dk, Dv})
    if (isGradient)
      storeAll(*heads[size_t(kind)], sums[kind - Dq]);
  if (querySums)
    storeAll(*querySums, sums[0]);
  spoil(*heads[isGradient ? Dq : Out]);
}

} // namespace psrt::fake
