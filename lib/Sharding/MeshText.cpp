// Parses the value of `--mesh`.
#include "lib/Sharding/MeshText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace parashard::sharding {

constexpr int64_t kMaxDevices = 1 << 20;

static Error fail(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static Expected<ps::AxisKind> getKind(StringRef name, StringRef kind) {
  if (!kind.empty()) {
    std::optional<ps::AxisKind> known = ps::symbolizeAxisKind(kind);
    if (known && *known != ps::AxisKind::Multiple) // axes of kind multiple are internal
      return *known;
    return fail("mesh axis \"" + name + "\" has the unknown kind \"" + kind +
                "\"; kinds are data, tensor, context, expert, pipeline");
  }
  auto known = StringSwitch<std::optional<ps::AxisKind>>(name)
                   .Case("dp", ps::AxisKind::Data)
                   .Case("tp", ps::AxisKind::Tensor)
                   .Cases({"cp", "sp"}, ps::AxisKind::Context)
                   .Case("ep", ps::AxisKind::Expert)
                   .Case("pp", ps::AxisKind::Pipeline)
                   .Default(std::nullopt);
  if (known)
    return *known;
  return fail("mesh axis \"" + name + "\" needs its kind: write " + name + ":data=N (or :tensor, " +
              ":context, :expert, :pipeline)");
}

/// Parses one NAME[:KIND]=N. The size is 0 for `*`.
static Expected<MeshAxis> parseAxis(StringRef text) {
  auto [left, right] = text.trim().split('=');
  auto [name, kind] = left.split(':');
  if (name.empty() || right.empty())
    return fail("mesh axis \"" + text.trim() + "\" is not NAME=N or NAME:KIND=N");
  for (char c : name)
    if (!llvm::isAlnum(c) && c != '_')
      return fail("mesh axis name \"" + name +
                  "\" has a character other than letters, digits and _");
  Expected<ps::AxisKind> known = getKind(name, kind);
  if (!known)
    return known.takeError();
  MeshAxis axis{name.str(), 0, *known};
  if (right != "*" && (right.getAsInteger(10, axis.size) || axis.size < 1))
    return fail("mesh axis \"" + name + "\" has size " + right + "; sizes are 1 or more, or *");
  return axis;
}

static Error checkAxes(ArrayRef<MeshAxis> axes) {
  const MeshAxis *pipeline = nullptr, *open = nullptr;
  int64_t devices = 1;
  for (auto [i, axis] : enumerate(axes)) {
    for (const MeshAxis &other : axes.take_front(i))
      if (other.name == axis.name)
        return fail("mesh axis \"" + axis.name + "\" is given twice");
    devices *= std::clamp<int64_t>(axis.size, 1, kMaxDevices + 1);
    if (devices > kMaxDevices)
      return fail(formatv("the mesh has more than {0} devices", kMaxDevices).str());
    if (axis.kind == ps::AxisKind::Pipeline) {
      if (pipeline)
        return fail("mesh axes \"" + pipeline->name + "\" and \"" + axis.name +
                    "\" are both of kind pipeline; keep one of them");
      pipeline = &axis;
    }
    if (axis.size == 0) {
      if (open)
        return fail("mesh axes \"" + open->name + "\" and \"" + axis.name +
                    "\" are both *; give a number for one of them");
      open = &axis;
    }
  }
  return Error::success();
}

static Error fillUp(std::vector<MeshAxis> &axes, StringRef text, int64_t ranks) {
  int64_t devices = 1;
  MeshAxis *open = nullptr;
  for (MeshAxis &axis : axes)
    axis.size == 0 ? void(open = &axis) : void(devices *= axis.size);
  if (!open)
    return ranks == 0 || ranks == devices
               ? Error::success()
               : fail(formatv("the axes of mesh {0} multiply to {1}, but --ranks is {2}; make them "
                              "equal, as in --mesh dp={2}, or write one axis as NAME=*",
                              text, devices, ranks)
                          .str());
  if (ranks == 0)
    return fail("mesh axis \"" + open->name + "\" is *; give --ranks N too");
  if (ranks % devices != 0)
    return fail(formatv("mesh {0} cannot fill {1} ranks: the other axes have {2} devices, which do "
                        "not divide the number of ranks",
                        text, ranks, devices)
                    .str());
  open->size = ranks / devices;
  return Error::success();
}

Expected<std::vector<MeshAxis>> parseMesh(StringRef text, int64_t ranks) {
  std::vector<MeshAxis> axes;
  SmallVector<StringRef> parts;
  text.trim("\" ").split(parts, ',');
  for (StringRef part : parts) {
    Expected<MeshAxis> axis = parseAxis(part);
    if (!axis)
      return axis.takeError();
    axes.push_back(std::move(*axis));
  }
  if (Error error = checkAxes(axes))
    return std::move(error);
  if (Error error = fillUp(axes, text.trim("\" "), ranks))
    return std::move(error);
  for (const MeshAxis &axis : axes)
    if (axis.kind == ps::AxisKind::Context && axis.size > 1)
      return fail(formatv("mesh axis \"{0}\" has {1} context shards: context parallelism is "
                          "not supported yet; use a size of 1, or data and tensor axes",
                          axis.name, axis.size)
                      .str());
  return axes;
}

} // namespace parashard::sharding
