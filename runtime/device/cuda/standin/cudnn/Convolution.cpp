// Plain loops over groups, channels, places and taps, in f64.
#include "runtime/device/cuda/standin/cudnn/Convolution.h"
#include "runtime/core/Element.h"
#include <algorithm>
#include <cstring>

namespace psrt::standin {
namespace {

[[noreturn]] void refuse(cudnnStatus_t status, const char *text) { throw Refusal{status, text}; }

struct Names {
  cudnnBackendDescriptorType_t type;
  int result;
  cudnnBackendAttributeName_t alpha, beta, windows, tensors[3];
};
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     Convolution::Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     Convolution::X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     Convolution::W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}}};

/// The tensor with places of three dims; strides of the dims that are added do not matter.
Convolution::Tensor takeTensor(const Descriptor &d, int64_t spatialDims) {
  auto sizes = d.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto strides = d.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (int64_t(sizes.size()) != spatialDims + 2)
    refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has two dims more than the windows");
  Convolution::Tensor tensor;
  tensor.id = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor.alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.sizes.fill(1), tensor.strides.fill(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    size_t at = i < 2 ? i : i + 5 - sizes.size();
    tensor.sizes[at] = sizes[i], tensor.strides[at] = strides[i];
  }
  return tensor;
}

void takeWindows(Convolution &c, const Descriptor &d, std::array<int64_t, 3> &high) {
  auto take = [&](cudnnBackendAttributeName_t name, std::array<int64_t, 3> &to) {
    auto values = d.list<int64_t>(name);
    std::copy(values.begin(), values.end(), to.end() - int64_t(values.size()));
  };
  take(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.steps);
  take(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilations);
  take(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.low);
  take(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, high);
}

void checkShapes(const Convolution &c, const std::array<int64_t, 3> &high) {
  const auto &x = c.tensors[Convolution::X].sizes, &w = c.tensors[Convolution::W].sizes,
             &y = c.tensors[Convolution::Y].sizes;
  if (x[0] != y[0] || x[1] % w[1] != 0 || w[0] != y[1] || w[0] % c.groups() != 0)
    refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "batches or channels do not fit");
  for (size_t d = 0; d < 3; ++d) {
    int64_t free = x[d + 2] + c.low[d] + high[d] - (w[d + 2] - 1) * c.dilations[d] - 1;
    if (free < 0 || free / c.steps[d] + 1 != y[d + 2])
      refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "there is another number of windows");
  }
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < i; ++j)
      if (c.tensors[i].id == c.tensors[j].id)
        refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have one id");
}

double load(const Convolution::Tensor &tensor, int64_t at) {
  const char *from = tensor.data + at * bytesOf(tensor.type);
  uint16_t bits = 0;
  float value = 0;
  if (tensor.type == CUDNN_DATA_FLOAT)
    return std::memcpy(&value, from, sizeof(value)), value;
  std::memcpy(&bits, from, sizeof(bits));
  return tensor.type == CUDNN_DATA_HALF ? fromHalf(bits) : fromBfloat16(bits);
}

void store(const Convolution::Tensor &tensor, int64_t at, float value) {
  char *to = tensor.data + at * bytesOf(tensor.type);
  if (tensor.type == CUDNN_DATA_FLOAT) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  uint16_t bits = tensor.type == CUDNN_DATA_HALF ? toHalf(value) : toBfloat16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

/// Calls visit(place, number) for each element: where it is, and its number if it were dense.
template <typename Visit> void forEach(const Convolution::Tensor &t, Visit visit) {
  int64_t number = 0;
  for (int64_t a = 0; a < t.sizes[0]; ++a)
    for (int64_t b = 0; b < t.sizes[1]; ++b)
      for (int64_t c = 0; c < t.sizes[2]; ++c)
        for (int64_t d = 0; d < t.sizes[3]; ++d)
          for (int64_t e = 0; e < t.sizes[4]; ++e)
            visit(a * t.strides[0] + b * t.strides[1] + c * t.strides[2] + d * t.strides[3] +
                      e * t.strides[4],
                  number++);
}

int64_t volume(const Convolution::Tensor &t) { return t.sizes[2] * t.sizes[3] * t.sizes[4]; }

double toTf32(double value) {
  uint32_t bits = castBits<uint32_t>(float(value));
  return castBits<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t(0x1fff));
}

/// For each pair of places that a tap connects, numbers (in x, in w, in y) of one plane each.
struct Triple {
  int32_t x, w, y;
};
std::vector<Triple> connect(const Convolution &c) {
  const auto &x = c.tensors[Convolution::X].sizes, &w = c.tensors[Convolution::W].sizes,
             &y = c.tensors[Convolution::Y].sizes;
  std::vector<Triple> result;
  for (int64_t place = 0; place < volume(c.tensors[Convolution::Y]); ++place)
    for (int64_t tap = 0; tap < volume(c.tensors[Convolution::W]); ++tap) {
      int64_t at = 0, scale = 1, restPlace = place, restTap = tap;
      for (size_t d = 3; d-- > 0;) {
        int64_t in =
            restPlace % y[d + 2] * c.steps[d] - c.low[d] + restTap % w[d + 2] * c.dilations[d];
        restPlace /= y[d + 2], restTap /= w[d + 2];
        at = in < 0 || in >= x[d + 2] || at < 0 ? -1 : at + in * scale;
        scale *= x[d + 2];
      }
      if (at >= 0)
        result.push_back({int32_t(at), int32_t(tap), int32_t(place)});
    }
  return result;
}

} // namespace

int64_t Convolution::Tensor::bytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return (last + 1) * bytesOf(type);
}

Convolution Convolution::parse(const Descriptor &operation) {
  const Names *names = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const Names &each) { return each.type == operation.type; });
  const Descriptor &windows = operation.child(names->windows);
  Convolution c;
  c.result = names->result;
  c.alpha = operation.get<float>(names->alpha), c.beta = operation.get<float>(names->beta);
  for (int i = 0; i < 3; ++i)
    c.tensors[i] = takeTensor(operation.child(names->tensors[i]),
                              windows.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  std::array<int64_t, 3> high{};
  takeWindows(c, windows, high);
  checkShapes(c, high);
  return c;
}

std::vector<PsrtStandinAccess> Convolution::accesses() const {
  std::vector<PsrtStandinAccess> all;
  for (int i = 0; i < 3; ++i) {
    auto begin = reinterpret_cast<CUdeviceptr>(tensors[i].data);
    all.push_back({begin, begin + CUdeviceptr(tensors[i].bytes()), i == result});
  }
  if (workspaceBytes) {
    auto begin = reinterpret_cast<CUdeviceptr>(workspace);
    all.push_back({begin, begin + CUdeviceptr(workspaceBytes), 1});
  }
  return all;
}

void Convolution::compute() const {
  std::memset(workspace, 0x5a, size_t(workspaceBytes));
  std::array<std::vector<double>, 3> values;
  for (int i = 0; i < 3; ++i) {
    values[i].resize(size_t(tensors[i].sizes[0] * tensors[i].sizes[1] * volume(tensors[i])));
    if (i != result)
      forEach(tensors[i], [&](int64_t at, int64_t number) {
        double value = load(tensors[i], at);
        values[i][size_t(number)] = roundsToTf32 ? toTf32(value) : value;
      });
  }
  std::vector<Triple> triples = connect(*this);
  int64_t in = tensors[W].sizes[1], out = tensors[W].sizes[0] / groups();
  for (int64_t n = 0; n < tensors[X].sizes[0]; ++n)
    for (int64_t g = 0; g < groups(); ++g)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t c = 0; c < in; ++c) {
          double *x = &values[X][size_t(((n * groups() + g) * in + c) * volume(tensors[X]))];
          double *w = &values[W][size_t(((g * out + o) * in + c) * volume(tensors[W]))];
          double *y = &values[Y][size_t(((n * groups() + g) * out + o) * volume(tensors[Y]))];
          for (const Triple &t : triples)
            if (result == Y)
              y[t.y] += x[t.x] * w[t.w];
            else if (result == X)
              x[t.x] += y[t.y] * w[t.w];
            else
              w[t.w] += x[t.x] * y[t.y];
        }
  const Tensor &to = tensors[result];
  forEach(to, [&](int64_t at, int64_t number) {
    double value = alpha * values[result][size_t(number)];
    if (beta != 0)
      value += beta * load(to, at);
    if (isWrong && number == 1)
      value += 1;
    store(to, at, float(value));
  });
}

} // namespace psrt::standin
