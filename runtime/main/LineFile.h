// Writes text files line by line, and continues the file of an earlier run.
#ifndef PSRT_MAIN_LINEFILE_H
#define PSRT_MAIN_LINEFILE_H

#include "runtime/data/OutputFile.h"
#include "runtime/session/Checkpoint.h"
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace psrt {

/// A text file that is flushed after each line, for tail -f. The first line creates the file, so a
/// run that fails earlier does not replace an existing file. After a failed write, the object
/// stores the error and writes nothing more, so that the run can still save a checkpoint.
class LineFile {
public:
  /// Takes the text of the existing file. Returns the lines of an earlier run to keep.
  using Keep = std::function<std::string(std::string_view text)>;
  /// Writes nothing if `path` is empty. Without `keep`, all lines of an earlier run are dropped.
  explicit LineFile(std::string path, Keep keep = {});
  /// Creates the file with the lines to keep, unless this run has already written to the file.
  void begin();
  void write(const std::string &line);
  /// Creates an empty file if no line was written. Must be called at the end of the run.
  void finish();
  /// Syncs all lines to disk, unless a write failed.
  void sync();
  /// Returns why the file cannot be written, or "" if it can.
  const std::string &getFailure() const { return failure; }
  /// Returns the number of lines in the file and their hash. Returns nullopt if this run has not
  /// written a line, and for a device or a pipe.
  std::optional<LineMark> mark() const;

private:
  template <typename Body> void keepFailure(Body &&body);
  void open();
  void add(std::string_view text);

  std::string path;
  Keep keep;
  std::optional<OutputFile> file;
  bool isKept = false; ///< whether the file is regular, so that a later run can continue it
  LineCounter counter;
  std::string failure;
};

/// Returns the lines of a log (one JSON object per line) whose step is less than `step`. Drops an
/// incomplete last line. Also drops the last of these lines if an earlier run wrote it only because
/// the run ended there: the number of completed steps is not a multiple of `every`, and nothing was
/// evaluated. Example: with every = 3, lines of the steps 2, 5 and 7 (3, 6 and 8 completed steps)
/// give the lines of the steps 2 and 5.
std::string keepLogLines(std::string_view text, int64_t step, int64_t every);

/// Returns the lines of the steps before `step` from a file with one loss per line. `mark`
/// describes the lines that the file had when the checkpoint was saved. If the file does not begin
/// with these lines, its first line is assumed to be the loss of step 0.
std::string keepLossLines(std::string_view text, int64_t step, const std::optional<LineMark> &mark);

} // namespace psrt

#endif
