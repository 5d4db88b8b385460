// Fuzzes the reader of a compiled program's table of instructions.
#include "fuzz/JsonMutator.h"
#include "runtime/core/Queues.h"
#include "runtime/core/Status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    psrt::Program program = psrt::parseProgram({reinterpret_cast<const char *>(data), size});
    // Queries that the runtime makes on every program.
    int64_t ranks = program.mesh.size();
    for (const psrt::Variable &variable : program.variables)
      for (int64_t rank = 0; rank < std::min<int64_t>(ranks, 4); ++rank)
        for (unsigned dim = 0; dim < variable.placement.shape.size(); ++dim)
          variable.placement.globalIndex(program.mesh, program.mesh.coordinates(rank), dim, 0);
    for (const psrt::Function &function : program.functions)
      for (const psrt::Instruction &instruction : function.code)
        if (const auto *op = std::get_if<psrt::CollectiveOp>(&instruction.op))
          op->bytes(program.mesh);
    for (int64_t rank = 0; ranks <= 64 && rank < ranks; ++rank)
      psrt::findQueues(program, int(rank));
  } catch (const psrt::Error &) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
