// Weights that a program carries itself, behind its last section.
#ifndef PARASHARD_LIB_CODEGEN_PAYLOAD_H
#define PARASHARD_LIB_CODEGEN_PAYLOAD_H

#include "lib/Import/WeightFiles.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"
#include <vector>

namespace parashard::codegen {

/// The tensors of model files that a program carries, each once (docs/program-format.md, "Weights
/// within").
class Payload {
public:
  /// Where the tensor will stand, in bytes from the payload's begin.
  llvm::Expected<import::FileRange> add(llvm::StringRef location);
  bool empty() const { return tensors.empty(); }
  /// Writes the payload behind the `before` bytes of a program.
  void write(llvm::raw_ostream &os, uint64_t before) const;

private:
  import::WeightFiles files; ///< which the tensors are views of
  std::vector<llvm::StringRef> tensors;
  llvm::StringMap<import::FileRange> known; ///< by location
  uint64_t size = 0;
};

} // namespace parashard::codegen

#endif
