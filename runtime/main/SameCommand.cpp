// Checks that the processes of a job run the same program with the same flags.
#include "runtime/bootstrap/Processes.h"
#include "runtime/main/Parts.h"
#include "runtime/session/Source.h"
#include "shared/PrintableText.h"
#include <algorithm>
#include <sstream>

namespace psrt {
namespace {

/// The program and the flags of a process. The text form has one line for `file`, then one line per
/// part.
struct Command {
  std::string file;               ///< path of the program; may differ between hosts
  std::vector<std::string> parts; ///< the program's hash, then the flags
};

std::string print(const Command &command) {
  std::string text = parashard::escapeControls(command.file) + '\n';
  for (const std::string &part : command.parts)
    text += parashard::escapeControls(part) + '\n';
  return text;
}

Command parse(const std::string &text) {
  Command command;
  std::istringstream lines(text);
  std::getline(lines, command.file);
  for (std::string line; std::getline(lines, line);)
    command.parts.push_back(line);
  return command;
}

/// Returns the first part of `command` that `other` lacks, or "nothing".
std::string findMissing(const Command &command, const Command &other) {
  for (const std::string &part : command.parts)
    if (std::find(other.parts.begin(), other.parts.end(), part) == other.parts.end())
      return part;
  return "nothing";
}

/// Fails if `other`, the command of `rank`, differs from `first`, the command of rank 0.
void compare(const Command &first, const Command &other, size_t rank) {
  if (first.parts.at(0) != (other.parts.empty() ? "" : other.parts[0]))
    PSRT_FAIL(BadArgument,
              "rank %zu runs another program than rank 0: \"%s\" instead of "
              "\"%s\"; start all ranks with copies of the same program",
              rank, other.file.c_str(), first.file.c_str());
  if (first.parts != other.parts)
    PSRT_FAIL(
        BadArgument,
        "rank %zu has other flags than rank 0: rank 0 has %s, rank %zu has %s instead; give all "
        "ranks the same flags, also for output files (only rank 0 writes them, except for "
        "checkpoints)",
        rank, findMissing(first, other).c_str(), rank, findMissing(other, first).c_str());
}

/// Returns a hash that identifies a compiled program.
std::string hashOf(const ProgramSource &source) {
  uint64_t hash = hashText(std::string(source.json, source.size));
  return format("%016llx", (unsigned long long)hash);
}

Command describe(const ProgramSource &source, const Flags &flags, std::string file) {
  Command command{std::move(file), {hashOf(source)}};
  command.parts.insert(command.parts.end(), flags.given.begin(), flags.given.end());
  return command;
}

} // namespace

std::string describeCommand(const ProgramSource &source, const Flags &flags) {
  return print(describe(source, flags, /*file=*/""));
}

void checkSameCommand(Job &job, const ProgramSource &source, const Flags &flags,
                      const std::string &checkpoint) {
  Command command = describe(source, flags, executablePath());
  if (!checkpoint.empty()) // another run may save a checkpoint while the ranks start
    command.parts.push_back("--load latest (\"" + checkpoint + "\")");
  std::vector<std::string> texts = job.collect(print(command));
  for (size_t rank = 1; rank < texts.size(); ++rank)
    compare(parse(texts[0]), parse(texts[rank]), rank);
  job.barrier(); // all ranks wait for the comparison on rank 0
}

} // namespace psrt
