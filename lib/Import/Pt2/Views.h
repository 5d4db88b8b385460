// Tracks which values of an exported graph share memory, and how a write through a view changes the
// viewed tensor.
#ifndef PARASHARD_LIB_IMPORT_PT2_VIEWS_H
#define PARASHARD_LIB_IMPORT_PT2_VIEWS_H

#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/Sizes.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// The elements [start, limit) by `step` of dim `dim`.
struct ViewRange {
  int64_t dim = 0, start = 0, limit = 0, step = 1;
};

/// Returns the range that result `result` of a slice, select, narrow, split, chunk or unbind reads,
/// or that a slice_scatter or select_scatter writes.
ViewRange getViewRange(NodeConverter &n, unsigned result);
/// Writes `part` into the range `getViewRange(n, result)` of `base`. Returns null after a failure
/// of `n`.
mlir::Value writeRange(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

/// A name that shares the memory of another name.
struct View {
  std::string base;
  const Node *node = nullptr; ///< node that defines the view
  unsigned result = 0;
  /// False if only PyTorch knows, at run time, whether memory is shared.
  bool isCertain = true;

  bool isDetached() const { return node->target == "aten.detach.default"; }
};

/// The views of one graph.
class Views {
public:
  Views(const Graph &graph, const SizeBinding &sizes);

  /// Returns null for a name with its own memory.
  const View *find(llvm::StringRef name) const;
  /// Returns the name that owns the memory, following all views.
  llvm::StringRef getRoot(llvm::StringRef name) const;
  /// Returns the names that a node writes in place: its first operand, operands of its body, or all
  /// operands that an unknown op may write.
  llvm::SmallVector<llvm::StringRef> getWritten(const Node &node) const;
  /// Returns true if some node writes the memory of `name`.
  bool isWritten(llvm::StringRef name) const { return written.contains(getRoot(name)); }
  /// Returns the first node that writes the memory of `name`; null if there is none.
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
  llvm::StringSet<> written; ///< roots
  llvm::DenseMap<const Node *, llvm::SmallVector<llvm::StringRef>> writtenByBody;
};

/// Returns true for an op that may write operands in ways that the importer does not know: in place
/// on a list (`_foreach_mul_`), several `out` arguments (`topk.values`), or an op of another
/// library.
bool hasUnknownWrites(const Node &node);

/// Returns the first tensor among a node's arguments, which an in-place op writes and a view reads.
llvm::StringRef getFirstTensor(const Node &node);
/// Returns the body of an inlined node; null for other nodes.
const Graph *getBody(const Node &node);
/// Returns the tensors that an inlined node passes to its body, each with the name of the body's
/// parameter.
llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> getBodyOperands(const Node &node);

/// Writes `part` to the elements of `base` that result `result` of the view `n` reads. Returns the
/// new value of `base`, or null after a failure of `n`.
mlir::Value writeThroughView(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

} // namespace parashard::import

#endif
