// Implements a reader of protobuf's wire format: https://protobuf.dev/programming-guides/encoding.
#include "lib/Import/Onnx/Wire.h"

using namespace llvm;

namespace parashard::import {

std::optional<uint64_t> WireReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    unsigned char byte = rest.front();
    rest = rest.drop_front();
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  return std::nullopt;
}

std::optional<WireField> WireReader::fail() {
  damaged = true;
  rest = "";
  return std::nullopt;
}

std::optional<WireField> WireReader::next() {
  if (rest.empty())
    return std::nullopt;
  StringRef start = rest;
  std::optional<uint64_t> key = varint();
  if (!key || *key >> 3 == 0 || *key >> 32)
    return fail();
  WireField field;
  field.number = *key >> 3, field.type = *key & 7;
  std::optional<uint64_t> size = field.type == 1   ? std::optional<uint64_t>(8)
                                 : field.type == 5 ? std::optional<uint64_t>(4)
                                 : field.type == 2 ? varint()
                                                   : std::nullopt;
  if (field.type == 0)
    size = varint() ? std::optional<uint64_t>(0) : std::nullopt;
  if (!size || *size > rest.size())
    return fail();
  field.bytes = rest.take_front(*size);
  rest = rest.drop_front(*size);
  field.whole = start.drop_back(rest.size());
  return field;
}

} // namespace parashard::import
