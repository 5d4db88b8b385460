// Walks the nodes of an ONNX graph and builds them; calls of the model's own functions are inlined.
#ifndef PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H
#define PARASHARD_LIB_IMPORT_ONNX_CONVERTGRAPH_H

#include "lib/Import/MissingOps.h"
#include "lib/Import/Onnx/Convert.h"

namespace parashard::import {

using OnnxNodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// The nodes whose results something reads, in order, and the names read (those of `outputs`, and
/// all that the branches of an `If` read, too).
std::vector<const onnx::NodeProto *>
findLiveNodes(const OnnxNodes &nodes, llvm::ArrayRef<std::string> outputs, llvm::StringSet<> &read);

class OnnxGraphConverter {
public:
  OnnxGraphConverter(const OnnxModel &model, mlir::OpBuilder &builder);

  /// All live nodes without a converter, those of functions too, as one message, or that they are
  /// too many; empty when there are none.
  std::string describeUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes) const;
  /// Converts nodes in order. Fails after all were tried; each failure is a diagnostic at its node.
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope) {
    return run(nodes, scope, root);
  }

  /// Fails where two nodes of a graph define one name, or a node one of `names` (inputs and
  /// initializers).
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names,
                                 const SourceLocation &caller) const;
  mlir::LogicalResult checkNames(const OnnxNodes &nodes, llvm::StringSet<> names) const {
    return checkNames(nodes, std::move(names), root);
  }

private:
  const onnx::FunctionProto *findFunction(const onnx::NodeProto &node) const;
  void collectUnsupported(llvm::ArrayRef<const onnx::NodeProto *> nodes, const SourceLocation &caller,
                          unsigned depth, size_t &visited, MissingOps &missing) const;
  std::string describeTooMany() const;
  mlir::LogicalResult run(llvm::ArrayRef<const onnx::NodeProto *> nodes, OnnxScope &scope,
                          const SourceLocation &caller);
  mlir::LogicalResult convert(const onnx::NodeProto &node, OnnxScope &scope, const SourceLocation &place);
  mlir::LogicalResult inlineFunction(const onnx::NodeProto &node,
                                     const onnx::FunctionProto &function, OnnxScope &scope,
                                     const SourceLocation &place);
  /// The branch of an `If` that its condition, which is known, chooses. It sees the values around
  /// it and has names of its own.
  mlir::LogicalResult inlineBranch(OnnxNode &choice, const SourceLocation &place);
  mlir::LogicalResult convertBranch(OnnxNode &choice, const onnx::GraphProto &graph,
                                    const SourceLocation &place, llvm::SmallVector<mlir::Value> &results);

  mlir::OpBuilder &b;
  OnnxConverterTable table;
  SourceLocation root; ///< of nodes that nothing is known of: the model's file
  std::map<std::string, const onnx::FunctionProto *> functions;
  unsigned depth = 0;
  size_t converted = 0, mostNodes = 0; ///< nodes, in functions too
};

} // namespace parashard::import

#endif
