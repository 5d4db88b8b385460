// Generates the built-in schedules. Checks schedules, and reads schedules from JSON.
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Support/JsonDocument.h"
#include "shared/Counts.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace llvm;
using namespace parashard::support;

namespace parashard::schedules {
namespace {

Error fail(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

//===----------------------------------------------------------------------===//
// Alternating forwards and backwards: gpipe, 1f1b, interleaved
//===----------------------------------------------------------------------===//

/// Returns the end (exclusive) of the round of micro-batches that begins with `first`. A rank runs
/// one chunk for all micro-batches of a round, then its next chunk. A round of fewer than `ranks`
/// micro-batches would leave the rank idle between chunks, so the remainder is part of the last
/// full round.
/// Example: 2 ranks and 5 micro-batches give the rounds 0-1 and 2-4.
int64_t getEndOfRound(const ScheduleSize &size, int64_t first) {
  bool isLast = size.microBatches - first < 2 * size.ranks;
  return isLast ? size.microBatches : first + size.ranks;
}

/// Returns the forwards (or backwards) of a rank in order. In each round, the rank runs its chunks
/// one after another; backwards start with the last chunk.
std::vector<Task> orderByRounds(const ScheduleSize &size, Work work) {
  std::vector<Task> tasks;
  for (int64_t first = 0, end; first < size.microBatches; first = end) {
    end = getEndOfRound(size, first);
    for (int64_t turn = 0; turn < size.chunks; ++turn)
      for (int64_t m = first; m < end; ++m)
        tasks.push_back({work, work == Work::Forward ? turn : size.chunks - 1 - turn, m});
  }
  return tasks;
}

/// Returns `ahead` forwards, then forwards and backwards in alternation, then the remaining
/// backwards.
/// Example: 4 micro-batches with 1 forward ahead give F0 F1 B0 F2 B1 F3 B2 B3.
std::vector<Task> alternate(ArrayRef<Task> forwards, ArrayRef<Task> backwards, int64_t ahead) {
  std::vector<Task> row;
  size_t next = std::min<size_t>(ahead, forwards.size());
  append_range(row, forwards.take_front(next));
  for (const Task &backward : backwards) {
    if (next < forwards.size())
      row.push_back(forwards[next++]);
    row.push_back(backward);
  }
  return row;
}

PipelineSchedule makeAlternating(const ScheduleSize &size,
                                 function_ref<int64_t(int64_t rank)> forwardsAhead) {
  PipelineSchedule table;
  for (int64_t rank = 0; rank < size.ranks; ++rank)
    table.rows.push_back(alternate(orderByRounds(size, Work::Forward),
                                   orderByRounds(size, Work::Backward), forwardsAhead(rank)));
  return table;
}

PipelineSchedule makeGPipe(const ScheduleSize &size) {
  return makeAlternating(size, [&](int64_t) { return size.microBatches; });
}

PipelineSchedule make1F1B(const ScheduleSize &size) {
  return makeAlternating(size, [&](int64_t rank) { return size.ranks - 1 - rank; });
}

/// Generates 1F1B with twice as many warm-up forwards, so that messages are sent while a rank
/// computes (Zhuang et al., On Optimizing the Communication of Model Parallelism, 2023). Rank r of
/// R stores the activations of up to 2 (R - 1 - r) + 1 micro-batches instead of R - r. Example with
/// R = 4: rank 0 stores the activations of 7 micro-batches instead of 4. Rank 3 stores those of 1
/// micro-batch in both schedules.
PipelineSchedule makeEager1F1B(const ScheduleSize &size) {
  return makeAlternating(size, [&](int64_t rank) { return 2 * (size.ranks - 1 - rank); });
}

/// Generates interleaved 1F1B. The warm-up of rank r has (chunks - 1) x L + 2 (ranks - 1 - r)
/// forwards, where L is the number of micro-batches of the longest round. Each rank after r adds
/// two forwards, because a micro-batch passes this rank on the way forward and on the way back.
/// Example: 2 micro-batches, 2 chunks, rank 1 of ranks 0 and 1: F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1.
PipelineSchedule makeInterleaved(const ScheduleSize &size) {
  int64_t rounds = std::max<int64_t>(1, size.microBatches / size.ranks);
  int64_t longest = size.microBatches - (rounds - 1) * size.ranks;
  return makeAlternating(size, [&](int64_t rank) {
    return (size.chunks - 1) * longest + 2 * (size.ranks - 1 - rank);
  });
}

//===----------------------------------------------------------------------===//
// Separate weight gradients: zb-h1, zb-v
//===----------------------------------------------------------------------===//

/// Generates 1F1B with weight gradients in the bubbles. Rank r delays each weight gradient by r
/// input gradients, compared to 1F1B. The last r weight gradients thus fill the end of the step,
/// where rank r would be idle while ranks 0 to r - 1 finish.
/// Example: 3 micro-batches, rank 1 of ranks 0 and 1: F0 I0 F1 I1 W0 F2 I2 W1 W2.
PipelineSchedule makeZeroBubbleH1(const ScheduleSize &size) {
  PipelineSchedule table = make1F1B(size);
  for (auto [rank, row] : enumerate(table.rows)) {
    std::vector<Task> split;
    int64_t put = int64_t(rank), next = 0;
    for (Task task : row) {
      if (task.work == Work::Backward)
        task.work = Work::BackwardInput;
      split.push_back(task);
      if (task.work == Work::BackwardInput && task.microBatch >= put)
        split.push_back({Work::BackwardWeight, 0, next++});
    }
    while (next < size.microBatches)
      split.push_back({Work::BackwardWeight, 0, next++});
    row = std::move(split);
  }
  return table;
}

/// Simulates the pipeline with tasks of equal time, and lists the tasks of each rank in the order
/// in which they run. Among the tasks that are ready, a rank prefers forwards, then input
/// gradients, then weight gradients. Among tasks of one kind, the rank prefers later chunks.
///
/// A rank stores the activations of at most chunks x ranks pairs (micro-batch, chunk). This is as
/// much memory as on the first rank under 1F1B. Example: with 4 ranks and 2 chunks, each rank
/// stores at most 8 pairs. Chunk 0 has a lower limit, so that chunk 1 can also run.
class ReadyList {
public:
  ReadyList(const ScheduleSize &size, const Placement &placement)
      : size(size), placement(placement), stages(placement.getNumStages()) {}

  std::vector<std::vector<Task>> run() {
    std::vector<std::vector<Task>> rows(size.ranks);
    for (now = 0; !isDone(); ++now) {
      // Tasks of one time step do not use each other's results.
      SmallVector<std::pair<int64_t, Task>> chosen;
      for (int64_t rank = 0; rank < size.ranks; ++rank)
        if (std::optional<Task> task = choose(rank))
          chosen.push_back({rank, *task});
      for (auto [rank, task] : chosen) {
        rows[rank].push_back(task);
        Stage &stage = stages[placement.getStage(rank, task.chunk)];
        std::vector<int64_t> &ends = stage.getEnds(task.work);
        ends.push_back(now + 1);
      }
    }
    return rows;
  }

private:
  /// End times of micro-batches 0, 1, ... on one stage, for each kind of task.
  struct Stage {
    std::vector<int64_t> forwards, backwards, weights;

    std::vector<int64_t> &getEnds(Work work) {
      return work == Work::Forward ? forwards : work == Work::BackwardInput ? backwards : weights;
    }
    int64_t getLive() const { return int64_t(forwards.size() - weights.size()); }
  };

  bool isDone() const {
    return all_of(stages, [&](const Stage &stage) {
      return int64_t(stage.weights.size()) == size.microBatches;
    });
  }
  bool hasEnded(const std::vector<int64_t> &ends, size_t which) const {
    return which < ends.size() && ends[which] <= now;
  }
  const Stage &get(int64_t rank, int64_t chunk) const {
    return stages[placement.getStage(rank, chunk)];
  }

  bool mayForward(int64_t rank, int64_t chunk) const {
    int64_t number = placement.getStage(rank, chunk), live = 0;
    size_t next = stages[number].forwards.size();
    for (int64_t other = 0; other < size.chunks; ++other)
      live += get(rank, other).getLive();
    bool hasRoom = live < size.chunks * size.ranks &&
                   (chunk > 0 || get(rank, 0).getLive() < size.chunks * size.ranks - 1 - rank);
    return int64_t(next) < size.microBatches && hasRoom &&
           (number == 0 || hasEnded(stages[number - 1].forwards, next));
  }
  bool mayBackward(int64_t rank, int64_t chunk) const {
    int64_t number = placement.getStage(rank, chunk);
    size_t next = stages[number].backwards.size();
    bool isLast = number + 1 == placement.getNumStages();
    return hasEnded(stages[number].forwards, next) &&
           (isLast || hasEnded(stages[number + 1].backwards, next));
  }
  bool mayWeight(int64_t rank, int64_t chunk) const {
    const Stage &stage = get(rank, chunk);
    return hasEnded(stage.backwards, stage.weights.size());
  }

  std::optional<Task> choose(int64_t rank) const {
    for (Work work : {Work::Forward, Work::BackwardInput, Work::BackwardWeight})
      for (int64_t chunk = size.chunks - 1; chunk >= 0; --chunk) {
        const Stage &stage = get(rank, chunk);
        if (work == Work::Forward && mayForward(rank, chunk))
          return Task{work, chunk, int64_t(stage.forwards.size())};
        if (work == Work::BackwardInput && mayBackward(rank, chunk))
          return Task{work, chunk, int64_t(stage.backwards.size())};
        if (work == Work::BackwardWeight && mayWeight(rank, chunk))
          return Task{work, chunk, int64_t(stage.weights.size())};
      }
    return std::nullopt;
  }

  ScheduleSize size;
  Placement placement;
  std::vector<Stage> stages;
  int64_t now = 0;
};

PipelineSchedule makeZeroBubbleV(const ScheduleSize &size) {
  PipelineSchedule table;
  table.rows = ReadyList(size, {PlacementKind::V, size.ranks, size.chunks}).run();
  return table;
}

constexpr int64_t kAnyChunks = 1 << 10;
constexpr Schedule kSchedules[] = {
    {"gpipe", "all forwards, then all backwards", PlacementKind::Loop, 1, 1, makeGPipe},
    {"1f1b", "alternating forwards and backwards", PlacementKind::Loop, 1, 1, make1F1B},
    {"1f1b-eager", "1f1b with twice as many warm-up forwards, which hides messages",
     PlacementKind::Loop, 1, 1, makeEager1F1B},
    {"interleaved", "1f1b with several chunks of the model per coordinate", PlacementKind::Loop, 2,
     kAnyChunks, makeInterleaved},
    {"zb-h1", "1f1b with weight gradients in the bubbles", PlacementKind::Loop, 1, 1,
     makeZeroBubbleH1},
    {"zb-v", "two chunks per coordinate in V order, with weight gradients in the bubbles",
     PlacementKind::V, 2, 2, makeZeroBubbleV},
};

} // namespace

ArrayRef<Schedule> getSchedules() { return kSchedules; }

std::string listSchedules() {
  return join(map_range(kSchedules, [](const Schedule &each) { return std::string(each.name); }),
              ", ");
}

bool PipelineSchedule::splitsBackward() const {
  return any_of(rows, [](const std::vector<Task> &row) {
    return any_of(row, [](const Task &task) { return task.work == Work::BackwardWeight; });
  });
}

Expected<PipelineSchedule> makePipelineSchedule(StringRef name, const ScheduleSize &size) {
  std::vector<std::string> names;
  for (const Schedule &schedule : getSchedules())
    names.emplace_back(schedule.name);
  const Schedule *schedule =
      find_if(getSchedules(), [&](const Schedule &s) { return s.name == name; });
  if (schedule == getSchedules().end())
    return fail("unknown schedule '" + name + "'" + describeNearest(name.str(), names));
  if (size.ranks < 1 || size.microBatches < 1)
    return fail("a pipeline needs at least 1 coordinate and 1 micro-batch, got " +
                Twine(size.ranks) + " and " + Twine(size.microBatches));
  if (size.chunks < schedule->minChunks || size.chunks > schedule->maxChunks)
    return fail("the schedule '" + name + "' needs " + Twine(schedule->minChunks) +
                (schedule->maxChunks > schedule->minChunks
                     ? " to " + std::to_string(schedule->maxChunks)
                     : "") +
                (schedule->minChunks == 1 ? " chunk" : " chunks") +
                " per pipeline coordinate, got " + Twine(size.chunks));
  PipelineSchedule table = schedule->make(size);
  table.name = name.str();
  table.placement = {schedule->placement, size.ranks, size.chunks};
  table.microBatches = size.microBatches;
  return table;
}

//===----------------------------------------------------------------------===//
// Checks of schedules
//===----------------------------------------------------------------------===//

std::string describeTask(const Task &task) {
  static constexpr char kLetters[] = {'F', 'B', 'I', 'W'};
  std::string text = kLetters[int(task.work)] + std::to_string(task.microBatch);
  return task.chunk ? text + "." + std::to_string(task.chunk) : text;
}

namespace {

/// Progress of one chunk while a rank's row is read.
struct ChunkProgress {
  int64_t forwards = 0, backwards = 0, weights = 0; ///< number of micro-batches done, in order
};

class RowChecker {
public:
  RowChecker(const PipelineSchedule &table, int64_t rank) : table(table), rank(rank) {
    chunks.resize(table.placement.chunks);
  }

  Error check() {
    for (const Task &task : table.rows[rank])
      if (Error error = add(task))
        return error;
    for (auto [chunk, progress] : enumerate(chunks)) {
      for (int64_t done : {progress.forwards, progress.backwards, progress.weights})
        if (done < table.microBatches)
          return failAt("has " + Twine(progress.forwards) + " forwards, " +
                        Twine(progress.backwards) + " backwards and " + Twine(progress.weights) +
                        " weight gradients of chunk " + Twine(chunk) + "; expected " +
                        Twine(table.microBatches) + " of each");
    }
    return Error::success();
  }

private:
  Error failAt(const Twine &message) const {
    return fail("schedule '" + table.name + "', row " + Twine(rank) + ": " + message);
  }

  Error add(const Task &task) {
    std::string text = describeTask(task);
    if (task.chunk < 0 || task.chunk >= table.placement.chunks)
      return failAt(text + " names chunk " + Twine(task.chunk) + "; the number of chunks is " +
                    Twine(table.placement.chunks));
    if (task.microBatch < 0 || task.microBatch >= table.microBatches)
      return failAt(text + " names micro-batch " + Twine(task.microBatch) +
                    "; the number of micro-batches is " + Twine(table.microBatches));
    ChunkProgress &progress = chunks[task.chunk];
    if (task.work == Work::Forward)
      return advance(task, progress.forwards, true, "");
    if (task.work != Work::BackwardWeight)
      if (Error error =
              advance(task, progress.backwards, task.microBatch < progress.forwards, "its forward"))
        return error;
    if (task.work != Work::BackwardInput)
      return advance(task, progress.weights, task.microBatch < progress.backwards,
                     "the gradient of its inputs");
    return Error::success();
  }

  /// Adds `task` to `done`, the number of micro-batches for which this kind of task has run. Fails
  /// if the task occurs twice or skips a micro-batch. Also fails if its input is not computed yet
  /// (`isReady` is false); the message calls this input `needs`.
  Error advance(const Task &task, int64_t &done, bool isReady, const Twine &needs) const {
    std::string text = describeTask(task);
    if (task.microBatch < done)
      return failAt(text + " occurs twice");
    if (Task before{task.work, task.chunk, done}; task.microBatch > done && !contains(before))
      return failAt(describeTask(before) + " is missing, but " + text + " exists");
    if (task.microBatch > done)
      return failAt(text + " precedes the same task of micro-batch " + Twine(done) +
                    (task.work == Work::Forward
                         ? "; running statistics are updated in the order of the micro-batches"
                         : "; gradients are added in the order of the micro-batches"));
    Work before = task.work == Work::BackwardWeight ? Work::BackwardInput : Work::Forward;
    if (!isReady && !contains({before, task.chunk, task.microBatch}))
      return failAt(text + " exists, but " + needs + ", " +
                    describeTask({before, task.chunk, task.microBatch}) + ", is missing");
    if (!isReady)
      return failAt(text + " precedes " + needs);
    ++done;
    return Error::success();
  }

  /// Returns true if the row contains `wanted`, or a B task that includes `wanted`.
  bool contains(const Task &wanted) const {
    return any_of(table.rows[rank], [&](const Task &task) {
      bool does =
          task.work == wanted.work || (task.work == Work::Backward && wanted.work != Work::Forward);
      return does && task.chunk == wanted.chunk && task.microBatch == wanted.microBatch;
    });
  }

  const PipelineSchedule &table;
  int64_t rank;
  std::vector<ChunkProgress> chunks;
};

} // namespace

Error checkPipelineSchedule(const PipelineSchedule &table) {
  if (int64_t(table.rows.size()) != table.placement.ranks)
    return fail("schedule '" + table.name + "' has " + describeCount(table.rows.size(), "row") +
                " for " + Twine(table.placement.ranks) + " pipeline coordinates");
  for (int64_t rank = 0; rank < table.placement.ranks; ++rank)
    if (Error error = RowChecker(table, rank).check())
      return error;
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Schedules in JSON
//===----------------------------------------------------------------------===//

/// Parses "I3.1"; returns nullopt if the text is not a task.
static std::optional<Task> parseTask(StringRef text) {
  static constexpr StringLiteral kLetters = "FBIW";
  size_t letter = text.empty() ? StringRef::npos : kLetters.find(text.front());
  if (letter == StringRef::npos)
    return std::nullopt;
  Task task{Work(letter), 0, 0};
  auto [microBatch, chunk] = text.drop_front().split('.');
  bool hasChunk = text.contains('.');
  if (microBatch.getAsInteger(10, task.microBatch) ||
      (hasChunk && chunk.getAsInteger(10, task.chunk)))
    return std::nullopt;
  return task;
}

static Expected<std::vector<Task>> readRow(JsonValue row, const Twine &where) {
  std::vector<Task> tasks;
  if (!row.isArray())
    return fail(where + " is not a list of tasks such as \"F0\"");
  for (JsonValue entry : row.getElements()) {
    std::optional<std::string> text = entry.getAsString();
    std::optional<Task> task = text ? parseTask(*text) : std::nullopt;
    if (!task)
      return fail(
          where + " has " + (text ? "\"" + *text + "\"" : "an entry that is not a string") +
          "; expected F, B, I or W, a micro-batch, and an optional .CHUNK: \"F0\", \"W3.1\"");
    tasks.push_back(*task);
  }
  return tasks;
}

Expected<PipelineSchedule> readPipelineSchedule(StringRef json, StringRef name) {
  Expected<JsonDocument> document = JsonDocument::parse(json);
  if (!document)
    return fail("schedule '" + name + "': " + toString(document.takeError()));
  PipelineSchedule table;
  table.name = name.str();
  JsonValue root = document->getRoot();
  for (const auto &[key, value] : root.getMembers())
    if (key != "placement" && key != "chunks" && key != "rows")
      return fail("schedule '" + name + "' has \"" + key +
                  "\"; expected placement, chunks and rows");
  std::string placement = root.getString("placement").value_or("loop");
  if (placement != "loop" && placement != "v")
    return fail("schedule '" + name + "' has the placement \"" + placement +
                "\"; expected loop or v");
  if (std::optional<double> chunks = root.get("chunks") ? root.get("chunks")->getAsNumber() : 1;
      !chunks || *chunks != std::floor(*chunks))
    return fail("schedule '" + name + "': \"chunks\" is not a whole number");
  std::optional<JsonValue> rows = root.get("rows");
  if (!rows || !rows->isArray())
    return fail("schedule '" + name +
                "' lacks \"rows\", a list of tasks for each pipeline coordinate");
  for (auto [rank, row] : enumerate(rows->getElements())) {
    Expected<std::vector<Task>> tasks = readRow(row, "schedule '" + name + "', row " + Twine(rank));
    if (!tasks)
      return tasks.takeError();
    for (const Task &task : *tasks)
      if (task.work == Work::Forward)
        table.microBatches = std::max(table.microBatches, task.microBatch + 1);
    table.rows.push_back(std::move(*tasks));
  }
  table.placement = {placement == "v" ? PlacementKind::V : PlacementKind::Loop,
                     int64_t(table.rows.size()), root.getInteger("chunks").value_or(1)};
  constexpr int64_t kMax = 1 << 20;
  if (table.rows.empty() || table.placement.chunks < 1 || table.placement.chunks > kMax ||
      table.microBatches > kMax)
    return fail("schedule '" + name + "' has rows: " + Twine(table.rows.size()) +
                " (one per pipeline coordinate), chunks: " + Twine(table.placement.chunks) +
                ", micro-batches: " + Twine(table.microBatches) + "; expected 1 to " + Twine(kMax) +
                " of each");
  if (Error error = checkPipelineSchedule(table))
    return std::move(error);
  return table;
}

//===----------------------------------------------------------------------===//
// Schedules by name or file
//===----------------------------------------------------------------------===//

static bool isFile(StringRef schedule) { return schedule.ends_with(".json"); }

static Expected<PipelineSchedule> readPipelineScheduleFile(StringRef path) {
  auto file = MemoryBuffer::getFile(path);
  if (!file)
    return fail("schedule '" + path + "' cannot be read: " + file.getError().message());
  return readPipelineSchedule((*file)->getBuffer(), path);
}

StringRef chooseSchedule(const Placement &placement) {
  if (placement.chunks == 1)
    return "1f1b";
  return placement.kind == PlacementKind::V ? "zb-v" : "interleaved";
}

Expected<PlacementKind> findPlacement(StringRef schedule) {
  if (schedule.empty())
    return PlacementKind::Loop;
  if (isFile(schedule)) {
    Expected<PipelineSchedule> table = readPipelineScheduleFile(schedule);
    if (!table)
      return table.takeError();
    return table->placement.kind;
  }
  for (const Schedule &known : getSchedules())
    if (schedule == known.name)
      return known.placement;
  return makePipelineSchedule(schedule, {1, 1, 1}).takeError(); // names the nearest schedules
}

/// Returns "2 pipeline coordinates x 3 chunks (loop), 8 micro-batches".
static std::string describeSize(const Placement &placement, int64_t microBatches) {
  return (Twine(placement.ranks) + " pipeline coordinates x " + Twine(placement.chunks) +
          " chunks (" + (placement.kind == PlacementKind::V ? "v" : "loop") + "), " +
          describeCount(microBatches, "micro-batch"))
      .str();
}

Expected<PipelineSchedule> findPipelineSchedule(StringRef schedule, const Placement &placement,
                                                int64_t microBatches) {
  if (placement.getNumStages() == 1)
    return makePipelineSchedule("1f1b", {1, 1, microBatches});
  if (schedule.empty())
    schedule = chooseSchedule(placement);
  Expected<PipelineSchedule> table =
      isFile(schedule)
          ? readPipelineScheduleFile(schedule)
          : makePipelineSchedule(schedule, {placement.ranks, placement.chunks, microBatches});
  if (!table)
    return table.takeError();
  const Placement &has = table->placement;
  if (has.kind != placement.kind || has.ranks != placement.ranks ||
      has.chunks != placement.chunks || table->microBatches != microBatches)
    return fail("schedule '" + schedule + "' is for " + describeSize(has, table->microBatches) +
                "; the plan has " + describeSize(placement, microBatches));
  return table;
}

} // namespace parashard::schedules
