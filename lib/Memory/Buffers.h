// Finds the buffers for which memory is planned, and their lifetimes.
#ifndef PARASHARD_LIB_MEMORY_BUFFERS_H
#define PARASHARD_LIB_MEMORY_BUFFERS_H

#include "Lifetime.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::memory {

/// The buffer of result `result` of `op`. If `result` is -1, the buffer is the workspace of an op
/// in a class function, or the scratch of a `rank.run` in a program.
struct Buffer {
  mlir::Operation *op = nullptr;
  int result = -1;
  Lifetime lifetime; ///< in indices of ops in the block
};

/// Returns the address or offset of a buffer; nullopt if ps-plan-memory has not set it. Reads the
/// attribute `markOfResults` (one entry per result), or the integer `markOfOp` if `result` is -1.
std::optional<int64_t> getAddress(const Buffer &buffer, llvm::StringRef markOfResults,
                                  llvm::StringRef markOfOp);

std::vector<Buffer> findScratchBuffers(mlir::func::FuncOp function);

/// The buffers of one program. `kept` are values that one section computes for a later section.
/// `ps-plan-memory` allocates several copies (slots) of them, because the host may call the first
/// section several times before it calls the later section. `host` are values in host memory.
/// `shared` are all other values, and the scratch of each run.
struct ProgramBuffers {
  std::vector<Buffer> shared, kept, host;
};
/// Finds the buffers of a program. The class functions that the program runs must have
/// `ps.scratch_bytes`.
ProgramBuffers findProgramBuffers(rank::ProgramOp program, mlir::SymbolTable &symbols);

} // namespace parashard::memory

#endif
