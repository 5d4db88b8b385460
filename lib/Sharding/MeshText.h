// Reads a mesh from the text of `--mesh`.
#ifndef PARASHARD_LIB_SHARDING_MESHTEXT_H
#define PARASHARD_LIB_SHARDING_MESHTEXT_H

#include "dialects/ps/PsAttributes.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  ps::AxisKind kind = ps::AxisKind::Data;
};

/// The axes of `NAME[:KIND]=N,...`; `*` in place of one N is what `ranks` leaves over. `ranks` 0:
/// any. Errors say what was found and what to write.
llvm::Expected<std::vector<MeshAxis>> parseMesh(llvm::StringRef text, int64_t ranks);

} // namespace parashard

#endif
