// Converts cross-entropy losses.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/Onnx/Metadata.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace parashard::import {
namespace {

ClassLoss getClassLoss(OnnxNode &n) {
  ClassLoss loss{n.input(0), n.input(1), n.optionalInput(2)};
  // Without the attribute, no label is ignored: -100 is not a class.
  loss.ignore = n.integer("ignore_index", -100);
  std::string reduction = n.string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    (void)n.fail("has the reduction '" + reduction + "'; expected mean, sum or none");
  loss.reduction = reduction == "none"  ? LossReduction::None
                   : reduction == "sum" ? LossReduction::Sum
                                        : LossReduction::Mean;
  return loss;
}

LogicalResult convertSoftmaxCrossEntropy(OnnxNode &n) {
  ClassLoss loss = getClassLoss(n);
  if (n.failed())
    return failure();
  if (double smoothing = getLabelSmoothing(n.node)) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", smoothing);
    emitWarning(n.loc) << "the exporter dropped label_smoothing=" << text
                       << " from this loss, which trains without label smoothing; export the model "
                          "with torch.export.export to keep it";
  }
  if (n.isUsed(1) && n.scope.live.contains(n.node.output(1)) &&
      failed(n.set(1, buildAlongDim<ps::LogSoftmaxOp>(n, loss.logits, 1))))
    return failure();
  return n.set(buildClassLoss(n, loss));
}

LogicalResult convertNll(OnnxNode &n) {
  ClassLoss loss = getClassLoss(n);
  NllLoss result = n.failed() ? NllLoss() : buildNllLoss(n, loss);
  return n.failed() ? failure() : n.set(result.loss);
}

} // namespace

void addOnnxLossConverters(OnnxConverterTable &table) {
  table["SoftmaxCrossEntropyLoss"] = convertSoftmaxCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = convertNll;
}

} // namespace parashard::import
