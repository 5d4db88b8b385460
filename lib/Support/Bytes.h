// Declares the parser of byte counts.
#ifndef PARASHARD_LIB_SUPPORT_BYTES_H
#define PARASHARD_LIB_SUPPORT_BYTES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace parashard::support {

/// Parses a byte count of at least 1, such as `500000`, `1.5GB` (1.5 * 10^9) or `12GiB` (12 *
/// 2^30). The units are B, KB to TB (powers of 1000) and KiB to TiB (powers of 1024). A number
/// without a unit is in bytes.
llvm::Expected<int64_t> parseBytes(llvm::StringRef text);

} // namespace parashard::support

#endif
