import torch
from torch import nn
from torch.func import functional_call

from parser.batching.messages.module_with_weights import ModuleWithWeights


def test_computes_what_functional_call_does():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.LSTM(3, 2))
    module[2].weight = module[0].weight  # one weight in two places
    module[0].bias.requires_grad_(False)  # stays the module's own
    replaced = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    others = {name: torch.randn_like(weight).requires_grad_() for name, weight in replaced.items()}
    before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    used = ModuleWithWeights(module, list(replaced.values()))
    used.set(list(others.values()))

    inputs = torch.randn(4, 3)
    outputs, _ = used(inputs)
    gradients = torch.autograd.grad(outputs.sum(), list(others.values()))
    expected, _ = functional_call(module, others, inputs)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), list(others.values())))
    assert module[1].num_batches_tracked == 2  # buffers are shared
    assert {name: weight.tolist() for name, weight in module.named_parameters()} == {
        name: weight.tolist() for name, weight in before.items()
    }


def test_the_mode_is_that_of_the_module():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    used = ModuleWithWeights(module, list(module.parameters()))
    used.set([weight.detach() for weight in module.parameters()])
    inputs = torch.ones(20, 3)
    assert (used(inputs) == 0).any()
    module.eval()
    torch.testing.assert_close(used(inputs), module(inputs))
    module.train()
    assert (used(inputs) == 0).any()
