// Declares a reader of protobuf's wire format, which returns the fields of a message without
// copies.
#ifndef PARASHARD_LIB_IMPORT_ONNX_WIRE_H
#define PARASHARD_LIB_IMPORT_ONNX_WIRE_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace parashard::import {

/// One field of a message.
struct WireField {
  unsigned number = 0;
  unsigned type = 0;     ///< 0: varint, 1: 64 bits, 2: bytes, 5: 32 bits
  llvm::StringRef bytes; ///< content of a field of type 2
  llvm::StringRef whole; ///< the field with its key and length
};

/// Reads the fields of a message in order.
class WireReader {
public:
  explicit WireReader(llvm::StringRef message) : rest(message) {}

  /// Returns the next field, or nullopt at the end of the message, or if the message is damaged.
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
