// Walks an exported program and builds the module: variables, the function, and each node by its
// converter.
#ifndef PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H
#define PARASHARD_LIB_IMPORT_PT2_GRAPHCONVERTER_H

#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/Sizes.h"
#include "lib/Import/Pt2/Variables.h"
#include "lib/Import/Pt2/Views.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"

namespace parashard::import {

/// Converts the nodes of one graph (and, by recursion, of the graphs that it inlines) at a
/// builder's place.
class GraphConverter {
public:
  GraphConverter(const Graph &graph, const SizeBinding &sizes, const ConverterTable &table,
                 mlir::OpBuilder &builder)
      : graph(graph), sizes(sizes), table(table), b(builder), views(graph, sizes) {}

  /// Converts every live node. Fails after all nodes were tried; each failure is a diagnostic at
  /// its node.
  mlir::LogicalResult run(const llvm::StringSet<> &liveOutputs);

  /// Null when the value was never defined or its definition failed.
  mlir::Value lookup(llvm::StringRef name) const { return values.lookup(name); }
  void define(llvm::StringRef name, mlir::Value value) { values[name] = value; }
  /// Marks the module as one that computes with the number of samples at `loc`; the first call
  /// wins.
  void markBatchNumber(mlir::Location loc);
  const SizeBinding &getSizes() const { return sizes; }
  const Graph &getGraph() const { return graph; }
  const Views &getViews() const { return views; }
  /// The type of a value in the export; null, with a message, when `ps` has none.
  llvm::Expected<mlir::RankedTensorType> getType(llvm::StringRef name) const;
  /// A write in place: a new value of the name, and of all that it is a view of.
  mlir::LogicalResult write(llvm::StringRef name, mlir::Value value, mlir::Location loc);

private:
  mlir::LogicalResult convert(const Node &node);
  mlir::LogicalResult inlineGraph(const Node &node, mlir::Location loc);
  /// Fails where a write that autograd does not see, to `name` or to what it is a view of, replaces
  /// a value that takes a gradient: PyTorch then passes the gradient on to the old value.
  mlir::LogicalResult checkUntrackedWrite(llvm::StringRef name, const llvm::Twine &how,
                                          mlir::Location loc);
  /// Makes a view anew when what it looks at was written since.
  mlir::LogicalResult refresh(llvm::StringRef name, mlir::Location reader);
  mlir::LogicalResult refreshOperands(const Node &node, mlir::Location loc);
  void markFresh(const Node &node);
  /// Marks the module where the node adds up, over the batch, what no input changes: the result
  /// grows with the number of samples, as a sum over a parameter that is expanded to all of them.
  void markSumOfBatch(const Node &node, mlir::Location loc);
  bool readsUndefined(const Node &node) const;
  /// Whether a node of the graph gives a result of this name, with a converter or without.
  bool definesResult(llvm::StringRef name) const;

  const Graph &graph;
  const SizeBinding &sizes;
  const ConverterTable &table;
  mlir::OpBuilder &b;
  llvm::StringMap<mlir::Value> values;
  Views views;
  llvm::StringMap<unsigned> writes; ///< how often the memory of a root was written
  llvm::StringMap<unsigned> seen;   ///< `writes` of its root when a view was last made
  llvm::StringSet<> failedValues;
};

/// The nodes of a graph whose results, or writes in place, something reads: from its outputs
/// backwards.
llvm::BitVector findLiveNodes(const Graph &graph, const llvm::StringSet<> &outputs,
                              const Views &views);
/// All live nodes without a converter, as one message; empty when there are none.
std::string describeUnsupported(const Graph &graph, const llvm::StringSet<> &outputs,
                                const ConverterTable &table, const SizeBinding &sizes);

} // namespace parashard::import

#endif
