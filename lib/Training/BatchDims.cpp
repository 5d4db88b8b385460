// Marks the dim of each input that has the samples, and compares the numbers of samples.
#include "BatchDims.h"
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "parashard/Training.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::training {

static std::string getInputName(func::FuncOp function, unsigned input) {
  auto name = function.getArgAttrOfType<StringAttr>(input, kNameMark);
  return name ? name.str() : std::to_string(input);
}

/// Sets the batch dim of the input with a name, or without a name, of all inputs. Returns true if
/// the function has the input.
static bool markInputs(func::FuncOp function, std::optional<llvm::StringRef> name, int64_t dim) {
  bool isKnown = false;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto known = function.getArgAttrOfType<StringAttr>(i, kNameMark);
    if (name && (!known || known != *name))
      continue;
    function.setArgAttr(i, kBatchDimMark, Builder(function).getI64IntegerAttr(dim));
    isKnown = true;
  }
  return isKnown;
}

static int64_t getBatchDim(func::FuncOp function, unsigned input) {
  auto marked = function.getArgAttrOfType<IntegerAttr>(input, kBatchDimMark);
  return marked ? marked.getInt() : 0;
}

/// Returns the size of an input's batch dim (the number of samples), or nullopt without a batch
/// dim.
static std::optional<int64_t> countSamples(func::FuncOp function, unsigned input) {
  auto type = dyn_cast<RankedTensorType>(function.getArgument(input).getType());
  int64_t dim = getBatchDim(function, input);
  if (!type || dim < 0 || dim >= type.getRank())
    return std::nullopt;
  return type.getDimSize(dim);
}

/// Checks that all inputs have the same number of samples.
static LogicalResult checkBatches(func::FuncOp function) {
  std::optional<unsigned> first;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::optional<int64_t> samples = countSamples(function, i);
    if (!samples)
      continue;
    first = first.value_or(i);
    int64_t expected = *countSamples(function, *first);
    if (samples == expected)
      continue;
    std::string name = getInputName(function, i);
    return refuse(function) << "input \"" << getInputName(function, *first) << "\" has "
                            << describeCount(expected, "sample") << " and input \"" << name
                            << "\" has " << *samples
                            << ", but a step reads the same samples from both; give all inputs "
                               "the same batch size with --batch N or --dim "
                            << name << "." << getBatchDim(function, i) << "=" << expected
                            << ", or write --batch-dim " << name
                            << "=none if that dim is not the batch";
  }
  return success();
}

LogicalResult markBatchDims(ModuleOp module, llvm::ArrayRef<std::string> batchDims) {
  llvm::SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (llvm::StringRef part : batchDims) {
    part = part.trim("\"");
    if (part == "none") {
      for (func::FuncOp function : functions)
        markInputs(function, std::nullopt, kNoBatch);
      continue;
    }
    auto [input, text] = part.split('=');
    int64_t dim = kNoBatch;
    if (text != "none" && (text.getAsInteger(10, dim) || dim < 0))
      return refuseFlag(module, "batch-dim " + part) << ": expected INPUT=D, INPUT=none or none";
    bool isKnown = false;
    for (func::FuncOp function : functions)
      isKnown |= markInputs(function, input, dim);
    if (!isKnown)
      return refuseFlag(module, "batch-dim " + input) << ": the model has no such input";
  }
  for (func::FuncOp function : functions)
    if (failed(checkBatches(function)))
      return failure();
  return success();
}

} // namespace parashard::training
