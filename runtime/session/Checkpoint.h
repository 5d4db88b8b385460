// The whole state of a training: weights, averages, the optimizer's state, and where in the data it
// is. Keyed by the model's names and whole shapes, by nothing of a plan: what one mesh saved, any
// other loads.
#ifndef PSRT_SESSION_CHECKPOINT_H
#define PSRT_SESSION_CHECKPOINT_H

#include "runtime/session/LineMark.h"
#include "runtime/session/ShardReader.h"
#include <nlohmann/json_fwd.hpp>

namespace psrt {

class FileFields;
class FolderLock;

/// Where a run is; what decides which numbers and samples it takes next.
struct RunPosition {
  int64_t step = 0;               ///< the next one
  uint64_t seed = 0;              ///< of shuffling and random ops
  bool shuffle = false;           ///< of the samples
  int64_t stepSamples = 0;        ///< that a step reads
  std::optional<LineMark> losses; ///< the lines of --losses up to the step, if there are some
  std::string run;                ///< a unique name; a run that resumes has that of its checkpoint
};

/// Where and how a run saves.
struct SaveOptions {
  std::string folder;
  int64_t keep = 0; ///< the so many that were saved last stay; 0: all
  int64_t maxFileBytes = 0;
  FolderLock *lock = nullptr; ///< of the folder, in the first process
  std::string loaded;         ///< the checkpoint that the run resumes from; it is kept too
};

/// Thrown in every process if a checkpoint could not be written. The weights of the ranks are
/// valid.
class SaveFailed : public Error {
public:
  using Error::Error;
};

/// Writes `folder/step-000100` (a further number behind it where that is there), then the pointer
/// `folder/latest`; at any moment `latest` names a whole checkpoint. The same call in every
/// process: each writes what its ranks hold. Throws SaveFailed where it cannot be written: what was
/// there stays; also where an update has made a weight nan or infinite. Returns the path of the
/// checkpoint and its size as text, empty but in the first process.
std::string saveCheckpoint(Session &session, const NamedTensors &tensors, const RunPosition &position,
                           const SaveOptions &options);

/// A checkpoint: its index is read at once, a file when a rank of this process first needs a part
/// of it.
class Checkpoint {
public:
  /// `path`: a folder with the pointer `latest`, or one checkpoint. Fails with BadArgument, naming
  /// the checkpoints that are there, where there is no such folder; with BadInput on what is no
  /// checkpoint, on an index that was changed, and on files that are missing or have another size.
  explicit Checkpoint(const std::string &path);
  const RunPosition &getPosition() const { return position; }
  const std::string &getPath() const { return path; }
  /// Returns all files that are read: the index, those of tensors, and the pointer that named it.
  std::vector<std::string> listFiles() const;
  /// Names of the model's tensors that it holds.
  std::set<std::string> names() const;
  /// Sets all state, each rank from the ranges that it holds; floats are converted. Fails with
  /// BadInput where tensors differ (the first three), and where a file that is read is not as it
  /// was written. The answer says what the program or the checkpoint has not, where it is of a
  /// precision only, and which types were converted.
  std::vector<std::string> load(Session &session, const NamedTensors &tensors) const;

private:
  static void checkSum(nlohmann::json json, const FileFields &fields, const std::string &index);
  void readPosition(const FileFields &fields);
  void addFile(const std::string &name, const FileFields &fields);
  void addTensor(const std::string &name, const FileFields &fields);
  /// `trains`: whether the program has an optimizer's state to read.
  void check(const std::vector<const NamedTensor *> &state, bool trains) const;
  std::vector<std::string> describeDifferences(const std::vector<const NamedTensor *> &state) const;
  void loadTensor(Session &session, const NamedTensor &tensor, const SavedTensor &from) const;
  const SavedTensor *find(const std::string &name) const;

  std::string given, path; ///< the folder that was given, and the checkpoint itself
  RunPosition position;
  std::map<std::string, SavedTensor> saved;
  std::map<std::string, ShardFile> files;
};

/// Returns the files of a folder of checkpoints that each save replaces.
std::vector<std::string> listSavedFiles(const std::string &folder);
/// Whether a folder has the pointer to a checkpoint.
bool hasCheckpoint(const std::string &folder);

} // namespace psrt

#endif
