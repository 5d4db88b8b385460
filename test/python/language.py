"""Builds tiny language models with padded samples: Hugging Face's BERT, BART, GPT-NeoX, OPT and Qwen2, exported by `parashard.export`."""
import dataclasses
import sys

import torch
from conftest import package_folder
from models import IGNORED, Model, tokens

sys.path.insert(0, str(package_folder()))

BATCH, LENGTH, VOCABULARY = 8, 12, 64
# Minimum number of real tokens (not padding) per sample.
SHORTEST = 3


@dataclasses.dataclass
class Padded(Model):
    """A model whose `attention_mask` marks the real tokens of each sample: a prefix or, with `left`, a suffix.

    With `aligned`, each token has a label, and labels of padding are ignored. Otherwise, the labels are a separate sequence.
    """

    left: bool = False
    aligned: bool = True

    def export(self, path):
        from parashard.export import export

        return export(self.module, self.inputs, path).path

    def export_onnx(self, path, *arguments, **options):
        """Exports with torch's exporter. As in `parashard.export`, replaces the random choice of skipped layers (`layerdrop`, here 0)."""
        from parashard.export import layers_kept

        with layers_kept(self.module):
            return super().export_onnx(path, *arguments, **options)

    def draw_inputs(self, seed, batch=None, ignored=0.0):
        """Draws inputs. The lengths of samples are random and at least `SHORTEST`; later samples are shorter on average."""
        inputs = super().draw_inputs(seed, batch, ignored)
        rows, length = inputs["attention_mask"].shape
        generator = torch.Generator().manual_seed(seed)
        least = torch.linspace(length, SHORTEST, rows)
        lengths = (least + (length + 1 - least) * torch.rand(rows, generator=generator)).long()
        places = torch.arange(length).flip(0) if self.left else torch.arange(length)
        inputs["attention_mask"] = (places < lengths[:, None]).long()
        if self.aligned:
            inputs["labels"][inputs["attention_mask"] == 0] = IGNORED
        return inputs


def make(name, module, lengths=(LENGTH, LENGTH), **options):
    """Returns a `Padded` model. `lengths` has the lengths of the tokens and of the labels."""
    inputs = {"input_ids": tokens(VOCABULARY, BATCH, lengths[0], 1),
              "attention_mask": torch.ones(BATCH, lengths[0], dtype=torch.int64),
              "labels": tokens(VOCABULARY, BATCH, lengths[1], 2)}  # fmt: skip
    model = Padded(name, module.train(), inputs, vocabulary=VOCABULARY, **options)
    model.inputs = model.draw_inputs(1)
    return model


def bert(dropout=0.0, attention="sdpa"):
    """BERT for masked tokens. The weight and the bias of the decoder are tied."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=16, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        attn_implementation=attention,
    )  # fmt: skip
    return make("bert", BertForMaskedLM(config))


def bart(dropout=0.0, attention="sdpa"):
    """BART: an encoder of padded samples, and a decoder with cross attention. The decoder's tokens are the labels shifted by one."""
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=48, max_position_embeddings=16, dropout=dropout,
        attention_dropout=dropout, activation_dropout=dropout, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
        use_cache=False, attn_implementation=attention, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    return make("bart", BartForConditionalGeneration(config), (LENGTH, 10), aligned=False)


def neox(dropout=0.0, attention="sdpa"):
    """GPT-NeoX: one weight for queries, keys and values, ordered by head. A quarter of each head is rotated. Padding is at the end."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=16, rotary_pct=0.25, hidden_dropout=dropout, attention_dropout=dropout, use_cache=False,
        attn_implementation=attention, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return make("neox", GPTNeoXForCausalLM(config), shifts_labels=True)


def opt(dropout=0.0, attention="sdpa"):
    """OPT: positions count real tokens only. Padding is at the beginning, so that the first queries of a sample attend to no key."""
    from transformers import OPTConfig, OPTForCausalLM

    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
        word_embed_proj_dim=32, max_position_embeddings=16, dropout=dropout, attention_dropout=dropout, layerdrop=0.0,
        use_cache=False, attn_implementation=attention, pad_token_id=1, bos_token_id=2, eos_token_id=2,
    )  # fmt: skip
    return make("opt", OPTForCausalLM(config), shifts_labels=True, left=True)


def qwen():
    """Qwen2 with a different mask per layer: layer 0 attends to all previous tokens, layer 1 to the last four."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=16, use_sliding_window=True, sliding_window=4, max_window_layers=1,
        use_cache=False,
    )  # fmt: skip
    return make("qwen", Qwen2ForCausalLM(config), shifts_labels=True)


MODELS = {f.__name__: f for f in (bert, bart, neox, opt, qwen)}
