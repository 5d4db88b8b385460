// Convolutions and max pooling of a class function as instructions.
#include "ClassCode.h"
#include "dialects/ps/Windows.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;
namespace json = llvm::json;

static int64_t getSize(Value value, unsigned dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

template <typename Op>
static void describeWindows(json::Object &object, Op op, Value x, Value y,
                            ArrayRef<int64_t> kernel) {
  object["in"] = json::Array(ps::getSpace(x.getType()));
  object["out_size"] = json::Array(ps::getSpace(y.getType()));
  object["window"] = json::Array(kernel);
  object["strides"] = json::Array(op.getStrides());
  object["low"] = json::Array(op.getLow());
  object["dilation"] = json::Array(op.getDilation());
}

template <typename Op>
void ClassCode::describeConvolution(json::Object &object, Op op, Value x, Value w, Value y) {
  int64_t groups = getSize(x, 1) / getSize(w, 1);
  describeTypes(object, op->getOperand(0), op->getResult(0));
  object["batch"] = getSize(x, 0);
  object["groups"] = groups;
  object["channels"] = json::Array{getSize(w, 1), getSize(y, 1) / groups};
  object["x"] = buffer(x);
  object["w"] = buffer(w);
  object["y"] = buffer(y);
  describeWindows(object, op, x, y, ps::getSpace(w.getType()));
}

void ClassCode::writeConvolution(ps::ConvolutionOp op) {
  json::Object object = begin("convolution", op);
  describeConvolution(object, op, op.getOperand(), op.getKernel(), op.getResult());
  add(std::move(object));
}

void ClassCode::writeConvolution(ps::ConvolutionInputOp op) {
  json::Object object = begin("convolution_input", op);
  describeConvolution(object, op, op.getResult(), op.getKernel(), op.getCotangent());
  add(std::move(object));
}

void ClassCode::writeConvolution(ps::ConvolutionKernelOp op) {
  json::Object object = begin("convolution_kernel", op);
  describeConvolution(object, op, op.getOperand(), op.getResult(), op.getCotangent());
  add(std::move(object));
}

template <typename Op>
void ClassCode::describeMaxPool(json::Object &object, Op op, Value x, Value y) {
  object["dtype"] = getDtypeName(getElementTypeOrSelf(x.getType()));
  object["planes"] = getSize(x, 0) * getSize(x, 1);
  object["x"] = buffer(x);
  object["y"] = buffer(y);
  describeWindows(object, op, x, y, op.getWindow());
}

void ClassCode::writeMaxPool(ps::MaxPoolOp op) {
  json::Object object = begin("max_pool", op);
  describeMaxPool(object, op, op.getOperand(), op.getResult());
  add(std::move(object));
}

void ClassCode::writeMaxPoolGrad(ps::MaxPoolGradOp op) {
  json::Object object = begin("max_pool_grad", op);
  describeMaxPool(object, op, op.getOperand(), op.getCotangent());
  object["out"] = buffer(op.getResult());
  add(std::move(object));
}
