// Which losses are a sum divided by a count.
#ifndef PARASHARD_LIB_TRAINING_LOSSFORM_H
#define PARASHARD_LIB_TRAINING_LOSSFORM_H

#include "mlir/IR/Builders.h"

namespace parashard {

/// loss = sum / count, both scalars of the loss's type.
struct LossForm {
  mlir::Value sum, count;
};

/// Recognises a sum divided by a count that depends on no variable (a masked mean: cross-entropy),
/// a sum times a constant (a mean over a static number of elements), and either under a constant
/// factor or a conversion. Makes the ops that the form needs at the builder's insertion point;
/// nothing when the form is not recognised.
std::optional<LossForm> findLossForm(mlir::OpBuilder &builder, mlir::Value loss);

/// Whether a scalar within `loss` is divided by one that is computed from the batch, such as the
/// number of labels that count: the mean over several batches is then not that over all together.
bool isDividedByCount(mlir::Value loss);

} // namespace parashard

#endif
