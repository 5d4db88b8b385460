/* Declares the C API of psrt, the runtime of a compiled program. The API has no global state. */
#ifndef PSRT_PSRT_H
#define PSRT_PSRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An open program with its ranks, arenas and variables. The ranks are threads of this process, or
   processes of a job. Programs are independent: several may be open at once. Only one thread at a
   time may use a program, and only in the process that opened it. A forked child may only close
   it. */
typedef struct psrt_program psrt_program;

/** The job of this process: the processes that a launcher (mpirun, srun, torchrun) has started.
   Each process is one rank of every program that is opened in the job.

   All processes must open the same programs and make the same calls on them, in the same order.
   This includes psrt_get_variable. The processes compare their calls. If the calls differ, or if
   one process passes bad input, the call fails in every process, and has no effect. These calls are
   not compared: psrt_zero_grad, psrt_set_scalar, psrt_set_step and functions that read no tensor.
   Only one thread at a time may use a job and its programs. */
typedef struct psrt_job psrt_job;

/** The result of a call. psrt_last_error returns the message of an error. */
typedef enum psrt_status {
  PSRT_OK = 0,
  PSRT_BAD_INPUT = 1,    /**< error in the model, the data or a given tensor */
  PSRT_BAD_ARGUMENT = 2, /**< unknown name or invalid option */
  /** A rank or the runtime failed. Only psrt_last_error and psrt_close may follow. */
  PSRT_FAILED = 3
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
  PSRT_BOOL = 9,    /**< one byte, 0 or 1 */
  PSRT_F8E4M3 = 10, /**< 8 bits with 3 mantissa bits, without infinities */
  PSRT_F8E5M2 = 11  /**< 8 bits with 2 mantissa bits */
} psrt_dtype;

/** A whole (unsharded) row-major tensor in the caller's memory. */
typedef struct psrt_tensor {
  const char *name; /**< the model's name of the input, output or variable */
  void *data;       /**< may be NULL if there are no elements */
  psrt_dtype dtype;
  int32_t rank;
  const int64_t *shape; /**< `rank` sizes */
} psrt_tensor;

typedef struct psrt_options {
  size_t size;         /**< sizeof(psrt_options); allows adding fields later */
  int32_t ranks;       /**< expected number of ranks; 0: any. A mesh of another size is an error */
  int32_t threads;     /**< threads per rank; 0: cores / ranks, at least 1 */
  uint64_t seed;       /**< seed of dropout and of random initial values */
  const char *weights; /**< a .safetensors file or a Hugging Face folder that replaces the initial
                          values; floats of another dtype are converted. NULL: none */
  psrt_job *job;       /**< from psrt_join; NULL: all ranks are threads of this process */
} psrt_options;

typedef struct psrt_job_options {
  size_t size;         /**< sizeof(psrt_job_options) */
  const char *comm;    /**< "mpi" or "tcp"; NULL: as the launcher needs */
  const char *command; /**< a text that is equal in all processes of the job, such as the command
                          line. Processes with another text belong to another job. May be NULL */
  /** If not 0, the process exits with status 3 if it still runs two seconds after another process
     of the job has failed. By default, only calls fail. */
  int32_t exit_after_failure;
} psrt_job_options;

/** Joins the job of this process. Without a launcher, or in a job of one process, psrt_job_size
   returns 1, and programs run all ranks as threads. `options` may be NULL. Sets *job on failure
   too: read the message with psrt_job_error, then call psrt_close_job. The environment variables
   are those of an executable (docs/processes.md). */
psrt_status psrt_join(const psrt_job_options *options, psrt_job **job);

/** Return the rank of this process and the number of processes. */
int32_t psrt_job_rank(const psrt_job *job);
int32_t psrt_job_size(const psrt_job *job);

/** Waits until all processes of the job have made this call with the same `purpose`. */
psrt_status psrt_barrier(psrt_job *job, const char *purpose);

/** Copies `bytes` bytes at `data` from rank 0 to all processes. All pass the same `bytes`. */
psrt_status psrt_broadcast(psrt_job *job, void *data, size_t bytes);

/** Waits until all processes of the job leave it. Afterwards, the programs of the job can only be
   closed. A process that ends without leaving makes the job fail. */
psrt_status psrt_leave(psrt_job *job);

/** Ends the job because this process fails. All current and later calls of the other processes fail
   with `message`. This process should then end. */
psrt_status psrt_fail(psrt_job *job, const char *message);

/** Returns the rank whose failure ended the job, or -1. Sets *reported (may be NULL) to whether
   this rank reported its failure itself. */
int32_t psrt_job_failed_rank(const psrt_job *job, int32_t *reported);

/** Returns the error message of the last call on the job, or "". */
const char *psrt_job_error(const psrt_job *job);

/** Frees the job, without waiting for other processes. Accepts NULL. */
void psrt_close_job(psrt_job *job);

/** Opens the program in the shared object `path` (an output of ps-compile), or, if `path` is NULL,
   the program linked into this executable. `options` may be NULL. Sets *program on failure too:
   read the message with psrt_last_error, then call psrt_close. */
psrt_status psrt_open(const char *path, const psrt_options *options, psrt_program **program);

/** Stops the ranks and frees everything. Accepts NULL. */
void psrt_close(psrt_program *program);

/** Returns the error message of the last call: what happened, and what to do. Returns "" if the
   last call succeeded. The text is valid until the next call. */
const char *psrt_last_error(const psrt_program *program);

/** Runs an entry ("evaluate", "forward" of a program compiled with --loss none, or an entry of
   `ps-compile --entry`) on whole (unsharded) inputs and fills whole outputs. Each output has a
   name, dtype, shape and memory; outputs that are not listed are not copied to the host. The
   activations of "forward" stay in `slot` until psrt_backward uses them. For entries without slots,
   pass slot 0. An entry of `--entry` may write buffers, which keep their values until the next
   call; psrt_set_variable resets them. */
psrt_status psrt_call(psrt_program *program, const char *entry, int32_t slot,
                      const psrt_tensor *inputs, size_t input_count, psrt_tensor *outputs,
                      size_t output_count);

/** Runs backward for the pending forward in `slot`. `cotangents` have the names of the
   differentiated outputs (--differentiate, by default all floating-point outputs). Outputs without
   a cotangent do not contribute, but at least one cotangent must be given. Adds the gradients to
   those accumulated since psrt_zero_grad. */
psrt_status psrt_backward(psrt_program *program, int32_t slot, const psrt_tensor *cotangents,
                          size_t count);

/** Runs the optimizer step on the accumulated gradients and advances the step number. In a program
   with a "step" entry, uses the gradients of the last psrt_begin_step, which are then lost. In
   other programs, gradients stay until psrt_zero_grad. */
psrt_status psrt_update(psrt_program *program);

/** Sets all gradients to zero, and also the accumulated sums and counts of the loss and of other
   outputs. */
psrt_status psrt_zero_grad(psrt_program *program);

/** Runs one whole training step. Each tensor of `inputs` occurs once and holds the samples of all
   micro-batches along its batch dim. Sets `loss` (may be NULL) to the global loss before the
   update. */
psrt_status psrt_step(psrt_program *program, const psrt_tensor *inputs, size_t input_count,
                      float *loss);

/** Copies outputs of the last training step (psrt_step, or psrt_begin_step before or after its
   update): those of --keep-outputs, which "outputs:step" lists. The batch dim holds the samples of
   all micro-batches, in the order of the inputs. Another step or psrt_call overwrites the outputs.
 */
psrt_status psrt_get_outputs(psrt_program *program, psrt_tensor *outputs, size_t count);

/** Runs a training step up to its update: forward and backward of all micro-batches. Takes the
   inputs of psrt_step, and sets `loss` (may be NULL) to the global loss. Until psrt_update, the
   variables "grad.NAME" are the gradients multiplied by `divisor` (may be NULL), which is the count
   of a mean loss, and may be changed. Another psrt_begin_step or psrt_call overwrites them: to
   accumulate, copy them before and add them afterwards. Further calls before psrt_update draw other
   random numbers. */
psrt_status psrt_begin_step(psrt_program *program, const psrt_tensor *inputs, size_t input_count,
                            float *loss, double *divisor);

/** Copy a whole variable to or from the memory of `tensor`. `tensor->name` is the variable's name
   in the model (any name of a tied variable), or a symbol such as "x.adamw.mean". "grad.NAME"
   names a gradient; use "grad.self.NAME" if the model has a variable "grad.NAME". Dtype and shape
   of `tensor` must be those that psrt_describe returns. */
psrt_status psrt_get_variable(psrt_program *program, psrt_tensor *tensor);
psrt_status psrt_set_variable(psrt_program *program, const psrt_tensor *tensor);

/** Sets a hyperparameter for the following steps: "lr", "weight_decay", "momentum", "beta1",
   "beta2" or "clip_grad_norm", as far as the program has it (docs/c-api.md). "lr" also sets the
   learning rate "lr.N" of every parameter group. The value must be in the hyperparameter's range
   and fit f32. */
psrt_status psrt_set_scalar(psrt_program *program, const char *name, double value);

/** Get and set the number of the next step, from 0 to 2^53. Dropout masks depend on this number. */
psrt_status psrt_get_step(psrt_program *program, int64_t *step);
psrt_status psrt_set_step(psrt_program *program, int64_t step);

/** Return the number of names in a list, and the name at an index. The lists are "variables" (with
   the first name of each), "inputs" (of all entries except those of `--entry`, including
   cotangents, each once), "entries", "inputs:ENTRY" and "outputs:ENTRY". Return 0 or NULL past the
   end and on an error. The name is valid until psrt_close. */
size_t psrt_name_count(psrt_program *program, const char *list);
const char *psrt_name(psrt_program *program, const char *list, size_t index);

/** Returns the shape and dtype of `name` in `list` ("variables", "inputs", "inputs:ENTRY" or
   "outputs:ENTRY"; see psrt_name). On entry *rank is the number of sizes that `shape` can hold. If
   the name exists, *rank is set to the number of dims, even if `shape` is too small
   (PSRT_BAD_ARGUMENT). An unknown name is PSRT_BAD_ARGUMENT too. */
psrt_status psrt_describe(psrt_program *program, const char *list, const char *name,
                          psrt_dtype *dtype, int32_t *rank, int64_t *shape);

#ifdef __cplusplus
}
#endif

#endif
