// Products named by labels: einsum, tensordot and products of vectors. Two operands at a time: dims
// that nothing else has are summed first, what is summed over both is a `ps.contract`, and a
// product without a sum is elementwise.
#include "lib/Import/Pt2/Dims.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace parashard::import {
namespace {

using Labels = SmallVector<int64_t>;

struct Term {
  Value value;
  Labels labels;
};

/// Labels of the dims that '...' stands for, counted from the last.
constexpr int64_t kEllipsis = 1000;

/// The elements whose places along dims `first` and `second` agree, without dim `second`.
Term takeDiagonal(NodeConverter &n, const Term &term, int64_t first, int64_t second) {
  RankedTensorType places = n.typeLike(term.value, n.i64());
  Value same = n.compare(ps::Predicate::Eq, n.make<ps::IotaOp>(places, first),
                         n.make<ps::IotaOp>(places, second));
  Value kept = n.make<ps::SelectOp>(same, term.value, n.splat(getType(term.value), 0));
  Term result{n.reduce(ps::ReductionKind::Sum, kept, {second}, false), term.labels};
  result.labels.erase(result.labels.begin() + second);
  return result;
}

Term takeDiagonals(NodeConverter &n, Term term) {
  for (int64_t second = term.labels.size() - 1; second > 0; --second)
    for (int64_t first = 0; first < second; ++first)
      if (term.labels[first] == term.labels[second]) {
        term = takeDiagonal(n, term, first, second);
        break;
      }
  return term;
}

/// Sums over the dims whose labels nothing else has.
Term sumUnshared(NodeConverter &n, const Term &term, const llvm::SmallSet<int64_t, 8> &others) {
  SmallVector<int64_t> dims;
  Labels kept;
  for (auto [dim, label] : llvm::enumerate(term.labels)) {
    if (others.contains(label))
      kept.push_back(label);
    else
      dims.push_back(dim);
  }
  return {n.reduce(ps::ReductionKind::Sum, term.value, dims, false), kept};
}

/// The term with its dims in the order of `labels`, and of size `sizes[label]` where it has no dim.
Value spread(NodeConverter &n, const Term &term, ArrayRef<int64_t> labels,
             const llvm::MapVector<int64_t, int64_t> &sizes) {
  SmallVector<int64_t> permutation, whole, unit;
  for (int64_t label : labels) {
    const auto *at = llvm::find(term.labels, label);
    bool has = at != term.labels.end();
    if (has)
      permutation.push_back(at - term.labels.begin());
    whole.push_back(sizes.lookup(label));
    unit.push_back(has ? getShape(term.value)[permutation.back()] : 1);
  }
  Value value = n.transpose(term.value, permutation);
  return n.broadcast(n.reshape(value, unit), whole);
}

/// One einsum: its terms, the labels of its result, the size of each label.
struct Einsum {
  NodeConverter &n;
  SmallVector<Term> terms;
  Labels result;
  llvm::MapVector<int64_t, int64_t> sizes;

  /// The sizes of all labels; a dim of size 1 where another term has more is dropped.
  void matchSizes() {
    for (const Term &term : terms)
      for (auto [label, size] : llvm::zip(term.labels, getShape(term.value)))
        sizes[label] = std::max(sizes.lookup(label), size);
    for (Term &term : terms) {
      Labels labels;
      SmallVector<int64_t> shape;
      for (auto [label, size] : llvm::zip(term.labels, getShape(term.value)))
        if (size == sizes.lookup(label)) {
          labels.push_back(label);
          shape.push_back(size);
        } else if (size != 1) {
          (void)n.fail("has dims of size " + Twine(size) + " and " + Twine(sizes.lookup(label)) +
                       " with one label");
          return;
        }
      term = {n.reshape(term.value, shape), labels};
    }
  }

  /// What the result and the terms from `next` on have.
  llvm::SmallSet<int64_t, 8> findNeeded(size_t next) const {
    llvm::SmallSet<int64_t, 8> needed(result.begin(), result.end());
    for (const Term &term : ArrayRef(terms).drop_front(next))
      needed.insert(term.labels.begin(), term.labels.end());
    return needed;
  }

  Term multiply(Term lhs, Term rhs, size_t next) {
    llvm::SmallSet<int64_t, 8> needed = findNeeded(next), left = needed, right = needed;
    left.insert(rhs.labels.begin(), rhs.labels.end());
    right.insert(lhs.labels.begin(), lhs.labels.end());
    lhs = sumUnshared(n, lhs, left);
    rhs = sumUnshared(n, rhs, right);
    Labels labels;
    bool sums = false;
    auto keep = [&](int64_t label) {
      if (!needed.contains(label))
        sums = true;
      else if (!llvm::is_contained(labels, label))
        labels.push_back(label);
    };
    llvm::for_each(lhs.labels, keep);
    llvm::for_each(rhs.labels, keep);
    if (next == terms.size() && labels.size() == result.size())
      labels = result;
    if (sums)
      return {n.contract(lhs.value, lhs.labels, rhs.value, rhs.labels, labels), labels};
    return {n.make<ps::MulOp>(spread(n, lhs, labels, sizes), spread(n, rhs, labels, sizes)),
            labels};
  }

  Value build() {
    for (Term &term : terms)
      term = takeDiagonals(n, term);
    matchSizes();
    if (n.failed())
      return {};
    Term all = terms[0];
    for (size_t next = 2; next <= terms.size(); ++next)
      all = multiply(all, terms[next - 1], next);
    all = sumUnshared(n, all, findNeeded(terms.size()));
    return spread(n, all, result, sizes);
  }
};

/// "b...ij" with `ellipsisRank` dims in place of its dots.
Labels parseTerm(StringRef text, int64_t ellipsisRank) {
  Labels labels;
  while (!text.empty()) {
    if (text.consume_front("...")) {
      for (int64_t i = ellipsisRank; i > 0; --i)
        labels.push_back(kEllipsis + i);
      continue;
    }
    if (text.front() != ' ')
      labels.push_back(text.front());
    text = text.drop_front();
  }
  return labels;
}

int64_t countLetters(StringRef text) {
  return llvm::count_if(text, [](char c) { return c != '.' && c != ' '; });
}

/// Without "->": the dims of '...', then the letters that stand once, in alphabetical order.
Labels makeImplicitResult(ArrayRef<Term> terms) {
  Labels ellipsis, letters;
  llvm::MapVector<int64_t, int64_t> counts;
  for (const Term &term : terms)
    for (int64_t label : term.labels)
      ++counts[label];
  for (auto [label, count] : counts) {
    if (label > kEllipsis)
      ellipsis.push_back(label);
    else if (count == 1)
      letters.push_back(label);
  }
  llvm::sort(ellipsis, std::greater<int64_t>());
  llvm::sort(letters);
  ellipsis.append(letters);
  return ellipsis;
}

LogicalResult convertEinsum(NodeConverter &n) {
  std::string equation = n.string("equation");
  SmallVector<Value> operands = n.tensors("tensors");
  if (n.failed())
    return failure();
  Type element = n.getResultType().getElementType();
  if (!isa<FloatType>(element))
    return n.fail("is of integers, which is not supported");
  auto [left, right] = StringRef(equation).split("->");
  SmallVector<StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != operands.size() || llvm::is_contained(operands, Value()))
    return n.fail("has the equation '" + equation + "' for " + Twine(operands.size()) +
                  " operands");
  Einsum sum{n, {}, {}, {}};
  int64_t mostDots = 0;
  for (auto [text, operand] : llvm::zip(texts, operands)) {
    int64_t dots = text.contains("...") ? getRank(operand) - countLetters(text) : 0;
    mostDots = std::max(mostDots, dots);
    Labels labels = parseTerm(text, dots);
    if (int64_t(labels.size()) != getRank(operand))
      return n.fail("has the term '" + text + "' for an operand with " + Twine(getRank(operand)) +
                    " dims");
    sum.terms.push_back({n.convert(operand, element), labels});
  }
  sum.result = StringRef(equation).contains("->") ? parseTerm(right, mostDots)
                                                  : makeImplicitResult(sum.terms);
  Value value = sum.build();
  return n.failed() ? failure() : n.set(value);
}

/// Numbers from `first` on, one a dim.
Labels number(int64_t rank, int64_t first) {
  return llvm::to_vector(llvm::seq<int64_t>(first, first + rank));
}

/// Sums over dims `lhsDims` of the left and `rhsDims` of the right; the other dims follow one
/// another.
LogicalResult buildTensordot(NodeConverter &n, Value lhs, ArrayRef<int64_t> lhsDims, Value rhs,
                             ArrayRef<int64_t> rhsDims) {
  if (!checkDims(n, lhsDims, getRank(lhs)) || !checkDims(n, rhsDims, getRank(rhs)) ||
      lhsDims.size() != rhsDims.size())
    return n.fail("sums over dims of different numbers");
  Einsum sum{
      n, {{lhs, number(getRank(lhs), 0)}, {rhs, number(getRank(rhs), getRank(lhs))}}, {}, {}};
  for (auto [left, right] : llvm::zip(lhsDims, rhsDims))
    sum.terms[1].labels[right] = sum.terms[0].labels[left];
  for (auto [term, dims] : {std::pair(&sum.terms[0], lhsDims), {&sum.terms[1], rhsDims}})
    for (auto [dim, label] : llvm::enumerate(term->labels))
      if (!llvm::is_contained(dims, int64_t(dim)))
        sum.result.push_back(label);
  Value value = sum.build();
  return n.failed() ? failure() : n.set(value);
}

LogicalResult convertTensordot(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("other");
  if (n.failed())
    return failure();
  return buildTensordot(n, lhs, n.wrapDims(n.integers("dims_self"), getRank(lhs)), rhs,
                        n.wrapDims(n.integers("dims_other"), getRank(rhs)));
}

/// Over the last dims of both.
LogicalResult convertInner(NodeConverter &n) {
  Value lhs = n.tensor("self");
  Value rhs = n.tensor(n.node.find("vec") ? "vec" : n.node.find("tensor") ? "tensor" : "other");
  if (n.failed())
    return failure();
  if (getRank(lhs) == 0 || getRank(rhs) == 0) {
    ArrayRef<int64_t> shape = getRank(lhs) == 0 ? getShape(rhs) : getShape(lhs);
    return n.set(n.make<ps::MulOp>(n.broadcast(lhs, shape), n.broadcast(rhs, shape)));
  }
  return buildTensordot(n, lhs, {getRank(lhs) - 1}, rhs, {getRank(rhs) - 1});
}

LogicalResult convertOuter(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("vec2");
  return n.failed() ? failure() : buildTensordot(n, lhs, {}, rhs, {});
}

/// The places (i, i + offset) of two dims, as a last dim.
LogicalResult convertDiagonal(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t offset = n.integer("offset", 0);
  if (n.failed())
    return failure();
  std::optional<int64_t> dim1 = findDim(n, "dim1", getRank(x), 0);
  std::optional<int64_t> dim2 = findDim(n, "dim2", getRank(x), 1);
  if (!dim1 || !dim2 || *dim1 == *dim2)
    return n.fail("takes the diagonal of one dim");
  int64_t row = *dim1, column = *dim2;
  if (offset < -getShape(x)[row] || offset > getShape(x)[column])
    return n.set(n.splat(n.getResultType(), 0));
  int64_t firstRow = std::max<int64_t>(-offset, 0), firstColumn = std::max<int64_t>(offset, 0);
  int64_t size = std::min(getShape(x)[row] - firstRow, getShape(x)[column] - firstColumn);
  if (size <= 0)
    return n.set(n.splat(n.getResultType(), 0));
  x = n.slice(x, row, firstRow, firstRow + size);
  x = n.slice(x, column, firstColumn, firstColumn + size);
  int64_t kept = std::min(row, column);
  x = takeDiagonal(n, {x, number(getRank(x), 0)}, kept, std::max(row, column)).value;
  Labels order;
  for (int64_t dim = 0; dim < getRank(x); ++dim)
    if (dim != kept)
      order.push_back(dim);
  order.push_back(kept);
  return n.set(n.transpose(x, order));
}

} // namespace

void addEinsumConverters(ConverterTable &table) {
  table["aten.einsum"] = convertEinsum;
  table["aten.tensordot"] = convertTensordot;
  table["aten.diagonal"] = convertDiagonal;
  table["aten.inner"] = convertInner;
  table["aten.dot"] = convertInner;
  table["aten.vdot"] = convertInner;
  table["aten.mv"] = convertInner;
  table["aten.outer"] = convertOuter;
  table["aten.ger"] = convertOuter;
}

} // namespace parashard::import
