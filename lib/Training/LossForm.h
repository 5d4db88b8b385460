// What a loss is made of: means of what counts, sums over the batch, and further terms.
#ifndef PARASHARD_LIB_TRAINING_LOSSFORM_H
#define PARASHARD_LIB_TRAINING_LOSSFORM_H

#include "mlir/IR/Builders.h"

namespace parashard {

/// One part of a loss, which is the sum of its parts.
struct LossPart {
  enum class Kind {
    Mean,   ///< value / count, both added up over the batches of a step
    Sum,    ///< value, added up over the batches of a step
    Average ///< value, averaged over the batches of a step
  };
  Kind kind;
  mlir::Value value;
  mlir::Value count; ///< of a mean: depends on no variable
};

/// Splits a loss through additions, constant factors and conversions. A mean is a sum divided by a
/// count that is computed from the batch (a masked mean: cross-entropy), one part for each count. A
/// sum is one over the samples of the batch that nothing makes a mean. All else is one average,
/// unless the whole loss is a sum over a static number of elements divided by that: then it is a
/// mean too. Makes the ops that the parts need at the builder's insertion point, behind the loss's.
/// Means come first, then the sum, then the average.
llvm::SmallVector<LossPart> splitLoss(mlir::OpBuilder &builder, mlir::Value loss);

/// Whether a scalar within `loss` is divided by one that is computed from the batch, such as the
/// number of labels that count: the mean over several batches is then not that over all together.
bool isDividedByCount(mlir::Value loss);

} // namespace parashard

#endif
