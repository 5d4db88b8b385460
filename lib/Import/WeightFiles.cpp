// Locates the bytes of weights in `.pt2` archives, `.onnx` models, and external data files of ONNX.
#include "lib/Import/WeightFiles.h"
#include "lib/Import/Onnx/Model.h"
#include "lib/Import/Pt2/Archive.h"

using namespace llvm;

namespace parashard::import {

/// Number of bytes at the end of an ONNX file that identify its content, since ONNX has no
/// checksums.
static constexpr size_t kComparedBytes = size_t(64) << 20;

std::pair<StringRef, StringRef> splitLocation(StringRef location) {
  static constexpr StringLiteral ending = ".onnx:";
  size_t at = location.find(ending);
  if (at == StringRef::npos)
    return location.rsplit(':');
  at += ending.size();
  return {location.take_front(at - 1), location.drop_front(at)};
}

WeightFiles::WeightFiles() = default;
WeightFiles::~WeightFiles() = default;

/// Returns the file at `path` from `files`. Opens the file at the first request.
template <typename File>
static Expected<const File *> openOnce(std::map<std::string, std::unique_ptr<File>> &files,
                                       StringRef path) {
  if (auto it = files.find(path.str()); it != files.end())
    return it->second.get();
  Expected<File> opened = File::open(path);
  if (!opened)
    return opened.takeError();
  return (files[path.str()] = std::make_unique<File>(std::move(*opened))).get();
}

Expected<FileRange> WeightFiles::resolve(StringRef location) {
  auto [path, name] = splitLocation(location);
  if (path.ends_with(".onnx")) {
    Expected<const OnnxModel *> model = openOnce(models, path);
    if (!model)
      return model.takeError();
    const OnnxTensor *tensor = (*model)->find(name);
    if (!tensor || !tensor->isRaw)
      return createStringError("'" + path + "' has no tensor '" + name + "'; import it again");
    Expected<StringRef> whole = (*model)->getFileBytes(*tensor);
    if (!whole)
      return whole.takeError();
    onnxFiles[tensor->file] = *whole;
    return FileRange{tensor->file, tensor->offset, tensor->size};
  }
  Expected<const Archive *> archive = openOnce(archives, path);
  if (!archive)
    return archive.takeError();
  Expected<const ArchiveEntry *> entry = (*archive)->findStored(name);
  if (!entry)
    return entry.takeError();
  return FileRange{path.str(), (*entry)->offset, (*entry)->size, (*entry)->crc};
}

Expected<StringRef> WeightFiles::read(StringRef location) {
  Expected<FileRange> range = resolve(location);
  if (!range)
    return range.takeError();
  auto [path, name] = splitLocation(location);
  if (path.ends_with(".onnx"))
    return models[path.str()]->getBytes(*models[path.str()]->find(name));
  const Archive &archive = *archives[path.str()];
  return archive.readBytes(*archive.find(name));
}

std::vector<WeightFile> WeightFiles::list() const {
  std::vector<WeightFile> files;
  for (const auto &[path, archive] : archives)
    files.push_back({path, archive->getFileSize(), archive->getDirectoryBytes()});
  for (const auto &[path, bytes] : onnxFiles)
    files.push_back({path, bytes.size(), bytes.take_back(kComparedBytes)});
  return files;
}

} // namespace parashard::import
