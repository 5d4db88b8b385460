// Converts cross-entropy and negative log-likelihood losses, and gather.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

ClassLoss getClassLoss(NodeConverter &n) {
  ClassLoss loss{n.tensor("self"), n.tensor("target"), n.optionalTensor("weight")};
  loss.ignore = n.integer("ignore_index", -100);
  loss.smoothing = n.number("label_smoothing", 0);
  loss.reduction = LossReduction(n.integer("reduction", int64_t(LossReduction::Mean)));
  return loss;
}

LogicalResult convertCrossEntropy(NodeConverter &n) {
  ClassLoss loss = getClassLoss(n);
  return n.failed() ? failure() : n.set(buildClassLoss(n, loss));
}

/// Converts nll_loss(log_softmax(x), labels) to a cross-entropy of x.
LogicalResult convertNll(NodeConverter &n) {
  ClassLoss loss = getClassLoss(n);
  NllLoss result = n.failed() ? NllLoss() : buildNllLoss(n, loss);
  if (n.failed())
    return failure();
  if (n.getNumResults() > 1 && n.isUsed(1) && loss.reduction == LossReduction::Mean &&
      failed(n.set(1, n.convert(sumAll(n, result.counts), getElement(result.loss)))))
    return failure();
  return n.set(result.loss);
}

LogicalResult convertGather(NodeConverter &n) {
  Value self = n.tensor("self"), index = n.tensor("index");
  n.markWithoutEffect({"sparse_grad"}); // the form in which PyTorch stores the gradient
  if (n.failed())
    return failure();
  Value picked =
      buildGather(n, self, index, wrapDim(n.integer("dim"), getRank(self)), /*wraps=*/false);
  return n.failed() ? failure() : n.set(picked);
}

} // namespace

void addLossConverters(ConverterTable &table) {
  table["aten.cross_entropy_loss"] = convertCrossEntropy;
  table["aten.nll_loss_nd"] = convertNll;
  table["aten.nll_loss"] = convertNll;
  table["aten.nll_loss_forward"] = convertNll;
  table["aten.gather"] = convertGather;
}

} // namespace parashard::import
