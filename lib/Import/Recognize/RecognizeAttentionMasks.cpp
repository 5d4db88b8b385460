// Proves that the mask of an attention is causal, a band or a padding mask, or hides nothing.
// Replaces such a mask by attributes and the operand `padding`.
#include "lib/Import/Recognize/IndexExpression.h"
#include "lib/Import/Recognize/Matching.h"
#include "lib/Import/Recognize/NarrowDim.h"
#include "parashard/Import.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {
namespace recognize {
namespace {

enum Index : unsigned { kBatch, kHead, kQuery, kKey };

/// Maximum number of (query, key) pairs at which `enumerate` evaluates a mask.
constexpr int64_t kMaxEnumerated = 1 << 22;
constexpr int64_t kFar = int64_t(1) << 40;

/// The visible keys of a query: key - query in [low, high], and all `padding` predicates over
/// (batch, key) are true.
struct Form {
  int64_t low = -kFar, high = kFar;
  SmallVector<ExpressionPtr> padding;
  /// True if hidden keys have low but finite scores. In this case, a query without visible keys
  /// weights all keys equally; its result is not 0.
  bool finite = false;
};

/// The parts of a mask. A key is visible if it is visible in every part.
struct Parts {
  SmallVector<ExpressionPtr> predicates;
  SmallVector<ExpressionPtr> scores; ///< float masks to be evaluated by `enumerate`
  bool finite = false;               ///< some hidden scores are not -inf
};

/// Splits a mask into parts: a conjunction of bools, or a sum of float masks (0: visible, very low:
/// hidden). Returns false if a part has another form.
bool splitConjunction(const ExpressionPtr &e, bool isBool, Parts &parts) {
  auto splitAll = [&](bool asBool) {
    return llvm::all_of(e->operands,
                        [&](const ExpressionPtr &x) { return splitConjunction(x, asBool, parts); });
  };
  if (isBool) {
    if (e->kind == Expression::And)
      return splitAll(true);
    if (!e->isConstant() || e->constant == 0)
      parts.predicates.push_back(e);
    return true;
  }
  if (e->kind == Expression::Add)
    return splitAll(false);
  if (e->isConstant())
    return e->constant == 0;
  if (e->kind != Expression::Select || !e->operands[1]->isConstant() ||
      !e->operands[2]->isConstant()) {
    parts.scores.push_back(e);
    return !e->hasLeaf();
  }
  double onTrue = e->operands[1]->constant, onFalse = e->operands[2]->constant;
  parts.finite |= std::isfinite(onTrue) && std::isfinite(onFalse);
  if (onTrue == 0 && isMaskedScore(onFalse))
    return splitConjunction(e->operands[0], true, parts);
  if (onFalse != 0 || !isMaskedScore(onTrue))
    return false;
  auto negated = std::make_shared<Expression>();
  negated->kind = Expression::Not;
  negated->operands = {e->operands[0]};
  parts.predicates.push_back(negated);
  return true;
}

ps::Predicate negate(ps::Predicate predicate) {
  switch (predicate) {
  case ps::Predicate::Eq:
    return ps::Predicate::Ne;
  case ps::Predicate::Ne:
    return ps::Predicate::Eq;
  case ps::Predicate::Lt:
    return ps::Predicate::Ge;
  case ps::Predicate::Le:
    return ps::Predicate::Gt;
  case ps::Predicate::Gt:
    return ps::Predicate::Le;
  case ps::Predicate::Ge:
    return ps::Predicate::Lt;
  }
  return predicate;
}

/// Intersects [low, high] with an inequality `sign * (key - query) + offset PREDICATE 0`, where
/// `sign` is 1 or -1. Returns false for other comparisons. Example: key <= query sets high to at
/// most 0.
bool solveCompare(const Expression &e, Form &form) {
  const Expression *compare = &e;
  bool negated = false;
  while (compare->kind == Expression::Not) {
    negated = !negated;
    compare = compare->operands[0].get();
  }
  if (compare->kind != Expression::Compare || compare->operands[0]->kind != Expression::Linear ||
      compare->operands[1]->kind != Expression::Linear)
    return false;
  const Expression &x = *compare->operands[0], &y = *compare->operands[1];
  std::array<int64_t, kNumIndices> c;
  for (unsigned i = 0; i < kNumIndices; ++i)
    c[i] = x.coefficients[i] - y.coefficients[i];
  double offset = x.constant - y.constant;
  if (c[kBatch] || c[kHead] || c[kKey] != -c[kQuery] || std::abs(c[kKey]) != 1 ||
      offset != std::trunc(offset))
    return false;
  ps::Predicate predicate = negated ? negate(compare->predicate) : compare->predicate;
  // An inequality is equivalent to key - query <= bound or >= bound, or to < or > if it is strict.
  int64_t bound = c[kKey] > 0 ? -int64_t(offset) : int64_t(offset);
  bool below = predicate == ps::Predicate::Le || predicate == ps::Predicate::Lt;
  bool above = predicate == ps::Predicate::Ge || predicate == ps::Predicate::Gt;
  bool strict = predicate == ps::Predicate::Lt || predicate == ps::Predicate::Gt;
  if (c[kKey] < 0)
    std::swap(below, above);
  if (below)
    form.high = std::min(form.high, bound - strict);
  else if (above)
    form.low = std::max(form.low, bound + strict);
  return below || above;
}

/// Returns true if a key is visible: the value of a predicate is true, or a score is 0. Returns
/// false for a hidden key, and nullopt for any other score.
std::optional<bool> isSeen(double value, bool isScore, bool &finite) {
  if (!isScore || value == 0)
    return (value != 0) != isScore;
  if (!isMaskedScore(value))
    return std::nullopt;
  finite |= std::isfinite(value);
  return false;
}

/// Evaluates a predicate or a float mask at all queries in [0, T) and keys in [0, S), and
/// intersects `form` with the band of visible keys. Returns false if the visible keys are not a
/// band, if `e` depends on batch or head, or if there are too many elements.
bool enumerate(const Expression &e, bool isScore, int64_t T, int64_t S, Form &form) {
  if (T * S > kMaxEnumerated || e.dependsOn(kBatch) || e.dependsOn(kHead))
    return false;
  // The differences key - query of visible keys must be one interval, which is the same for every
  // query.
  std::vector<int8_t> seen(T + S, -1);
  for (int64_t query = 0; query < T; ++query)
    for (int64_t key = 0; key < S; ++key) {
      std::optional<bool> sees = isSeen(e.evaluate({0, 0, query, key}), isScore, form.finite);
      int8_t &known = seen[key - query + T - 1];
      if (!sees || (known >= 0 && known != *sees))
        return false;
      known = *sees;
    }
  auto end = seen.begin() + (T + S - 1);
  auto first = std::find(seen.begin(), end, 1);
  auto last = std::find(first, end, 0);
  if (first == end || std::find(last, end, 1) != end)
    return false;
  if (first != seen.begin())
    form.low = std::max<int64_t>(form.low, first - seen.begin() - (T - 1));
  if (last != end)
    form.high = std::min<int64_t>(form.high, last - seen.begin() - 1 - (T - 1));
  return true;
}

std::optional<Form> prove(const ExpressionPtr &e, bool isBool, int64_t T, int64_t S) {
  Parts parts;
  if (!splitConjunction(e, isBool, parts))
    return std::nullopt;
  Form form;
  form.finite = parts.finite;
  for (const ExpressionPtr &scores : parts.scores)
    if (!enumerate(*scores, /*isScore=*/true, T, S, form))
      return std::nullopt;
  for (const ExpressionPtr &part : parts.predicates) {
    if (!part->hasLeaf() &&
        (solveCompare(*part, form) || enumerate(*part, /*isScore=*/false, T, S, form)))
      continue;
    if (!part->hasLeaf() || part->dependsOn(kHead) || part->dependsOn(kQuery))
      return std::nullopt;
    form.padding.push_back(part);
  }
  return form;
}

/// Builds an expression over (batch, key) as ops on tensors [B, S]. Returns null for expressions
/// that are not supported.
class PaddingWriter {
public:
  PaddingWriter(OpBuilder &b, Location loc, int64_t batch, int64_t keys)
      : b(b), loc(loc), shape{batch, keys} {}

  Value write(const Expression &e, Type element) {
    if (e.isConstant() && element)
      return ps::ConstantOp::create(b, loc, RankedTensorType::get(shape, element), e.constant);
    if (e.kind == Expression::Leaf)
      return writeLeaf(e);
    if (e.kind == Expression::Not) {
      Value x = write(*e.operands[0], b.getI1Type());
      return x ? Value(ps::NotOp::create(b, loc, x)) : Value();
    }
    if (e.kind == Expression::Compare)
      return writeCompare(e);
    return {};
  }

private:
  Value writeCompare(const Expression &e) {
    unsigned first = e.operands[0]->isConstant() ? 1 : 0;
    Value one = write(*e.operands[first], {});
    Value other = one ? write(*e.operands[1 - first], getType(one).getElementType()) : Value();
    if (!other || one.getType() != other.getType())
      return {};
    if (first)
      std::swap(one, other);
    auto type = RankedTensorType::get(shape, b.getI1Type());
    return ps::CompareOp::create(b, loc, type, e.predicate, one, other);
  }

  /// Returns the tensor [B, S] of a leaf that is indexed by (batch, key).
  Value writeLeaf(const Expression &e) {
    if (getShape(e.value) != ArrayRef<int64_t>(shape) || !isIndex(*e.operands[0], kBatch) ||
        !isIndex(*e.operands[1], kKey))
      return {};
    return e.value;
  }

  bool isIndex(const Expression &e, unsigned index) {
    ExpressionPtr wanted = makeIndex(index);
    if (shape[index == kKey] == 1 && e.isConstant())
      return e.constant == 0;
    return e.kind == Expression::Linear && e.constant == 0 &&
           e.coefficients == wanted->coefficients;
  }

  OpBuilder &b;
  Location loc;
  std::array<int64_t, 2> shape;
};

/// Builds the padding of a form as one bool tensor [B, S]. Returns null without padding, and
/// nullopt if an expression is not supported.
std::optional<Value> writePadding(ps::AttentionOp attention, const Form &form) {
  OpBuilder b(attention);
  Value padding;
  PaddingWriter writer(b, attention.getLoc(), getShape(attention.getKey())[0],
                       getShape(attention.getKey())[2]);
  for (const ExpressionPtr &part : form.padding) {
    Value value = writer.write(*part, b.getI1Type());
    if (!value)
      return std::nullopt;
    if (!getType(value).getElementType().isInteger(1))
      return std::nullopt;
    padding = padding ? Value(ps::AndOp::create(b, attention.getLoc(), padding, value)) : value;
  }
  return padding;
}

/// Sets the attributes and the operand `padding` of an attention according to a proven form.
/// Returns false if they cannot express the form.
bool applyForm(ps::AttentionOp attention, const Form &form) {
  int64_t T = getShape(attention.getQuery())[2], S = getShape(attention.getKey())[2];
  int64_t diagonal = S - T;
  bool boundedAbove = form.high < S - 1;
  bool boundedBelow = form.low > -(T - 1);
  if ((boundedAbove && form.high != diagonal) || (boundedBelow && form.high > diagonal) ||
      (boundedBelow && form.low > diagonal))
    return false;
  if (form.padding.size() && attention.getPadding())
    return false;
  // For a query without visible keys, `ps.attention` returns zeros, but a finite mask weights all
  // keys equally.
  if (form.finite && (!form.padding.empty() || (boundedAbove && diagonal < 0)))
    return false;
  std::optional<Value> padding = writePadding(attention, form);
  if (!padding)
    return false;
  Builder b(attention.getContext());
  if (boundedAbove || boundedBelow)
    attention.setCausalAttr(b.getUnitAttr());
  if (boundedBelow) {
    int64_t window = diagonal - form.low + 1;
    if (IntegerAttr earlier = attention.getWindowAttr())
      window = std::min(window, earlier.getInt());
    attention.setWindowAttr(b.getI64IntegerAttr(window));
  }
  if (*padding)
    attention.getPaddingMutable().assign(*padding);
  return true;
}

/// The properties of a mask. Several layers may share a mask.
struct KnownMask {
  std::optional<Form> form;
  bool sameForQueries = false; ///< hides the same keys from all queries
  Value oneRow = {};           ///< the mask reduced to one query; created on first use
};

KnownMask readMask(Value mask, int64_t T, int64_t S) {
  SmallVector<ExpressionPtr> indices;
  for (unsigned i = 0; i < kNumIndices; ++i)
    indices.push_back(getShape(mask)[i] == 1 ? makeConstant(0) : makeIndex(i));
  ExpressionPtr e = buildExpression(mask, indices);
  return {prove(e, getType(mask).getElementType().isInteger(1), T, S), !e->dependsOn(kQuery)};
}

/// Removes the mask of an attention, or reduces it to one row. Returns false if the mask does not
/// change.
bool simplifyMask(ps::AttentionOp attention, KnownMask &known) {
  Value mask = attention.getMask();
  if (known.form && applyForm(attention, *known.form)) {
    attention.getMaskMutable().clear();
    return true;
  }
  if (!known.sameForQueries || getShape(mask)[kQuery] == 1)
    return false;
  if (!known.oneRow)
    known.oneRow = narrowDim(mask, kQuery);
  attention.getMaskMutable().assign(known.oneRow);
  return true;
}

std::string describeMask(Value mask, int64_t T) {
  if (getType(mask).getElementType().isInteger(1))
    return "mask";
  ArrayRef<int64_t> shape = getShape(mask);
  return T > 1 && shape[kHead] == 1 && shape[kQuery] == 1 ? "additive padding" : "additive mask";
}

std::string describeForm(ps::AttentionOp attention) {
  SmallVector<std::string> words;
  if (attention.getCausal())
    words.push_back("causal");
  if (attention.getWindow())
    words.push_back("window " + std::to_string(*attention.getWindow()));
  if (attention.getPadding())
    words.push_back("padding");
  if (Value mask = attention.getMask())
    words.push_back(describeMask(mask, getShape(attention.getQuery())[2]));
  return words.empty() ? "full" : llvm::join(words, ", ");
}

} // namespace
} // namespace recognize

int64_t recognizeAttentionMasks(ModuleOp module) {
  using namespace recognize;
  llvm::DenseMap<Value, KnownMask> known;
  SmallVector<Operation *> masks;
  int64_t count = 0;
  module.walk([&](ps::AttentionOp attention) {
    if (Value mask = attention.getMask()) {
      auto [entry, isNew] = known.try_emplace(mask);
      if (isNew)
        entry->second =
            readMask(mask, getShape(attention.getQuery())[2], getShape(attention.getKey())[2]);
      if (simplifyMask(attention, entry->second)) {
        if (Operation *op = mask.getDefiningOp(); op && !llvm::is_contained(masks, op))
          masks.push_back(op);
        count += !attention.getMask();
      }
    }
    attention->setAttr(kAttentionFormMark,
                       StringAttr::get(module.getContext(), describeForm(attention)));
  });
  for (Operation *mask : masks)
    eraseDead(mask);
  return count;
}

} // namespace parashard::import
