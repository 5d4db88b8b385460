// Declares the passes for recomputation (level 2), and for addresses (level 4 to level 5).
#ifndef PARASHARD_LIB_MEMORY_PASSES_TD
#define PARASHARD_LIB_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputePass : Pass<"ps-recompute", "::mlir::ModuleOp"> {
  let summary = "recomputes forward values in backward instead of saving them";
  let description = [{
    Activation checkpointing: the ops that compute a value are cloned before the backward of their
    segment (`ps.recomputed`, phase backward_input). Clones start from saved values or from values
    of other segments; a chain of clones never leaves its segment. Random ops keep their key, and so
    draw the same numbers. Collectives are not cloned: their results are saved. Writes and
    accumulations of variables are not cloned. `mode` selects the ops that may be cloned:

    - `full`: all ops of a segment, so that only its inputs are saved. The last segment is excluded,
      because its backward immediately follows its forward.
    - `full+communication`: like `full`, and collectives are cloned too.
    - `selective`: ops without a contraction or library call, if their operands are saved anyway or
      computed by other selected ops. Results with at most 1/8 of the bytes of an operand, such as
      the rstd of a norm, are saved.
    - `modules=GLOB,...`: all ops of the modules that match, including their submodules.
    - `budget=BYTES`: the ops that add the least time while no rank's arena exceeds the budget. To
      measure the memory of a choice, the passes in `then` lower a copy of the module to level
      `placed`. `ps.memory_budget` on the module records the budget (`placed_c6`).

    `ps.recompute` on the module is a text for the user: which ops are recomputed, and the added
    time.
  }];
  let options = [Option<"mode", "mode", "std::string", "\"none\"",
                        "none, selective, full[+communication], modules=GLOB,... or budget=BYTES">,
                 Option<"then", "then", "std::string", "\"\"",
                        "with a budget: pass pipeline from the next pass to level placed">];
  let dependentDialects = ["::parashard::rank::RankDialect"];
}

def PlanMemoryPass : Pass<"ps-plan-memory", "::mlir::ModuleOp"> {
  let summary = "assigns every buffer an address in one arena";
  let description = [{
    Places buffers by first fit over their lifetimes, in the best of several orders. Variables come
    first, and are in use all the time. The values of all programs follow and share one region. The
    scratch of a class function has one layout, and one address per run.

    In a program with sections (`rank.section`), values that a later section uses are stored after
    the shared region, in `slots` copies. The host may therefore call the first section up to
    `slots` times before it calls the second section (`ps.slots`, `ps.slot_base`, `ps.slot_bytes` on
    the program).

    The pass writes `ps.address` on variables, `ps.addresses` and `ps.scratch_address` on the ops of
    programs, `ps.offsets`, `ps.workspace_offset` and `ps.scratch_bytes` in class functions, and
    `ps.arena_bytes` on the module. Each pipeline coordinate has its own arena, which contains the
    variables that the coordinate's programs use. With a pipeline, `ps.address` and
    `ps.arena_bytes` are lists with one entry per coordinate. The address is -1 if the coordinate's
    arena does not contain the variable.

    Host memory has the addresses from `ps.host_base` to `ps.host_base` + `ps.host_bytes`, after the
    arena. It contains variables in host memory (`ps.host`), followed by stashed values.
  }];
  let options = [Option<"slots", "slots", "int64_t", "16",
                        "number of forward calls whose saved values can be kept at once (slots)">];
  let dependentDialects = ["::parashard::ps::PSDialect"];
}

def VerifyPlacedPass : Pass<"ps-verify-placed", "::mlir::ModuleOp"> {
  let summary = "verifies the invariants of level `placed`";
  let description = [{
    - `placed_c1`: every variable of a coordinate, except for variables in host memory, is in the
      coordinate's arena, at a multiple of 64 bytes, and overlaps no other variable.
    - `placed_c2`: every result and every workspace of a class function is in the function's
      scratch, at a multiple of 64 bytes, and overlaps no buffer in use at the same time.
    - `placed_c3`: every value of a program, and the scratch of each run, is after the variables, at
      a multiple of 64 bytes. None of them overlaps a buffer in use at the same time.
    - `placed_c4`: values that a program keeps for a later section are in the first of its slots;
      all slots are in the arena, after the values that the program does not keep.
    - `placed_c5`: each variable that the programs of a pipeline coordinate use has an address on
      this coordinate: in its arena, or in host memory for a variable with `ps.host`.
    - `placed_c6`: no arena exceeds the budget of the module (`ps.memory_budget`).
    - `placed_c7`: every variable in host memory, and every value while it is stashed, is in the
      address range of host memory, and overlaps no other variable or value in use at the same time.
      This range begins after the arena.
  }];
}

#endif
