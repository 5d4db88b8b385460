// Implements queries on parsed programs.
#include "runtime/core/Program.h"
#include "runtime/core/Status.h"
#include <numeric>

namespace psrt {

std::string ProgramSource::folder() const {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

int64_t dtypeSize(Dtype dtype) {
  switch (dtype) {
  case Dtype::F64:
  case Dtype::I64:
    return 8;
  case Dtype::F32:
  case Dtype::I32:
    return 4;
  case Dtype::F16:
  case Dtype::BF16:
  case Dtype::I16:
    return 2;
  default:
    return 1;
  }
}

int64_t CollectiveOp::bytes(const Mesh &mesh) const {
  int64_t elements = 0;
  if (kind == AllReduce || kind == Permute)
    elements = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  else if (kind == AllToAll)
    elements = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  else
    elements = outer * size * inner * (kind == ReduceScatter ? mesh.shards(axes) : 1);
  return elements * dtypeSize(dtype);
}

std::vector<int> CollectiveOp::members(const Mesh &mesh, int rank) const {
  return overPipeline.empty() ? mesh.group(rank, axes) : mesh.acrossPipeline(rank, overPipeline);
}

namespace {
/// Returns the name of an instruction by its type.
struct NameOf {
  const Program &program;
  std::string operator()(const KernelOp &op) const { return program.kernelNames[op.kernel]; }
  std::string operator()(const MatmulOp &op) const {
    return format("matmul %lldx%lldx%lld", (long long)op.m, (long long)op.n, (long long)op.k);
  }
  std::string operator()(const LibraryOp auto &op) const { return op.name(); }
  std::string operator()(const ShardIndexOp &) const { return "shard_index"; }
  std::string operator()(const CopyOp &op) const { return op.zero ? "zero" : "copy"; }
  std::string operator()(const MessageOp &op) const { return op.receives ? "recv" : "send"; }
  std::string operator()(const TransferOp &op) const { return op.toHost ? "offload" : "fetch"; }
  std::string operator()(const WaitOp &) const { return "wait"; }
  std::string operator()(const CollectiveOp &op) const { return op.name(); }
};
} // namespace

std::string instructionName(const Program &program, const Instruction &instruction) {
  return std::visit(NameOf{program}, instruction.op);
}

int64_t Program::largestArena() const {
  return *std::max_element(arenaBytes.begin(), arenaBytes.end());
}

bool Program::holds(int64_t address, int64_t bytes, int64_t coordinate) const {
  int64_t base = 0, room = arenaBytes[coordinate];
  if (isInHost(address, coordinate))
    base = hostBase[coordinate], room = hostBytes[coordinate];
  return address >= base && bytes <= room && address - base <= room - bytes;
}

const EntryPoint *Program::entry(EntryKind kind) const {
  for (const EntryPoint &entry : entries)
    if (entry.kind == kind)
      return &entry;
  return nullptr;
}

const EntryPoint *Program::entry(const std::string &name) const {
  for (const EntryPoint &entry : entries)
    if (entry.name() == name)
      return &entry;
  return nullptr;
}

int Program::variable(const std::string &symbol) const {
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].symbol == symbol)
      return int(i);
  return -1;
}

} // namespace psrt
