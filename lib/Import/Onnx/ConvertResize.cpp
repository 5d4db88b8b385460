// Converts Resize with nearest or linear interpolation.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {
namespace {

/// Resizes one dim from `in` to `out` elements. There are `factor` output elements per input
/// element.
struct Resize {
  int64_t dim = 0, in = 1, out = 1;
  double factor = 1;
};

/// Returns the input coordinate of output element `index`. `transformation` is the value of
/// "coordinate_transformation_mode".
double getPosition(const Resize &resize, StringRef transformation, int64_t index) {
  double at = double(index), in = double(resize.in), out = double(resize.out);
  if (transformation == "asymmetric")
    return at / resize.factor;
  if (transformation == "align_corners")
    return out > 1 ? at * (in - 1) / (out - 1) : 0;
  if (transformation == "pytorch_half_pixel" && resize.out == 1)
    return 0;
  double middle = (at + 0.5) / resize.factor - 0.5;
  if (transformation == "half_pixel_symmetric")
    middle += in / 2 * (1 - out / (in * resize.factor));
  return middle;
}

/// Rounds an input coordinate to the index of an input element. `mode` is the value of
/// "nearest_mode".
int64_t roundPosition(double position, StringRef mode, int64_t in) {
  double rounded = mode == "floor"               ? std::floor(position)
                   : mode == "ceil"              ? std::ceil(position)
                   : mode == "round_prefer_ceil" ? std::floor(position + 0.5)
                                                 : std::ceil(position - 0.5);
  return int64_t(std::clamp(rounded, 0.0, double(in - 1)));
}

/// Reads the dims to resize from the inputs `scales` or `sizes`.
class ResizeReader {
public:
  ResizeReader(OnnxNode &n, Value x) : n(n), x(x) {
    dims = wrapDims(n.integers("axes"), getRank(x));
    if (dims.empty())
      dims = llvm::to_vector(llvm::seq<int64_t>(0, getRank(x)));
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim < 0 || dim >= getRank(x) || llvm::is_contained(ArrayRef(dims).take_front(i), dim))
        (void)n.fail("resizes a dim that " + debugString(x.getType()) +
                     " does not have, or one dim twice");
  }

  SmallVector<Resize> readSizes(unsigned input) {
    SmallVector<int64_t> sizes = n.integersInput(input);
    SmallVector<Resize> resizes;
    if (!checkCount(sizes.size()))
      return resizes;
    for (auto [dim, out] : llvm::zip(dims, sizes)) {
      int64_t in = getShape(x)[dim];
      add(resizes, {dim, in, out, double(out) / double(std::max<int64_t>(in, 1))});
    }
    return resizes;
  }

  /// Reads scales. A dim gets floor(size * scale) elements, computed in f32.
  SmallVector<Resize> readFactors(unsigned input) {
    std::optional<ps::Tensor> factors = n.constantInput(input);
    SmallVector<Resize> resizes;
    if (!factors || !checkCount(factors->size()))
      return resizes;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      double factor = factors->get(i);
      if (!(factor > 0 && factor <= INT32_MAX)) {
        (void)n.fail("has the factor " + debugFactor(factor) +
                     "; expected a factor above 0 and below 2^31");
        return {};
      }
      int64_t in = getShape(x)[dim];
      add(resizes, {dim, in, int64_t(std::floor(float(in) * float(factor))), factor});
    }
    return resizes;
  }

private:
  bool checkCount(size_t count) {
    if (!n.failed() && count != dims.size())
      (void)n.fail("has " + describeCount(count, "size") + " or factors for " +
                   describeCount(dims.size(), "dim"));
    return !n.failed();
  }
  static std::string debugFactor(double factor) { return std::to_string(factor); }
  /// Adds a resize if it changes the dim.
  void add(SmallVector<Resize> &resizes, const Resize &resize) {
    if (resize.in == resize.out && resize.factor == 1)
      return;
    if (!n.failed() && checkResize(n, resize.in, resize.out))
      resizes.push_back(resize);
  }

  OnnxNode &n;
  Value x;
  SmallVector<int64_t> dims;
};

/// Fails if the value of an attribute is not in `known`.
void checkChoice(OnnxNode &n, StringRef name, StringRef value, ArrayRef<StringRef> known) {
  if (!llvm::is_contained(known, value))
    (void)n.fail("has the " + name + " '" + value + "', which is not supported; expected " +
                 llvm::join(known, ", "));
}

Value resizeDim(OnnxNode &n, Value x, const Resize &resize, StringRef mode,
                StringRef transformation) {
  std::string rounding = n.string("nearest_mode", "round_prefer_floor");
  if (mode == "nearest" && transformation == "asymmetric" && rounding == "floor")
    return resizeNearest(n, x, resize.dim, findNearest(resize.in, resize.out, 1 / resize.factor));
  SmallVector<double> positions;
  for (int64_t index = 0; index < resize.out; ++index)
    positions.push_back(getPosition(resize, transformation, index));
  if (mode == "linear")
    return resizeLinear(n, x, resize.dim, positions);
  return resizeNearest(n, x, resize.dim, llvm::map_to_vector(positions, [&](double position) {
                         return roundPosition(position, rounding, resize.in);
                       }));
}

/// Resizes one dim after another.
LogicalResult convertResize(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  std::string mode = n.string("mode", "nearest");
  std::string transformation = n.string("coordinate_transformation_mode", "half_pixel");
  checkChoice(n, "mode", mode, {"nearest", "linear"});
  checkChoice(
      n, "coordinate_transformation_mode", transformation,
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"});
  checkChoice(n, "nearest_mode", n.string("nearest_mode", "round_prefer_floor"),
              {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  checkChoice(n, "keep_aspect_ratio_policy", n.string("keep_aspect_ratio_policy", "stretch"),
              {"stretch"});
  if (n.integer("antialias", 0))
    return n.fail("has antialias = 1, which is not supported");
  // These attributes only affect cubic interpolation and crops (with the input `roi`), which are
  // not supported. Linear interpolation clamps coordinates, so `exclude_outside` has no effect.
  n.markWithoutEffect({"cubic_coeff_a", "extrapolation_value", "exclude_outside"});
  (void)n.has(1);
  if (!isFloat(x))
    return n.fail("has the operand type " + debugString(x.getType()) +
                  ", which is not supported; expected floats");
  if (n.failed())
    return failure();
  ResizeReader reader(n, x);
  SmallVector<Resize> resizes = n.has(3) ? reader.readSizes(3) : reader.readFactors(2);
  for (const Resize &resize : resizes) {
    SmallVector<int64_t> shape(getShape(x));
    shape[resize.dim] = resize.out;
    if (n.checkShape(shape))
      x = resizeDim(n, x, resize, mode, transformation);
  }
  return n.failed() ? failure() : n.set(x);
}

} // namespace

void addOnnxResizeConverters(OnnxConverterTable &table) { table["Resize"] = convertResize; }

} // namespace parashard::import
