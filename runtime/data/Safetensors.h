// Files of named tensors in the safetensors format: an 8-byte header length, a JSON header, raw
// bytes.
#ifndef PSRT_DATA_SAFETENSORS_H
#define PSRT_DATA_SAFETENSORS_H

#include "runtime/core/Program.h"
#include "runtime/data/MappedFile.h"
#include "runtime/data/OutputFile.h"
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace psrt {

class FileFields;

/// A mapped file; tensors are read in place.
class SafetensorsFile {
public:
  struct Tensor {
    Dtype dtype;
    std::vector<int64_t> shape;
    const char *data;
    int64_t bytes;
  };
  /// Fails with BadInput on a truncated or foreign file.
  explicit SafetensorsFile(const std::string &path);
  const std::map<std::string, Tensor> &tensors() const { return table; }
  /// Null when there is none of that name.
  const Tensor *find(const std::string &name) const;
  const std::string &path() const { return file.path(); }
  /// A text of its metadata; empty when there is none of that key.
  std::string metadata(const std::string &key) const;
  /// The first byte of the file.
  const char *begin() const { return file.data(); }

private:
  Tensor readEntry(const std::string &name, const FileFields &fields, const char *base,
                   int64_t available) const;
  void readMetadata(const nlohmann::json &json);
  MappedFile file;
  std::map<std::string, Tensor> table;
  std::map<std::string, std::string> texts; ///< of its metadata
};

/// Writes a file under a temporary name and renames it when it is whole, so that readers see all or
/// nothing.
class SafetensorsWriter {
public:
  /// Fills `bytes` bytes with a tensor's row-major elements.
  using Fill = std::function<void(char *data)>;
  void add(std::string name, Dtype dtype, std::vector<int64_t> shape, Fill fill);
  /// Adds a text to the file's metadata.
  void describe(const std::string &key, const std::string &text) { texts[key] = text; }
  /// Fails with BadInput when the file cannot be written. Without a path, fills all and writes
  /// nothing: a process that only helps another to write.
  void write(const std::string &path) const;
  /// The same without the renaming, which is left to the caller; null without a path.
  std::unique_ptr<OutputFile> stage(const std::string &path) const;
  size_t count() const { return entries.size(); }
  /// Where each tensor's bytes will begin in the file.
  std::map<std::string, int64_t> offsets() const;

private:
  struct Entry {
    Dtype dtype;
    std::vector<int64_t> shape;
    Fill fill;
  };
  /// What stands before the tensors.
  std::string header() const;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> texts = {{"format", "pt"}}; ///< the metadata
};

} // namespace psrt

#endif
