// Where the bytes of `#ps.file<"PATH:NAME">` lie, whatever kind of model PATH is: for those who map
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
  std::optional<uint32_t> crc = std::nullopt; ///< CRC-32 of the bytes, where the file has one
};

/// "PATH:NAME" taken apart; names may have colons of their own where PATH is an `.onnx`.
std::pair<llvm::StringRef, llvm::StringRef> splitLocation(llvm::StringRef location);

/// A file that weights lie in, and what tells it from another one.
struct WeightFile {
  std::string path;
  uint64_t size = 0;
  llvm::StringRef end; ///< the bytes at its end to compare (a view, as long as `WeightFiles` lives)
};

/// The models that weights lie in (`.pt2` archives, `.onnx` and their external data), each opened
/// once.
class WeightFiles {
public:
  WeightFiles();
  ~WeightFiles();
  /// Fails where the file is not there, damaged, or has no such tensor.
  llvm::Expected<FileRange> resolve(llvm::StringRef location);
  /// The bytes themselves (a view). Fails where they do not have the CRC of their archive.
  llvm::Expected<llvm::StringRef> read(llvm::StringRef location);
  /// All files that a location was resolved in, by path.
  std::vector<WeightFile> list() const;

private:
  std::map<std::string, std::unique_ptr<Archive>> archives;
  std::map<std::string, std::unique_ptr<OnnxModel>> models;
  std::map<std::string, llvm::StringRef> onnxFiles; ///< whole content, by path
};

} // namespace parashard::import

#endif
