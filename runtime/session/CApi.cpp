// Implements the C API: checks the caller's arguments, calls the session, and converts exceptions
// to statuses.
#include "psrt/psrt.h"
#include "runtime/data/Safetensors.h"
#include "runtime/session/JobApi.h"
#include "runtime/session/NamedTensors.h"
#include "runtime/session/SameCall.h"
#include "runtime/session/Source.h"
#include "runtime/session/StepGradients.h"
#include "runtime/session/StepOutputs.h"
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <unistd.h>
#include <utility>

using namespace psrt;

/// An open program.
struct psrt_program {
  pid_t process = getpid(); ///< the process that owns the rank threads
  std::string error;
  void *object = nullptr;
  std::shared_ptr<ProcessJob> job; ///< null: all ranks are threads of this process
  std::unique_ptr<Session> session;
  std::unique_ptr<NamedTensors> tensors;
  std::vector<int64_t>
      pending;           ///< by slot: ordinal of the forward whose backward is pending; -1: none
  int64_t forwards = 0;  ///< forwards since the last update; the micro-batch number for random ops
  bool hasBegun = false; ///< whether psrt_begin_step ran, and its gradients are not used or lost
  bool hasNewGradients = false; ///< whether the caller has set gradients since psrt_begin_step
  /// Whether the memory has the outputs of the last training step (--keep-outputs).
  bool hasOutputs = false;
  /// Whether psrt_zero_grad ran, and the memory still has the old gradients. The next backward then
  /// overwrites them instead of adding to zeros. Any other call first sets them to zero.
  bool hasOldGradients = false;
  uint64_t settings = 0; ///< hash of the scalars and steps that the caller has set
};

namespace {

/// Fails in a process that was forked from the process that opened the program.
void checkProcess(const psrt_program &program) {
  if (program.process != getpid())
    PSRT_FAIL(Failed,
              "process %lld opened the program; this process, %lld, was forked from it and has no "
              "rank threads; open the program after fork",
              (long long)program.process, (long long)getpid());
}

/// Calls body() as `guard` does, for an open program.
template <typename Body> psrt_status guarded(psrt_program *program, Body &&body) {
  if (!program)
    return PSRT_BAD_ARGUMENT;
  return guard(program->error, [&] {
    checkProcess(*program);
    body();
  });
}

/// Returns the session for a call that does not depend on the gradients, or that handles
/// `hasOldGradients` itself.
Session &openSessionOf(psrt_program *program) {
  if (!program->session)
    PSRT_FAIL(BadArgument, "the program is not open");
  return *program->session;
}

Session &sessionOf(psrt_program *program) {
  Session &session = openSessionOf(program);
  if (std::exchange(program->hasOldGradients, false))
    session.zero(VariableKind::Gradient);
  return session;
}

/// Fails if a launcher started this process as one of several, and the caller gave no job: each
/// process would train the whole program by itself.
void checkAlone() {
  ProcessIdentity identity = findProcessIdentity();
  if (identity.size > 1)
    PSRT_FAIL(BadArgument,
              "this process is one of %lld (%s), but psrt_open without a job runs all ranks as "
              "threads of one process, so each process would train by itself; call psrt_join and "
              "give psrt_open the job, or start one process, or unset %s",
              (long long)identity.size, identity.variable.c_str(), identity.variable.c_str());
}

/// Calls `prepare`, the part of a call that needs no other process. In a job, then ensures that all
/// processes make the same call. If `prepare` fails in one process, all processes fail.
template <typename Prepare>
void callTogether(psrt_program &program, HostCall call, Prepare &&prepare) {
  if (!program.job)
    return prepare(call);
  if (program.job->hasLeft())
    PSRT_FAIL(Failed, "this process has left the job of the program (psrt_leave)");
  std::optional<Status> problem;
  try {
    prepare(call);
  } catch (const Error &error) {
    if (error.status.code == StatusCode::Failed)
      throw;
    problem = error.status;
  }
  call.settings = program.settings;
  checkSameCall(*program.job, call, problem);
}

/// Records that the caller has set a scalar or the step.
void recordSetting(psrt_program &program, const char *name, double value) {
  program.settings =
      hashText(format("%llu %s %a", (unsigned long long)program.settings, name, value));
}

ProgramSource loadSource(psrt_program &program, const char *path) {
  if (!path) {
    ProgramSource source = linkedSource();
    if (!source.json)
      PSRT_FAIL(BadArgument, "no program is linked into this executable; give psrt_open the path "
                             "of a compiled program");
    return source;
  }
  // A path with '/' loads a file, never a system library of the same name.
  std::string file = std::strchr(path, '/') ? path : "./" + std::string(path);
  program.object = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!program.object)
    PSRT_FAIL(BadInput, "cannot load \"%s\": %s", path, dlerror());
  return sourceOfObject(program.object, path);
}

void checkOptions(const psrt_options &options) {
  if (options.size != sizeof(psrt_options))
    PSRT_FAIL(BadArgument, "psrt_options.size is %zu, expected %zu; set it to sizeof(psrt_options)",
              options.size, sizeof(psrt_options));
}

void openProgram(psrt_program &program, const char *path, const psrt_options *given) {
  psrt_options options = {};
  options.size = sizeof(options);
  if (given)
    options = *given;
  checkOptions(options);
  program.job = findJob(options.job);
  if (!program.job)
    checkAlone();
  SessionOptions sessionOptions;
  sessionOptions.ranks = options.ranks;
  sessionOptions.threads = options.threads;
  sessionOptions.seed = options.seed;
  sessionOptions.job = program.job.get();
  std::optional<WeightFiles> weights;
  ProgramSource source;
  callTogether(program, {"opens"}, [&](HostCall &call) {
    source = loadSource(program, path);
    if (program.job)
      checkRanks(parseProgram({source.json, source.size}), program.job->size());
    if (options.weights)
      sessionOptions.given = weights.emplace(options.weights).names();
    call.name += format(" the program %016llx with the seed %llu",
                        (unsigned long long)hashText({source.json, source.size}),
                        (unsigned long long)options.seed);
  });
  program.session = std::make_unique<Session>(source, sessionOptions);
  program.tensors = std::make_unique<NamedTensors>(program.session->getProgram());
  if (weights)
    loadWeights(*program.session, *program.tensors, *weights);
}

/// Fails if `tensor` is null or invalid. Error messages contain `role`.
void checkGiven(const psrt_tensor *tensor, const char *role) {
  if (!tensor)
    PSRT_FAIL(BadArgument, "%s is NULL; give a psrt_tensor", role);
  if (!tensor->name)
    PSRT_FAIL(BadArgument, "%s \"\" has no name", role);
  if (tensor->rank < 0 || (tensor->rank > 0 && !tensor->shape))
    PSRT_FAIL(BadArgument, "%s \"%s\" has rank %d%s", role, tensor->name, tensor->rank,
              tensor->rank < 0 ? "; it must be at least 0" : " and no shape");
  for (int32_t d = 0; d < tensor->rank; ++d)
    if (tensor->shape[d] < 0)
      PSRT_FAIL(BadArgument, "%s \"%s\" has size %lld in dim %d", role, tensor->name,
                (long long)tensor->shape[d], d);
  bool isEmpty = std::count(tensor->shape, tensor->shape + tensor->rank, 0) > 0;
  if (!tensor->data && !isEmpty)
    PSRT_FAIL(BadArgument, "%s \"%s\" has no data", role, tensor->name);
  if (unsigned(tensor->dtype) > unsigned(PSRT_F8E5M2))
    PSRT_FAIL(BadArgument, "%s \"%s\" has the unknown dtype %d", role, tensor->name,
              int(tensor->dtype));
}

void checkGiven(const psrt_tensor *tensors, size_t count, const char *role) {
  if (count && !tensors)
    PSRT_FAIL(BadArgument, "the count is %zu, but the %ss are NULL", count, role);
  for (size_t i = 0; i < count; ++i)
    checkGiven(&tensors[i], role);
}

std::vector<int64_t> shapeOf(const psrt_tensor &tensor) {
  return {tensor.shape, tensor.shape + tensor.rank};
}

std::vector<HostTensor> hostTensors(const psrt_tensor *tensors, size_t count) {
  std::vector<HostTensor> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back({tensors[i].name, Dtype(tensors[i].dtype), shapeOf(tensors[i]),
                      static_cast<const char *>(tensors[i].data)});
  return result;
}

/// Removes the cotangents that are not given, and sets them to zero. Fails if none is given.
void zeroMissing(Session &session, const EntryPoint &entry, const psrt_tensor *tensors,
                 size_t count, int64_t slot, std::vector<const Input *> &cotangents) {
  std::vector<const Input *> missing;
  std::string names;
  for (const Input *input : cotangents) {
    names += (names.empty() ? "" : ", ") + input->name;
    if (std::none_of(tensors, tensors + count,
                     [&](const psrt_tensor &given) { return input->name == given.name; }))
      missing.push_back(input);
  }
  if (!missing.empty() && missing.size() == cotangents.size())
    PSRT_FAIL(BadArgument, "no cotangent is given; give that of at least one output: %s",
              names.c_str());
  session.zeroInputs(entry, missing, slot);
  std::erase_if(cotangents, [&](const Input *input) {
    return std::find(missing.begin(), missing.end(), input) != missing.end();
  });
}

/// Copies the given tensors into the inputs of an entry. The batch dim of a given tensor contains
/// the rows of all micro-batches. Cotangents may be missing, and are then zero.
void writeInputs(Session &session, const EntryPoint &entry, const psrt_tensor *tensors,
                 size_t count, int64_t microBatches, int64_t slot, bool cotangents) {
  checkGiven(tensors, count, cotangents ? "cotangent" : "input");
  std::vector<const Input *> inputs = session.inputsOf(entry, cotangents);
  for (size_t i = 0; i < count; ++i) {
    const char *role = cotangents ? "cotangent" : "input";
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(tensors[i].name, tensors[j].name) == 0)
        PSRT_FAIL(BadArgument, "%s \"%s\" is given twice; give it once", role, tensors[i].name);
    bool known = false;
    for (const Input *input : inputs)
      known |= input->name == tensors[i].name;
    if (!known)
      PSRT_FAIL(BadArgument, "entry \"%s\" has no %s \"%s\"", entry.name(), role, tensors[i].name);
  }
  if (cotangents)
    zeroMissing(session, entry, tensors, count, slot, inputs);
  if (inputs.empty())
    return;
  auto source = makeMemorySource(inputs, hostTensors(tensors, count), "the call");
  int64_t rows = batchRows(inputs);
  bool batched =
      std::any_of(inputs.begin(), inputs.end(), [](auto *i) { return i->batchDim >= 0; });
  if (batched && source->samples() != rows * microBatches)
    PSRT_FAIL(BadInput,
              "the inputs have %lld rows, but entry \"%s\" takes %lld (%lld micro-batches of %lld)",
              (long long)source->samples(), entry.name(), (long long)(rows * microBatches),
              (long long)microBatches, (long long)rows);
  session.writeInputs(
      entry, inputs, *source, microBatches, [&](int64_t m, int64_t row) { return m * rows + row; },
      slot);
}

/// Copies the samples of a whole step into the inputs of the step entry. `function` is the function
/// of the C API.
void writeBatch(psrt_program &program, const char *function, const EntryPoint &entry,
                const psrt_tensor *inputs, size_t count) {
  program.hasOutputs = false; // inputs may overwrite them
  callTogether(program, {function}, [&](HostCall &call) {
    Session &session = *program.session;
    writeInputs(session, entry, inputs, count, session.getProgram().microBatches, 0, false);
    call.inputs = hashTensors(inputs, count);
  });
}

void checkTensor(const psrt_tensor &given, Dtype dtype, const std::vector<int64_t> &shape) {
  if (Dtype(given.dtype) != dtype || shapeOf(given) != shape) {
    std::string text;
    for (int64_t size : shape)
      text += format("%s%lld", text.empty() ? "" : ", ", (long long)size);
    PSRT_FAIL(BadInput, "tensor \"%s\" must be %s of shape [%s]", given.name, dtypeName(dtype),
              text.c_str());
  }
}

/// Fails if an entry has no output of this name, dtype and shape. Returns the output of the first
/// micro-batch.
const Output &findOutput(const EntryPoint &entry, const psrt_tensor &given) {
  for (const Output &output : entry.outputs)
    if (output.name == given.name) {
      checkTensor(given, output.dtype, wholeShape(entry, output));
      return output;
    }
  PSRT_FAIL(BadArgument, "entry \"%s\" has no output \"%s\"%s", entry.name(), given.name,
            entry.kind == EntryKind::Step ? "; compile with --keep-outputs" : "");
}

void readOutputs(Session &session, const EntryPoint &entry, psrt_tensor *outputs, size_t count,
                 int64_t slot) {
  for (size_t i = 0; i < count; ++i) {
    RankTensor inSlot = findOutput(entry, outputs[i]);
    for (size_t stage = 0; stage < entry.programs.size(); ++stage)
      if (inSlot.addresses.isAt(stage))
        inSlot.addresses.set(stage, entry.programs[stage].inSlot(inSlot.addresses.at(stage), slot));
    session.gatherEverywhere(inSlot, static_cast<char *>(outputs[i].data));
  }
}

void checkSlot(const EntryPoint &entry, int64_t slot) {
  int64_t slots = entry.programs.front().slots;
  if (slot < 0 || slot >= slots)
    PSRT_FAIL(BadArgument, "slot %lld is out of range: entry \"%s\" has %lld, counted from 0",
              (long long)slot, entry.name(), (long long)slots);
}

/// Returns the variable that the caller named. Fails if it has another dtype or shape.
const NamedTensor &findVariable(psrt_program &program, const char *function,
                                const psrt_tensor *tensor) {
  const NamedTensor *found = nullptr;
  callTogether(program, {function}, [&](HostCall &call) {
    checkGiven(tensor, "variable");
    call.name += format(" \"%s\"", tensor->name);
    found = &program.tensors->get(tensor->name);
    checkTensor(*tensor, found->dtype, found->shape);
  });
  return *found;
}

/// The lists that psrt_name and psrt_describe accept.
enum class NameList { Variables, Inputs, Entries, Outputs };

} // namespace

template <> struct psrt::EnumNames<NameList> {
  static constexpr EnumName<NameList> table[] = {{NameList::Variables, "variables"},
                                                 {NameList::Inputs, "inputs"},
                                                 {NameList::Entries, "entries"},
                                                 {NameList::Outputs, "outputs"}};
};

namespace {

/// A parsed list: "variables", or "outputs:step" with the entry whose outputs are listed.
struct ParsedList {
  NameList list;
  std::string entry; ///< for Outputs, and optional for Inputs
  /// Returns true if the list has the input: an input of the entry, or without an entry, an input
  /// of any entry that is not an inference entry.
  bool lists(const Input &input, const Session &session) const {
    return entry.empty() ? input.readers != Readers::Inference
                         : input.isReadBy(session.entry(entry));
  }
};

ParsedList parseList(const std::string &text) {
  size_t colon = text.find(':');
  std::optional<NameList> list = findName<NameList>(text.substr(0, colon));
  bool names = colon != std::string::npos;
  if (!list ||
      (names ? list != NameList::Outputs && list != NameList::Inputs : list == NameList::Outputs))
    PSRT_FAIL(BadArgument,
              "unknown list \"%s\"; expected variables, inputs, inputs:ENTRY, entries or "
              "outputs:ENTRY",
              text.c_str());
  return {*list, names ? text.substr(colon + 1) : ""};
}

/// Returns the names in a list, in the order of psrt_name. The program owns the names.
std::vector<const char *> namesOf(psrt_program *program, const std::string &text) {
  std::vector<const char *> result;
  const Program &p = sessionOf(program).getProgram();
  ParsedList parsed = parseList(text);
  switch (parsed.list) {
  case NameList::Variables:
    for (const NamedTensor &tensor : program->tensors->all())
      result.push_back(tensor.name.c_str());
    break;
  case NameList::Inputs:
    for (const Input &input : p.inputs) // list an input of several entries once
      if (parsed.lists(input, sessionOf(program)) &&
          std::none_of(result.begin(), result.end(),
                       [&](const char *name) { return name == input.name; }))
        result.push_back(input.name.c_str());
    break;
  case NameList::Entries:
    for (const EntryPoint &entry : p.entries)
      result.push_back(entry.name());
    break;
  case NameList::Outputs:
    for (const Output &output : sessionOf(program).entry(parsed.entry).outputs)
      if (output.microBatch == 0)
        result.push_back(output.name.c_str());
    break;
  }
  return result;
}

/// Returns dtype and shape of the tensor with a name in a list. Fails if no such tensor exists.
std::pair<Dtype, std::vector<int64_t>> describe(psrt_program *program, const std::string &text,
                                                const std::string &name) {
  ParsedList parsed = parseList(text);
  if (parsed.list == NameList::Variables) {
    const NamedTensor &tensor = program->tensors->get(name);
    return {tensor.dtype, tensor.shape};
  }
  if (parsed.list == NameList::Inputs)
    for (const Input &input : sessionOf(program).getProgram().inputs)
      if (input.name == name && parsed.lists(input, sessionOf(program)))
        return {input.dtype, input.placement.shape};
  if (parsed.list == NameList::Outputs) {
    const EntryPoint &entry = sessionOf(program).entry(parsed.entry);
    for (const Output &output : entry.outputs)
      if (output.name == name)
        return {output.dtype, wholeShape(entry, output)};
  }
  PSRT_FAIL(BadArgument, "the list \"%s\" has no name \"%s\"", text.c_str(), name.c_str());
}

} // namespace

extern "C" {

psrt_status psrt_open(const char *path, const psrt_options *options, psrt_program **program) {
  if (!program)
    return PSRT_BAD_ARGUMENT;
  *program = new psrt_program;
  return guarded(*program, [&] { openProgram(**program, path, options); });
}

void psrt_close(psrt_program *program) {
  if (!program)
    return;
  void *object = program->object;
  delete program;
  if (object)
    dlclose(object);
}

const char *psrt_last_error(const psrt_program *program) {
  return program ? program->error.c_str() : "no program";
}

psrt_status psrt_call(psrt_program *program, const char *name, int32_t slot,
                      const psrt_tensor *inputs, size_t input_count, psrt_tensor *outputs,
                      size_t output_count) {
  return guarded(program, [&] {
    Session &session = openSessionOf(program);
    const EntryPoint &entry = session.entry(name ? name : "");
    if (entry.kind == EntryKind::Step || entry.kind == EntryKind::Backward ||
        entry.kind == EntryKind::Update)
      PSRT_FAIL(BadArgument, "entry \"%s\" is run by psrt_%s", entry.name(), entry.name());
    callTogether(*program, {"runs the entry " + std::string(entry.name())}, [&](HostCall &call) {
      checkSlot(entry, slot);
      checkGiven(outputs, output_count, "output");
      for (size_t i = 0; i < output_count; ++i)
        call.name += format(", %s", findOutput(entry, outputs[i]).name.c_str());
      writeInputs(session, entry, inputs, input_count, 1, slot, false);
      call.inputs = hashTensors(inputs, input_count);
    });
    bool forward = entry.kind == EntryKind::Forward;
    program->hasBegun = program->hasOutputs = false; // the entry may overwrite both
    session.run(entry, slot, forward, Extent::All, forward ? program->forwards : -1);
    if (forward) {
      program->pending.resize(entry.programs.front().slots, -1);
      program->pending[slot] = program->forwards++;
    }
    readOutputs(session, entry, outputs, output_count, slot);
  });
}

psrt_status psrt_backward(psrt_program *program, int32_t slot, const psrt_tensor *cotangents,
                          size_t count) {
  return guarded(program, [&] {
    Session &session = openSessionOf(program);
    const EntryPoint &entry = session.entry(EntryKind::Backward);
    callTogether(*program, {"runs backward"}, [&](HostCall &call) {
      checkSlot(entry, slot);
      if (size_t(slot) >= program->pending.size() || program->pending[slot] < 0)
        PSRT_FAIL(BadArgument, "no forward is pending in slot %d", slot);
      call.name += format(" of slot %d", slot);
      writeInputs(session, entry, cotangents, count, 1, slot, true);
      call.inputs = hashTensors(cotangents, count);
    });
    bool overwrites = std::exchange(program->hasOldGradients, false);
    if (overwrites)
      session.zeroKept(VariableKind::Gradient, entry);
    session.run(entry, slot, !overwrites, Extent::All, program->pending[slot]);
    program->pending[slot] = -1;
  });
}

psrt_status psrt_update(psrt_program *program) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const EntryPoint *step = session.getProgram().entry(EntryKind::Step);
    callTogether(*program, {"runs the update"}, [&](HostCall &) {
      if (step && !program->hasBegun)
        PSRT_FAIL(BadArgument, "psrt_update needs the gradients of a step: call psrt_begin_step "
                               "before it, and run no entry between the two");
    });
    session.earlierRuns = 0;
    if (step) {
      program->hasBegun = false;
      session.runUpdate(*step, program->hasNewGradients);
    } else {
      session.run(session.entry(EntryKind::Update), 0, true);
    }
    ++session.step;
    program->forwards = 0;
  });
}

psrt_status psrt_zero_grad(psrt_program *program) {
  return guarded(program, [&] {
    openSessionOf(program).zero(VariableKind::Accumulator);
    program->hasOldGradients = true;
  });
}

psrt_status psrt_begin_step(psrt_program *program, const psrt_tensor *inputs, size_t input_count,
                            float *loss, double *divisor) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const EntryPoint &entry = session.entry(EntryKind::Step);
    writeBatch(*program, "begins a training step", entry, inputs, input_count);
    program->hasBegun = false;
    session.run(entry, 0, false, Extent::BeforeUpdate);
    program->hasBegun = program->hasOutputs = true;
    program->hasNewGradients = false;
    ++session.earlierRuns;
    StepGradients gradients = readLossBeforeUpdate(session);
    if (loss)
      *loss = float(gradients.loss);
    if (divisor)
      *divisor = gradients.divisor;
  });
}

psrt_status psrt_step(psrt_program *program, const psrt_tensor *inputs, size_t input_count,
                      float *loss) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const EntryPoint &entry = session.entry(EntryKind::Step);
    writeBatch(*program, "runs a training step", entry, inputs, input_count);
    program->hasBegun = false;
    session.earlierRuns = 0;
    session.run(entry);
    program->hasOutputs = true;
    ++session.step;
    if (loss)
      *loss = float(session.readScalar("loss"));
  });
}

psrt_status psrt_get_outputs(psrt_program *program, psrt_tensor *outputs, size_t count) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const EntryPoint &entry = session.entry(EntryKind::Step);
    std::vector<const Output *> found;
    callTogether(*program, {"reads outputs of a training step"}, [&](HostCall &call) {
      checkGiven(outputs, count, "output");
      for (size_t i = 0; i < count; ++i) {
        found.push_back(&findOutput(entry, outputs[i]));
        call.name += format(", %s", found.back()->name.c_str());
      }
      if (!program->hasOutputs)
        PSRT_FAIL(BadArgument,
                  "the outputs of a step can be read from its end to the next call of an "
                  "entry; call psrt_get_outputs right after psrt_step or "
                  "psrt_begin_step");
    });
    for (size_t i = 0; i < count; ++i)
      readStepOutput(session, entry, *found[i], static_cast<char *>(outputs[i].data));
  });
}

psrt_status psrt_get_variable(psrt_program *program, psrt_tensor *tensor) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const NamedTensor &found = findVariable(*program, "reads", tensor);
    char *data = static_cast<char *>(tensor->data);
    readTensor(session, found, data);
    session.broadcast(data, found.bytes());
  });
}

psrt_status psrt_set_variable(psrt_program *program, const psrt_tensor *tensor) {
  return guarded(program, [&] {
    Session &session = sessionOf(program);
    const NamedTensor &found = findVariable(*program, "writes", tensor);
    const char *data = static_cast<const char *>(tensor->data);
    std::vector<char> shared;
    if (session.isOneOfMany()) {
      shared.assign(data, data + found.bytes());
      session.broadcast(shared.data(), found.bytes());
      data = shared.data();
    }
    if (found.kind == VariableKind::Scalar)
      return setScalars(session, found.name,
                        found.dtype == Dtype::F64 ? *reinterpret_cast<const double *>(data)
                                                  : *reinterpret_cast<const float *>(data));
    bool isGradient = found.kind.value_or(VariableKind::Gradient) == VariableKind::Gradient;
    if (isGradient && program->hasBegun && !program->hasNewGradients) {
      session.beginNewGradients();
      program->hasNewGradients = true;
    }
    writeTensor(session, found, data);
  });
}

psrt_status psrt_set_scalar(psrt_program *program, const char *name, double value) {
  return guarded(program, [&] {
    setScalars(sessionOf(program), name ? name : "", value);
    recordSetting(*program, name, value);
  });
}

psrt_status psrt_get_step(psrt_program *program, int64_t *step) {
  return guarded(program, [&] {
    if (!step)
      PSRT_FAIL(BadArgument, "the pointer for the step is NULL");
    *step = sessionOf(program).step;
  });
}

psrt_status psrt_set_step(psrt_program *program, int64_t step) {
  return guarded(program, [&] {
    if (step < 0 || step > kMaxSteps)
      PSRT_FAIL(BadArgument, "step %lld is out of range; expected 0 to 2^53", (long long)step);
    sessionOf(program).step = step;
    recordSetting(*program, "step", double(step));
  });
}

size_t psrt_name_count(psrt_program *program, const char *list) {
  size_t count = 0;
  guarded(program, [&] { count = namesOf(program, list ? list : "").size(); });
  return count;
}

const char *psrt_name(psrt_program *program, const char *list, size_t index) {
  const char *result = nullptr;
  guarded(program, [&] {
    std::vector<const char *> names = namesOf(program, list ? list : "");
    result = index < names.size() ? names[index] : nullptr;
  });
  return result;
}

psrt_status psrt_describe(psrt_program *program, const char *list, const char *name,
                          psrt_dtype *dtype, int32_t *rank, int64_t *shape) {
  return guarded(program, [&] {
    sessionOf(program);
    if (!list || !name || !dtype || !rank || *rank < 0 || (*rank > 0 && !shape))
      PSRT_FAIL(BadArgument, "psrt_describe: list, name, dtype and rank must not be NULL, *rank "
                             "must be at least 0, and shape must have room for *rank sizes");
    auto [foundDtype, foundShape] = describe(program, list, name);
    int32_t room = *rank;
    *rank = int32_t(foundShape.size());
    *dtype = psrt_dtype(foundDtype);
    if (room < *rank)
      PSRT_FAIL(BadArgument, "\"%s\" has %d dims, but *rank gives room for %d", name, *rank, room);
    if (shape)
      std::copy(foundShape.begin(), foundShape.end(), shape);
  });
}

} // extern "C"
