// Describes asynchronous collectives of class functions, and collectives that are split into chunks
// together with an adjacent matmul.
#ifndef PARASHARD_LIB_FUSION_ASYNCCOLLECTIVES_H
#define PARASHARD_LIB_FUSION_ASYNCCOLLECTIVES_H

#include "Views.h"

namespace parashard::fusion {

/// Returns true if `value` is in memory no matter how ps-fuse groups the ops: an argument, a
/// variable, or the result of a collective or library op.
bool isInMemory(mlir::Value value);
/// Returns the wait of a collective; null if it is synchronous.
ps::WaitOp getWait(mlir::Operation *collective);

/// A matmul that can be split together with a collective.
struct ChunkedMatmul {
  ps::ContractOp contract;
  MatmulForm form;
  /// True if the matmul reads the collective's result, false if it computes the operand.
  bool follows = false;
  int64_t size = 1; ///< elements of the split dim; the number of chunks divides it
  /// Above 1: the number of members to which a reduce_scatter sends shards of rows. Each chunk then
  /// has some rows of every shard, and chunks are stored one after another.
  int64_t shards = 1;
};

/// Returns the matmul that can be split with a collective: the producer of the collective's operand
/// (all_reduce, reduce_scatter), or the first user of its result (all_gather). Returns nullopt if
/// no such matmul exists, or if the matmul uses the buffer in another order than the collective.
std::optional<ChunkedMatmul> findChunkedMatmul(mlir::Operation *collective);
/// Returns the matmul that is split together with a collective; nullopt unless the collective has a
/// wait, and `ps.chunks` above 1.
std::optional<ChunkedMatmul> getChunkedMatmul(mlir::Operation *collective);
/// Returns the collective that is split together with a matmul, or null.
mlir::Operation *getChunkedCollective(ps::ContractOp contract);
/// Returns the number of chunks of a collective (`ps.chunks`); 1 if it is not split.
int64_t getChunkCount(mlir::Operation *collective);

/// One of `count` equal chunks of a matmul.
struct MatmulChunk {
  MatmulForm form;
  int64_t lhs = 0, rhs = 0, out = 0; ///< offsets in the operands and the result, in elements
};
MatmulChunk getChunk(const ChunkedMatmul &matmul, int64_t number, int64_t count);

/// Returns the op after which `user` has finished reading its operands: `user`, its wait, or the op
/// that is split together with `user`.
mlir::Operation *getEndOfUse(mlir::Operation *user);

/// Returns the first op that uses `value`, looking through views and waits, or null.
mlir::Operation *findFirstUser(mlir::Value value);

} // namespace parashard::fusion

#endif
