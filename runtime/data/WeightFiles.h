// Weights in one .safetensors file, or in a folder as Hugging Face lays it out: several files and
// an index.
#ifndef PSRT_DATA_WEIGHTFILES_H
#define PSRT_DATA_WEIGHTFILES_H

#include "runtime/data/Safetensors.h"
#include <set>

namespace psrt {

/// The tensors of a file or a folder, mapped.
class WeightFiles {
public:
  /// `path`: a .safetensors file, or a folder with `model.safetensors` or
  /// `model.safetensors.index.json`. Fails with BadInput on anything else, on files of two exports
  /// and on a folder that is being exported to.
  explicit WeightFiles(const std::string &path);
  const std::string &path() const { return given; }
  /// Returns all files that are read: those of tensors, and the index of a folder.
  std::vector<std::string> listFiles() const;
  const std::map<std::string, SafetensorsFile::Tensor> &tensors() const { return table; }
  const std::vector<SafetensorsFile> &getFiles() const { return files; }
  std::set<std::string> names() const;
  /// Null when there is none of that name.
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

/// One tensor to be written; `fill` is called when it is its turn.
struct WeightToWrite {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  SafetensorsWriter::Fill fill;
};

/// Weights by file, in order: of at most `maxFileBytes` a file, or one weight.
std::vector<std::vector<const WeightToWrite *>>
cutIntoFiles(const std::vector<WeightToWrite> &weights, int64_t maxFileBytes);

/// Whether weights written to `path` make a folder: all but names that end in ".safetensors".
bool isWeightFolder(const std::string &path);

/// Writes `model.safetensors`, or where that were over `maxFileBytes`,
/// `model-00001-of-0000N.safetensors` and last the index; files of an earlier export that are none
/// of these are removed. An earlier index is removed before the first file changes: at any moment
/// readers find one whole export or fail. Temporary files of killed exports are removed. Without a
/// path, only fills, as SafetensorsWriter does.
void writeWeightFolder(const std::string &path, const std::vector<WeightToWrite> &weights,
                       int64_t maxFileBytes);

/// Returns the files of a folder that an export to it replaces or removes, and those of the first
/// names that it writes.
std::vector<std::string> listExportedFiles(const std::string &folder);

/// Makes the folder when there is none; fails with BadInput when no file can be written in it.
void checkFolderWritable(const std::string &path);

} // namespace psrt

#endif
