// The arithmetic and copies of collectives among ranks that see each other's memory.
#ifndef PSRT_COMM_LOCAL_COLLECTIVES_H
#define PSRT_COMM_LOCAL_COLLECTIVES_H

#include "runtime/core/Program.h"

namespace psrt {

/// Combines element lo..hi of every `ins[s]`, s ascending (16-bit floats in f32), and writes it to
/// every `outs[t]`. An element is read from all before it is written to any, so an out may be an
/// in.
void reduceRange(CollectiveOp::Reduction reduction, Dtype dtype, const void *const *ins,
                 int inCount, void *const *outs, int outCount, int64_t lo, int64_t hi);
/// Whether `reduceRange` knows the dtype.
bool canReduce(Dtype dtype);

} // namespace psrt

#endif
