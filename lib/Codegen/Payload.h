// Appends weights to the file of a program, after the ELF sections.
#ifndef PARASHARD_LIB_CODEGEN_PAYLOAD_H
#define PARASHARD_LIB_CODEGEN_PAYLOAD_H

#include "lib/Import/WeightFiles.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"
#include <vector>

namespace parashard::codegen {

/// The tensors of model files that are copied into a program, each once (docs/program-format.md,
/// "Weights inside the program").
class Payload {
public:
  /// Adds a tensor and returns its byte range within the payload.
  llvm::Expected<import::FileRange> add(llvm::StringRef location);
  bool empty() const { return tensors.empty(); }
  /// Writes the payload after a program of `before` bytes.
  void write(llvm::raw_ostream &os, uint64_t before) const;

private:
  import::WeightFiles files; ///< owns the memory of the tensors
  std::vector<llvm::StringRef> tensors;
  llvm::StringMap<import::FileRange> known; ///< by location
  uint64_t size = 0;
};

} // namespace parashard::codegen

#endif
