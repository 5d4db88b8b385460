// Level 5, placed: every buffer at an address.
#ifndef PARASHARD_MEMORY_H
#define PARASHARD_MEMORY_H

#include "mlir/Pass/Pass.h"

namespace parashard {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Memory/Passes.h.inc"

} // namespace parashard

#endif
