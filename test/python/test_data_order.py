"""Every layout reads the same samples in the same order. The losses equal PyTorch's on samples in the documented order."""
import models
import oracle
import pytest
import torch

LENGTH, SAMPLES, SEED = 16, 22, 5
WRAP = 1 << 64


def mix(x):
    """Computes one step of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) % WRAP
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WRAP
    return x ^ (x >> 31)


def shuffled(index, count, epoch):
    """Permutes an index as runtime/data/Shuffle.h does: applies a Feistel network of 6 rounds until the result is below `count`."""
    half = 1
    while 1 << (2 * half) < count:
        half += 1
    mask, key, x = (1 << half) - 1, mix((SEED + mix(epoch)) % WRAP), index
    while True:
        left, right = x >> half, x & mask
        for turn in range(6):
            left, right = right, left ^ (mix(key ^ mix(right ^ (turn << 56))) & mask)
        x = left << half | right
        if x < count:
            return x


def expected_losses(model, tokens, rows, epochs, next_token):
    """Returns the losses of steps of `rows` samples. The last step of an epoch has fewer samples; the program fills it with ignored rows."""
    losses = []
    for epoch in range(epochs):
        order = [shuffled(i, SAMPLES, epoch) for i in range(SAMPLES)]
        assert sorted(order) == list(range(SAMPLES))
        for at in range(0, SAMPLES, rows):
            windows = [tokens[i * LENGTH : (i + 1) * LENGTH] for i in order[at : at + rows]]
            labels = [tokens[i * LENGTH + 1 : (i + 1) * LENGTH + 1] for i in order[at : at + rows]] if next_token else windows
            losses.append(model.loss({"input_ids": torch.stack(windows), "labels": torch.stack(labels)}).item())
    return losses


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "name,mesh,batch,micro_batches",
    [
        ("gpt_dynamic", "dp=1", 8, 1), ("gpt_dynamic", "dp=4", 4, 2), ("gpt_dynamic", "tp=2", 2, 4),
        ("gpt_dynamic", "dp=2,tp=2", 4, 2), ("llama", "dp=2,tp=2", 4, 2), ("llama", "dp=1", 4, 2),
    ],
)  # fmt: skip
def test_order_equals_the_documented_rule(tmp_path, exports, name, mesh, batch, micro_batches):
    """Two shuffled epochs of a token file in two parts, for a model whose labels are the next tokens and for a model that shifts labels itself."""
    model, following = models.MODELS[name](), name != "llama"
    count = SAMPLES * LENGTH + 1  # with labels `next`, one more token is needed
    tokens = torch.randint(0, 96, (count,), generator=torch.Generator().manual_seed(3))
    data = bytes(tokens.tolist())
    (tmp_path / "part-0.bin").write_bytes(data[:100])
    (tmp_path / "part-1.bin").write_bytes(data[100:])
    flags = ("--batch", batch) if following else ()
    program = oracle.compile_model(
        tmp_path, oracle.export(name, exports), mesh, "--micro-batches", micro_batches, "--optimizer", "sgd(lr=0)", *flags
    )
    oracle.run(
        [program, "--data", tmp_path / "part-*.bin", "--data-type", "uint8", "--shuffle", "--seed", SEED, "--epochs", 2,
         "--losses", "losses.txt", "--quiet"],
        tmp_path,
    )  # fmt: skip
    expected = expected_losses(model, tokens, batch * micro_batches, 2, following)
    assert len(expected) == 6 and len(set(expected)) == 6
    assert oracle.read_losses(tmp_path / "losses.txt") == [pytest.approx(loss, rel=1e-5) for loss in expected]
