// Reads and writes weights as one .safetensors file or as a Hugging Face folder with several files
// and an index.
#ifndef PSRT_DATA_WEIGHTFILES_H
#define PSRT_DATA_WEIGHTFILES_H

#include "runtime/data/Safetensors.h"
#include <set>

namespace psrt {

/// The tensors of a weight file or of a folder of weight files, mapped to memory.
class WeightFiles {
public:
  /// Opens a .safetensors file, or a folder with `model.safetensors` or
  /// `model.safetensors.index.json`. Fails with BadInput if the path is neither of these, if the
  /// files come from two exports, or if an export to the folder is running.
  explicit WeightFiles(const std::string &path);
  const std::string &path() const { return given; }
  /// Returns all files that this object reads: the tensor files and, for a folder, the path of its
  /// index, even if the index does not exist.
  std::vector<std::string> listFiles() const;
  const std::map<std::string, SafetensorsFile::Tensor> &tensors() const { return table; }
  const std::vector<SafetensorsFile> &getFiles() const { return files; }
  std::set<std::string> names() const;
  /// Returns a tensor by name, or null.
  const SafetensorsFile::Tensor *find(const std::string &name) const;

private:
  void add(const std::string &path);
  void addFolder(const std::string &path);
  void addIndexed(const std::string &index, const nlohmann::json &json);
  void checkOneExport(const std::string &folder, std::string number) const;
  std::string given;
  std::vector<SafetensorsFile> files;
  std::map<std::string, SafetensorsFile::Tensor> table;
};

/// A tensor to write; `fill` is called when the file is written.
struct WeightToWrite {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  SafetensorsWriter::Fill fill;
};

/// Distributes weights over files, in order. A file has at most `maxFileBytes`, unless it has a
/// single weight that is larger.
std::vector<std::vector<const WeightToWrite *>>
cutIntoFiles(const std::vector<WeightToWrite> &weights, int64_t maxFileBytes);

/// Returns whether weights are written to `path` as a folder, that is, whether `path` does not end
/// in ".safetensors".
bool isWeightFolder(const std::string &path);

/// Writes `model.safetensors`, or several `model-00001-of-0000N.safetensors` and an index if one
/// file would exceed `maxFileBytes`. Removes other files of an earlier export, and temporary files
/// of killed exports. Removes an earlier index before the first file changes and writes the new
/// index last, so that readers find either one complete export or an error. With an empty path,
/// only calls the fill functions, like SafetensorsWriter::write.
void writeWeightFolder(const std::string &path, const std::vector<WeightToWrite> &weights,
                       int64_t maxFileBytes);

/// Returns the files of a folder that an export would replace or remove. Includes
/// `model.safetensors` and `model.safetensors.index.json` even if they do not exist.
std::vector<std::string> listExportedFiles(const std::string &folder);

/// Creates the folder if it does not exist. Fails with BadInput if no file can be written in it.
void checkFolderWritable(const std::string &path);

} // namespace psrt

#endif
