// Holds the exported program of a `.pt2` archive as plain structs (schema:
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

/// An integer, possibly an expression over the export's symbols.
struct Size {
  std::string expression; ///< empty: `value` is the size
  int64_t value = 0;      ///< the size, or the hint
  bool hasHint = true;    ///< `value` is meaningful
  std::string valueName;  ///< key in `Graph::sizes`, instead of a value or expression
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

/// An argument of a node: a tagged union as in the schema.
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
  std::string other; ///< the schema's tag, for kinds that the importer does not support
};

struct Node {
  std::string target; ///< such as "aten.add.Tensor", "higher_order.wrap_with_autocast"
  std::vector<Argument> inputs;
  std::vector<std::string> outputs; ///< names of tensor results, lists flattened; "" if absent
  bool hasResults = false;          ///< results of any type
  SourceLocation source;

  const Argument *find(llvm::StringRef name) const;
  /// Returns the tensor that the node writes in place and returns: the first argument of "add_"
  /// ops, or `out`. Returns "" for other ops.
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
  std::string target; ///< target of a mutation
  std::string label;  ///< name of the output for users
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

/// Parses `models/*.json`. `path` is the archive, which is the location of nodes without a source
/// line.
llvm::Expected<ExportedProgram> parseExportedProgram(llvm::StringRef text, llvm::StringRef path);

/// One entry of `*_config.json`: a tensor of the model, and the file that holds it.
struct Payload {
  std::string name; ///< name in the model
  std::string file; ///< such as "weight_0"
  bool isParameter = false;
  bool usesPickle = false;
  std::optional<TensorMeta> meta;
};
/// Parses payloads, and sorts them by file number, then name (JSON objects have no order).
llvm::Expected<std::vector<Payload>> parsePayloads(llvm::StringRef text);

} // namespace parashard::import

#endif
