// Converts nearest and linear interpolation along spatial dims.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Resizes one dim from `in` to `out` elements. Adjacent output elements are `scale` input elements
/// apart.
struct Resize {
  int64_t in = 1, out = 1;
  double scale = 1;
};

/// Returns the scale factor of spatial dim `d`, or 0 if it is not given. The .vec overload has a
/// list of factors; other overloads have one argument per dim.
double getFactor(NodeConverter &n, unsigned d, unsigned space) {
  if (const Argument *list = n.find("scale_factors");
      list && list->kind != Argument::None && d < list->floats.size())
    return list->floats[d];
  static constexpr StringLiteral names[] = {"scales_d", "scales_h", "scales_w"};
  StringRef name = space == 1 ? "scales" : names[3 - space + d];
  return n.number(name, 0);
}

/// Returns one entry per spatial dim. Returns an empty list if the node fails.
SmallVector<Resize> readResizes(NodeConverter &n, Value x, unsigned space) {
  SmallVector<Resize> resizes;
  n.markTypeOnly({"output_size"});
  if (getRank(x) != space + 2 || n.getResultType().getRank() != space + 2) {
    (void)n.fail("resizes " + debugString(x.getType()) + "; expected batch, channels and " +
                 Twine(space) + " spatial dims");
    return resizes;
  }
  ArrayRef<int64_t> from = getShape(x).take_back(space);
  ArrayRef<int64_t> to = n.getResultType().getShape().take_back(space);
  for (unsigned d = 0; d < space; ++d) {
    if (!checkResize(n, from[d], to[d]))
      return {};
    double factor = getFactor(n, d, space);
    double scale = factor > 0 ? 1 / factor : double(from[d]) / double(to[d]);
    resizes.push_back({from[d], to[d], scale});
  }
  return resizes;
}

template <unsigned kSpace> LogicalResult convertNearest(NodeConverter &n) {
  Value x = n.tensor(n.has("input") ? "input" : "self");
  if (n.failed())
    return failure();
  auto resizes = readResizes(n, x, kSpace);
  for (auto [d, resize] : llvm::enumerate(resizes))
    x = resizeNearest(n, x, int64_t(d) + 2, findNearest(resize.in, resize.out, resize.scale));
  return n.failed() ? failure() : n.set(x);
}

/// Returns the input coordinate of each output element. With `alignsCorners`, the first and the
/// last elements of input and output coincide.
SmallVector<double> getPositions(const Resize &resize, bool alignsCorners) {
  SmallVector<double> positions;
  for (int64_t p = 0; p < resize.out; ++p) {
    double corner = resize.out > 1 ? double(p) * double(resize.in - 1) / double(resize.out - 1) : 0;
    positions.push_back(alignsCorners ? corner : (double(p) + 0.5) * resize.scale - 0.5);
  }
  return positions;
}

template <unsigned kSpace> LogicalResult convertLinear(NodeConverter &n) {
  Value x = n.tensor(n.has("input") ? "input" : "self");
  if (n.failed())
    return failure();
  bool alignsCorners = n.boolean("align_corners", false);
  auto resizes = readResizes(n, x, kSpace);
  for (auto [d, resize] : llvm::enumerate(resizes))
    x = resizeLinear(n, x, int64_t(d) + 2, getPositions(resize, alignsCorners));
  return n.failed() ? failure() : n.set(x);
}

} // namespace

void addInterpolationConverters(ConverterTable &table) {
  table["aten.upsample_nearest1d"] = convertNearest<1>;
  table["aten.upsample_nearest2d"] = convertNearest<2>;
  table["aten.upsample_nearest3d"] = convertNearest<3>;
  table["aten.upsample_linear1d"] = convertLinear<1>;
  table["aten.upsample_bilinear2d"] = convertLinear<2>;
  table["aten.upsample_trilinear3d"] = convertLinear<3>;
}

} // namespace parashard::import
