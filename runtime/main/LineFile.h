// Writes text files line by line, resuming the file of an earlier run.
#ifndef PSRT_MAIN_LINEFILE_H
#define PSRT_MAIN_LINEFILE_H

#include "runtime/data/OutputFile.h"
#include "runtime/session/Checkpoint.h"
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace psrt {

/// A text file that is flushed after each line, so that it can be followed. The file is created
/// with its first line: a run that fails earlier, or writes nothing, leaves an existing file alone.
/// If a write fails, the error is kept and nothing more is written, so that the run can still save.
class LineFile {
public:
  /// Returns the lines of an earlier run that stay, given the text of the existing file.
  using Keep = std::function<std::string(std::string_view text)>;
  /// Writes nothing if `path` is empty. Without `keep`, all lines of an earlier run are dropped.
  explicit LineFile(std::string path, Keep keep = {});
  /// Creates the file with the lines that stay, if this run has not written to it yet.
  void begin();
  void write(const std::string &line);
  /// Ends the run: creates an empty file if none exists.
  void finish();
  /// Syncs all lines to disk, unless a write failed.
  void sync();
  /// Returns why the file cannot be written, or "" if it can.
  const std::string &getFailure() const { return failure; }
  /// Returns the number of lines in the file and their checksum. Returns nullopt if this run has
  /// written no line, and for a device or a pipe.
  std::optional<LineMark> mark() const;

private:
  template <typename Body> void keepFailure(Body &&body);
  void open();
  void add(std::string_view text);

  std::string path;
  Keep keep;
  std::optional<OutputFile> file;
  bool isKept = false; ///< a regular file, which a later run can resume
  LineCounter counter;
  std::string failure;
};

/// Returns the lines of a log (one JSON object per line) before `step`. Drops a last line that was
/// cut short. Also drops the last kept line if an earlier run wrote it only because it ended there:
/// the number of completed steps is not a multiple of `every`, and nothing was evaluated. Example:
/// with every = 3, the steps 3, 6 and 8 give 3 and 6.
std::string keepLogLines(std::string_view text, int64_t step, int64_t every);

/// Returns the lines of a file of losses up to `step`; the file has one loss per line. `mark`
/// describes the lines when the checkpoint was saved. A file that does not begin with those lines
/// is assumed to begin at step 0. A shorter file is kept whole.
std::string keepLossLines(std::string_view text, int64_t step, const std::optional<LineMark> &mark);

} // namespace psrt

#endif
