"""Trains a compiled model with a loss in PyTorch (`AutogradDrive`), or with the loss in the graph (`StepDrive`)."""

import re

import torch

from parashard.errors import InputError, Unsupported
from parashard.remote import RemoteTensor, Variable

__all__ = ["LOSS_PART", "AutogradDrive", "StepDrive"]

# Outputs of the evaluate entry from which the runtime averages a loss. The model does not return them.
LOSS_PART = re.compile(r"loss\.(sum|count|plus|least)(\.\d+)?")


def name_gradient(name, module):
    """Returns the name of a parameter's gradient in the program (psrt.h): "grad.NAME", unless the model has such a tensor."""
    prefix, known = "grad.", module.state_dict()
    while prefix + name in known:
        prefix += "self."
    return prefix + name


def allocate(program, entry, names):
    """Returns tensors for the outputs of an entry, by name."""
    described = {name: program.describe(f"outputs:{entry}", name) for name in names}
    return {name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, (dtype, shape) in described.items()}


class Slot:
    """A slot of the program, which keeps the activations of a forward until its backward, or until the graph is freed."""

    def __init__(self, free):
        if not free:
            raise Unsupported(
                "too many forwards wait for their backward; call the model in torch.no_grad() if you do not need gradients, "
                "and delete losses that you do not use"
            )
        self.free = free
        self.index = free.pop()

    def __del__(self):
        if hasattr(self, "index"):
            self.free.append(self.index)


class Forward(torch.autograd.Function):
    """Runs forward in the program, so that backward of a loss runs backward in the program."""

    @staticmethod
    def forward(ctx, anchor, drive, model, inputs):
        ctx.drive, ctx.model = drive, model
        ctx.step = drive.program.step
        ctx.slot = Slot(drive.free)
        ctx.set_materialize_grads(False)
        outputs = drive.call("forward", ctx.slot.index, inputs)
        ctx.mark_non_differentiable(*(value for name, value in zip(drive.outputs, outputs) if name not in drive.cotangents))
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *cotangents):
        if ctx.slot is None:
            raise Unsupported("the backward of this forward has run; call the model again instead of using retain_graph")
        if ctx.drive.program.step != ctx.step:
            raise Unsupported("optimizer.step() ran between the forward and this backward; run backward first")
        ctx.drive.backward(ctx.model, ctx.slot.index, cotangents)
        ctx.slot = None
        return None, None, None, None


class AutogradDrive:
    """Runs forward and backward as separate entries of a program without a loss. The program accumulates the gradients."""

    def __init__(self, program, outputs, arguments):
        """outputs: names of the model's outputs, each once. arguments: names of the arguments of forward."""
        self.program = program
        self.outputs = outputs
        self.cotangents = set(program.names("inputs")).intersection(outputs).difference(arguments)
        self.free = list(range(16))
        self.anchor = torch.zeros((), requires_grad=True)

    def train(self, model, inputs):
        """Returns the values of the outputs in training mode."""
        if torch.is_grad_enabled() and self.cotangents:
            return Forward.apply(self.anchor, self, model, inputs)
        return self.call("forward", Slot(self.free).index, inputs)

    def evaluate(self, inputs):
        return self.call("evaluate", 0, inputs)

    def call(self, entry, slot, inputs):
        values = allocate(self.program, entry, self.outputs)
        self.program.call(entry, slot, inputs, values)
        return list(values.values())

    def backward(self, model, slot, cotangents):
        model._send_gradients()
        given = {name: value.contiguous() for name, value in zip(self.outputs, cotangents) if name in self.cotangents and value is not None}
        if given:  # else the loss depends on no output
            self.program.backward(slot, given)
        model._show_gradients()

    def make_gradients(self, names):
        """Returns the gradients of parameters as `RemoteTensor`s. names: names of the program's variables, by parameter."""
        return {name: RemoteTensor.of(self.program, variable) for name, variable in names.items()}

    def zero_grad(self):
        self.program.zero_grad()

    def update(self):
        self.program.update()


class Step(torch.autograd.Function):
    """The loss and the kept outputs of a training step, whose forward and backward have run.

    Backward of the loss makes its gradients valid. Backward of another output is an error, because the gradients of the step are
    those of the loss alone.
    """

    @staticmethod
    def forward(ctx, anchor, drive, model, loss):
        ctx.drive, ctx.model = drive, model
        ctx.number = drive.number
        kept = drive.read_kept().values()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(value for value in kept if not value.is_floating_point()))
        return torch.tensor(loss, dtype=drive.dtype), *kept

    @staticmethod
    def backward(ctx, cotangent, *others):
        names = [name for name, other in zip(ctx.drive.kept, others) if other is not None]
        if names:
            raise Unsupported(
                f"backward of output {names[0]}: a training step has the gradients of its loss alone; put the term into criterion, use "
                f"{names[0]}.detach(), or compute the loss outside of the graph with drive=\"autograd\""
            )
        ctx.drive.use(ctx.model, ctx.number, float(cotangent))
        return None, None, None, None


class Missing:
    """An output without values. `reason`: the error of reading it."""

    def __init__(self, reason):
        self.reason = reason

    def read(self, copies=None):
        raise Unsupported(self.reason)

    @property
    def variable(self):
        return self.read()


class StepGradient(Variable):
    """A gradient of a step. In the program, it is multiplied by the count of the step's loss."""

    def __init__(self, drive, name):
        super().__init__(drive.program, name)
        self.drive = drive

    def read(self, copies=None):
        copies = {} if copies is None else copies
        if self.name not in copies:
            copies[self.name] = self.drive.read(self)
        return copies[self.name]

    def write(self, values):
        self.drive.write(self, values)


class StepDrive:
    """Runs forward and backward of all micro-batches in one call; the loss is an output of the graph.

    The call of the model computes the gradients of a step, into memory that the next call overwrites. Backward of the loss makes
    these gradients visible in PyTorch: it multiplies them by the factor of the loss, and adds the gradients of earlier calls.
    """

    cotangents: frozenset[str] = frozenset()

    def __init__(self, program, outputs, loss, micro_batches):
        """loss: the name of the output that is the loss."""
        self.program = program
        self.outputs = outputs
        self.loss = loss
        self.kept = program.names("outputs:step")  # outputs with values in training mode
        self.returns_outputs = True  # whether a training step reads the kept outputs
        self.dtype = getattr(torch, program.describe("outputs:evaluate", loss)[0])
        self.micro_batches = micro_batches
        self.anchor = torch.zeros((), requires_grad=True)
        self.number = 0  # number of the last step that began
        self.divisor = 1.0  # divisor of the gradients in the program
        self.is_used = False  # whether backward of the last step ran
        # Location of the gradients: "none" (no gradients exist), "program", "host" (in `sums`), or "spent" (overwritten by an update).
        self.location = "none"
        self.sums = {}
        self.gradients = []

    def train(self, model, inputs):
        """Runs a step up to its update. Only the loss and the kept outputs have values."""
        if self.location == "program":
            self.sums = {gradient.name: gradient.read() for gradient in self.gradients}
            self.location = "host"
        loss, self.divisor = self.program.begin_step(inputs)
        self.number += 1
        self.is_used = False
        if torch.is_grad_enabled() and self.gradients:
            value, *kept = Step.apply(self.anchor, self, model, loss)
        else:
            value, kept = torch.tensor(loss, dtype=self.dtype), self.read_kept().values()
        values = {**dict(zip(self.kept, kept)), self.loss: value}
        return [values[name] if name in values else self.make_untrained(name) for name in self.outputs]

    def read_kept(self):
        """Returns the values of the kept outputs of the last step, by name."""
        values = allocate(self.program, "step", self.kept if self.returns_outputs else [])
        if values:
            self.program.get_outputs(values)
        return values

    def make_untrained(self, name):
        """Returns an output that a training step does not return."""
        return self.make_missing(
            name,
            f"output {name} is not available in training mode: this training step returns only its loss and the outputs of keep_outputs; "
            f"give keep_outputs=[\"{name}\"] if the output has a batch dim, call model.eval() before the model, or compute a "
            "loss outside of the graph with drive=\"autograd\"",
        )

    def make_missing(self, name, reason):
        dtype, shape = self.program.describe("outputs:evaluate", name)
        return RemoteTensor(Missing(reason), torch.empty(shape, dtype=getattr(torch, dtype), device="meta"))

    def use(self, model, number, factor):
        """Makes the gradients of a step, multiplied by a factor, valid. Adds those of earlier steps."""
        if number != self.number:
            raise Unsupported(
                "a later call of the model overwrote the gradients of this loss; call backward before the next forward, or call the "
                "model in torch.no_grad() if you do not need gradients"
            )
        if self.is_used:
            raise Unsupported("the backward of this step has run; call the model again instead of using retain_graph")
        model._send_gradients()
        if self.location == "spent":
            raise Unsupported("the gradients were used by optimizer.step(); call optimizer.zero_grad() before the next backward")
        earlier, self.sums, self.location, self.is_used = self.sums, {}, "program", True
        if factor != 1 or earlier:
            for gradient in self.gradients:
                values = gradient.read() * factor
                gradient.write(values + earlier[gradient.name] if earlier else values)
        model._show_gradients()

    def evaluate(self, inputs):
        """Returns the values of the outputs. Evaluates one micro-batch at a time."""
        if self.location in ("program", "host"):
            raise Unsupported("evaluation would overwrite the gradients; call optimizer.step() or optimizer.zero_grad() first")
        names = self.program.names("outputs:evaluate")
        parts = [self.evaluate_part(names, part) for part in self.split(inputs)]
        if len(parts) == 1:
            return [parts[0][name] for name in self.outputs]
        return [self.average(parts) if name == self.loss else self.join(name, parts) for name in self.outputs]

    def evaluate_part(self, names, inputs):
        values = allocate(self.program, "evaluate", names)
        self.program.call("evaluate", 0, inputs, values)
        return values

    def split(self, inputs):
        """Yields the inputs of each micro-batch. A batch may also have the size of one micro-batch."""
        shapes = {name: self.program.describe("inputs", name)[1] for name in inputs}
        if all(tuple(value.shape) == shapes[name] for name, value in inputs.items()):
            yield inputs
            return
        count = self.micro_batches
        for index in range(count):
            part = {}
            for name, value in inputs.items():
                if tuple(value.shape) == (count * shapes[name][0], *shapes[name][1:]):
                    value = value[index * shapes[name][0] : (index + 1) * shapes[name][0]]
                part[name] = value
            yield part

    def average(self, parts):
        """Returns the loss over several micro-batches: the sum of all terms, divided by their count."""
        extra = [name for name in parts[0] if LOSS_PART.fullmatch(name)]
        if extra != ["loss.sum", "loss.count"]:
            return self.make_missing(
                self.loss, "the losses of micro-batches cannot be averaged for this model; evaluate one micro-batch at a time"
            )
        total, count = (sum(part[name] for part in parts) for name in extra)
        return (total / count if count else torch.zeros(())).to(parts[0][self.loss].dtype)

    def join(self, name, parts):
        if parts[0][name].dim() == 0:
            raise Unsupported(f"output {name} has no batch dim, so the values of micro-batches cannot be joined; evaluate one micro-batch at a time")
        return torch.cat([part[name] for part in parts])

    # ---- gradients ------------------------------------------------------------------------------------------------

    def make_gradients(self, names):
        result = {}
        for name, variable in names.items():
            gradient = StepGradient(self, variable)
            self.gradients.append(gradient)
            result[name] = RemoteTensor(gradient, torch.empty(gradient.shape, dtype=gradient.dtype, device="meta"))
        return result

    def read(self, gradient):
        """Returns the values of a gradient."""
        if self.location == "host":
            return self.sums[gradient.name].clone()
        if self.location == "spent":
            raise Unsupported("the gradients were used by optimizer.step(); read them before it")
        if self.location == "none":
            return torch.zeros(gradient.shape, dtype=gradient.dtype)
        values = torch.empty(gradient.shape, dtype=gradient.dtype)
        self.program.get_variable(gradient.name, values)
        return values.div_(self.divisor) if self.divisor else values.zero_()

    def write(self, gradient, values):
        """Sets the values of a gradient."""
        if self.location == "host":
            self.sums[gradient.name] = values.clone()
        elif self.location == "program":
            self.program.set_variable(gradient.name, (values * self.divisor).contiguous())
        else:
            raise InputError("gradients can be changed only after loss.backward(), and before optimizer.step()")

    def zero_grad(self):
        self.location, self.sums = "none", {}

    def update(self):
        """Runs the update with the gradients of all losses whose backward ran."""
        if self.location in ("none", "spent"):
            raise Unsupported("optimizer.step() needs gradients of this step; call loss.backward() after optimizer.zero_grad()")
        if self.location == "host":  # a later forward has no backward
            earlier, self.sums, self.location = self.sums, {}, "program"
            for gradient in self.gradients:
                gradient.write(earlier[gradient.name])
        self.program.update()
        self.location = "spent"
