// Declares the exported program of a `.pt2` archive as plain structs, and its parser (schema:
// torch/_export/serde/schema.py, version 8).
#ifndef PARASHARD_LIB_IMPORT_PT2_GRAPH_H
#define PARASHARD_LIB_IMPORT_PT2_GRAPH_H

#include "lib/Import/SourceLocation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace parashard::import {

struct Graph;

/// An integer: a number, an expression over the symbols of the export, or a value of the graph.
struct Size {
  std::string expression; ///< expression over symbols, or empty
  int64_t value = 0;      ///< the number; for an expression, its value at export (hint)
  bool hasHint = true;    ///< false: the expression has no hint
  std::string valueName;  ///< name of a value (key of `Graph::sizes`), or empty
  bool isStatic() const { return expression.empty() && valueName.empty(); }
};

/// A torch.ScalarType, by its number in the schema (7: float32).
using ScalarType = int64_t;

struct TensorMeta {
  ScalarType dtype = 0;
  std::vector<Size> sizes, strides;
  Size storageOffset;
  bool requiresGrad = false;
};

/// An argument of a node, a tagged union in the schema. `kind` selects the field with the value.
struct Argument {
  enum Kind {
    None,
    Tensor,
    Tensors,
    Int,
    Ints,
    Float,
    Floats,
    Bool,
    Bools,
    String,
    Dtype,
    Graph,
    Other
  };
  Kind kind = None;
  std::string name;               ///< name of the parameter in the op's schema
  std::vector<std::string> names; ///< tensors ("" for None in a list), strings
  std::vector<Size> sizes;        ///< ints
  std::vector<double> floats;     ///< floats
  std::vector<bool> bools;
  ScalarType dtype = 0;
  std::shared_ptr<import::Graph> graph;
  std::string other; ///< the schema's tag of a kind that is not supported
};

struct Node {
  std::string target; ///< such as "aten.add.Tensor", "higher_order.wrap_with_autocast"
  std::vector<Argument> inputs;
  /// Names of tensor results; "" for a missing result. Lists of tensors are flattened.
  std::vector<std::string> outputs;
  bool hasResults = false; ///< true if the node has results of any type
  SourceLocation source;

  const Argument *find(llvm::StringRef name) const;
  /// Returns the name of the tensor that the node writes in place and returns: the argument `out`,
  /// or the first tensor of ops such as "add_". Returns "" for other ops.
  llvm::StringRef getInPlace() const;
  bool isInPlace() const { return !getInPlace().empty(); }
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  llvm::StringMap<TensorMeta> tensors;
  llvm::StringMap<Size> sizes;
};

struct InputSpec {
  enum Kind { User, Parameter, Buffer, Constant, Ignored };
  Kind kind = Ignored;
  std::string name;   ///< name in the graph
  std::string target; ///< name in the model, such as "transformer.wte.weight"
  bool persistent = true;
};

struct OutputSpec {
  enum Kind { User, BufferMutation, ParameterMutation, Ignored };
  Kind kind = Ignored;
  std::string name;   ///< name in the graph; empty for an output that is not a tensor
  std::string target; ///< name in the model of the variable that a mutation writes
  std::string label;  ///< name of the output in `ps.name`, such as "loss"
};

struct Range {
  std::optional<int64_t> min, max;
};

struct ExportedProgram {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::map<std::string, Range> ranges; ///< by symbol
  std::string torchVersion;
};

/// Parses `models/*.json`. `path` is the path of the archive, and the location of nodes without a
/// source line.
llvm::Expected<ExportedProgram> parseExportedProgram(llvm::StringRef text, llvm::StringRef path);

/// One entry of `*_config.json`: a tensor of the model, and the file with its data.
struct Payload {
  std::string name; ///< name in the model
  std::string file; ///< such as "weight_0"
  bool isParameter = false;
  bool usesPickle = false;
  std::optional<TensorMeta> meta;
};
/// Parses the entries of `*_config.json`. Sorts them by file and name, since JSON objects have no
/// order.
llvm::Expected<std::vector<Payload>> parsePayloads(llvm::StringRef text);

} // namespace parashard::import

#endif
