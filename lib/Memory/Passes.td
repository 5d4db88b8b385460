// Declares the passes that trade memory for time (level 2) and assign addresses (level 4 to level
// 5).
#ifndef PARASHARD_LIB_MEMORY_PASSES_TD
#define PARASHARD_LIB_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputePass : Pass<"ps-recompute", "::mlir::ModuleOp"> {
  let summary = "recomputes forward values for backward instead of keeping them";
  let description = [{
    Activation checkpointing: the ops that compute such a value are cloned before the backward of
    their segment (`ps.recomputed`, phase backward_input). Clones begin from values that are kept or
    come from other segments; a chain of clones never leaves its segment. Random ops keep their key,
    and so draw the same numbers. Communication between ranks is not repeated: its results are kept.
    Variables are written and accumulated once. `mode` selects the ops that may run again:

    - `full`: all ops of a segment, so that only its inputs are kept. The last segment is excluded,
      since its backward follows at once.
    - `full+communication`: like `full`, and communication between ranks runs again too.
    - `selective`: ops other than contractions, if their operands are kept anyway. Results with one
      number per row (such as the statistics of a norm) are kept.
    - `modules=GLOB,...`: ops of these modules, and of modules inside them.
    - `budget=BYTES`: the ops that add the least time while no rank's arena exceeds the budget. The
      passes in `then` bring a copy of the module to level `placed`, where the memory of a choice is
      measured. `ps.memory_budget` on the module records the budget (`placed_c6`).

    `ps.recompute` on the module describes the added cost in words.
  }];
  let options = [Option<"mode", "mode", "std::string", "\"none\"",
                        "none, selective, full[+communication], modules=GLOB,... or budget=BYTES">,
                 Option<"then", "then", "std::string", "\"\"",
                        "with a budget: the passes from here to level placed, to measure memory">];
  let dependentDialects = ["::parashard::rank::RankDialect"];
}

def PlanMemoryPass : Pass<"ps-plan-memory", "::mlir::ModuleOp"> {
  let summary = "assigns every buffer an address in one arena";
  let description = [{
    Places buffers by first fit over their lifetimes, in the best of several orders. Variables come
    first and stay. The values of all programs follow and share one region. A class function's
    scratch is planned once and placed at each of its runs.

    In a program with sections (`rank.section`), values that a later section uses are stored after
    that region, in `slots` copies. Thus the host may call the first section up to `slots` times
    before it calls the second one (`ps.slots`, `ps.slot_base`, `ps.slot_bytes` on the program).

    The pass writes `ps.address` on variables, `ps.addresses` and `ps.scratch_address` on the ops of
    programs, `ps.offsets`, `ps.workspace_offset` and `ps.scratch_bytes` in class functions, and
    `ps.arena_bytes` on the module. Each pipeline coordinate has its own arena, with the variables
    that its programs name. With a pipeline, `ps.address` and `ps.arena_bytes` are lists by
    coordinate, with -1 for a variable that a coordinate does not hold.

    Variables in host memory (`ps.host`), followed by stashed values, have addresses from
    `ps.host_base` to `ps.host_base` + `ps.host_bytes`. This host range begins after the arena.
  }];
  let options = [Option<"slots", "slots", "int64_t", "16",
                        "copies of the values that a section keeps for a later section">];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def VerifyPlacedPass : Pass<"ps-verify-placed", "::mlir::ModuleOp"> {
  let summary = "verifies the constraints of level `placed`";
  let description = [{
    - `placed_c1`: every variable is in the arena, at a multiple of 64 bytes, and overlaps no other
      variable.
    - `placed_c2`: in its function's scratch, every result and every workspace is at a multiple of
      64 bytes, and overlaps no buffer in use at the same time.
    - `placed_c3`: every value of a program, and the scratch of each run, is after the variables, at
      a multiple of 64 bytes. It overlaps no buffer in use at the same time.
    - `placed_c4`: values that a program keeps for a later section are in the first of its slots;
      all slots are in the arena, after the other values of the program.
    - `placed_c5`: variables that a pipeline coordinate's programs name are in its arena.
    - `placed_c6`: no arena exceeds the budget of the module (`ps.memory_budget`).
    - `placed_c7`: every variable in host memory, and every value while it is stashed, has an
      address in the host range, which begins after the arena, and overlaps no other one.
  }];
}

#endif
