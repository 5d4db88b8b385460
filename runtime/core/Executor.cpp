// Binds and runs the entries of a program.
#include "runtime/core/Executor.h"
#include "runtime/core/DescribeWait.h"
#include "runtime/core/Status.h"
#include <set>

namespace psrt {

Executor::Executor(const Program &program, const Kernel *kernels, int rank, RankMemory &memory,
                   RankDevice &device, RankComm &comm, uint64_t seed)
    : program(program), kernels(kernels), rank(rank), coordinates(program.mesh.coordinates(rank)),
      stage(program.mesh.pipelineCoordinate(coordinates)), memory(memory), device(device),
      comm(comm), seed(seed) {
  if (device.wantsExtents())
    extents = std::make_unique<BufferExtents>(program, stage);
}

int64_t Executor::resolve(const BufferRef &buffer, const ProgramEntry &entry,
                          const EntryCode &point, int64_t slot) const {
  if (!buffer.present())
    return Addresses::Absent;
  int64_t address =
      buffer.base == BufferRef::Absolute ? buffer.offset : entry.bases[buffer.base] + buffer.offset;
  address = point.inSlot(address, slot);
  bool isBetween = program.hasHostPart(stage) && address >= program.arenaBytes[stage] &&
                   !program.isInHost(address, stage);
  if (address < 0 || isBetween || size_t(address) >= std::max<size_t>(1, memory.size()))
    PSRT_FAIL(BadInput, "%s uses arena address %lld, but the arena has %zu bytes",
              entry.label.c_str(), (long long)address, memory.size());
  return address;
}

/// Returns the index of the ref whose `first` flag decides whether an instruction adds to its
/// result or overwrites it. Returns -1 if the instruction always overwrites its result.
static int accumulatedRef(const Instruction &instruction) {
  auto getRef = [](const auto &op) {
    if constexpr (requires { op.accumulate; })
      return op.accumulate;
    return -1;
  };
  return std::visit(getRef, instruction.op);
}

/// Returns the index of an instruction's random key in the run's keys, or -1 if the instruction has
/// none.
static int keyIndex(const Instruction &instruction) {
  auto getIndex = [](const auto &op) {
    if constexpr (requires { op.key; })
      return op.key;
    return -1;
  };
  return std::visit(getIndex, instruction.op);
}

void Executor::bindOne(Bound &bound, const ProgramEntry &entry, bool piecewise) {
  const Instruction &instruction = *bound.instruction;
  int ref = accumulatedRef(instruction);
  if (ref >= 0 && size_t(ref) >= entry.first.size())
    PSRT_FAIL(BadInput, "%s accumulates into ref %d, but its run has %zu refs; compile again",
              entry.label.c_str(), ref, entry.first.size());
  bound.accumulate = ref >= 0 && (piecewise || !entry.first[ref]);
  if (int key = keyIndex(instruction); key >= 0)
    bound.key = entry.keys.at(key);
  if (const auto *index = std::get_if<ShardIndexOp>(&instruction.op))
    bound.key = program.mesh.shardIndex(index->axes, coordinates);
  if (const auto *kernel = std::get_if<KernelOp>(&instruction.op)) {
    if (kernel->kernel < 0 || size_t(kernel->kernel) >= program.kernelNames.size())
      PSRT_FAIL(BadInput, "%s calls kernel %d, but the program has %zu kernels; compile again",
                entry.label.c_str(), kernel->kernel, program.kernelNames.size());
    bound.kernel = kernels ? kernels[kernel->kernel] : nullptr;
  }
  if (!device.bind(bound) && !comm.bind(bound))
    PSRT_FAIL(BadInput, "no backend runs an instruction of %s", entry.label.c_str());
}

void Executor::bindCode(BoundEntry &result, const Instruction &instruction,
                        const ProgramEntry &entry, const EntryCode &point, int64_t slot,
                        bool piecewise, size_t scalarsAt) {
  Bound bound;
  bound.instruction = &instruction;
  bound.buffers = result.pointers.data() + result.pointers.size();
  bound.scalars = result.seen + scalarsAt;
  bound.coordinates = &coordinates;
  if (extents)
    bound.extents = result.extents.data() + result.extents.size();
  for (const BufferRef &buffer : instruction.buffers) {
    int64_t address = resolve(buffer, entry, point, slot);
    bool isThere = address != Addresses::Absent;
    result.pointers.push_back(isThere ? memory.at(address) : nullptr);
    if (extents)
      result.extents.push_back(isThere ? extents->find(point, entry, instruction, address) : 0);
  }
  bindOne(bound, entry, piecewise);
  result.code.push_back(bound);
  result.entries.push_back(&entry);
}

Executor::BoundEntry &Executor::bind(const EntryPoint &entryPoint, int64_t slot, bool piecewise) {
  const EntryCode &point = entryPoint.programs[stage];
  std::unique_ptr<BoundEntry> &result = entries[{&point, slot, piecewise}];
  if (result)
    return *result;
  auto made = std::make_unique<BoundEntry>();
  made->point = &point;
  size_t instructions = 0, pointers = 0, scalars = 0;
  auto count = [&](const Instruction &instruction) {
    ++instructions, pointers += instruction.buffers.size();
  };
  for (const ProgramEntry &entry : point.code) {
    scalars += 3 + entry.keys.size() + entry.first.size();
    if (entry.function < 0)
      count(point.instructions[entry.instruction]);
    else
      for (const Instruction &instruction : program.functions[entry.function].code)
        count(instruction);
  }
  // Bound instructions point into these vectors, which must not grow afterwards.
  made->code.reserve(instructions);
  made->entries.reserve(instructions);
  made->pointers.reserve(pointers);
  made->scalars.reserve(scalars);
  made->seen = device.mirror(made->scalars.data(), scalars);
  made->extents.reserve(extents ? pointers : 0);
  for (const ProgramEntry &entry : point.code) {
    size_t scalarsAt = made->scalars.size();
    made->runs.push_back(scalarsAt);
    if (&entry - point.code.data() == point.updateFrom)
      made->updateFrom = made->code.size();
    for (int64_t scalar : {int64_t(seed), int64_t(0), entry.microBatch})
      made->scalars.push_back(scalar);
    made->scalars.insert(made->scalars.end(), entry.keys.begin(), entry.keys.end());
    for (int64_t first : entry.first)
      made->scalars.push_back(piecewise ? 0 : first);
    if (entry.function < 0)
      bindCode(*made, point.instructions[entry.instruction], entry, point, slot, piecewise,
               scalarsAt);
    else
      for (const Instruction &instruction : program.functions[entry.function].code)
        bindCode(*made, instruction, entry, point, slot, piecewise, scalarsAt);
  }
  if (point.updateFrom == int64_t(point.code.size()))
    made->updateFrom = made->code.size();
  device.reserve();
  comm.reserve();
  result = std::move(made);
  return *result;
}

void Executor::run(BoundEntry &entry, int64_t step, Extent extent, int64_t microBatch) {
  for (size_t at : entry.runs) {
    entry.scalars[at + 1] = step;
    if (microBatch >= 0)
      entry.scalars[at + 2] = microBatch;
  }
  running.store(&entry, std::memory_order_relaxed);
  device.begin(entry.scalars.data());
  size_t begin = extent == Extent::Update ? entry.updateFrom : 0;
  size_t end = extent == Extent::BeforeUpdate ? entry.updateFrom : entry.code.size();
  if (capacity || check)
    runObserved(entry, step, begin, end);
  else
    device.run(entry.code.data() + begin, entry.code.data() + end);
  device.getActivity().leave();
  // If the update is not part of this call, communication may continue: the later update waits for
  // the results.
  if (extent != Extent::BeforeUpdate)
    comm.drain();
  running.store(nullptr, std::memory_order_relaxed);
  if (capacity)
    takeTimes(entry, step);
}

void Executor::repeatEarlyCollectives(BoundEntry &entry) {
  std::set<int64_t> waited;
  for (size_t i = 0; i < entry.updateFrom; ++i)
    if (const auto *wait = std::get_if<WaitOp>(&entry.code[i].instruction->op))
      waited.insert(wait->token);
  device.begin(entry.scalars.data());
  for (size_t i = 0; i < entry.updateFrom; ++i) {
    const auto *start = std::get_if<CollectiveOp>(&entry.code[i].instruction->op);
    if (start && start->token >= 0 && !waited.contains(start->token))
      device.run(entry.code.data() + i, entry.code.data() + i + 1);
  }
  device.getActivity().leave();
}

void Executor::runObserved(BoundEntry &entry, int64_t step, size_t from, size_t to) {
  if (check && from == 0)
    check->begin(*entry.point);
  for (size_t i = from; i < to; ++i) {
    if (check)
      check->before(entry.code[i], *entry.entries[i]);
    runTraced(entry, i, step);
    if (!check)
      continue;
    check->after(entry.code[i]);
    if (i + 1 == entry.code.size() || entry.entries[i + 1] != entry.entries[i])
      check->finish(*entry.entries[i]);
  }
}

void Executor::runTraced(const BoundEntry &entry, size_t at, int64_t step) {
  bool isKept = events.size() < capacity;
  if (isKept)
    device.mark();
  device.getActivity().run(entry.code[at]);
  if (isKept) {
    device.mark();
    events.push_back({&entry.code[at], entry.entries[at], step, 0, 0, false});
  } else {
    droppedEvents += capacity > 0;
  }
}

void Executor::takeTimes(const BoundEntry &entry, int64_t step) {
  std::vector<double> marks = device.takeMarks();
  for (size_t i = 0; i < marks.size(); i += 2, ++timed)
    events[timed].start = marks[i], events[timed].end = marks[i + 1];
  const Bound *first = entry.code.data();
  for (const AsyncTimes &times : comm.takeTimes())
    if (times.bound >= first && times.bound < first + entry.code.size())
      events.push_back(
          {times.bound, entry.entries[times.bound - first], step, times.start, times.end, true});
  timed = events.size();
}

void Executor::checkMemory() {
  auto *arena = dynamic_cast<Arena *>(&memory);
  if (!arena)
    PSRT_FAIL(BadArgument, "--check-memory only checks host memory; compile the program with "
                           "--target cpu");
  check = std::make_unique<MemoryCheck>(program, stage, *arena);
}

std::string Executor::describeWait() const {
  const BoundEntry *entry = running.load(std::memory_order_relaxed);
  if (!entry)
    return "is running no instruction";
  return "waits " +
         psrt::describeWait(program, rank, device.getActivity().getCurrent(), entry->code);
}

void Executor::startTrace(size_t newCapacity) {
  capacity = newCapacity;
  comm.startTrace();
  events.reserve(capacity);
}

} // namespace psrt
