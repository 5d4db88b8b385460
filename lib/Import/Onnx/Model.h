// Declares an open `.onnx` file: its graph as protobuf messages, and the location of each
// initializer's bytes.
#ifndef PARASHARD_LIB_IMPORT_ONNX_MODEL_H
#define PARASHARD_LIB_IMPORT_ONNX_MODEL_H

#include "lib/Import/Onnx/onnx.pb.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace parashard::import {

/// The opsets of the default domain that the converters support.
inline constexpr int64_t kMinOpset = 13, kMaxOpset = 25;

/// An initializer.
struct OnnxTensor {
  std::string name;
  int32_t dtype = 0; ///< TensorProto.DataType
  std::vector<int64_t> dims;
  std::string file;    ///< file with the bytes: the model, or a file of external data
  uint64_t offset = 0; ///< offset in `file`
  uint64_t size = 0;   ///< size in bytes
  /// True: `file` contains the elements as contiguous bytes. False: it does not (protobuf can store
  /// them as varints), and `decoded` has the bytes.
  bool isRaw = true;
  std::vector<char> decoded; ///< little-endian, row-major
};

/// Returns the name of a dtype. Examples: "float32" for 1, "number 77" for an unknown dtype.
std::string getOnnxDtypeName(int32_t dtype);
/// Returns the bytes per element, or 0 for dtypes that are not supported.
unsigned getOnnxElementSize(int32_t dtype);

/// An open model. The file is memory-mapped, and data of initializers in `raw_data` is not copied.
class OnnxModel {
public:
  /// Opens a model. Fails for a file that is not ONNX, is truncated, or has an unsupported opset.
  /// Also fails if the number of bytes of a tensor does not match its shape, or if external data is
  /// missing or outside of the model's folder.
  static llvm::Expected<OnnxModel> open(llvm::StringRef path);

  llvm::StringRef getPath() const { return path; }
  /// Returns the model without its initializers.
  const onnx::ModelProto &getProto() const { return *proto; }
  const onnx::GraphProto &getGraph() const { return proto->graph(); }
  /// Returns the initializers in the file's order.
  const std::vector<OnnxTensor> &getTensors() const { return tensors; }
  const OnnxTensor *find(llvm::StringRef name) const;
  /// Returns the whole content of the file with the bytes of an initializer.
  llvm::Expected<llvm::StringRef> getFileBytes(const OnnxTensor &tensor) const {
    return map(tensor.file);
  }
  /// Returns the bytes of an initializer.
  llvm::Expected<llvm::StringRef> getBytes(const OnnxTensor &tensor) const;
  int64_t getOpset() const { return opset; }

private:
  struct Chunk;
  llvm::Error read();
  llvm::Error checkOpset();
  llvm::Error addTensor(llvm::StringRef message);
  llvm::Error locate(const onnx::TensorProto &message, const Chunk &data, OnnxTensor &tensor);
  llvm::Error locateExternal(const onnx::TensorProto &message, OnnxTensor &tensor);
  llvm::Error verifyChecksum(const OnnxTensor &tensor, llvm::StringRef expected);
  llvm::Error error(const llvm::Twine &message) const;
  llvm::Expected<llvm::StringRef> map(llvm::StringRef file) const;

  std::string path;
  int64_t opset = 0;
  std::unique_ptr<onnx::ModelProto> proto;
  std::vector<OnnxTensor> tensors;
  llvm::StringMap<unsigned> byName;
  mutable std::map<std::string, std::unique_ptr<llvm::MemoryBuffer>> buffers;
  /// SHA-1 of files for which the model has a checksum.
  std::map<std::string, std::string> checksums;
};

/// Returns the value of a key in a message's metadata, or "".
template <typename Message>
llvm::StringRef getMetadata(const Message &message, llvm::StringRef key) {
  for (const onnx::StringStringEntryProto &entry : message.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return "";
}

/// Returns the elements of a tensor as little-endian bytes. Fails if their number does not match
/// its dims.
llvm::Expected<std::vector<char>> decodeTensor(const onnx::TensorProto &message);

} // namespace parashard::import

#endif
