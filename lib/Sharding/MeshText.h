// Parses the value of `--mesh`.
#ifndef PARASHARD_LIB_SHARDING_MESHTEXT_H
#define PARASHARD_LIB_SHARDING_MESHTEXT_H

#include "dialects/ps/PsAttributes.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace parashard::sharding {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  ps::AxisKind kind = ps::AxisKind::Data;
};

/// Parses `NAME[:KIND]=N,...`. One N may be `*`: `ranks` divided by the number of devices of the
/// other axes. Without `*`, the mesh must have `ranks` devices. If `ranks` is 0, any number of
/// devices is allowed, but `*` is not.
llvm::Expected<std::vector<MeshAxis>> parseMesh(llvm::StringRef text, int64_t ranks);

} // namespace parashard::sharding

#endif
