// Declares the conversion of the nodes of an ONNX graph. Calls of functions in the file are
// inlined.
#ifndef PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H
#define PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H

#include "lib/Import/MissingOps.h"
#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

using OnnxNodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Returns the nodes on which `outputs` depend, in order. Adds to `read` the `outputs`, and all
/// names that the returned nodes and their subgraphs (branches of `If`) read.
std::vector<const onnx::NodeProto *>
findLiveNodes(const OnnxNodes &nodes, llvm::ArrayRef<std::string> outputs, llvm::StringSet<> &read);

class OnnxGraphConverter {
public:
  OnnxGraphConverter(const OnnxModel &model, mlir::OpBuilder &builder);

  /// Returns a message that lists the live nodes without a converter, including nodes inside
  /// functions. If there are too many nodes after inlining, the message only says so. Returns "" if
  /// all nodes can be converted.
  std::string describeUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes) const;
  /// Converts nodes in order. Emits a diagnostic for each node that fails, and continues with nodes
  /// that do not depend on it. Fails if any node fails.
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope) {
    return run(nodes, scope, root);
  }

  /// Fails if two nodes of a graph define the same name, or if a node redefines one of `names`
  /// (inputs and initializers).
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names,
                                 const SourceLocation &caller) const;
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names) const {
    return checkNames(nodes, std::move(names), root);
  }

private:
  const onnx::FunctionProto *findFunction(const onnx::NodeProto &node) const;
  void collectUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes,
                          const SourceLocation &caller, unsigned depth, size_t &visited,
                          MissingOps &missing) const;
  std::string describeTooMany() const;
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope,
                          const SourceLocation &caller);
  mlir::LogicalResult convert(const onnx::NodeProto &node, OnnxScope &scope,
                              const SourceLocation &source);
  mlir::LogicalResult inlineFunction(const onnx::NodeProto &node,
                                     const onnx::FunctionProto &function, OnnxScope &scope,
                                     const SourceLocation &source);
  /// Inlines the branch that the condition of an `If` selects. The condition must be a constant.
  /// The branch may read outer values. The names that the branch defines are local.
  mlir::LogicalResult inlineBranch(OnnxNode &choice, const SourceLocation &source);
  mlir::LogicalResult convertBranch(OnnxNode &choice, const onnx::GraphProto &graph,
                                    const SourceLocation &source,
                                    llvm::SmallVector<mlir::Value> &results);

  mlir::OpBuilder &b;
  OnnxConverterTable table;
  SourceLocation root; ///< location of nodes without metadata: the model's file
  std::map<std::string, const onnx::FunctionProto *> functions;
  unsigned depth = 0;
  size_t converted = 0, maxNodes = 0; ///< nodes after inlining: converted so far, maximum
};

} // namespace parashard::import

#endif
