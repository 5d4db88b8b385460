#!/usr/bin/env python3
"""Trains an actor and a critic by PPO, each under a plan of its own. The losses are computed in PyTorch.

The task: the model continues a sequence of tokens, and the reward is the number of even tokens that it adds.

    python ppo.py
    torchrun --nproc-per-node 2 ppo.py               # the same losses, bit by bit
"""

import parashard
import torch

TOKENS, PROMPT, LENGTH, ROWS = 16, 4, 12, 8


class Recurrent(torch.nn.Module):
    """A causal model of tokens: each position sees the mean of the positions before it."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS, 32)
        self.place = torch.nn.Embedding(LENGTH, 32)
        self.up, self.down = torch.nn.Linear(64, 64), torch.nn.Linear(64, 32)
        self.head = torch.nn.Linear(32, outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place.weight
        count = torch.arange(1, LENGTH + 1).view(1, -1, 1)
        x = x + self.down(torch.relu(self.up(torch.cat([x, x.cumsum(1) / count], 2))))
        logits: torch.Tensor = self.head(x)
        return logits


def log_probs(logits: torch.Tensor, sequences: torch.Tensor) -> torch.Tensor:
    """Returns the log-probability of each token after the prompt."""
    all_tokens = torch.log_softmax(logits[:, PROMPT - 1 : -1], 2)
    return all_tokens.gather(2, sequences[:, PROMPT:, None]).squeeze(2)


@torch.no_grad()
def roll_out(actor: torch.nn.Module, generator: torch.Generator) -> torch.Tensor:
    """Samples continuations of random prompts."""
    actor.eval()
    sequences = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    sequences[:, :PROMPT] = torch.randint(0, TOKENS, (ROWS, PROMPT), generator=generator)
    for position in range(PROMPT, LENGTH):
        logits = actor(sequences)[:, position - 1]
        sequences[:, position] = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    actor.train()
    return sequences


def main(plan: str = "tp=2", critic_plan: str = "dp=2", rounds: int = 15) -> list[float]:
    torch.manual_seed(0)
    example = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    actor, actor_optimizer = parashard.parallelize(
        plan, Recurrent(TOKENS), lambda model: torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-5), example=example
    )
    critic, critic_optimizer = parashard.parallelize(
        critic_plan, Recurrent(1), lambda model: torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-5), example=example
    )
    generator = torch.Generator().manual_seed(1)
    rewards = []
    for _ in range(rounds):
        sequences = roll_out(actor, generator)
        reward = (sequences[:, PROMPT:] % 2 == 0).float().sum(1)
        with torch.no_grad():
            old = log_probs(actor(sequences), sequences)
            advantage = reward - critic(sequences)[:, PROMPT - 1, 0]
        for _ in range(4):
            ratio = (log_probs(actor(sequences), sequences) - old).sum(1).exp()
            actor_loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            critic_loss = (critic(sequences)[:, PROMPT - 1, 0] - reward).square().mean()
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
        rewards.append(reward.mean().item())
    if parashard.env.is_master:
        print(f"even tokens of {LENGTH - PROMPT}: {rewards[0]:.2f} -> {rewards[-1]:.2f}")
    return rewards


if __name__ == "__main__":
    main()
