// The wire format of protobuf: fields of a message, without copying them.
#ifndef PARASHARD_LIB_IMPORT_ONNX_WIRE_H
#define PARASHARD_LIB_IMPORT_ONNX_WIRE_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace parashard::import {

/// One field of a message.
struct WireField {
  unsigned number = 0;
  unsigned type = 0;     ///< 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits
  llvm::StringRef bytes; ///< of type 2: the content
  llvm::StringRef whole; ///< with its key and length
};

/// Walks the fields of a message in order.
class WireReader {
public:
  explicit WireReader(llvm::StringRef message) : rest(message) {}

  /// Nothing at the end of the message, and where it is damaged.
  std::optional<WireField> next();
  bool isDamaged() const { return damaged; }

private:
  std::optional<uint64_t> varint();
  std::optional<WireField> fail();

  llvm::StringRef rest;
  bool damaged = false;
};

} // namespace parashard::import

#endif
