// Defines the properties that a library op reports, so that the runtime needs no list of these ops.
#ifndef PSRT_CORE_LIBRARYOP_H
#define PSRT_CORE_LIBRARYOP_H

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace psrt {

/// Sizes of an instruction by name, for traces. Example: {{"rows", 512}}.
using NamedSizes = std::vector<std::pair<const char *, int64_t>>;

/// An op that a device computes with a dedicated function: the device's overload of `bindCall`.
/// `name` is the name of the instruction. `kCategory` is the category of the op's trace events, and
/// `sizes` are the arguments of these events. `writes` returns whether the op writes the buffer
/// with this index. Two other members are optional. `int accumulate` is the index of the ref whose
/// `first` flag decides between set and add (-1: always set). `int key` is the index of the op's
/// random key in the run's keys (-1: no key).
template <typename Op>
concept LibraryOp = requires(const Op &op, size_t buffer) {
  { Op::kCategory } -> std::convertible_to<const char *>;
  { op.name() } -> std::same_as<const char *>;
  { op.sizes() } -> std::same_as<NamedSizes>;
  { op.writes(buffer) } -> std::same_as<bool>;
};

} // namespace psrt

#endif
