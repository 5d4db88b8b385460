// What a run is to write, looked at before it begins.
#include "runtime/core/Averages.h"
#include "runtime/data/OutputFile.h"
#include "runtime/data/WeightFiles.h"
#include "runtime/main/Parts.h"
#include <algorithm>
#include <filesystem>

namespace psrt {

/// Whether two paths name one file that is there.
static bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

/// Weights go to a .safetensors file or to a folder: a name of another kind of file is a mistake.
static void checkWeightsName(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!isWeightFolder(path) || fs::is_directory(path, error))
    return;
  if (fs::exists(path, error))
    PSRT_FAIL(
        BadInput,
        "--export-weights \"%s\": it is there and no folder; name a file NAME.safetensors, or a "
        "folder",
        path.c_str());
  fs::path ending = fs::path(path).extension();
  for (const char *other : {".bin", ".pt", ".pth", ".pt2", ".onnx", ".ckpt", ".npz", ".npy", ".h5",
                            ".pkl", ".gguf", ".json", ".txt", ".zip"})
    if (ending == other)
      PSRT_FAIL(BadArgument,
                "--export-weights \"%s\": weights are written to a file NAME.safetensors or to a "
                "folder, not as %s; name \"%s\" or \"%s\"",
                path.c_str(), other, fs::path(path).replace_extension(".safetensors").c_str(),
                fs::path(path).replace_extension().c_str());
}

void checkOutputPaths(const Session &session, const Flags &flags) {
  if (!session.isFirst())
    return;
  std::vector<std::string> read = flags.data.files;
  read.insert(read.end(), flags.evalData.begin(), flags.evalData.end());
  for (const Variable &variable : session.getProgram().variables)
    if (!variable.file.path.empty() &&
        std::find(read.begin(), read.end(), variable.file.path) == read.end())
      // As it is found: beside the program, or from here.
      read.insert(read.end(),
                  {session.getSource().folder() + "/" + variable.file.path, variable.file.path});
  std::string averages;
  if (!flags.save.empty())
    checkFolderWritable(flags.save);
  if (!flags.exportWeights.empty())
    checkWeightsName(flags.exportWeights);
  if (!flags.exportWeights.empty() && keepsAverages(session.getProgram()))
    averages = averagesPath(flags.exportWeights);
  std::vector<std::string> written;
  for (const std::string &path : {flags.losses, flags.log, flags.gradients, flags.exportWeights,
                                  averages, flags.outputs, flags.trace}) {
    if (path.empty())
      continue;
    if (isSameFile(path, "/proc/self/exe"))
      PSRT_FAIL(BadArgument, "\"%s\" is to be written, and is this program; name another file",
                path.c_str());
    for (const std::string &other : read)
      if (isSameFile(path, other))
        PSRT_FAIL(BadArgument, "\"%s\" is to be written, and is read as \"%s\"; name another file",
                  path.c_str(), other.c_str());
    for (const std::string &other : written)
      if (path == other)
        PSRT_FAIL(BadArgument, "\"%s\" is to be written twice; name two files", path.c_str());
    written.push_back(path);
    if ((path == flags.exportWeights || path == averages) && isWeightFolder(path))
      checkFolderWritable(path);
    else if (path == flags.losses || path == flags.log || path == flags.trace)
      checkWritable(path); // line by line
    else
      checkReplaceable(path);
  }
}

std::string describeWritten(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  double bytes = 0;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry &entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".safetensors")
        bytes += double(entry.file_size(error));
  } else if (fs::is_regular_file(path, error)) {
    bytes = double(fs::file_size(path, error));
  }
  return "\"" + path + "\" (" + describeBytes(bytes) + ")";
}

void sayWritten(const Session &session, const Flags &flags, const std::string &path) {
  if (!flags.quiet && session.isFirst())
    std::printf("wrote %s\n", describeWritten(path).c_str());
}

} // namespace psrt
