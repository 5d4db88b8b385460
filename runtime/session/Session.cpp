// Makes ranks, runs entries, and gathers and scatters tensors.
#include "runtime/session/Session.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/core/Element.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/core/ScalarRange.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace psrt {

/// Returns the compile line for `ranks` ranks. Changes the size of the last data axis, or of the
/// first axis in a mesh without data axes. Example: mesh dp=2,tp=4 and 16 ranks give dp=4,tp=4. If
/// the product of the other sizes does not divide `ranks`, the mesh becomes dp=RANKS.
static std::string fittingLine(const Program &program, int ranks) {
  Mesh mesh = program.mesh;
  int64_t rest = 1, chosen = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].kind == AxisKind::Data)
      chosen = int64_t(i);
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    rest *= int64_t(i) == chosen ? 1 : mesh.axes[i].size;
  if (mesh.axes.empty() || ranks % rest != 0)
    mesh.axes = {{"dp", AxisKind::Data, ranks}};
  else
    mesh.axes[chosen].size = ranks / rest;
  std::string line =
      program.compileLine.empty() ? "ps-compile " + program.model : program.compileLine;
  size_t at = line.find("--mesh");
  if (at != std::string::npos) {
    size_t end = line.find(' ', line.find_first_of(" =", at) + 1);
    line.erase(at, end == std::string::npos ? std::string::npos : end + 1 - at);
  }
  while (!line.empty() && line.back() == ' ')
    line.pop_back();
  return line + " --mesh " + mesh.text();
}

void checkRanks(const Program &program, int ranks) {
  int size = int(program.mesh.size());
  if (ranks < 0)
    PSRT_FAIL(BadArgument,
              "the number of ranks is %d; expected 1 or more, or 0 for the number in the mesh",
              ranks);
  if (ranks > 0 && ranks != size)
    PSRT_FAIL(BadArgument,
              "the program is compiled for %d ranks (mesh %s), not %d; compile with: %s", size,
              program.mesh.text().c_str(), ranks, fittingLine(program, ranks).c_str());
}

Session::Session(const ProgramSource &source, const SessionOptions &options)
    : source(source), options(options), program(parseProgram({source.json, source.size})) {
  int size = int(program.mesh.size());
  checkRanks(program, options.ranks);
  if (options.job)
    checkRanks(program, options.job->size());
  if (options.threads < 0 || options.threads > kMaxThreads)
    PSRT_FAIL(BadArgument,
              "the number of threads per rank must be 1 to %d (0: cores / ranks), not %d",
              kMaxThreads, options.threads);
  int here = options.job ? 1 : size, first = options.job ? options.job->rank() : 0;
  int cores =
      options.job ? options.job->cores() : std::max(1, int(std::thread::hardware_concurrency()));
  threads = options.threads > 0 ? options.threads : std::max(1, cores / here);
  bool dedicated = threads * here <= cores;
  device = makeDevice({program, this->source, here, first, !options.job, options.comm});
  communication = options.job ? makeAmongProcesses(*options.job)
                              : device->makeCommunication(program.mesh, dedicated);
  if (!communication)
    communication = makeLocalCommunication(program.mesh, dedicated);
  ranks.resize(size);
  rankThreads = std::make_unique<RankThreads>(here, [this] { communication->abort(); }, first);
  try {
    rankThreads->run([&](int index) { makeRank(index, dedicated); });
  } catch (const Error &error) {
    recover(error.status);
  }
  if (options.watch && here > 1)
    deadlockMonitor = std::make_unique<DeadlockMonitor>(
        silenceAllowed(), [this] { return lookAtRanks(); },
        [this, silence = silenceAllowed()] { endDeadlock(silence); });
}

DeadlockMonitor::Look Session::lookAtRanks() const {
  DeadlockMonitor::Look result;
  int running = rankThreads->countRunning();
  result.allWait = running > 0 && communication->countWaiting() == running;
  for (const std::unique_ptr<Rank> &rank : ranks)
    result.progress += rank->device->getActivity().countBegun();
  return result;
}

void Session::endDeadlock(double silence) {
  constexpr size_t shown = 8;
  Status status;
  status.code = StatusCode::Failed;
  status.step = step;
  status.message =
      format("all ranks have waited for each other for %g s (PSRT_TIMEOUT): ", silence);
  for (size_t i = 0; i < std::min(shown, ranks.size()); ++i)
    status.message +=
        format("%srank %zu %s", i ? "; " : "", i, ranks[i]->executor->describeWait().c_str());
  if (ranks.size() > shown)
    status.message += format("; and %zu more", ranks.size() - shown);
  rankThreads->fail(std::move(status));
}

std::unique_ptr<Communication> Session::makeAmongProcesses(Job &job) {
  std::vector<Queue> queues; // empty if the device, not the host, performs the communication
  if (!device->hasOwnCommunication())
    queues = findQueues(program, job.rank());
  return device->makeProcessCommunication(job.makeCommunication(program.mesh, queues));
}

Session::~Session() = default;

Rank::~Rank() {
  if (device)
    device->forgetRecordings();
}

void Session::makeRank(int index, bool dedicated) {
  auto rank = std::make_unique<Rank>();
  rank->index = index;
  rank->threads = threads;
  rank->coordinates = program.mesh.coordinates(index);
  rank->stage = program.mesh.pipelineCoordinate(rank->coordinates);
  rank->device = device->makeRank(threads, dedicated, options.job ? 0 : index);
  rank->memory = rank->device->makeMemory({size_t(program.arenaBytes[rank->stage]),
                                           size_t(program.hostBase[rank->stage]),
                                           size_t(program.hostBytes[rank->stage])});
  rank->comm = communication->makeRank(index);
  rank->executor = std::make_unique<Executor>(program, source.kernels, index, *rank->memory,
                                              *rank->device, *rank->comm, options.seed);
  if (options.checkMemory)
    rank->executor->checkMemory();
  for (const Input &input : program.inputs)
    rank->writers.emplace_back(input, program.mesh, rank->coordinates);
  initializeVariables(program, source, options, entryChecks, *rank);
  ranks[index] = std::move(rank);
}

void Session::checkUsable() const {
  if (failed)
    PSRT_FAIL(Failed, "a rank failed earlier; close the program and open it again");
}

void Session::recover(const Status &status) {
  failed |= status.code == StatusCode::Failed;
  communication->reset();
  throw Error(status);
}

const EntryPoint &Session::entry(EntryKind kind) const { return entry(nameOf(kind)); }

const EntryPoint &Session::entry(const std::string &name) const {
  if (const EntryPoint *entry = program.entry(name))
    return *entry;
  std::string names;
  for (const EntryPoint &entry : program.entries)
    names += (names.empty() ? "" : ", ") + std::string(entry.name());
  PSRT_FAIL(BadArgument, "the program has no entry \"%s\"; it has: %s", name.c_str(),
            names.c_str());
}

void Session::prepare(EntryKind kind, int64_t slot, bool piecewise) {
  const EntryPoint &point = entry(kind);
  parallel([&](Rank &rank) { rank.executor->bind(point, slot, piecewise); });
}

void Session::run(const EntryPoint &point, int64_t slot, bool piecewise, Extent extent,
                  int64_t microBatch) {
  if (extent != Extent::All)
    for (const EntryCode &code : point.programs)
      if (code.updateFrom < 0)
        PSRT_FAIL(BadInput, "the program does not mark where its update begins; compile it again");
  constexpr uint64_t kStride = 0x9E3779B97F4A7C15; // odd, so that no run has the numbers of another
  int64_t randomStep = int64_t(uint64_t(step) + kStride * uint64_t(earlierRuns));
  parallel([&](Rank &rank) {
    if (psrt_test_fault)
      psrt_test_fault(rank.index, step);
    rank.executor->run(rank.executor->bind(point, slot, piecewise), randomStep, extent, microBatch);
  });
}

void Session::beginNewGradients() {
  parallel([&](Rank &rank) { rank.executor->finishEarlyCollectives(); });
}

void Session::runUpdate(const EntryPoint &step, bool hasNewGradients) {
  if (hasNewGradients)
    parallel([&](Rank &rank) {
      rank.executor->repeatEarlyCollectives(rank.executor->bind(step, 0, false));
    });
  run(step, 0, false, Extent::Update);
}

//===--- inputs -----------------------------------------------------------===//

bool Session::belongs(const Input &input, const EntryPoint &entry, bool cotangents) const {
  return (input.role == InputRole::Cotangent) == cotangents && input.isReadBy(entry);
}

std::vector<const Input *> Session::inputsOf(const EntryPoint &entry, bool cotangents) const {
  std::vector<const Input *> result;
  for (const Input &input : program.inputs)
    if (belongs(input, entry, cotangents))
      result.push_back(&input);
  return result;
}

int64_t Session::inputAt(const Rank &rank, const EntryPoint &entry, const Input &input,
                         int64_t microBatch, int64_t slot) const {
  if (input.addresses.empty())
    PSRT_FAIL(BadInput, "input \"%s\" has no address", input.name.c_str());
  const Addresses &addresses =
      input.addresses[std::min<int64_t>(microBatch, int64_t(input.addresses.size()) - 1)];
  if (!addresses.isAt(rank.stage))
    return Addresses::Absent;
  return entry.programs[rank.stage].inSlot(addresses.at(rank.stage), slot);
}

//===--- whole tensors ----------------------------------------------------===//

/// Adds `count` elements of T at `part` to those at `whole`.
template <typename T> static void addElements(char *whole, const char *part, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, whole + i * sizeof(T), sizeof(T));
    std::memcpy(&b, part + i * sizeof(T), sizeof(T));
    a += b;
    std::memcpy(whole + i * sizeof(T), &a, sizeof(T));
  }
}

/// Adds 16-bit floats, rounding each sum once.
static void addNarrow(Dtype dtype, char *whole, const char *part, int64_t count) {
  int64_t size = dtypeSize(dtype);
  for (int64_t at = 0; at < count * size; at += size)
    storeElement(whole + at, dtype, loadFloat(whole + at, dtype) + loadFloat(part + at, dtype));
}

static void addInto(Dtype dtype, char *whole, const char *part, int64_t count) {
  switch (dtype) {
  case Dtype::F32:
    return addElements<float>(whole, part, count);
  case Dtype::F64:
    return addElements<double>(whole, part, count);
  case Dtype::F16:
  case Dtype::BF16:
    return addNarrow(dtype, whole, part, count);
  case Dtype::I64:
    return addElements<int64_t>(whole, part, count);
  case Dtype::I32:
    return addElements<int32_t>(whole, part, count);
  default:
    PSRT_FAIL(BadInput, "a variable of type %s that is a sum over ranks cannot be read",
              dtypeName(dtype));
  }
}

/// Calls `body`, in which processes communicate. In a job, an error with code Failed makes the
/// session unusable; the rank and the step are added to the error.
template <typename Body> void Session::amongProcesses(Body &&body) {
  try {
    body();
  } catch (const Error &error) {
    if (!options.job)
      throw;
    recover(located(error.status, options.job->rank()));
  }
}

static const char *const kReading = "reading a whole tensor";

void Session::gather(const RankTensor &tensor, char *whole) { gatherOwn(tensor, whole, nullptr); }

void Session::gatherOwn(const RankTensor &tensor, char *whole, const RecordedScalars *recorded) {
  bool partial = program.mesh.shards(tensor.placement.partial) > 1;
  if (partial && isFirst())
    std::memset(whole, 0, tensor.placement.count() * dtypeSize(tensor.dtype));
  gatherFrom(tensor, tensor.addresses.first(), partial, whole, recorded);
}

/// Gathers from the ranks of one pipeline coordinate. If `add` is set, adds to the contents of
/// `whole`.
void Session::gatherFrom(const RankTensor &tensor, int64_t stage, bool add, char *whole,
                         const RecordedScalars *recorded) {
  checkUsable();
  const Placement &placement = tensor.placement;
  int64_t size = dtypeSize(tensor.dtype);
  bool first = isFirst();
  std::vector<char> received;
  std::vector<int64_t> elsewhere;
  for (int index = 0; index < int(ranks.size()); ++index) {
    if (!ranks[index])
      elsewhere = program.mesh.coordinates(index);
    const std::vector<int64_t> &coordinates = ranks[index] ? ranks[index]->coordinates : elsewhere;
    if (program.mesh.pipelineCoordinate(coordinates) != stage ||
        !placement.isOwner(program.mesh, coordinates, stage))
      continue;
    auto take = [&](const char *from, int64_t global, int64_t count) {
      if (add)
        addInto(tensor.dtype, whole + global * size, from, count);
      else
        std::memcpy(whole + global * size, from, count * size);
    };
    if (options.job && index != 0) {
      bringFrom(index, tensor, stage, recorded, received);
      if (first)
        forEachRun(placement, program.mesh, coordinates,
                   [&](int64_t local, int64_t global, int64_t count) {
                     take(received.data() + local * size, global, count);
                   });
      continue;
    }
    if (!first)
      continue;
    if (const char *value = recorded ? recorded->find(index, tensor) : nullptr) {
      take(value, 0, 1);
      continue;
    }
    PieceReader reader(*ranks[index]->memory, tensor.addresses.at(stage), tensor.localBytes());
    forEachRun(
        placement, program.mesh, coordinates, [&](int64_t local, int64_t global, int64_t count) {
          reader.read(local, count, size,
                      [&](const char *from, int64_t at, int64_t n) { take(from, global + at, n); });
        });
  }
}

/// Copies the local elements of rank `index` into `received` in the process of rank 0.
void Session::bringFrom(int index, const RankTensor &tensor, int64_t stage,
                        const RecordedScalars *recorded, std::vector<char> &received) {
  int64_t bytes = tensor.localBytes();
  received.resize(isFirst() ? bytes : 0);
  const char *from = nullptr;
  std::vector<char> copy;
  if (ranks[index]) {
    RankMemory &memory = *ranks[index]->memory;
    from = recorded ? recorded->find(index, tensor) : memory.host(tensor.addresses.at(stage));
    if (!from) {
      copy.resize(bytes);
      memory.read(tensor.addresses.at(stage), copy.data(), bytes);
      from = copy.data();
    }
  }
  amongProcesses(
      [&] { communication->sendToRank0(index, from, received.data(), bytes, kReading); });
}

/// Returns whether every rank with the tensor holds all of its elements, without padding.
static bool isEverywhere(const Mesh &mesh, const Placement &placement) {
  bool split = mesh.shards(placement.partial) > 1 || placement.local != placement.shape;
  for (const std::vector<Placement::Factor> &dim : placement.factors)
    for (const Placement::Factor &factor : dim)
      split |= mesh.shards(factor.axes) > 1;
  return !split;
}

void Session::gatherEverywhere(const RankTensor &tensor, char *whole) {
  gatherAll(tensor, whole, nullptr);
}

void Session::gatherAll(const RankTensor &tensor, char *whole, const RecordedScalars *recorded) {
  if (!options.job)
    return gatherOwn(tensor, whole, recorded);
  checkUsable();
  int64_t bytes = tensor.placement.count() * dtypeSize(tensor.dtype);
  if (tensor.addresses.isEverywhere() && isEverywhere(program.mesh, tensor.placement)) {
    const Rank &rank = *ranks[options.job->rank()];
    if (const char *value = recorded ? recorded->find(rank.index, tensor) : nullptr)
      std::memcpy(whole, value, bytes);
    else
      rank.memory->read(tensor.addresses.at(rank.stage), whole, bytes);
    return;
  }
  gatherOwn(tensor, whole, recorded);
  broadcast(whole, bytes);
}

void Session::broadcast(char *data, int64_t bytes) {
  if (options.job)
    amongProcesses([&] { communication->broadcast(data, bytes, kReading); });
}

bool Session::isAny(bool here) {
  if (!options.job)
    return here;
  char any = here;
  amongProcesses([&] {
    for (int from = 1; from < options.job->size(); ++from) {
      char other = 0;
      communication->sendToRank0(from, &any, &other, 1, "agreeing on the next step");
      any |= isFirst() && other;
    }
    communication->broadcast(&any, 1, "agreeing on the next step");
  });
  return any;
}

std::vector<std::string> Session::collect(const std::string &text) {
  std::vector<std::string> result = {text};
  if (options.job)
    amongProcesses([&] { result = options.job->collect(text); });
  return result;
}

std::string Session::broadcast(const std::string &text) {
  if (!options.job)
    return text;
  std::string result;
  amongProcesses([&] { result = options.job->broadcast(text); });
  return result;
}

void Session::setVariable(int index, const ReadElements &read) {
  const Variable &variable = program.variables[index];
  scatter(variable, read, variable.addedAt);
  for (const Variable &part : program.variables)
    if (part.addsTo == variable.symbol)
      scatter(part, [&](char *to, int64_t, int64_t count) {
        std::memset(to, 0, count * dtypeSize(part.dtype));
      });
  for (const Variable &copy : program.variables)
    if (copy.kind == VariableKind::Copy && copy.of == variable.symbol)
      scatter(copy, [&](char *to, int64_t first, int64_t count) {
        std::vector<char> elements(count * dtypeSize(variable.dtype));
        read(elements.data(), first, count);
        convertFloats(elements.data(), variable.dtype, to, copy.dtype, count);
      });
}

void Session::scatter(const RankTensor &tensor, const ReadElements &read, int64_t stage) {
  const Placement &placement = tensor.placement;
  int64_t size = dtypeSize(tensor.dtype);
  parallel([&](Rank &rank) {
    if (!tensor.addresses.isAt(rank.stage))
      return;
    int64_t address = tensor.addresses.at(rank.stage);
    rank.memory->zero(address, tensor.localBytes());
    if (program.mesh.shardIndex(placement.partial, rank.coordinates) != 0 ||
        (stage >= 0 && rank.stage != stage))
      return;
    PieceWriter writer(*rank.memory, address, tensor.localBytes());
    forEachRun(placement, program.mesh, rank.coordinates,
               [&](int64_t local, int64_t global, int64_t count) {
                 writer.write(local, count, size,
                              [&](char *to, int64_t at, int64_t n) { read(to, global + at, n); });
               });
    writer.finish();
  });
}

void Session::readVariable(int index, char *whole) {
  gatherVariable(program.variables[index], whole, nullptr);
}

void Session::gatherVariable(const Variable &variable, char *whole,
                             const RecordedScalars *recorded) {
  if (variable.addedAt < 0)
    return gatherOwn(variable, whole, recorded);
  if (isFirst())
    std::memset(whole, 0, variable.placement.count() * dtypeSize(variable.dtype));
  for (const Variable &part : program.variables)
    if (part.addedAt >= 0 && (&part == &variable || part.addsTo == variable.symbol))
      gatherFrom(part, part.addedAt, /*add=*/true, whole, recorded);
}

void Session::writeVariable(int index, const char *whole) {
  int64_t size = dtypeSize(program.variables[index].dtype);
  setVariable(index, [&](char *to, int64_t first, int64_t count) {
    std::memcpy(to, whole + first * size, count * size);
  });
}

bool Session::runsLater() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const std::unique_ptr<Rank> &rank) {
    return rank && rank->device->runsLater();
  });
}

RecordedScalars Session::recordScalars(const std::vector<std::string> &symbols) const {
  return RecordedScalars(program, ranks, symbols);
}

double Session::readScalar(const std::string &symbol) { return readScalarFrom(nullptr, symbol); }

double Session::readRecorded(RecordedScalars &recorded, const std::string &symbol) {
  recorded.finish();
  return readScalarFrom(&recorded, symbol);
}

double Session::readScalarFrom(const RecordedScalars *recorded, const std::string &symbol) {
  int index = program.variable(symbol);
  if (index < 0 || program.variables[index].placement.count() != 1)
    return NAN;
  const Variable &variable = program.variables[index];
  char bytes[8] = {};
  if (variable.addedAt >= 0) {
    gatherVariable(variable, bytes, recorded);
    broadcast(bytes, sizeof(bytes));
  } else {
    gatherAll(variable, bytes, recorded);
  }
  float f;
  double d;
  int64_t i;
  std::memcpy(&f, bytes, 4);
  std::memcpy(&d, bytes, 8);
  std::memcpy(&i, bytes, 8);
  return variable.dtype == Dtype::F32 ? f : variable.dtype == Dtype::F64 ? d : double(i);
}

void Session::writeScalar(const Variable &variable, double value) {
  auto single = float(value);
  bool isSingle = variable.dtype == Dtype::F32;
  if ((!isSingle && variable.dtype != Dtype::F64) || variable.placement.count() != 1)
    PSRT_FAIL(BadArgument, "variable \"%s\" is not an f32 or f64 scalar", variable.symbol.c_str());
  const void *bytes = isSingle ? static_cast<const void *>(&single) : &value;
  for (std::unique_ptr<Rank> &rank : ranks)
    if (rank && variable.addresses.isAt(rank->stage))
      rank->memory->write(variable.addresses.at(rank->stage), bytes, dtypeSize(variable.dtype));
}

void Session::setScalar(const std::string &symbol, double value) {
  bool found = false;
  for (const Variable &variable : program.variables) {
    if (variable.kind != VariableKind::Scalar ||
        (variable.of.empty() ? variable.symbol : variable.of) != symbol)
      continue;
    writeScalar(variable, computeForm(variable.form, value));
    found = true;
  }
  if (!found)
    PSRT_FAIL(BadArgument, "the program has no scalar \"%s\"", symbol.c_str());
}

void Session::zeroInputs(const EntryPoint &entry, const std::vector<const Input *> &inputs,
                         int64_t slot) {
  parallel([&](Rank &rank) {
    for (const Input *input : inputs)
      if (int64_t at = inputAt(rank, entry, *input, 0, slot); at != Addresses::Absent)
        rank.memory->zero(at, input->placement.localCount() * dtypeSize(input->dtype));
  });
}

void Session::zero(VariableKind kind) {
  parallel([&](Rank &rank) {
    for (const Variable &variable : program.variables)
      if (variable.kind == kind && variable.addresses.isAt(rank.stage))
        rank.memory->zero(variable.addresses.at(rank.stage), variable.localBytes());
  });
}

void Session::zeroKept(VariableKind kind, const EntryPoint &entry) {
  parallel([&](Rank &rank) {
    bool overwrites = false;
    std::unordered_set<int64_t> used;
    for (const ProgramEntry &run : entry.programs[rank.stage].code) {
      overwrites |= std::ranges::find(run.first, 1) != run.first.end();
      used.insert(run.bases.begin(), run.bases.end());
    }
    for (const Variable &variable : program.variables)
      if (variable.kind == kind && variable.addresses.isAt(rank.stage) &&
          !(overwrites && used.contains(variable.addresses.at(rank.stage))))
        rank.memory->zero(variable.addresses.at(rank.stage), variable.localBytes());
  });
}

} // namespace psrt
