// Creates and runs oneDNN convolutions.
#include "runtime/device/cpu/Convolution.h"
#include "runtime/core/Status.h"
#include "runtime/device/cpu/Matmul.h"
#include <algorithm>

namespace psrt {
namespace {

using dnnl::memory;
using Dims = memory::dims;

/// The parameters of a oneDNN convolution: dims and dtypes of the three tensors, and the windows.
struct Request {
  Dims x, w, y, strides, dilation, low, high;
  std::array<memory::data_type, 3> dtypes;

  Request(const ConvolutionOp &op, const ConvolutionPrimitive::Dtypes &given, int64_t images) {
    std::transform(given.begin(), given.end(), dtypes.begin(), toDnnl);
    const WindowShape &s = op.windows;
    x = {images, op.groups * op.inChannels}, y = {images, op.groups * op.outChannels};
    if (op.groups > 1)
      w = {op.groups, op.outChannels, op.inChannels};
    else
      w = {op.outChannels, op.inChannels};
    bool isVolume = s.in[0] > 1 || s.out[0] > 1 || s.kernel[0] > 1 || s.low[0] > 0;
    for (int d = isVolume ? 0 : 1; d < 3; ++d) {
      x.push_back(s.in[d]), w.push_back(s.kernel[d]), y.push_back(s.out[d]);
      strides.push_back(s.strides[d]);
      dilation.push_back(s.dilation[d] - 1);
      low.push_back(s.low[d]);
      high.push_back((s.out[d] - 1) * s.strides[d] + (s.kernel[d] - 1) * s.dilation[d] + 1 -
                     s.low[d] - s.in[d]);
    }
  }

  memory::desc anyX() const { return anyLayout(x, dtypes[ConvolutionOp::X]); }
  memory::desc anyW() const { return anyLayout(w, dtypes[ConvolutionOp::W]); }
  memory::desc anyY() const { return anyLayout(y, dtypes[ConvolutionOp::Y]); }
  static memory::desc anyLayout(const Dims &dims, memory::data_type dtype) {
    return {dims, dtype, memory::format_tag::any};
  }
  /// Returns a copy in which `result` has the dtype of the operands. To create a backward
  /// primitive, oneDNN needs the descriptor of a forward convolution with these dtypes (the hint).
  Request ofOperands(int result) const {
    Request request = *this;
    request.dtypes[result] =
        dtypes[result == ConvolutionOp::X ? ConvolutionOp::W : ConvolutionOp::X];
    return request;
  }
};

memory::desc denseLayout(const Dims &dims, memory::data_type dtype) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- > 0;)
    strides[d] = strides[d + 1] * dims[d + 1];
  return {dims, dtype, strides};
}

dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc describeForward(const Request &r, dnnl::prop_kind kind,
                                                          const dnnl::engine &engine) {
  dnnl::convolution_forward::desc desc(kind, kDirect, r.anyX(), r.anyW(), r.anyY(), r.strides,
                                       r.dilation, r.low, r.high);
  return {desc, userScratchpad(), engine};
}

size_t roundUp(size_t bytes) { return (bytes + 63) & ~size_t(63); }

} // namespace

std::unique_ptr<ConvolutionPrimitive> ConvolutionPrimitive::make(const dnnl::engine &engine,
                                                                 const ConvolutionOp &op,
                                                                 const Dtypes &dtypes,
                                                                 int64_t images) {
  OneOpenMPThread alone;
  Request r(op, dtypes, images);
  std::unique_ptr<ConvolutionPrimitive> made(new ConvolutionPrimitive(engine, op.result));
  try {
    if (op.result == ConvolutionOp::Y) {
      auto pd = describeForward(r, dnnl::prop_kind::forward_inference, engine);
      made->primitive = dnnl::convolution_forward(pd);
      made->own = {pd.src_desc(), pd.weights_desc(), pd.dst_desc()};
      made->arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
      made->scratch = pd.scratchpad_desc();
    } else if (op.result == ConvolutionOp::X) {
      auto hint =
          describeForward(r.ofOperands(op.result), dnnl::prop_kind::forward_training, engine);
      dnnl::convolution_backward_data::primitive_desc pd(
          {kDirect, r.anyX(), r.anyW(), r.anyY(), r.strides, r.dilation, r.low, r.high},
          userScratchpad(), engine, hint);
      made->primitive = dnnl::convolution_backward_data(pd);
      made->own = {pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc()};
      made->arguments = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
      made->scratch = pd.scratchpad_desc();
    } else {
      auto hint =
          describeForward(r.ofOperands(op.result), dnnl::prop_kind::forward_training, engine);
      dnnl::convolution_backward_weights::primitive_desc pd(
          {kDirect, r.anyX(), r.anyW(), r.anyY(), r.strides, r.dilation, r.low, r.high},
          userScratchpad(), engine, hint);
      made->primitive = dnnl::convolution_backward_weights(pd);
      made->own = {pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc()};
      made->arguments = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
      made->scratch = pd.scratchpad_desc();
    }
    made->dense = {denseLayout(r.x, r.dtypes[0]), denseLayout(r.w, r.dtypes[1]),
                   denseLayout(r.y, r.dtypes[2])};
    made->chooseLayouts();
  } catch (const dnnl::error &error) {
    if (error.status == dnnl_invalid_arguments || error.status == dnnl_unimplemented)
      return nullptr;
    PSRT_FAIL(Failed, "oneDNN cannot create a convolution: %s", error.what());
  }
  return made;
}

/// Creates reorders for the tensors whose layout is not dense, and assigns offsets in the scratch
/// memory.
void ConvolutionPrimitive::chooseLayouts() {
  size_t at = 0, most = scratch.get_size();
  for (int i = 0; i < 3; ++i) {
    isReordered[i] = own[i] != dense[i];
    if (!isReordered[i])
      continue;
    const memory::desc &from = i == result ? own[i] : dense[i];
    const memory::desc &to = i == result ? dense[i] : own[i];
    dnnl::reorder::primitive_desc pd(engine, from, engine, to, userScratchpad());
    reorders[i] = dnnl::reorder(pd);
    if (pd.scratchpad_desc().get_size() > most) {
      scratch = pd.scratchpad_desc();
      most = scratch.get_size();
    }
    offsets[i] = at;
    at += roundUp(own[i].get_size());
  }
  scratchOffset = at;
  scratchBytes = at + roundUp(most);
}

ConvolutionPrimitive::Handles ConvolutionPrimitive::makeHandles() const {
  Handles handles;
  handles.stream = dnnl::stream(engine);
  for (int i = 0; i < 3; ++i) {
    handles.dense[i] = memory(dense[i], engine, nullptr);
    handles.own[i] = isReordered[i] ? memory(own[i], engine, nullptr) : handles.dense[i];
  }
  handles.scratch = memory(scratch, engine, nullptr);
  return handles;
}

void ConvolutionPrimitive::run(Handles &handles, const std::array<void *, 3> &tensors,
                               char *memory) const {
  OneOpenMPThread alone;
  handles.scratch.set_data_handle(memory + scratchOffset);
  for (int i = 0; i < 3; ++i) {
    handles.dense[i].set_data_handle(tensors[i]);
    if (isReordered[i])
      handles.own[i].set_data_handle(memory + offsets[i]);
  }
  auto reorder = [&](int i, dnnl::memory &from, dnnl::memory &to) {
    reorders[i].execute(
        handles.stream,
        {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, handles.scratch}});
  };
  for (int i = 0; i < 3; ++i)
    if (isReordered[i] && i != result)
      reorder(i, handles.dense[i], handles.own[i]);
  primitive.execute(handles.stream, {{arguments[0], handles.own[0]},
                                     {arguments[1], handles.own[1]},
                                     {arguments[2], handles.own[2]},
                                     {DNNL_ARG_SCRATCHPAD, handles.scratch}});
  if (isReordered[result])
    reorder(result, handles.own[result], handles.dense[result]);
}

} // namespace psrt
