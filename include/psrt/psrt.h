/* The C API of psrt, the runtime that runs a compiled program: entries over variables, no global
 * state. */
#ifndef PSRT_PSRT_H
#define PSRT_PSRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A program that is open, with its ranks (threads of this process), arenas and variables. Programs
   share nothing: several may be open at once. One program is driven from one thread at a time, and
   in the process that opened it: a forked child can only close it. */
typedef struct psrt_program psrt_program;

/** What a call returns; the text of the last error of a program is in psrt_last_error. */
typedef enum psrt_status {
  PSRT_OK = 0,
  PSRT_BAD_INPUT = 1,    /**< the model, the data or a tensor given is at fault */
  PSRT_BAD_ARGUMENT = 2, /**< an unknown name, a wrong option */
  PSRT_FAILED = 3        /**< a rank or the runtime failed; only psrt_close is allowed after it */
} psrt_status;

typedef enum psrt_dtype {
  PSRT_F32 = 0,
  PSRT_F64 = 1,
  PSRT_F16 = 2,
  PSRT_BF16 = 3,
  PSRT_I64 = 4,
  PSRT_I32 = 5,
  PSRT_I16 = 6,
  PSRT_I8 = 7,
  PSRT_U8 = 8,
  PSRT_BOOL = 9,    /**< a byte, 0 or 1 */
  PSRT_F8E4M3 = 10, /**< 8 bits, 3 of mantissa, no infinities */
  PSRT_F8E5M2 = 11  /**< 8 bits, 2 of mantissa */
} psrt_dtype;

/** A whole (global) row-major tensor in the caller's memory. */
typedef struct psrt_tensor {
  const char *name; /**< the model's name of the input, output or variable */
  void *data;       /**< may be NULL where there are no elements */
  psrt_dtype dtype;
  int32_t rank;
  const int64_t *shape; /**< `rank` sizes */
} psrt_tensor;

typedef struct psrt_options {
  size_t size;         /**< sizeof(psrt_options), so that fields can be added */
  int32_t ranks;       /**< 0: as many as the program's mesh has; else it must be that */
  int32_t threads;     /**< threads a rank; 0: cores / ranks, at least 1 */
  uint64_t seed;       /**< of random masks and initial values */
  const char *weights; /**< a .safetensors file or a folder as Hugging Face writes it, in place of
                          the initial values (floats of another dtype are converted), or NULL */
} psrt_options;

/** Opens a program: the shared object at `path` as ps-compile wrote it, or with NULL the program
   linked into this executable. `options` may be NULL. On failure *program is still set (close it)
   when the message is to be read. */
psrt_status psrt_open(const char *path, const psrt_options *options, psrt_program **program);

/** Stops the ranks and frees everything. NULL is allowed. */
void psrt_close(psrt_program *program);

/** The message of the last call that failed ("" if none): what happened, and what to do. Valid
 * until the next call. */
const char *psrt_last_error(const psrt_program *program);

/** Runs an entry ("evaluate", or "forward" of a program compiled with --loss none) on whole inputs
   and fills whole outputs (each with name, dtype, shape and memory; outputs not listed are not
   computed to the host). The saved values of "forward" go to `slot`, which stays pending until
   psrt_backward takes it. Entries without slots take 0. */
psrt_status psrt_call(psrt_program *program, const char *entry, int32_t slot,
                      const psrt_tensor *inputs, size_t input_count, psrt_tensor *outputs,
                      size_t output_count);

/** Backward of the forward pending in `slot`; `cotangents` are named by the outputs that
   --differentiate listed. Gradients are added to what is accumulated since psrt_zero_grad. */
psrt_status psrt_backward(psrt_program *program, int32_t slot, const psrt_tensor *cotangents,
                          size_t count);

/** The optimizer's step on the accumulated gradients; advances the step number. Gradients stay
 * until psrt_zero_grad. */
psrt_status psrt_update(psrt_program *program);

/** Sets all gradients, the loss and its count to zero. */
psrt_status psrt_zero_grad(psrt_program *program);

/** One whole training step. `inputs`: each named tensor holds the rows of all micro-batches along
   its batch dim, and is given once. `loss` (may be NULL) gets the global loss before the update. */
psrt_status psrt_step(psrt_program *program, const psrt_tensor *inputs, size_t input_count,
                      float *loss);

/** Copies a variable, whole, by model name (any alias, or a symbol as "x.adamw.mean"; "grad.NAME"
 * is the gradient, "grad.self.NAME" where the model has a variable "grad.NAME"). */
psrt_status psrt_get_variable(psrt_program *program, psrt_tensor *tensor);
psrt_status psrt_set_variable(psrt_program *program, const psrt_tensor *tensor);

/** Sets a scalar variable ("lr"; "lr" sets every group "lr.N" too) for the steps to come: a number
 * that f32 holds, of a learning rate at least 0. */
psrt_status psrt_set_scalar(psrt_program *program, const char *name, double value);

/** The number of the next step, from 0 to 2^53; and setting it (random masks are keyed by it). */
psrt_status psrt_get_step(psrt_program *program, int64_t *step);
psrt_status psrt_set_step(psrt_program *program, int64_t step);

/** Number of names / name i of: "variables" (first names), "inputs" (of all entries, cotangents
 * included, each once), "entries", "outputs:ENTRY". 0 / NULL past the end and on an error. */
size_t psrt_name_count(psrt_program *program, const char *what);
const char *psrt_name(psrt_program *program, const char *what, size_t index);

/** Shape and dtype of name `name` of `what`: "variables", "inputs" or "outputs:ENTRY", as for
 * psrt_name. `shape` has room for *rank sizes; *rank is set, also when the room is too small
 * (PSRT_BAD_ARGUMENT). */
psrt_status psrt_describe(psrt_program *program, const char *what, const char *name,
                          psrt_dtype *dtype, int32_t *rank, int64_t *shape);

#ifdef __cplusplus
}
#endif

#endif
