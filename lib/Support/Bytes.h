// Numbers of bytes as users write them.
#ifndef PARASHARD_LIB_SUPPORT_BYTES_H
#define PARASHARD_LIB_SUPPORT_BYTES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace parashard {

/// `500000`, `1.5GB` (10^9), `12GiB` (2^30); units from KB or KiB to TB or TiB. At least 1.
llvm::Expected<int64_t> parseBytes(llvm::StringRef text);

} // namespace parashard

#endif
