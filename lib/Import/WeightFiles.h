// Declares how the bytes of `#ps.file<"PATH:NAME">` are located in model files of all kinds.
#ifndef PARASHARD_LIB_IMPORT_WEIGHTFILES_H
#define PARASHARD_LIB_IMPORT_WEIGHTFILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace parashard::import {

class Archive;
class OnnxModel;

/// A part of a file, in bytes.
struct FileRange {
  std::string path;
  uint64_t offset = 0;
  uint64_t size = 0;
  std::optional<uint32_t> crc = std::nullopt; ///< CRC-32 of the bytes, if the file has one
};

/// Splits "PATH:NAME". NAME may contain colons if PATH ends with `.onnx`.
std::pair<llvm::StringRef, llvm::StringRef> splitLocation(llvm::StringRef location);

/// A file with weights, and the data that identifies its content.
struct WeightFile {
  std::string path;
  uint64_t size = 0;
  /// The last bytes of the file, which identify its content. A view into `WeightFiles`.
  llvm::StringRef end;
};

/// Opens each file with weights once (`.pt2` archives, `.onnx` files and their external data), and
/// keeps it open.
class WeightFiles {
public:
  WeightFiles();
  ~WeightFiles();
  /// Locates a tensor. Fails if the file is missing or damaged, or has no such tensor.
  llvm::Expected<FileRange> resolve(llvm::StringRef location);
  /// Returns a view of the bytes of a tensor. Fails if the bytes do not match their CRC in a `.pt2`
  /// archive.
  llvm::Expected<llvm::StringRef> read(llvm::StringRef location);
  /// Returns all files in which a location was resolved.
  std::vector<WeightFile> list() const;

private:
  std::map<std::string, std::unique_ptr<Archive>> archives;
  std::map<std::string, std::unique_ptr<OnnxModel>> models;
  std::map<std::string, llvm::StringRef> onnxFiles; ///< whole content, by path
};

} // namespace parashard::import

#endif
