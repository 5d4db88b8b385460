// Declares how the symbols of an export are bound to numbers: by flags, or else to the sizes at
// export.
#ifndef PARASHARD_LIB_IMPORT_PT2_SIZES_H
#define PARASHARD_LIB_IMPORT_PT2_SIZES_H

#include "lib/Import/Pt2/Graph.h"
#include <set>

namespace parashard::import {

/// The flags that bind symbols.
struct SizeOptions {
  std::vector<std::string> dims;      ///< --dim: "INPUT.D=N" or "SYMBOL=N"
  int64_t batch = 0;                  ///< --batch: samples of a micro-batch; 0 if not given
  std::vector<std::string> batchDims; ///< --batch-dim: "INPUT=D", "INPUT=none" or "none"
  int64_t batchFactor = 1;            ///< see ImportOptions
};

/// A value for each symbol of a program.
class SizeBinding {
public:
  /// Binds the symbols. Fails for unknown inputs or symbols, for sizes that differ from a static
  /// dim, and for sizes outside of the export's range. A symbol without a flag keeps its size at
  /// export; appends a line to `notes` for each such symbol.
  static llvm::Expected<SizeBinding>
  bind(const ExportedProgram &program, const SizeOptions &options, std::vector<std::string> &notes);

  /// Returns the number that a size is bound to. `size` may refer to a value of `graph` by name.
  llvm::Expected<int64_t> evaluate(const Size &size, const Graph &graph) const;
  llvm::Expected<llvm::SmallVector<int64_t>> evaluate(llvm::ArrayRef<Size> sizes,
                                                      const Graph &graph) const;
  /// Returns true if `size` depends on a symbol that is the batch dim of an input.
  bool dependsOnBatch(const Size &size, const Graph &graph) const;
  /// Returns true if `size` is proportional to the batch size.
  bool isMultipleOfBatch(const Size &size, const Graph &graph) const;

private:
  llvm::Expected<int64_t> evaluateExpression(llvm::StringRef expression) const;

  std::map<std::string, int64_t> values;
  std::set<std::string> batchSymbols;
};

} // namespace parashard::import

#endif
