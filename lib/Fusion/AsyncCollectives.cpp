// Finds the matmuls that are split together with collectives.
#include "AsyncCollectives.h"
#include "ClassBuffers.h"
#include "IterationSpace.h"
#include "lib/IR/Collectives.h"
#include <numeric>

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

bool fusion::isInMemory(Value value) {
  Operation *op = getRoot(value).getDefiningOp();
  if (!op || ir::isCollective(op) || isa<ps::ReadOp>(op))
    return true;
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  return lowering && lowering.getLoweringKind() == ps::LoweringKind::Library;
}

ps::WaitOp fusion::getWait(Operation *collective) {
  if (!ir::isCollective(collective) || !collective->hasOneUse())
    return nullptr;
  return dyn_cast<ps::WaitOp>(*collective->user_begin());
}

Operation *fusion::findFirstUser(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    if (isView(user))
      user = findFirstUser(user->getResult(0));
    if (user && (!first || user->isBeforeInBlock(first)))
      first = user;
  }
  return first;
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// Returns the dim of [batch0, batch1, row] that is split: the outermost one with a size above 1.
static unsigned getCutDim(const MatmulForm &form) {
  return form.batch[0] > 1 ? 0 : form.batch[1] > 1 ? 1 : 2;
}

static int64_t getSize(const MatmulForm &form, unsigned dim) {
  return dim < 2 ? form.batch[dim] : form.m;
}

/// Returns true if the slices along the split dim fill a buffer of `elements` elements one after
/// another, each in its own range.
static bool isSlowest(const MatmulForm &form, const std::array<int64_t, 4> &strides,
                      int64_t columns, int64_t elements) {
  unsigned dim = getCutDim(form);
  int64_t within = (columns - 1) * strides[3];
  for (unsigned other = dim + 1; other < 3; ++other)
    within += (getSize(form, other) - 1) * strides[other];
  return strides[dim] * getSize(form, dim) == elements && within < strides[dim];
}

/// Returns the product of the sizes of the dims before `dim` of a collective's result.
static int64_t countOuter(Operation *collective, int64_t dim) {
  auto shape = cast<RankedTensorType>(collective->getResult(0).getType()).getShape();
  return std::accumulate(shape.begin(), shape.begin() + dim, int64_t(1), std::multiplies<>());
}

/// Determines how a matmul is split together with a reduce_scatter: along the rows of each shard if
/// the rows are scattered, else along the dims before the scattered dim.
static void findScatterSplit(ps::ReduceScatterOp scatter, ChunkedMatmul &matmul) {
  int64_t outer = countOuter(scatter, scatter.getDim()), total = countElements(scatter.getResult());
  const MatmulForm &form = matmul.form;
  bool isOfRows = outer == 1 && getCutDim(form) == 2 &&
                  scatter.getType().getDimSize(scatter.getDim()) * form.n == total;
  matmul.size = isOfRows ? total / form.n : std::gcd(matmul.size, outer);
  matmul.shards = isOfRows ? form.m / matmul.size : 1;
}

static std::optional<MatmulForm> getForm(ps::ContractOp contract) {
  auto lhs = getView(contract.getLhs()), rhs = getView(contract.getRhs());
  return lhs && rhs ? getMatmul(contract, *lhs, *rhs) : std::nullopt;
}

/// Returns the matmul that computes the operand of an all_reduce or reduce_scatter. Returns nullopt
/// if the matmul's result has another use.
static std::optional<ChunkedMatmul> findProducer(Operation *collective) {
  Value value = collective->getOperand(0);
  for (; isa_and_nonnull<ps::ReshapeOp>(value.getDefiningOp());
       value = value.getDefiningOp()->getOperand(0))
    if (!value.hasOneUse())
      return std::nullopt;
  auto contract = value.getDefiningOp<ps::ContractOp>();
  if (!contract || contract.getSums() || !value.hasOneUse())
    return std::nullopt;
  std::optional<MatmulForm> form = getForm(contract);
  if (!form || !isSlowest(*form, form->out, form->n, countElements(value)))
    return std::nullopt;
  ChunkedMatmul matmul{contract, *form, /*follows=*/false, getSize(*form, getCutDim(*form))};
  if (auto scatter = dyn_cast<ps::ReduceScatterOp>(collective))
    findScatterSplit(scatter, matmul);
  return matmul;
}

/// Returns the first user of an all_gather's result, if this user is a matmul that reads the whole
/// result in memory order.
static std::optional<ChunkedMatmul> findUser(ps::AllGatherOp collective) {
  auto contract = dyn_cast_or_null<ps::ContractOp>(findFirstUser(collective.getResult()));
  std::optional<MatmulForm> form =
      contract && !contract.getSums() ? getForm(contract) : std::nullopt;
  if (!form)
    return std::nullopt;
  Value left = form->swapped ? contract.getRhs() : contract.getLhs();
  Value right = form->swapped ? contract.getLhs() : contract.getRhs();
  Value gathered = collective.getResult();
  bool isForLeft = getRoot(right) != gathered &&
                   (!contract.getBias() || getRoot(contract.getBias()) != gathered) &&
                   (!contract.getAux() || getRoot(contract.getAux()) != gathered);
  if (getRoot(left) != gathered || !isForLeft || getView(left)->offset != 0 ||
      !isSlowest(*form, form->lhs, form->k, countElements(gathered)) ||
      !isSlowest(*form, form->out, form->n, countElements(contract.getResult())))
    return std::nullopt;
  int64_t size =
      std::gcd(getSize(*form, getCutDim(*form)), countOuter(collective, collective.getDim()));
  return ChunkedMatmul{contract, *form, /*follows=*/true, size};
}

std::optional<ChunkedMatmul> fusion::findChunkedMatmul(Operation *collective) {
  if (isa<ps::AllReduceOp, ps::ReduceScatterOp>(collective))
    return findProducer(collective);
  if (auto gather = dyn_cast<ps::AllGatherOp>(collective))
    return findUser(gather);
  return std::nullopt;
}

int64_t fusion::getChunkCount(Operation *collective) {
  auto mark = collective->getAttrOfType<IntegerAttr>(kChunksMark);
  return mark ? std::max<int64_t>(1, mark.getInt()) : 1;
}

std::optional<ChunkedMatmul> fusion::getChunkedMatmul(Operation *collective) {
  if (getChunkCount(collective) == 1 || !getWait(collective))
    return std::nullopt;
  return findChunkedMatmul(collective);
}

Operation *fusion::getChunkedCollective(ps::ContractOp contract) {
  auto isCutWith = [&](Operation *collective) {
    std::optional<ChunkedMatmul> matmul =
        collective && ir::isCollective(collective) ? getChunkedMatmul(collective) : std::nullopt;
    return matmul && matmul->contract == contract;
  };
  for (Value operand : contract->getOperands())
    if (Operation *producer = getRoot(operand).getDefiningOp(); isCutWith(producer))
      return producer;
  Operation *user = findFirstUser(contract.getResult());
  return isCutWith(user) ? user : nullptr;
}

/// Returns a chunk with rows of each shard: a batch of one matmul per shard, with a common right
/// operand.
static MatmulChunk getShardsChunk(const ChunkedMatmul &matmul, int64_t number, int64_t count) {
  const MatmulForm &form = matmul.form;
  int64_t rows = matmul.size / count, first = number * rows;
  MatmulChunk chunk{form, first * form.lhs[2], 0, first * matmul.shards * form.out[2]};
  chunk.form.batch[1] = matmul.shards;
  chunk.form.m = rows;
  chunk.form.lhs[1] = matmul.size * form.lhs[2];
  chunk.form.rhs[1] = 0;
  chunk.form.out[1] = rows * form.out[2];
  return chunk;
}

MatmulChunk fusion::getChunk(const ChunkedMatmul &matmul, int64_t number, int64_t count) {
  if (matmul.shards > 1)
    return getShardsChunk(matmul, number, count);
  const MatmulForm &form = matmul.form;
  unsigned dim = getCutDim(form);
  int64_t size = getSize(form, dim) / count, first = number * size;
  MatmulChunk chunk{form, first * form.lhs[dim], dim < 2 ? first * form.rhs[dim] : 0,
                    first * form.out[dim]};
  (dim < 2 ? chunk.form.batch[dim] : chunk.form.m) = size;
  return chunk;
}

//===----------------------------------------------------------------------===//
// Ends of uses
//===----------------------------------------------------------------------===//

Operation *fusion::getEndOfUse(Operation *user) {
  if (auto contract = dyn_cast<ps::ContractOp>(user)) {
    Operation *collective = getChunkedCollective(contract);
    // A matmul that computes a collective's operand in chunks runs at the collective's position.
    return collective && !getChunkedMatmul(collective)->follows ? collective : user;
  }
  ps::WaitOp wait = getWait(user);
  if (!wait)
    return user;
  std::optional<ChunkedMatmul> matmul = getChunkedMatmul(user);
  return matmul && matmul->follows ? matmul->contract : wait;
}
