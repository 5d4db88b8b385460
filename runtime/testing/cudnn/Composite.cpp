// Matches a graph with the pattern of attention, by following tensors from operation to operation.
#include "runtime/testing/cudnn/Composite.h"
#include <algorithm>

namespace psrt::fake {
namespace {

[[noreturn]] void refusePattern(const char *text) {
  refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, text);
}

int64_t idOf(const Descriptor &tensor) { return tensor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID); }

bool isSet(const Descriptor &tensor, cudnnBackendAttributeName_t name) {
  return tensor.attributes.contains(name) && tensor.get<bool>(name);
}
bool isInside(const Descriptor &tensor) { return isSet(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL); }
bool isNumber(const Descriptor &tensor) { return isSet(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE); }
bool isInMemory(const Descriptor &tensor) { return !isInside(tensor) && !isNumber(tensor); }

cudnnDataType_t typeOf(const Descriptor &tensor) {
  return tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

Tensor written(const Descriptor &descriptor) {
  Tensor result(descriptor);
  result.isWritten = true;
  return result;
}

} // namespace

Part::Part(const DescriptorRef &given) : operation(given) {
  auto get = [&](cudnnBackendAttributeName_t name) -> const Descriptor * {
    return operation->attributes.contains(name) ? &operation->child(name) : nullptr;
  };
  switch (operation->type) {
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    mode = operation->child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
               .get<int>(CUDNN_ATTR_POINTWISE_MODE);
    x = get(CUDNN_ATTR_OPERATION_POINTWISE_XDESC), b = get(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    y = get(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    return;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    kind = Matmul;
    x = get(CUDNN_ATTR_OPERATION_MATMUL_ADESC), b = get(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    y = get(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    return;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    kind = Reduction;
    mode = operation->child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
               .get<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
    x = get(CUDNN_ATTR_OPERATION_REDUCTION_XDESC), y = get(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    return;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    kind = Reshape;
    x = get(CUDNN_ATTR_OPERATION_RESHAPE_XDESC), y = get(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    return;
  default:
    refusePattern("an operation is not part of attention");
  }
}

Part *Composite::find(Kind kind, int mode, const Descriptor &x) {
  for (Part &part : parts)
    if (!part.isTaken && part.kind == kind && part.mode == mode && idOf(*part.x) == idOf(x))
      return &part;
  return nullptr;
}

const Part &Composite::take(Kind kind, int mode, const Descriptor &x, const Descriptor *b,
                            bool isNarrow) {
  Part *part = find(kind, mode, x);
  if (!part)
    refusePattern("a part of attention is missing");
  if (b && (!part->b || idOf(*part->b) != idOf(*b)))
    refusePattern("a part of attention reads a wrong tensor");
  if (isInside(*part->y) && (typeOf(*part->y) == CUDNN_DATA_FLOAT) == isNarrow)
    refusePattern("operands of matmuls must have the type of the heads, other tensors f32");
  part->isTaken = true;
  return *part;
}

const Descriptor &Composite::scaleBy(std::optional<Tensor> &number, const Descriptor &x) {
  const Part &part = take(Part::Pointwise, CUDNN_POINTWISE_MUL, x);
  if (!part.b || !isNumber(*part.b) || (number && number->id != idOf(*part.b)))
    refusePattern("a factor must be a scalar");
  number = Tensor(*part.b);
  return *part.y;
}

void Composite::setHeads(int kind, const Descriptor &tensor, bool isTransposed) {
  Tensor result(tensor);
  if (isTransposed && result.sizes.size() == 4) {
    std::swap(result.sizes[2], result.sizes[3]);
    std::swap(result.strides[2], result.strides[3]);
  }
  result.isWritten = isGradient ? kind >= Dq : kind >= Out;
  heads[size_t(kind)] = std::move(result);
}

//===--- scores -----------------------------------------------------------===//

const Descriptor &Composite::takeScores(const Descriptor &matmul) {
  const Descriptor *scores = &scaleBy(scale, matmul);
  first = numberOf(*scores);
  if (Part *bias = find(Part::Pointwise, CUDNN_POINTWISE_ADD, *scores)) {
    if (!bias->b || !isInMemory(*bias->b))
      refusePattern("a bias must be in memory");
    scores = &takeMaskStep(*bias);
  }
  last = numberOf(*scores);
  return *scores;
}

const Descriptor &Composite::takeMaskStep(Part &part) {
  part.isTaken = true;
  takeStep(*part.operation);
  return *part.y;
}

/// Takes the steps of a diagonal mask: generated row and column indices, an optional addition of
/// the window, a comparison and a selection.
const Descriptor &Composite::takeDiagonal(const Descriptor &scores) {
  const Descriptor *result = &scores;
  while (Part *i = find(Part::Pointwise, CUDNN_POINTWISE_GEN_INDEX, *result)) {
    const Descriptor &row = takeMaskStep(*i);
    Part *j = find(Part::Pointwise, CUDNN_POINTWISE_GEN_INDEX, *result);
    if (!j)
      refusePattern("a mask must compare rows and columns");
    const Descriptor *column = &takeMaskStep(*j);
    if (Part *end = find(Part::Pointwise, CUDNN_POINTWISE_ADD, *column))
      column = &takeMaskStep(*end);
    Part *compared = find(Part::Pointwise, CUDNN_POINTWISE_CMP_GE, row);
    if (!compared)
      compared = find(Part::Pointwise, CUDNN_POINTWISE_CMP_GT, *column);
    Part *select = find(Part::Pointwise, CUDNN_POINTWISE_BINARY_SELECT, *result);
    if (!compared || !select || !select->b || !isNumber(*select->b))
      refusePattern("a mask must select scores by their indices");
    takeMaskStep(*compared);
    result = &takeMaskStep(*select);
  }
  last = numberOf(*result);
  return *result;
}

//===--- the value --------------------------------------------------------===//

void Composite::takeValue() {
  auto matmul = std::find_if(parts.begin(), parts.end(), [](const Part &part) {
    return part.kind == Part::Matmul && isInside(*part.y);
  });
  if (matmul == parts.end())
    refusePattern("scores must be a virtual matmul");
  matmul->isTaken = true;
  setHeads(Q, *matmul->x), setHeads(K, *matmul->b, true);
  const Descriptor &scores = takeDiagonal(takeScores(*matmul->y));
  const Descriptor &most = *take(Part::Reduction, CUDNN_REDUCE_TENSOR_MAX, scores).y;
  const Descriptor &powers = step(CUDNN_POINTWISE_EXP, step(CUDNN_POINTWISE_SUB, scores, &most));
  const Descriptor &sum = *take(Part::Reduction, CUDNN_REDUCE_TENSOR_ADD, powers).y;
  setHeads(Lse, step(CUDNN_POINTWISE_ADD, most, &step(CUDNN_POINTWISE_LOG, sum)));
  const Part *last = find(Part::Pointwise, CUDNN_POINTWISE_DIV, powers);
  bool drops = last && find(Part::Pointwise, CUDNN_POINTWISE_MUL, *last->y);
  last = &take(Part::Pointwise, CUDNN_POINTWISE_DIV, powers, &sum, !drops);
  if (drops) {
    last = &take(Part::Pointwise, CUDNN_POINTWISE_MUL, scaleBy(keptScale, *last->y), nullptr,
                 /*isNarrow=*/true);
    kept = Tensor(*last->b);
  }
  const Part &out = take(Part::Matmul, 0, *last->y);
  setHeads(V, *out.b), setHeads(Out, *out.y);
}

//===--- gradients --------------------------------------------------------===//

void Composite::takeKeyGradient(int kind, const Descriptor &scores, const Descriptor &rows) {
  const Part &transposed = take(Part::Reshape, 0, scores, nullptr, /*isNarrow=*/true);
  auto sizes = scores.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  std::swap(sizes[2], sizes[3]);
  if (transposed.y->list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS) != sizes)
    refusePattern("scores must be transposed");
  const Descriptor *result = take(Part::Matmul, 0, *transposed.y, &rows, /*isNarrow=*/true).y;
  if (isInside(*result))
    result = take(Part::Reduction, CUDNN_REDUCE_TENSOR_ADD, *result).y;
  setHeads(kind, *result);
}

void Composite::takeQueryGradient(const Descriptor &scores, const Descriptor &transposedK) {
  const Part &k = take(Part::Reshape, 0, transposedK, nullptr, /*isNarrow=*/true);
  const Part &matmul = take(Part::Matmul, 0, scores, k.y);
  const Descriptor *result = matmul.y;
  if (typeOf(*result) == CUDNN_DATA_FLOAT) {
    querySums = written(*result);
    result = &step(CUDNN_POINTWISE_IDENTITY, *result);
  }
  setHeads(Dq, *result);
}

void Composite::takeGradients() {
  auto isOfMemory = [](const Part &part) {
    return isInMemory(*part.x) && part.b && isInMemory(*part.b);
  };
  auto rows = std::find_if(parts.begin(), parts.end(), [&](const Part &part) {
    return part.kind == Part::Pointwise && part.mode == CUDNN_POINTWISE_MUL && isOfMemory(part);
  });
  if (rows == parts.end())
    refusePattern("rows of dout must be multiplied by those of out");
  const Descriptor &dout = *rows->x;
  setHeads(Dout, dout), setHeads(Out, *rows->b);
  rows->isTaken = true;
  const Descriptor &sums = *take(Part::Reduction, CUDNN_REDUCE_TENSOR_ADD, *rows->y).y;
  const Descriptor &scaledSums = scaleBy(keptPart, sums);
  rowSums = written(scaledSums);

  auto matmul = std::find_if(parts.begin(), parts.end(), [&](const Part &part) {
    return part.kind == Part::Matmul && isOfMemory(part) && idOf(*part.x) != idOf(dout);
  });
  if (matmul == parts.end())
    refusePattern("scores must be a matmul of tensors in memory");
  matmul->isTaken = true;
  const Descriptor &q = *matmul->x, &transposedK = *matmul->b;
  setHeads(Q, q), setHeads(K, transposedK, true);
  const Part &less = take(Part::Pointwise, CUDNN_POINTWISE_SUB, takeScores(*matmul->y));
  setHeads(Lse, *less.b);
  relay(*less.y);
  const Descriptor &probabilities = step(CUDNN_POINTWISE_EXP, takeDiagonal(*less.y));

  const Descriptor *read = &probabilities, *mask = nullptr;
  if (const Part *drop = find(Part::Pointwise, CUDNN_POINTWISE_MUL, probabilities)) {
    mask = drop->b;
    kept = Tensor(*mask);
    read = &scaleBy(keptScale, step(CUDNN_POINTWISE_MUL, probabilities));
  }
  takeKeyGradient(Dv, *read, dout);
  const Part &gradient = take(Part::Matmul, 0, dout);
  setHeads(V, *gradient.b, true);
  const Descriptor *scores = gradient.y;
  if (mask)
    scores = &step(CUDNN_POINTWISE_MUL, *scores, mask);
  scores =
      &step(CUDNN_POINTWISE_MUL, step(CUDNN_POINTWISE_SUB, *scores, &scaledSums), &probabilities);
  if (mask)
    scores = &scaleBy(keptScale, *scores);
  scores = &scaleBy(scale, *scores);
  takeKeyGradient(Dk, *scores, q);
  takeQueryGradient(*scores, transposedK);
}

//===--- the whole graph --------------------------------------------------===//

void Composite::checkMore() const {
  const auto &q = heads[Q]->sizes, &k = heads[K]->sizes;
  auto check = [](const std::optional<Tensor> &tensor, const std::vector<int64_t> &sizes) {
    if (tensor && tensor->sizes != sizes)
      refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
             "a tensor's sizes differ from those of the scores");
  };
  check(kept, {q[0], q[1], q[2], k[2]});
  check(rowSums, {q[0], q[1], q[2], 1});
  check(querySums, q);
  for (const std::optional<Tensor> *tensor : {&rowSums, &querySums})
    if (*tensor && (*tensor)->type != CUDNN_DATA_FLOAT)
      refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "sums must be f32");
  if (kept && kept->type != CUDNN_DATA_FLOAT && kept->type != heads[Q]->type)
    refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
           "dropout's mask must be f32 or have the type of the heads");
}

bool Composite::isWrongIn(size_t version) const {
  return isGradient && version < 91600 && heads[K]->sizes[2] % 128 != 0;
}

Composite::Composite(const std::vector<DescriptorRef> &operations)
    : Attention(Empty(), std::any_of(operations.begin(), operations.end(), [](auto &operation) {
                  return operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
                })) {
  for (const DescriptorRef &operation : operations)
    parts.emplace_back(operation);
  if (isGradient)
    takeGradients();
  else
    takeValue();
  if (!std::all_of(parts.begin(), parts.end(), [](const Part &part) { return part.isTaken; }))
    refusePattern("an operation is not part of attention");
  checkShapes();
  checkMore();
  checkIds();
}

} // namespace psrt::fake
