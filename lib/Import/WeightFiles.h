// Locates the bytes of `#ps.file<"PATH:NAME">`, for all kinds of models, for code that maps
// weights.
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

/// Splits "PATH:NAME". A name may contain colons if PATH ends with `.onnx`.
std::pair<llvm::StringRef, llvm::StringRef> splitLocation(llvm::StringRef location);

/// A file that holds weights, and the data that identifies its content.
struct WeightFile {
  std::string path;
  uint64_t size = 0;
  /// Last bytes of the file, for comparison (a view that lives as long as `WeightFiles`).
  llvm::StringRef end;
};

/// The models that hold weights (`.pt2` archives, `.onnx` files and their external data). Each file
/// is opened once.
class WeightFiles {
public:
  WeightFiles();
  ~WeightFiles();
  /// Locates a tensor. Fails if the file is missing or damaged, or has no such tensor.
  llvm::Expected<FileRange> resolve(llvm::StringRef location);
  /// Returns the bytes of a tensor (a view). Fails if they do not match the CRC of their archive.
  llvm::Expected<llvm::StringRef> read(llvm::StringRef location);
  /// Returns all files in which a location was resolved, by path.
  std::vector<WeightFile> list() const;

private:
  std::map<std::string, std::unique_ptr<Archive>> archives;
  std::map<std::string, std::unique_ptr<OnnxModel>> models;
  std::map<std::string, llvm::StringRef> onnxFiles; ///< whole content, by path
};

} // namespace parashard::import

#endif
