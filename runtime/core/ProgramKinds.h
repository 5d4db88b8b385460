// Defines the enums of the program's JSON table (docs/program-format.md), with their names in the
// table.
#ifndef PSRT_CORE_PROGRAMKINDS_H
#define PSRT_CORE_PROGRAMKINDS_H

#include "runtime/core/EnumNames.h"
#include <cstdint>

namespace psrt {

enum class Dtype : uint8_t { F32, F64, F16, BF16, I64, I32, I16, I8, U8, Bool, F8E4M3, F8E5M2 };

template <> struct EnumNames<Dtype> {
  static constexpr const char *what = "dtype";
  static constexpr EnumName<Dtype> table[] = {
      {Dtype::F32, "f32"},   {Dtype::F64, "f64"},       {Dtype::F16, "f16"},
      {Dtype::BF16, "bf16"}, {Dtype::I64, "i64"},       {Dtype::I32, "i32"},
      {Dtype::I16, "i16"},   {Dtype::I8, "i8"},         {Dtype::U8, "u8"},
      {Dtype::Bool, "bool"}, {Dtype::F8E4M3, "f8e4m3"}, {Dtype::F8E5M2, "f8e5m2"}};
};

/// The kind of parallelism of a mesh axis.
enum class AxisKind : uint8_t { Data, Tensor, Context, Expert, Pipeline, Multiple };

template <> struct EnumNames<AxisKind> {
  static constexpr const char *what = "kind";
  static constexpr EnumName<AxisKind> table[] = {
      {AxisKind::Data, "data"},         {AxisKind::Tensor, "tensor"},
      {AxisKind::Context, "context"},   {AxisKind::Expert, "expert"},
      {AxisKind::Pipeline, "pipeline"}, {AxisKind::Multiple, "multiple"}};
};

/// The contents of a variable. Copy: a parameter in another dtype. Average: the moving average of a
/// parameter.
enum class VariableKind : uint8_t {
  Parameter,
  Buffer,
  Constant,
  Gradient,
  Optimizer,
  Copy,
  Average,
  Accumulator,
  Scalar
};

template <> struct EnumNames<VariableKind> {
  static constexpr const char *what = "kind";
  static constexpr EnumName<VariableKind> table[] = {
      {VariableKind::Parameter, "parameter"}, {VariableKind::Buffer, "buffer"},
      {VariableKind::Constant, "constant"},   {VariableKind::Gradient, "gradient"},
      {VariableKind::Optimizer, "optimizer"}, {VariableKind::Copy, "copy"},
      {VariableKind::Average, "average"},     {VariableKind::Accumulator, "accumulator"},
      {VariableKind::Scalar, "scalar"}};
};

/// The form in which a scalar holds a hyperparameter x: x itself, 1 - x or log x. The name is the
/// suffix of the scalar's symbol, such as "beta1.log"; `Value` has no suffix.
enum class ScalarForm : uint8_t { Value, OneMinus, Log };

template <> struct EnumNames<ScalarForm> {
  static constexpr const char *what = "form";
  static constexpr EnumName<ScalarForm> table[] = {{ScalarForm::OneMinus, "one_minus"},
                                                   {ScalarForm::Log, "log"}};
};

/// The distribution of an initial value. `Value` is the same number for every element.
enum class Distribution : uint8_t { Normal, Uniform, Value };

template <> struct EnumNames<Distribution> {
  static constexpr const char *what = "distribution";
  static constexpr EnumName<Distribution> table[] = {{Distribution::Normal, "normal"},
                                                     {Distribution::Uniform, "uniform"},
                                                     {Distribution::Value, "value"}};
};

/// The role of an input. The host passes cotangents to backward.
enum class InputRole : uint8_t { Data, Labels, Cotangent };

template <> struct EnumNames<InputRole> {
  static constexpr const char *what = "role";
  static constexpr EnumName<InputRole> table[] = {{InputRole::Data, "data"},
                                                  {InputRole::Labels, "labels"},
                                                  {InputRole::Cotangent, "cotangent"}};
};

/// The kinds of entries that the host can run. A program has at most one entry of each kind, except
/// for `Inference`: each of these entries has a name of its own, may write buffers, and has no
/// gradient.
enum class EntryKind : uint8_t { Step, Evaluate, Forward, Backward, Update, Inference };

template <> struct EnumNames<EntryKind> {
  static constexpr const char *what = "entry";
  static constexpr EnumName<EntryKind> table[] = {
      {EntryKind::Step, "step"},       {EntryKind::Evaluate, "evaluate"},
      {EntryKind::Forward, "forward"}, {EntryKind::Backward, "backward"},
      {EntryKind::Update, "update"},   {EntryKind::Inference, "inference"}};
};

constexpr uint8_t bitOf(EntryKind kind) { return uint8_t(1 << int(kind)); }

/// The entries that read an input, as a bit mask.
enum class Readers : uint8_t {
  Step = bitOf(EntryKind::Step),
  Evaluate = bitOf(EntryKind::Evaluate),
  Forward = bitOf(EntryKind::Forward),
  Backward = bitOf(EntryKind::Backward),
  Update = bitOf(EntryKind::Update),
  Inference = bitOf(EntryKind::Inference), ///< the entry that the input names
  MicroBatch = Step | Forward | Backward,
  All = MicroBatch | Evaluate | Update
};

constexpr bool includes(Readers readers, EntryKind entry) {
  return uint8_t(readers) & bitOf(entry);
}

template <> struct EnumNames<Readers> {
  static constexpr const char *what = "of_program";
  static constexpr EnumName<Readers> table[] = {{Readers::Step, "step"},
                                                {Readers::Evaluate, "evaluate"},
                                                {Readers::Forward, "forward"},
                                                {Readers::Backward, "backward"},
                                                {Readers::Update, "update"},
                                                {Readers::Inference, "inference"},
                                                {Readers::MicroBatch, "micro_batch"}};
};

/// How the labels of a token file follow from its tokens. Next: labels[t] = x[t+1]. Same: labels =
/// x, and the model shifts them. Given: the graph does not show the rule, so `--labels` must
/// specify it.
enum class LabelRule : uint8_t { Next, Same, Given };

template <> struct EnumNames<LabelRule> {
  static constexpr const char *what = "labels";
  static constexpr EnumName<LabelRule> table[] = {
      {LabelRule::Next, "next"}, {LabelRule::Same, "same"}, {LabelRule::Given, "given"}};
};

/// How a part of the loss is averaged over the micro-batches of a step.
enum class LossAverage : uint8_t { Step, Sum, MicroBatch };

template <> struct EnumNames<LossAverage> {
  static constexpr const char *what = "loss_average";
  static constexpr EnumName<LossAverage> table[] = {{LossAverage::Step, "step"},
                                                    {LossAverage::Sum, "sum"},
                                                    {LossAverage::MicroBatch, "micro-batch"}};
};

/// The device that runs a program.
enum class DeviceKind : uint8_t { Cpu, Cuda };

template <> struct EnumNames<DeviceKind> {
  static constexpr const char *what = "device";
  static constexpr EnumName<DeviceKind> table[] = {{DeviceKind::Cpu, "cpu"},
                                                   {DeviceKind::Cuda, "cuda"}};
};

/// The machine that a program is compiled for.
struct Target {
  std::string text = "cpu"; ///< as in the table: "cpu", "cuda:sm_90", "cuda:sm_90a", "cuda:replay"
  DeviceKind device = DeviceKind::Cpu;
  bool isReplay = false; ///< cuda: only the fake driver runs the program
  int architecture = 0;  ///< cuda: 90 for sm_90
  bool isExact = false;  ///< cuda: sm_90a, whose code does not run on later architectures
};
/// Parses a target. Fails with BadInput on an unknown device or architecture.
Target parseTarget(const std::string &text);

} // namespace psrt

#endif
