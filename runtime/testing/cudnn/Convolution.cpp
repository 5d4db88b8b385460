// Computes convolutions with plain loops over groups, channels, positions and taps, in f64.
#include "runtime/testing/cudnn/Convolution.h"
#include "runtime/core/Element.h"
#include <algorithm>
#include <cstring>

namespace psrt::fake {
namespace {

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

const Names *findNames(cudnnBackendDescriptorType_t type) {
  const Names *found = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const Names &each) { return each.type == type; });
  return found == std::end(kNames) ? nullptr : found;
}

/// Returns the tensor with three spatial dims: adds dims of size 1, whose strides are irrelevant.
Tensor takeTensor(const Descriptor &descriptor, int64_t spatialDims) {
  Tensor tensor(descriptor);
  if (int64_t(tensor.sizes.size()) != spatialDims + 2)
    refuse(CUDNN_STATUS_BAD_PARAM, "a tensor must have two dims more than the windows");
  for (std::vector<int64_t> *list : {&tensor.sizes, &tensor.strides})
    list->insert(list->begin() + 2, size_t(3 - spatialDims), 1);
  return tensor;
}

/// Calls visit(offset, index) for each element: its offset, and its index in a dense tensor.
template <typename Visit> void forEach(const Tensor &t, Visit visit) {
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

int64_t volume(const Tensor &t) { return t.sizes[2] * t.sizes[3] * t.sizes[4]; }

double toTf32(double value) {
  uint32_t bits = castBits<uint32_t>(float(value));
  return castBits<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t(0x1fff));
}

} // namespace

bool Convolution::isOne(cudnnBackendDescriptorType_t type) { return findNames(type); }

Convolution::Convolution(const Descriptor &operation) {
  const Names &names = *findNames(operation.type);
  const Descriptor &windows = operation.child(names.windows);
  result = names.result;
  alpha = operation.get<float>(names.alpha), beta = operation.get<float>(names.beta);
  for (cudnnBackendAttributeName_t name : names.tensors)
    all.push_back(takeTensor(operation.child(name),
                             windows.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)));
  all[size_t(result)].isWritten = true;
  takeWindows(windows);
  checkShapes();
  checkIds();
}

void Convolution::takeWindows(const Descriptor &windows) {
  auto take = [&](cudnnBackendAttributeName_t name, std::array<int64_t, 3> &to) {
    auto values = windows.list<int64_t>(name);
    std::copy(values.begin(), values.end(), to.end() - int64_t(values.size()));
  };
  take(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, steps);
  take(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations);
  take(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, low);
  take(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, high);
}

void Convolution::checkShapes() const {
  const auto &x = all[X].sizes, &w = all[W].sizes, &y = all[Y].sizes;
  if (x[0] != y[0] || x[1] % w[1] != 0 || w[0] != y[1] || w[0] % groups() != 0)
    refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "batch or channel sizes do not match");
  for (size_t d = 0; d < 3; ++d) {
    int64_t free = x[d + 2] + low[d] + high[d] - (w[d + 2] - 1) * dilations[d] - 1;
    if (free < 0 || free / steps[d] + 1 != y[d + 2])
      refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the number of windows does not match");
  }
}

std::vector<Convolution::Triple> Convolution::connect() const {
  const auto &x = all[X].sizes, &w = all[W].sizes, &y = all[Y].sizes;
  std::vector<Triple> result;
  for (int64_t position = 0; position < volume(all[Y]); ++position)
    for (int64_t tap = 0; tap < volume(all[W]); ++tap) {
      int64_t at = 0, scale = 1, restPosition = position, restTap = tap;
      for (size_t d = 3; d-- > 0;) {
        int64_t in =
            restPosition % y[d + 2] * steps[d] - low[d] + restTap % w[d + 2] * dilations[d];
        restPosition /= y[d + 2], restTap /= w[d + 2];
        at = in < 0 || in >= x[d + 2] || at < 0 ? -1 : at + in * scale;
        scale *= x[d + 2];
      }
      if (at >= 0)
        result.push_back({int32_t(at), int32_t(tap), int32_t(position)});
    }
  return result;
}

void Convolution::compute() const {
  std::memset(workspace, 0x5a, size_t(workspaceBytes));
  std::array<std::vector<double>, 3> values;
  for (int i = 0; i < 3; ++i) {
    values[i].resize(size_t(all[i].sizes[0] * all[i].sizes[1] * volume(all[i])));
    if (i != result)
      forEach(all[i], [&](int64_t at, int64_t number) {
        double value = all[size_t(i)].load(at);
        values[i][size_t(number)] =
            roundsToTf32 && all[size_t(i)].type == CUDNN_DATA_FLOAT ? toTf32(value) : value;
      });
  }
  std::vector<Triple> triples = connect();
  int64_t in = all[W].sizes[1], out = all[W].sizes[0] / groups();
  for (int64_t n = 0; n < all[X].sizes[0]; ++n)
    for (int64_t g = 0; g < groups(); ++g)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t c = 0; c < in; ++c) {
          double *x = &values[X][size_t(((n * groups() + g) * in + c) * volume(all[X]))];
          double *w = &values[W][size_t(((g * out + o) * in + c) * volume(all[W]))];
          double *y = &values[Y][size_t(((n * groups() + g) * out + o) * volume(all[Y]))];
          for (const Triple &t : triples)
            if (result == Y)
              y[t.y] += x[t.x] * w[t.w];
            else if (result == X)
              x[t.x] += y[t.y] * w[t.w];
            else
              w[t.w] += x[t.x] * y[t.y];
        }
  const Tensor &to = all[size_t(result)];
  forEach(to, [&](int64_t at, int64_t number) {
    double value = alpha * values[result][size_t(number)];
    if (beta != 0)
      value += beta * to.load(at);
    to.store(at, float(value));
  });
  spoil(to);
}

} // namespace psrt::fake
