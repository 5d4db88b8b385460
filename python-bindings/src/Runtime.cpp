// Binds the C API of the runtime to Python as the module parashard._runtime. Releases the global
// interpreter lock while a program runs.
#include "psrt/psrt.h"
#include <mutex>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace {

using Input = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;
using Output = nb::ndarray<nb::device::cpu, nb::c_contig>;

struct DtypeName {
  psrt_dtype dtype;
  const char *name; ///< PyTorch's name, as in torch.float32
  uint8_t code;     ///< type code of DLPack
  uint8_t bits;
};

constexpr uint8_t kBool = 6;
constexpr uint8_t kF8E4M3 = 10;
constexpr uint8_t kF8E5M2 = 12;

constexpr DtypeName kDtypes[] = {
    {PSRT_F32, "float32", uint8_t(nb::dlpack::dtype_code::Float), 32},
    {PSRT_F64, "float64", uint8_t(nb::dlpack::dtype_code::Float), 64},
    {PSRT_F16, "float16", uint8_t(nb::dlpack::dtype_code::Float), 16},
    {PSRT_BF16, "bfloat16", uint8_t(nb::dlpack::dtype_code::Bfloat), 16},
    {PSRT_I64, "int64", uint8_t(nb::dlpack::dtype_code::Int), 64},
    {PSRT_I32, "int32", uint8_t(nb::dlpack::dtype_code::Int), 32},
    {PSRT_I16, "int16", uint8_t(nb::dlpack::dtype_code::Int), 16},
    {PSRT_I8, "int8", uint8_t(nb::dlpack::dtype_code::Int), 8},
    {PSRT_U8, "uint8", uint8_t(nb::dlpack::dtype_code::UInt), 8},
    {PSRT_BOOL, "bool", kBool, 8},
    {PSRT_F8E4M3, "float8_e4m3fn", kF8E4M3, 8},
    {PSRT_F8E5M2, "float8_e5m2", kF8E5M2, 8}};

psrt_dtype getDtype(const std::string &name, nb::dlpack::dtype dtype) {
  for (const DtypeName &known : kDtypes)
    if (known.code == dtype.code && known.bits == dtype.bits && dtype.lanes == 1)
      return known.dtype;
  throw nb::type_error(
      ("tensor \"" + name + "\" has a dtype that programs do not support").c_str());
}

const char *getName(psrt_dtype dtype) {
  for (const DtypeName &known : kDtypes)
    if (known.dtype == dtype)
      return known.name;
  return "unknown";
}

/// Describes arrays for the C API. The arrays must outlive this object.
template <typename Array> class Tensors {
public:
  explicit Tensors(const std::map<std::string, Array> &arrays) {
    for (const auto &[name, array] : arrays)
      shapes.emplace_back(array.shape_ptr(), array.shape_ptr() + array.ndim());
    auto shape = shapes.begin();
    for (const auto &[name, array] : arrays) {
      auto *data = const_cast<void *>(static_cast<const void *>(array.data()));
      tensors.push_back({name.c_str(), data, getDtype(name, array.dtype()), int32_t(array.ndim()),
                         (shape++)->data()});
    }
  }
  psrt_tensor *data() { return tensors.data(); }
  size_t size() const { return tensors.size(); }

private:
  std::vector<std::vector<int64_t>> shapes;
  std::vector<psrt_tensor> tensors;
};

/// Returns a class of parashard.errors.
nb::object findError(const char *name) {
  return nb::module_::import_("parashard.errors").attr(name);
}

[[noreturn]] void raise(psrt_status status, const std::string &message) {
  nb::object error = findError(status == PSRT_FAILED ? "RankFailed" : "InputError");
  PyErr_SetObject(error.ptr(), nb::str(message.c_str()).ptr());
  throw nb::python_error();
}

/// The job of this process, as a Python object.
class Job {
public:
  Job(const std::optional<std::string> &comm, const std::string &command, bool exitAfterFailure) {
    psrt_job_options options{sizeof(psrt_job_options), comm ? comm->c_str() : nullptr,
                             command.c_str(), exitAfterFailure};
    run([&] { return psrt_join(&options, &job); });
  }
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;
  ~Job() { psrt_close_job(job); }

  int32_t rank() const { return psrt_job_rank(job); }
  int32_t size() const { return psrt_job_size(job); }
  void barrier(const std::string &purpose) {
    run([&] { return psrt_barrier(job, purpose.c_str()); });
  }
  /// Returns the text of rank 0.
  std::string broadcast(const std::string &text) {
    uint64_t bytes = text.size();
    run([&] { return psrt_broadcast(job, &bytes, sizeof(bytes)); });
    std::string result = text;
    result.resize(bytes);
    run([&] { return psrt_broadcast(job, result.data(), bytes); });
    return result;
  }
  void leave() {
    run([&] { return psrt_leave(job); });
  }
  void fail(const std::string &message) {
    run([&] { return psrt_fail(job, message.c_str()); });
  }
  /// Returns (the rank whose failure ended the job or -1, whether it reported its failure).
  std::pair<int32_t, bool> findFailure() const {
    int32_t reported = 0;
    int32_t rank = psrt_job_failed_rank(job, &reported);
    return {rank, reported != 0};
  }
  psrt_job *get() const { return job; }

private:
  template <typename Function> void run(const Function &function) {
    psrt_status status = PSRT_OK;
    {
      nb::gil_scoped_release release;
      status = function();
    }
    if (status != PSRT_OK)
      raise(status, psrt_job_error(job));
  }

  psrt_job *job = nullptr;
};

/// An open program, as a Python object.
class Program {
public:
  Program(const std::string &path, int32_t ranks, int32_t threads, uint64_t seed,
          const std::optional<std::string> &weights, const Job *job) {
    psrt_options options{
        sizeof(psrt_options),      ranks, threads, seed, weights ? weights->c_str() : nullptr,
        job ? job->get() : nullptr};
    psrt_status status = PSRT_OK;
    {
      nb::gil_scoped_release release;
      status = psrt_open(path.c_str(), &options, &program);
    }
    if (status == PSRT_OK)
      return;
    std::string message = psrt_last_error(program);
    psrt_close(program);
    program = nullptr;
    raise(status, message);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;
  ~Program() { close(); }

  void close() {
    nb::gil_scoped_release release;
    std::scoped_lock lock(mutex);
    psrt_close(program);
    program = nullptr;
  }

  void call(const std::string &entry, int32_t slot, const std::map<std::string, Input> &inputs,
            const std::map<std::string, Output> &outputs) {
    Tensors given(inputs);
    Tensors wanted(outputs);
    run([&] {
      return psrt_call(program, entry.c_str(), slot, given.data(), given.size(), wanted.data(),
                       wanted.size());
    });
  }
  void backward(int32_t slot, const std::map<std::string, Input> &cotangents) {
    Tensors given(cotangents);
    run([&] { return psrt_backward(program, slot, given.data(), given.size()); });
  }
  void update() {
    run([&] { return psrt_update(program); });
  }
  void zeroGrad() {
    run([&] { return psrt_zero_grad(program); });
  }
  float step(const std::map<std::string, Input> &inputs) {
    Tensors given(inputs);
    float loss = 0;
    run([&] { return psrt_step(program, given.data(), given.size(), &loss); });
    return loss;
  }
  /// Returns (loss, divisor of the gradients).
  std::pair<float, double> beginStep(const std::map<std::string, Input> &inputs) {
    Tensors given(inputs);
    float loss = 0;
    double divisor = 0;
    run([&] { return psrt_begin_step(program, given.data(), given.size(), &loss, &divisor); });
    return {loss, divisor};
  }
  /// Copies outputs of the last step.
  void getOutputs(const std::map<std::string, Output> &outputs) {
    Tensors wanted(outputs);
    run([&] { return psrt_get_outputs(program, wanted.data(), wanted.size()); });
  }
  void getVariable(const std::string &name, const Output &array) {
    std::map<std::string, Output> arrays{{name, array}};
    Tensors tensor(arrays);
    run([&] { return psrt_get_variable(program, tensor.data()); });
  }
  void setVariable(const std::string &name, const Input &array) {
    std::map<std::string, Input> arrays{{name, array}};
    Tensors tensor(arrays);
    run([&] { return psrt_set_variable(program, tensor.data()); });
  }
  void setScalar(const std::string &name, double value) {
    run([&] { return psrt_set_scalar(program, name.c_str(), value); });
  }
  int64_t getStep() {
    int64_t step = 0;
    run([&] { return psrt_get_step(program, &step); });
    return step;
  }
  void setStep(int64_t step) {
    run([&] { return psrt_set_step(program, step); });
  }
  std::vector<std::string> getNames(const std::string &list) {
    std::vector<std::string> names;
    run([&] {
      names.resize(psrt_name_count(program, list.c_str()));
      for (size_t i = 0; i < names.size(); ++i)
        names[i] = psrt_name(program, list.c_str(), i);
      return PSRT_OK;
    });
    return names;
  }
  /// Returns (name of the dtype, shape).
  nb::tuple describe(const std::string &list, const std::string &name) {
    psrt_dtype dtype = PSRT_F32;
    std::vector<int64_t> shape;
    run([&] {
      int32_t rank = 0;
      // The first call fails if the tensor has dims, and sets the number of dims.
      psrt_status status =
          psrt_describe(program, list.c_str(), name.c_str(), &dtype, &rank, nullptr);
      if (rank == 0)
        return status;
      shape.resize(rank);
      return psrt_describe(program, list.c_str(), name.c_str(), &dtype, &rank, shape.data());
    });
    return nb::make_tuple(getName(dtype), nb::tuple(nb::cast(shape)));
  }

private:
  /// Calls `function`, which calls the C API. Raises an exception if the C API returns an error.
  template <typename Function> void run(const Function &function) {
    psrt_status status = PSRT_BAD_ARGUMENT;
    std::string message = "the program is closed";
    {
      nb::gil_scoped_release release;
      std::scoped_lock lock(mutex);
      if (program) {
        status = function();
        message = psrt_last_error(program);
      }
    }
    if (status != PSRT_OK)
      raise(status, message);
  }

  std::mutex mutex; ///< one thread at a time may use a program
  psrt_program *program = nullptr;
};

} // namespace

NB_MODULE(_runtime, m) {
  nb::set_leak_warnings(false); // references between modules and tensors outlive the interpreter
  m.doc() = "Binds the C API of the runtime. The methods of `Job` and `Program` call the functions "
            "of psrt.h.";
  nb::class_<Job>(m, "Job")
      .def(nb::init<const std::optional<std::string> &, const std::string &, bool>(),
           nb::arg("comm") = nb::none(), nb::kw_only(), nb::arg("command") = "",
           nb::arg("exit_after_failure") = false)
      .def_prop_ro("rank", &Job::rank)
      .def_prop_ro("size", &Job::size)
      .def("barrier", &Job::barrier, nb::arg("purpose"))
      .def("broadcast", &Job::broadcast, nb::arg("text"))
      .def("leave", &Job::leave)
      .def("fail", &Job::fail, nb::arg("message"))
      .def("find_failure", &Job::findFailure);
  nb::class_<Program>(m, "Program")
      .def(nb::init<const std::string &, int32_t, int32_t, uint64_t,
                    const std::optional<std::string> &, const Job *>(),
           nb::arg("path"), nb::kw_only(), nb::arg("ranks") = 0, nb::arg("threads") = 0,
           nb::arg("seed") = 0, nb::arg("weights") = nb::none(), nb::arg("job") = nb::none())
      .def("close", &Program::close)
      .def("call", &Program::call, nb::arg("entry"), nb::arg("slot"), nb::arg("inputs"),
           nb::arg("outputs"))
      .def("backward", &Program::backward, nb::arg("slot"), nb::arg("cotangents"))
      .def("update", &Program::update)
      .def("zero_grad", &Program::zeroGrad)
      .def("begin_step", &Program::beginStep, nb::arg("inputs"))
      .def("get_outputs", &Program::getOutputs, nb::arg("outputs"))
      .def("run_step", &Program::step, nb::arg("inputs"))
      .def("get_variable", &Program::getVariable, nb::arg("name"), nb::arg("array").noconvert())
      .def("set_variable", &Program::setVariable, nb::arg("name"), nb::arg("array"))
      .def("set_scalar", &Program::setScalar, nb::arg("name"), nb::arg("value"))
      .def_prop_rw("step", &Program::getStep, &Program::setStep)
      .def("names", &Program::getNames, nb::arg("list"))
      .def("describe", &Program::describe, nb::arg("list"), nb::arg("name"));
}
