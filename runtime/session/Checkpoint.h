// Saves and loads the state of a training run: weights, averages, optimizer state and position in
// the data. Tensors have the model's names and global shapes, so a checkpoint can be loaded on any
// mesh.
#ifndef PSRT_SESSION_CHECKPOINT_H
#define PSRT_SESSION_CHECKPOINT_H

#include "runtime/session/LineMark.h"
#include "runtime/session/ShardReader.h"
#include <nlohmann/json_fwd.hpp>

namespace psrt {

class FileFields;
class FolderLock;

/// The position of a run. Determines the next samples and random numbers of the run.
struct RunPosition {
  int64_t step = 0;               ///< the next step
  uint64_t seed = 0;              ///< seed of shuffling and random ops
  bool shuffle = false;           ///< whether samples are shuffled
  int64_t stepSamples = 0;        ///< samples per step
  std::optional<LineMark> losses; ///< lines of the file of --losses up to the step, if any
  std::string run;                ///< unique name of the run; a resumed run keeps the name
};

/// Options for saving checkpoints.
struct SaveOptions {
  std::string folder;
  int64_t keep = 0; ///< number of newest checkpoints to keep; 0: all
  int64_t maxFileBytes = 0;
  FolderLock *lock = nullptr; ///< lock of the folder, on rank 0
  std::string loaded;         ///< the checkpoint that the run resumed from; always kept
};

/// Thrown in every process if a checkpoint could not be written. The weights of the ranks stay
/// valid.
class SaveFailed : public Error {
public:
  using Error::Error;
};

/// Writes `folder/step-000100`, or `step-000100-2` if this folder exists, and then the pointer
/// `folder/latest`, which always names a complete checkpoint. All processes make the same call, and
/// each writes the shards of its ranks. Throws SaveFailed if the checkpoint cannot be written or if
/// an update has made a weight nan or infinite; existing checkpoints are kept. Returns the path and
/// size as text on rank 0, "" elsewhere.
std::string saveCheckpoint(Session &session, const NamedTensors &tensors,
                           const RunPosition &position, const SaveOptions &options);

/// An opened checkpoint. The constructor reads the index. A tensor file is opened when a rank of
/// this process first needs it.
class Checkpoint {
public:
  /// `path` is a folder with the pointer `latest`, or the folder of one checkpoint. If the folder
  /// does not exist, fails with BadArgument and lists nearby checkpoints. Fails with BadInput if
  /// the folder is not a checkpoint, the index was changed, or files are missing or have another
  /// size.
  explicit Checkpoint(const std::string &path);
  const RunPosition &getPosition() const { return position; }
  const std::string &getPath() const { return path; }
  /// Returns all files that this object reads: the index, the tensor files, and the pointer that
  /// named the checkpoint.
  std::vector<std::string> listFiles() const;
  /// Returns the names of all tensors in the checkpoint, including optimizer state.
  std::set<std::string> names() const;
  /// Sets all state. Each rank reads only its own shards, and floats are converted to the program's
  /// dtypes. Fails with BadInput if names, shapes or types do not match (the error lists the first
  /// three tensors), or if a file was changed after it was written. Returns notes on converted
  /// dtypes, and on tensors that may differ: loss scales, fp8 scales and, for a program of
  /// --inference, optimizer state.
  std::vector<std::string> load(Session &session, const NamedTensors &tensors) const;

private:
  static void checkSum(nlohmann::json json, const FileFields &fields, const std::string &index);
  void readPosition(const FileFields &fields);
  void addFile(const std::string &name, const FileFields &fields);
  void addTensor(const std::string &name, const FileFields &fields);
  /// `trains` is false for a program of --inference, which has no optimizer state.
  void check(const std::vector<const NamedTensor *> &state, bool trains) const;
  std::vector<std::string> describeDifferences(const std::vector<const NamedTensor *> &state) const;
  void loadTensor(Session &session, const NamedTensor &tensor, const SavedTensor &from) const;
  const SavedTensor *find(const std::string &name) const;

  std::string given, path; ///< the given folder, and the checkpoint itself
  RunPosition position;
  std::map<std::string, SavedTensor> saved;
  std::map<std::string, ShardFile> files;
};

/// Returns the files that each save to `folder` replaces.
std::vector<std::string> listSavedFiles(const std::string &folder);
/// Returns whether a folder has the pointer to a checkpoint.
bool hasCheckpoint(const std::string &folder);

} // namespace psrt

#endif
