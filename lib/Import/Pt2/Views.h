// Which values of an exported graph share memory, and how a write through a view changes what it
// looks at.
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

/// What result `result` of a slice, select, narrow, split, chunk or unbind looks at; of a
/// slice_scatter or select_scatter, what it writes.
ViewRange getViewRange(NodeConverter &n, unsigned result);
/// `base` with `part` in that range. Null after a failure of `n`.
mlir::Value writeRange(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

/// A name that shares the memory of another one.
struct View {
  std::string base;
  const Node *node = nullptr; ///< that made it
  unsigned result = 0;
  /// False where only PyTorch knows, while it runs, whether memory is shared.
  bool isCertain = true;

  bool isDetached() const { return node->target == "aten.detach.default"; }
};

/// The views of one graph.
class Views {
public:
  Views(const Graph &graph, const SizeBinding &sizes);

  /// Null for a name with memory of its own.
  const View *find(llvm::StringRef name) const;
  /// The name whose memory it is in the end.
  llvm::StringRef getRoot(llvm::StringRef name) const;
  /// The names that a node writes in place: its first operand, operands of its body, or all that an
  /// unknown op may write.
  llvm::SmallVector<llvm::StringRef> getWritten(const Node &node) const;
  /// Some node writes the memory of `name`.
  bool isWritten(llvm::StringRef name) const { return written.contains(getRoot(name)); }
  /// The first node that writes the memory of `name`; null when none does.
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

/// Returns true for an op that may write operands of which the importer knows nothing: one in place
/// on a list (`_foreach_mul_`), one with several `out`s (`topk.values`), or one of a library that
/// is not PyTorch's.
bool hasUnknownWrites(const Node &node);

/// The first tensor among a node's arguments: what an in-place op writes, or a view looks at.
llvm::StringRef getFirstTensor(const Node &node);
/// The body of a node that is inlined; null for others.
const Graph *getBody(const Node &node);
/// The tensors that an inlined node gives its body: each name with that of the body's parameter.
llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> getBodyOperands(const Node &node);

/// The operand `base` of the view that `n` makes, with `part` where result `result` of it looks.
/// Null after a failure of `n`.
mlir::Value writeThroughView(NodeConverter &n, unsigned result, mlir::Value base, mlir::Value part);

} // namespace parashard::import

#endif
