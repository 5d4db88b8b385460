// Checks the output paths of a run before the run begins.
#include "runtime/data/ExportFolder.h"
#include "runtime/data/FolderLock.h"
#include "runtime/data/OutputFile.h"
#include "runtime/data/WeightFiles.h"
#include "runtime/main/Parts.h"
#include "runtime/session/Averages.h"
#include "shared/FileClaims.h"
#include <filesystem>

namespace psrt {

namespace fs = std::filesystem;

/// A path without the ending .safetensors names a folder. Fails if such a path is an existing file,
/// or has the ending of another file format. Example: "out.pt" is refused, because its user
/// probably expects a file.
static void checkWeightsName(const std::string &path) {
  std::error_code error;
  if (!isWeightFolder(path) || fs::is_directory(path, error))
    return;
  if (fs::exists(path, error))
    PSRT_FAIL(BadArgument,
              "--export-weights \"%s\": exists and is not a folder; give NAME.safetensors or a "
              "folder",
              path.c_str());
  fs::path ending = fs::path(path).extension();
  for (const char *other : {".bin", ".pt", ".pth", ".pt2", ".onnx", ".ckpt", ".npz", ".npy", ".h5",
                            ".pkl", ".gguf", ".json", ".txt", ".zip"})
    if (ending == other)
      PSRT_FAIL(BadArgument,
                "--export-weights \"%s\": weights are written to NAME.safetensors or to a "
                "folder, not as %s; give \"%s\" or \"%s\"",
                path.c_str(), other, fs::path(path).replace_extension(".safetensors").c_str(),
                fs::path(path).replace_extension().c_str());
}

namespace {

/// Records the files that the run reads, then those that it writes. Fails if an output path equals
/// another path of the run.
class OutputCheck {
public:
  OutputCheck(const Session &session, const Flags &flags) : session(session), flags(flags) {}
  void addReads(const std::vector<std::string> &loaded);
  void checkWeights(const std::string &path);
  void checkFile(const char *flag, const std::string &path, void (*checkPath)(const std::string &));

private:
  void addModel();
  void claim(const char *flag, const std::string &path);

  const Session &session;
  const Flags &flags;
  parashard::FileClaims claims;
  std::vector<std::string> weightFolders; ///< folders that --export-weights writes
};

/// Adds the model and its weight files, in every folder where the runtime searches for them.
void OutputCheck::addModel() {
  const Program &program = session.getProgram();
  std::vector<std::string> names{program.model};
  for (const WeightFile &file : program.files) {
    names.insert(names.end(), {file.path, file.absolute});
    // The file may be the external data of an ONNX model. Such data is in the model's folder, so
    // the model may be next to the file.
    names.push_back(fs::path(file.absolute).replace_filename(fs::path(program.model).filename()));
  }
  for (const std::string &name : names)
    for (const fs::path &path : {fs::path(name), session.getSource().folder() / fs::path(name),
                                 session.getSource().folder() / fs::path(name).filename()})
      if (!name.empty())
        claims.add(path, "is read as the model, \"" + path.string() + "\"");
}

void OutputCheck::addReads(const std::vector<std::string> &loaded) {
  auto addAll = [&](const std::vector<std::string> &paths) {
    for (const std::string &path : paths)
      claims.add(path, "is read as \"" + path + "\"");
  };
  claims.add("/proc/self/exe", "is this program");
  addAll(expandPatterns(flags.data.files));
  addAll(expandPatterns(flags.evalData));
  addAll(loaded);
  if (!flags.config.empty())
    addAll({flags.config});
  addModel();
  if (!flags.save.empty())
    for (const std::string &path : listSavedFiles(flags.save))
      claims.add(path, "is written by --save");
}

/// Fails if the run already reads or writes `path`.
void OutputCheck::claim(const char *flag, const std::string &path) {
  // An output flag may name the file to which stdout or stderr is redirected; lines are appended to
  // this file.
  if (isOwnStream(path))
    return;
  if (const std::string *use = claims.find(path))
    PSRT_FAIL(BadArgument, "\"%s\" cannot be written by %s: it %s; give another file", path.c_str(),
              flag, use->c_str());
  claims.add(path, format("is also written by %s", flag));
}

void OutputCheck::checkWeights(const std::string &path) {
  const char *flag = "--export-weights";
  if (!isWeightFolder(path))
    return checkFile(flag, path, checkReplaceable);
  for (const std::string &file : listExportedFiles(path))
    claim(flag, file);
  nameFlag(flag, [&] { checkFolderWritable(path); });
  weightFolders.push_back(path);
}

void OutputCheck::checkFile(const char *flag, const std::string &path,
                            void (*checkPath)(const std::string &)) {
  if (path.empty())
    return;
  std::string name = fs::path(path).filename();
  // The number of weight files is not known before they are written. Every name of a weight file
  // therefore counts as written.
  for (const std::string &folder : weightFolders)
    if (isExportName(name))
      claims.add((fs::path(folder) / name).string(), "is also written by --export-weights");
  claim(flag, path);
  nameFlag(flag, [&] { checkPath(path); });
}

} // namespace

void nameFlag(const char *flag, const std::function<void()> &check) {
  try {
    check();
  } catch (const FolderInUse &) {
    throw; // its message already begins with --save
  } catch (const Error &error) {
    Status status = error.status;
    status.message = std::string(flag) + ": " + status.message;
    throw Error(status);
  }
}

void checkOutputPaths(const Session &session, const Flags &flags,
                      const std::vector<std::string> &loaded) {
  if (!session.isFirst())
    return;
  OutputCheck check(session, flags);
  check.addReads(loaded);
  if (!flags.save.empty())
    nameFlag("--save", [&] { checkFolderWritable(flags.save); });
  if (!flags.exportWeights.empty()) {
    checkWeightsName(flags.exportWeights);
    check.checkWeights(flags.exportWeights);
    if (keepsAverages(session.getProgram()))
      check.checkWeights(averagesPath(flags.exportWeights));
  }
  // The first three outputs may be devices or pipes. Each other output is written under a
  // temporary name, and renamed when it is complete.
  check.checkFile("--losses", flags.losses, checkWritable);
  check.checkFile("--log", flags.log, checkWritable);
  check.checkFile("--trace", flags.trace, checkWritable);
  check.checkFile("--gradients", flags.gradients, checkReplaceable);
  check.checkFile("--outputs", flags.outputs, checkReplaceable);
}

std::string describeWritten(const std::string &path) {
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

void reportWritten(const Session &session, const Flags &flags, const std::string &path) {
  if (!flags.quiet && session.isFirst())
    std::printf("wrote %s\n", describeWritten(path).c_str());
}

} // namespace psrt
