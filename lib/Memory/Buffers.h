// The buffers that memory is planned for, and when each is in use.
#ifndef PARASHARD_LIB_MEMORY_BUFFERS_H
#define PARASHARD_LIB_MEMORY_BUFFERS_H

#include "Lifetime.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard {

/// A result of an op; or, with result -1, the workspace of an op of a class function, and the
/// scratch of a run of a program.
struct Buffer {
  mlir::Operation *op = nullptr;
  int result = -1;
  Lifetime lifetime; ///< in numbers of ops of the block
};

/// Where a buffer lies: its mark in a list of one entry a result, or by itself; nothing before
/// ps-plan-memory.
std::optional<int64_t> getPlace(const Buffer &buffer, llvm::StringRef markOfResults,
                                llvm::StringRef markOfOp);

/// What lies in the scratch of a class function.
std::vector<Buffer> findScratchBuffers(mlir::func::FuncOp function);

/// The buffers of one program. Where the host calls the sections apart, what one section makes for
/// a later one is kept: there is a copy of it for each slot.
/// `host`: values that lie in the host's memory.
struct ProgramBuffers {
  std::vector<Buffer> shared, kept, host;
};
/// The class functions that the program runs have their bytes of scratch.
ProgramBuffers findProgramBuffers(rank::ProgramOp program, mlir::SymbolTable &symbols);

} // namespace parashard

#endif
