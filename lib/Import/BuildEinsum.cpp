// Builds einsum and tensordot. Operands are combined two at a time. A label that occurs in only one
// operand, and not in the result, is summed first. A sum over shared labels becomes a
// `ps.contract`. Without such a sum, the operands are broadcast and multiplied elementwise.
#include "lib/Import/BuildOps.h"
#include "shared/Counts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace parashard::import {

using Labels = SmallVector<int64_t>;

Value takeDiagonal(TensorBuilder &n, Value x, int64_t first, int64_t second) {
  RankedTensorType indexType = n.typeLike(x, n.i64());
  Value same = n.compare(ps::Predicate::Eq, n.make<ps::IotaOp>(indexType, first),
                         n.make<ps::IotaOp>(indexType, second));
  Value kept = n.make<ps::SelectOp>(same, x, n.splat(getType(x), 0));
  return n.reduce(ps::ReductionKind::Sum, kept, {second}, false);
}

namespace {

/// An operand, or the result of combining operands, with one label per dim.
struct Term {
  Value value;
  Labels labels;
};

/// The dims of '...' have the labels kEllipsis + 1, kEllipsis + 2, ..., counted from the last dim.
/// Equal labels are thus aligned at the end, even if operands have different numbers of such dims.
constexpr int64_t kEllipsis = 1000;

Term takeDiagonals(TensorBuilder &n, Term term) {
  for (int64_t second = term.labels.size() - 1; second > 0; --second)
    for (int64_t first = 0; first < second; ++first)
      if (term.labels[first] == term.labels[second]) {
        if (getShape(term.value)[first] != getShape(term.value)[second]) {
          (void)n.fail("takes the diagonal of dims of size " + Twine(getShape(term.value)[first]) +
                       " and " + Twine(getShape(term.value)[second]) + "; expected equal sizes");
          return term;
        }
        term.value = takeDiagonal(n, term.value, first, second);
        term.labels.erase(term.labels.begin() + second);
        break;
      }
  return term;
}

/// Sums over the dims whose labels are not in `others`.
Term sumUnshared(TensorBuilder &n, const Term &term, const llvm::SmallSet<int64_t, 8> &others) {
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

/// Transposes the term to the order of `labels`, and broadcasts missing dims to `sizes[label]`.
Value spread(TensorBuilder &n, const Term &term, ArrayRef<int64_t> labels,
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

/// One einsum: its terms, the labels of its result, and the size of each label.
struct Einsum {
  TensorBuilder &n;
  SmallVector<Term> terms;
  Labels result;
  llvm::MapVector<int64_t, int64_t> sizes;

  /// Sets the sizes of all labels. Drops a dim of size 1 if the label has a larger size in another
  /// term.
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
                       " with the same label; expected equal sizes, or size 1");
          return;
        }
      term = {n.reshape(term.value, shape), labels};
    }
  }

  /// Fails if the result has a label twice, or a label that no term has.
  void checkResult() {
    for (auto [i, label] : llvm::enumerate(result))
      if (llvm::is_contained(ArrayRef(result).take_front(i), label) || !sizes.contains(label)) {
        (void)n.fail("has a result with a repeated label, or with a label that no operand has");
        return;
      }
  }

  /// Returns the labels of the result and of terms `next`, `next` + 1, ...
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
    if (!n.failed())
      matchSizes();
    if (!n.failed())
      checkResult();
    if (n.failed())
      return terms[0].value;
    Term all = terms[0];
    for (size_t next = 2; next <= terms.size(); ++next)
      all = multiply(all, terms[next - 1], next);
    all = sumUnshared(n, all, findNeeded(terms.size()));
    return spread(n, all, result, sizes);
  }
};

/// Parses a term such as "b...ij"; the dots stand for `ellipsisRank` dims.
Labels parseTerm(StringRef text, int64_t ellipsisRank) {
  Labels labels;
  while (!text.empty()) {
    if (text.consume_front("...")) {
      for (int64_t i = ellipsisRank; i > 0; --i)
        labels.push_back(kEllipsis + i);
      continue;
    }
    if (text.front() != ' ')
      labels.push_back(uint8_t(text.front()));
    text = text.drop_front();
  }
  return labels;
}

int64_t countLetters(StringRef text) {
  return llvm::count_if(text, [](char c) { return c != '.' && c != ' '; });
}

/// Returns the labels of a result without "->": the dims of '...', then the letters that occur
/// once, in alphabetical order. Example: "ij,jk" gives "ik".
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

/// Returns true if the text has only letters, '...' and spaces.
bool isTerm(StringRef text) {
  while (!text.empty()) {
    if (!text.consume_front("...")) {
      if (text.front() != ' ' && !llvm::isAlpha(text.front()))
        return false;
      text = text.drop_front();
    }
  }
  return true;
}

/// Returns `rank` labels, starting at `first`.
Labels number(int64_t rank, int64_t first) {
  return llvm::to_vector(llvm::seq<int64_t>(first, first + rank));
}

} // namespace

Value buildEinsum(TensorBuilder &n, StringRef equation, ArrayRef<Value> operands) {
  auto [left, right] = equation.split("->");
  SmallVector<StringRef> texts;
  left.split(texts, ',');
  if (texts.size() != operands.size() || !llvm::all_of(texts, isTerm) || !isTerm(right)) {
    (void)n.fail("has the equation '" + equation + "' for " +
                 describeCount(operands.size(), "operand") +
                 "; expected one term per operand, with only letters, '...' and spaces");
    return operands[0];
  }
  Einsum sum{n, {}, {}, {}};
  int64_t maxDots = 0;
  for (auto [text, operand] : llvm::zip(texts, operands)) {
    int64_t dots = text.contains("...") ? getRank(operand) - countLetters(text) : 0;
    maxDots = std::max(maxDots, dots);
    Labels labels = parseTerm(text, dots);
    if (int64_t(labels.size()) != getRank(operand)) {
      (void)n.fail("has the term '" + text + "' for an operand with " +
                   describeCount(getRank(operand), "dim"));
      return operand;
    }
    sum.terms.push_back({operand, labels});
  }
  sum.result = equation.contains("->") ? parseTerm(right, maxDots) : makeImplicitResult(sum.terms);
  return sum.build();
}

Value buildTensordot(TensorBuilder &n, Value lhs, ArrayRef<int64_t> lhsDims, Value rhs,
                     ArrayRef<int64_t> rhsDims) {
  if (lhsDims.size() != rhsDims.size()) {
    (void)n.fail("sums over " + describeCount(lhsDims.size(), "dim") + " of the left and " +
                 describeCount(rhsDims.size(), "dim") +
                 " of the right operand; expected equal numbers");
    return lhs;
  }
  Einsum sum{
      n, {{lhs, number(getRank(lhs), 0)}, {rhs, number(getRank(rhs), getRank(lhs))}}, {}, {}};
  for (auto [left, right] : llvm::zip(lhsDims, rhsDims))
    sum.terms[1].labels[right] = sum.terms[0].labels[left];
  for (auto [term, dims] : {std::pair(&sum.terms[0], lhsDims), {&sum.terms[1], rhsDims}})
    for (auto [dim, label] : llvm::enumerate(term->labels))
      if (!llvm::is_contained(dims, int64_t(dim)))
        sum.result.push_back(label);
  return sum.build();
}

} // namespace parashard::import
