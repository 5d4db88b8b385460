// Collectives of class functions that are only started where they stand, and those that go in
// chunks beside the matmul before or behind them.
#ifndef PARASHARD_LIB_FUSION_ASYNCCOLLECTIVES_H
#define PARASHARD_LIB_FUSION_ASYNCCOLLECTIVES_H

#include "Views.h"

namespace parashard::fusion {

/// On a started collective: into how many collectives it is cut, along the slowest dim, and with it
/// the matmul that makes its operand, or the first one that uses its result. No value depends on
/// it.
inline constexpr llvm::StringLiteral kChunksMark = "ps.chunks";

/// Whether the op moves data between ranks, so that it may be started.
bool movesData(mlir::Operation *op);
/// Whether `value` is in memory, whatever the kernels are: an op makes it that is none of a kernel.
bool isMadeElsewhere(mlir::Value value);
/// Where a collective is over; null: where it stands.
ps::WaitOp getWait(mlir::Operation *collective);

/// A matmul that can be cut together with a collective.
struct ChunkedMatmul {
  ps::ContractOp contract;
  MatmulForm form;
  bool follows = false; ///< it uses what the collective yields, else it makes what that is given
  int64_t places = 1;   ///< of the dim along which both are cut: a multiple of the chunks
  /// Above 1: a chunk has rows of each of so many shards of the matmul's rows, which a
  /// reduce_scatter sends to as many members. Its buffer has one chunk behind the other then.
  int64_t shards = 1;
};

/// The matmul that can be cut with a collective: its operand's, or the first user of its result.
/// Not one that reads a buffer in another order than it is sent in.
std::optional<ChunkedMatmul> findChunkedMatmul(mlir::Operation *collective);
/// The same where the collective is marked to be cut.
std::optional<ChunkedMatmul> getChunkedMatmul(mlir::Operation *collective);
/// The marked collective that a matmul is cut with; null: none.
mlir::Operation *getChunkedCollective(ps::ContractOp contract);
/// The number in kChunksMark, at least 1.
int64_t getChunkCount(mlir::Operation *collective);

/// One of `count` equal chunks of a matmul.
struct MatmulChunk {
  MatmulForm form;
  int64_t lhs = 0, rhs = 0, out = 0; ///< how far into the operands and the result, in elements
};
MatmulChunk getChunk(const ChunkedMatmul &matmul, int64_t number, int64_t count);

/// The op with which the use of its operands by `user` is over: its own, that of the wait, or that
/// of what it is cut with.
mlir::Operation *getEndOfUse(mlir::Operation *user);

/// The first op that uses what `value` is, through views and waits; null: none.
mlir::Operation *findFirstUser(mlir::Value value);

} // namespace parashard::fusion

#endif
