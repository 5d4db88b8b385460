// Reads and writes the safetensors format: an 8-byte header length, a JSON header, and raw tensor
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

/// A mapped file whose tensors are read in place.
class SafetensorsFile {
public:
  struct Tensor {
    Dtype dtype;
    std::vector<int64_t> shape;
    const char *data;
    int64_t bytes;
  };
  /// Opens a file. Fails with BadInput if it is truncated, or not a safetensors file.
  explicit SafetensorsFile(const std::string &path);
  const std::map<std::string, Tensor> &tensors() const { return table; }
  /// Returns a tensor by name, or null.
  const Tensor *find(const std::string &name) const;
  const std::string &path() const { return file.path(); }
  /// Returns a value of the metadata, or "" if the key is missing.
  std::string metadata(const std::string &key) const;
  /// Returns the first byte of the file.
  const char *begin() const { return file.data(); }

private:
  Tensor readEntry(const std::string &name, const FileFields &fields, const char *base,
                   int64_t available) const;
  void readMetadata(const nlohmann::json &json);
  MappedFile file;
  std::map<std::string, Tensor> table;
  std::map<std::string, std::string> texts; ///< metadata
};

/// Writes a file under a temporary name, and renames the file when it is complete.
class SafetensorsWriter {
public:
  /// Fills a buffer with a tensor's row-major elements.
  using Fill = std::function<void(char *data)>;
  /// Adds a tensor; `fill` is called when the file is written.
  void add(std::string name, Dtype dtype, std::vector<int64_t> shape, Fill fill);
  /// Adds a key to the file's metadata.
  void describe(const std::string &key, const std::string &text) { texts[key] = text; }
  /// Writes the file. Fails with BadInput if it cannot be written. With an empty path, only calls
  /// all fill functions: in a job, every process takes part in gathering tensors, but only rank 0
  /// writes them.
  void write(const std::string &path) const;
  /// Writes the file under a temporary name, and returns it for the caller to commit. Returns null
  /// for an empty path.
  std::unique_ptr<OutputFile> stage(const std::string &path) const;
  size_t count() const { return entries.size(); }
  /// Returns the offset in the file of each tensor's bytes.
  std::map<std::string, int64_t> offsets() const;

private:
  struct Entry {
    Dtype dtype;
    std::vector<int64_t> shape;
    Fill fill;
  };
  /// Returns the header, which precedes the tensors.
  std::string header() const;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> texts = {{"format", "pt"}}; ///< metadata
};

} // namespace psrt

#endif
