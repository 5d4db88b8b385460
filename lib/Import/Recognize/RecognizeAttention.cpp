// Replaces softmax(q k^T scale + mask) v by ps.attention.
#include "lib/Import/HostValue.h"
#include "lib/Import/Recognize/Matching.h"
#include "parashard/Import.h"

using namespace mlir;

namespace parashard::import {
namespace recognize {
namespace {

/// The ops and values of one softmax(q k^T scale + mask) v.
struct Match {
  ps::SoftmaxOp softmax;
  ps::ContractOp scores, output;
  LabeledValue query, key, value; ///< labels: batch 0, head 1, query 2, key 3, feature 4
  SmallVector<int64_t> resultLabels;
  double scale = 1;
  SmallVector<Value> added; ///< masks that are added to the scores: floats [B, H, T, S]
  struct Selected {
    Value seen; ///< visible keys, or hidden keys if `negated`: bools [B, H, T, S]
    bool negated;
    double hiddenScore;
  };
  SmallVector<Selected> selected;
  ps::DropoutOp dropout;
};

enum Label : int64_t { kBatch, kHead, kQuery, kKey, kFeature };

/// Returns true if `condition` is true exactly for rows of `scores` without a visible key: not
/// any(not (scores == -inf)).
bool isEmptyRow(Value condition, Value scores) {
  auto skip = [](Value v) {
    while (v.getDefiningOp() && isa<ps::ReshapeOp, ps::BroadcastOp>(v.getDefiningOp()))
      v = v.getDefiningOp()->getOperand(0);
    return v;
  };
  auto outer = skip(condition).getDefiningOp<ps::NotOp>();
  auto any = outer ? skip(outer.getOperand()).getDefiningOp<ps::ReduceOp>() : ps::ReduceOp();
  auto inner = any ? any.getOperand().getDefiningOp<ps::NotOp>() : ps::NotOp();
  auto compare = inner ? inner.getOperand().getDefiningOp<ps::CompareOp>() : ps::CompareOp();
  if (!compare || any.getKind() != ps::ReductionKind::Max ||
      compare.getPredicate() != ps::Predicate::Eq)
    return false;
  std::optional<double> against = getSplat(compare.getRhs());
  return compare.getLhs() == scores && against && std::isinf(*against) && *against < 0;
}

/// Returns the op `select(p != p, 0, p)`, which replaces NaN by 0 for rows without a visible key.
/// `ps.attention` does the same. Returns null if another op uses the probabilities.
ps::SelectOp getNanGuard(Value probabilities) {
  ps::SelectOp guard;
  for (Operation *user : probabilities.getUsers()) {
    if (auto select = dyn_cast<ps::SelectOp>(user))
      guard = select;
    else if (!isa<ps::CompareOp>(user))
      return {};
  }
  auto isNan = guard ? guard.getCondition().getDefiningOp<ps::CompareOp>() : ps::CompareOp();
  bool isGuard = isNan && isNan.getPredicate() == ps::Predicate::Ne &&
                 isNan.getLhs() == probabilities && isNan.getRhs() == probabilities &&
                 isNan->hasOneUse() && guard.getOnFalse() == probabilities &&
                 getSplat(guard.getOnTrue()) == 0.0;
  return isGuard && llvm::range_size(probabilities.getUses()) == 3 ? guard : ps::SelectOp();
}

/// Matches the ops from the softmax forward to the matmul with the values.
bool matchOutput(Match &m) {
  Value probabilities = m.softmax.getResult();
  while (true) {
    if (ps::SelectOp guard = getNanGuard(probabilities)) {
      probabilities = guard.getResult();
      continue;
    }
    if (!probabilities.hasOneUse())
      return false;
    Operation *user = *probabilities.user_begin();
    if (auto dropout = dyn_cast<ps::DropoutOp>(user)) {
      if (m.dropout)
        return false;
      m.dropout = dropout;
    } else if (auto select = dyn_cast<ps::SelectOp>(user)) {
      std::optional<double> zero = getSplat(select.getOnTrue());
      if (select.getOnFalse() != probabilities || zero != 0.0 ||
          !isEmptyRow(select.getCondition(), m.softmax.getOperand()))
        return false;
    } else if (auto contract = dyn_cast<ps::ContractOp>(user)) {
      m.output = contract;
      break;
    } else if (!isa<ps::ConvertOp>(user) ||
               !isa<FloatType>(getType(user->getResult(0)).getElementType())) {
      return false;
    }
    probabilities = user->getResult(0);
  }
  bool isLhs = m.output.getLhs() == probabilities;
  ArrayRef<int64_t> own = isLhs ? m.output.getLhsLabels() : m.output.getRhsLabels();
  m.value = {isLhs ? m.output.getRhs() : m.output.getLhs(),
             SmallVector<int64_t>(isLhs ? m.output.getRhsLabels() : m.output.getLhsLabels())};
  if (own.size() != 4 || m.value.labels.size() != 4)
    return false;
  // Labels are numbered like the dims of the probabilities. The remaining label is the feature.
  auto rename = [&](int64_t label) -> int64_t {
    auto at = llvm::find(own, label);
    return at == own.end() ? int64_t(kFeature) : at - own.begin();
  };
  llvm::transform(m.value.labels, m.value.labels.begin(), rename);
  m.resultLabels = llvm::map_to_vector(m.output.getResultLabels(), rename);
  m.value.absorbTransposes();
  return llvm::is_contained(m.value.labels, kKey) && !llvm::is_contained(m.value.labels, kQuery) &&
         !llvm::is_contained(m.resultLabels, kKey) && m.resultLabels.size() == 4;
}

/// Matches a select between scores and a constant that hides keys.
bool matchSelect(Match &m, ps::SelectOp select, Value &scores) {
  std::optional<double> hidden = getSplat(select.getOnFalse());
  bool negated = !hidden;
  if (negated)
    hidden = getSplat(select.getOnTrue());
  if (!hidden || !isMaskedScore(*hidden))
    return false;
  m.selected.push_back({select.getCondition(), negated, *hidden});
  scores = negated ? select.getOnFalse() : select.getOnTrue();
  return true;
}

bool dependsOnContraction(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ps::ContractOp>(op))
    return true;
  if (isa<ps::AddOp, ps::MulOp, ps::DivOp, ps::ConvertOp, ps::SelectOp>(op))
    return llvm::any_of(op->getOperands(), dependsOnContraction);
  return false;
}

/// Matches the ops from the softmax back to the matmul of queries and keys.
bool matchScores(Match &m) {
  Value scores = m.softmax.getOperand();
  while (true) {
    Operation *op = scores.getDefiningOp();
    if (!op)
      return false;
    if (auto contract = dyn_cast<ps::ContractOp>(op)) {
      m.scores = contract;
      return true;
    }
    if (auto select = dyn_cast<ps::SelectOp>(op)) {
      if (!matchSelect(m, select, scores))
        return false;
    } else if (isa<ps::AddOp>(op)) {
      if (m.scale != 1)
        return false;
      bool first = dependsOnContraction(op->getOperand(0));
      m.added.push_back(op->getOperand(first ? 1 : 0));
      scores = op->getOperand(first ? 0 : 1);
    } else if (isa<ps::MulOp, ps::DivOp>(op)) {
      std::optional<double> rhs = getSplat(op->getOperand(1));
      std::optional<double> lhs =
          rhs || isa<ps::DivOp>(op) ? std::nullopt : getSplat(op->getOperand(0));
      if (!rhs && !lhs)
        return false;
      m.scale *= lhs ? *lhs : isa<ps::DivOp>(op) ? 1 / *rhs : *rhs;
      scores = op->getOperand(lhs ? 1 : 0);
    } else if (isa<ps::ConvertOp>(op) &&
               isa<FloatType>(getType(op->getOperand(0)).getElementType())) {
      scores = op->getOperand(0);
    } else {
      return false;
    }
  }
}

/// Removes transposes and constant factors from an operand, and multiplies `scale` by the factors.
void takeScale(LabeledValue &operand, double &scale) {
  operand.absorbTransposes();
  while (auto mul = operand.value.getDefiningOp<ps::MulOp>()) {
    std::optional<double> factor = getSplat(mul.getRhs());
    if (!factor)
      return;
    scale *= *factor;
    operand.value = mul.getLhs();
    operand.absorbTransposes();
  }
}

/// Matches the operands of q k^T. Labels are numbered like the dims of the result [batch, head,
/// query, key].
bool matchOperands(Match &m) {
  ArrayRef<int64_t> own = m.scores.getResultLabels();
  if (own.size() != 4)
    return false;
  auto rename = [&](int64_t label) -> int64_t {
    auto at = llvm::find(own, label);
    return at == own.end() ? int64_t(kFeature) : at - own.begin();
  };
  m.query = {m.scores.getLhs(), llvm::map_to_vector(m.scores.getLhsLabels(), rename)};
  m.key = {m.scores.getRhs(), llvm::map_to_vector(m.scores.getRhsLabels(), rename)};
  if (llvm::is_contained(m.query.labels, kKey))
    std::swap(m.query, m.key);
  takeScale(m.query, m.scale);
  takeScale(m.key, m.scale);
  auto hasLabels = [](const LabeledValue &v, int64_t row) {
    return v.labels.size() == 4 && llvm::is_contained(v.labels, kBatch) &&
           llvm::is_contained(v.labels, kHead) && llvm::is_contained(v.labels, row) &&
           llvm::is_contained(v.labels, kFeature);
  };
  return hasLabels(m.query, kQuery) && hasLabels(m.key, kKey) && hasLabels(m.value, kKey);
}

/// Removes broadcasts over batch, heads and queries from a mask [B, H, T, S]. Returns a mask [B or
/// 1, H or 1, T or 1, S].
Value narrowMask(OpBuilder &b, Location loc, Value mask) {
  auto broadcast = mask.getDefiningOp<ps::BroadcastOp>();
  if (!broadcast)
    return mask;
  ArrayRef<int64_t> full = getShape(mask);
  SmallVector<int64_t> unit(4, 1), narrow{1, 1, 1, full[3]};
  for (int64_t dim : broadcast.getDims())
    unit[dim] = narrow[dim] = full[dim];
  Type element = getType(mask).getElementType();
  if (unit == narrow)
    return ps::ReshapeOp::create(b, loc, RankedTensorType::get(unit, element),
                                 broadcast.getOperand());
  return ps::BroadcastOp::create(b, loc, RankedTensorType::get(narrow, element),
                                 broadcast.getOperand(), broadcast.getDims());
}

/// Broadcasts two masks [B or 1, H or 1, T or 1, S] to their common shape.
void alignMasks(OpBuilder &b, Location loc, Value &x, Value &y) {
  SmallVector<int64_t> shape(getShape(x));
  for (int64_t dim : {0, 1, 2})
    shape[dim] = std::max(shape[dim], getShape(y)[dim]);
  for (Value *value : {&x, &y}) {
    if (getShape(*value) == ArrayRef(shape))
      continue;
    SmallVector<int64_t> kept, dims;
    for (auto [dim, size] : llvm::enumerate(getShape(*value)))
      if (size == shape[dim]) {
        kept.push_back(size);
        dims.push_back(dim);
      }
    Type element = getType(*value).getElementType();
    Value core = ps::ReshapeOp::create(b, loc, RankedTensorType::get(kept, element), *value);
    *value = ps::BroadcastOp::create(b, loc, RankedTensorType::get(shape, element), core, dims);
  }
}

/// Combines all masks into one. The mask consists of bools if no mask is added and every hidden
/// score is -inf. Otherwise, it consists of floats that are added to the scores. Returns null
/// without masks.
Value buildMask(OpBuilder &b, Location loc, Match &m) {
  bool asBool = m.added.empty() &&
                llvm::all_of(m.selected, [](auto &s) { return std::isinf(s.hiddenScore); });
  Type element = getType(m.query.value).getElementType();
  Value mask;
  auto join = [&](Value value) {
    if (!mask) {
      mask = value;
      return;
    }
    alignMasks(b, loc, mask, value);
    mask = asBool ? Value(ps::AndOp::create(b, loc, mask, value))
                  : Value(ps::AddOp::create(b, loc, mask, value));
  };
  for (Match::Selected &selected : m.selected) {
    Value seen = narrowMask(b, loc, selected.seen);
    if (selected.negated)
      seen = ps::NotOp::create(b, loc, seen);
    if (asBool) {
      join(seen);
      continue;
    }
    auto type = RankedTensorType::get(getShape(seen), element);
    Value zero = ps::ConstantOp::create(b, loc, type, 0.0);
    join(ps::SelectOp::create(b, loc, seen, zero,
                              ps::ConstantOp::create(b, loc, type, selected.hiddenScore)));
  }
  for (Value value : m.added) {
    Value narrow = narrowMask(b, loc, value);
    auto type = RankedTensorType::get(getShape(narrow), element);
    join(narrow.getType() == type ? narrow : Value(ps::ConvertOp::create(b, loc, type, narrow)));
  }
  return mask;
}

void rewrite(Match &m) {
  OpBuilder b(m.output);
  Location loc = m.softmax.getLoc();
  SmallVector<int64_t> rows{kBatch, kHead, kQuery, kFeature},
      columns{kBatch, kHead, kKey, kFeature};
  Value query = m.query.arrange(b, loc, rows), key = m.key.arrange(b, loc, columns);
  Value value = m.value.arrange(b, loc, columns), mask = buildMask(b, loc, m);
  SmallVector<int64_t> shape(getShape(query));
  shape.back() = getShape(value).back();
  Type element = getType(query).getElementType(),
       wide = element.isF64() ? element : Type(b.getF32Type());
  double p = m.dropout ? m.dropout.getP().convertToDouble() : 0;
  auto attention = ps::AttentionOp::create(
      b, loc, RankedTensorType::get(shape, element),
      RankedTensorType::get(ArrayRef(shape).drop_back(), wide), query, key, value, mask, Value(),
      Value(), Value(), Value(), UnitAttr(), IntegerAttr(), b.getF64FloatAttr(m.scale),
      b.getF64FloatAttr(p), b.getBoolAttr(m.dropout ? m.dropout.getTraining() : true),
      IntegerAttr(), DenseI64ArrayAttr(), DenseI64ArrayAttr());
  if (m.dropout && m.dropout->hasAttr(kKeyMark))
    attention->setAttr(kKeyMark, m.dropout->getAttr(kKeyMark));
  LabeledValue result{attention.getResult(), rows};
  m.output.getResult().replaceAllUsesWith(result.arrange(b, loc, m.resultLabels));
  eraseDead(m.output);
}

} // namespace
} // namespace recognize

int64_t recognizeAttention(ModuleOp module) {
  SmallVector<ps::SoftmaxOp> candidates;
  module.walk([&](ps::SoftmaxOp op) { candidates.push_back(op); });
  int64_t count = 0;
  for (ps::SoftmaxOp softmax : candidates) {
    recognize::Match match;
    match.softmax = softmax;
    if (recognize::getShape(softmax.getResult()).size() != 4 || !recognize::matchOutput(match) ||
        !recognize::matchScores(match) || !recognize::matchOperands(match))
      continue;
    // ps.attention has no gradient of the mask.
    if (llvm::any_of(match.added, import::dependsOnTrained))
      continue;
    // Queries must have the same type as the values, since attention has one type. f64 is not
    // supported.
    Type element = recognize::getType(match.value.value).getElementType();
    if (recognize::getType(match.query.value).getElementType() != element || element.isF64())
      continue;
    // Attention kernels need query, key and value heads of the same size.
    if (match.query.getSize(recognize::kFeature) != match.value.getSize(recognize::kFeature))
      continue;
    recognize::rewrite(match);
    ++count;
  }
  return count;
}

} // namespace parashard::import
