// Declares which values of an exported graph share memory, and how a write through a view changes
// its base.
#ifndef PARASHARD_LIB_IMPORT_PT2_VIEWS_H
#define PARASHARD_LIB_IMPORT_PT2_VIEWS_H

#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/Sizes.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// The elements start, start + step, ... below `limit` of dim `dim`.
struct ViewRange {
  int64_t dim = 0, start = 0, limit = 0, step = 1;
};

/// Returns the range of result `result` of a slice, select, narrow, split, chunk or unbind. Also
/// returns the range that a slice_scatter or select_scatter writes.
ViewRange getViewRange(NodeConverter &n, unsigned result);
/// Returns `base` with `part` written into the range `getViewRange(n, result)`. Returns null if the
/// node fails.
mlir::Value writeRange(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

/// A value that shares the memory of another value, its base.
struct View {
  std::string base;
  const Node *node = nullptr; ///< node that defines the view
  unsigned result = 0;
  /// False if the importer does not know whether, or in which way, PyTorch shares the memory.
  bool isCertain = true;

  bool isDetached() const { return node->target == "aten.detach.default"; }
};

/// The views of one graph.
class Views {
public:
  Views(const Graph &graph, const SizeBinding &sizes);

  /// Returns the view `name`, or null if `name` has its own memory.
  const View *find(llvm::StringRef name) const;
  /// Returns the value that owns the memory of `name`: follows the chain of bases to a value that
  /// is not a view.
  llvm::StringRef getRoot(llvm::StringRef name) const;
  /// Returns the values that a node writes in place: the operand of an in-place op, running
  /// statistics, the operands that the body of an inlined node writes, or all operands of an op
  /// with unknown writes.
  llvm::SmallVector<llvm::StringRef> getWritten(const Node &node) const;
  /// Returns true if a node writes the memory of `name` in place.
  bool isWritten(llvm::StringRef name) const { return written.contains(getRoot(name)); }
  /// Returns the first node that writes the memory of `name` in place, or null.
  const Node *findWriter(llvm::StringRef name) const;

private:
  void add(llvm::StringRef name, View view);
  void addViews(const Node &node);
  void addViewsOfBody(const Node &node);
  bool isContiguous(llvm::StringRef name) const;
  bool hasSameDtype(const Node &node, llvm::StringRef base) const;

  const Graph &graph;
  const SizeBinding &sizes;
  llvm::StringMap<View> views;
  llvm::StringSet<> written; ///< roots of values that are written in place
  llvm::DenseMap<const Node *, llvm::SmallVector<llvm::StringRef>> writtenByBody;
};

/// Returns true for an op that may write its operands in a way that the importer does not know.
/// Examples: writes to a list (`_foreach_mul_`), several `out` arguments (`topk.values`), and ops
/// of other libraries.
bool hasUnknownWrites(const Node &node);

/// Returns the first tensor argument of a node: the base of a view.
llvm::StringRef getFirstTensor(const Node &node);
/// Returns the body of an inlined node (`isInlined`), or null for other nodes.
const Graph *getBody(const Node &node);
/// Returns the tensors that an inlined node passes to its body, as pairs (name outside, name in the
/// body).
llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> getBodyOperands(const Node &node);

/// Returns `base` with `part` written to the elements that `base` shares with result `result` of
/// the view op `n`. Returns null if the node fails.
mlir::Value writeThroughView(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

} // namespace parashard::import

#endif
