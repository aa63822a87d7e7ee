"""The paper's way of computing, in PyTorch: 32 Monte-Carlo samples of each record's propensity, Adam on minibatches.

`Published` keeps the structure of the code that its authors published: autograd through the product of normal cdfs, in
arrays of records x actions x samples, the own action taken out by a mask. `Tuned` is the fastest rewrite that we found
which draws the same samples. Both compute in single precision.
"""

import math
from collections import namedtuple

import torch

SAMPLES = 32
LAMBDA = 0.1
RATE = 1e-3

Logs = namedtuple("Logs", "x norm action weight")


def weights(propensity, cost):
    """What a record's probability is multiplied by in adjusted logarithmic smoothing."""
    return -torch.log1p(-LAMBDA * cost / (propensity * (1 + LAMBDA * cost))) / LAMBDA


class Published:
    """The formula, and autograd. Every record is computed, whatever it weighs."""

    def __init__(self, mean, log_sigma):
        self.mean = mean.clone().requires_grad_()
        self.log_sigma = log_sigma.clone().requires_grad_()
        self.normal = torch.distributions.Normal(0.0, 1.0)
        self.adam = torch.optim.Adam([self.mean, self.log_sigma], lr=RATE)

    def step(self, logs, rows, prior):
        x, norm, action, weight = (column[rows] for column in logs)
        self.adam.zero_grad()
        risk = (weight * self.probability(x, norm, action)).mean()
        loss = risk + self.divergence(prior) / (LAMBDA * len(logs.x))
        loss.backward()
        self.adam.step()

    def probability(self, x, norm, action):
        rows = torch.arange(len(x))
        deviation = self.log_sigma.exp() * norm[:, None, None].expand(-1, self.mean.shape[1], 1)
        scores = x @ self.mean
        margin = (scores[rows, action][:, None] - scores)[:, :, None]
        noise = torch.randn(len(x), 1, SAMPLES) * deviation[rows, action][:, None]
        standardised = (noise + margin) / deviation
        others = torch.ones_like(standardised, dtype=torch.bool)
        others[rows, action] = False
        standardised = standardised[others].reshape(len(x), -1, SAMPLES)
        return self.normal.cdf(standardised).prod(-2).mean(-1)

    def divergence(self, prior):
        size, sigma = self.mean.numel(), self.log_sigma.exp()
        return 0.5 * ((self.mean - prior).square().sum() + size * (sigma**2 - 1)) - size * self.log_sigma


class Tuned:
    """The gradient by hand: records that weigh nothing are not touched, blocks fit the cache, everything is in place."""

    block = 1 << 18  # numbers in an array of records x samples x actions: the fastest of those tried

    def __init__(self, mean, log_sigma):
        self.mean, self.log_sigma = mean.clone(), log_sigma.clone()
        self.mean.grad, self.log_sigma.grad = torch.zeros_like(mean), torch.zeros_like(log_sigma)
        self.adam = torch.optim.Adam([self.mean, self.log_sigma], lr=RATE, fused=True)

    def step(self, logs, rows, prior):
        batch, divisor, sigma = len(rows), LAMBDA * len(logs.x), self.log_sigma.exp()
        rows = rows[logs.weight[rows] != 0]
        x, norm, action, weight = (column[rows] for column in logs)
        scale = 1 / (sigma * norm)
        scores = (x @ self.mean).mul_(scale[:, None])
        slope = torch.empty_like(scores)
        step = max(1, self.block // (SAMPLES * scores.shape[1]))
        for first in range(0, len(x), step):
            part = slice(first, first + step)
            self.slopes(scores[part], action[part], weight[part] / (SAMPLES * batch), slope[part])
        by_sigma = -(slope * scores).sum()
        self.mean.grad.copy_(self.mean).sub_(prior).div_(divisor)
        self.mean.grad.addmm_(x.T, slope.mul_(scale[:, None]))
        self.log_sigma.grad.copy_(by_sigma + self.mean.numel() * (sigma**2 - 1) / divisor)
        self.adam.step()

    @staticmethod
    def slopes(scores, action, weight, out):
        """The derivative of `weight * sum over samples of prod Phi` in each score."""
        own = action[:, None]
        # Everything is divided by the square root of 2 once, so that erf and exp take it as it is.
        margin = scores.gather(1, own).sub(scores).mul_(math.sqrt(0.5))
        noise = torch.randn(len(scores), SAMPLES, 1).mul_(math.sqrt(0.5))
        t = noise + margin[:, None, :]
        index = own[:, :, None].expand(-1, SAMPLES, 1)
        cdf = torch.erf(t).add_(1).mul_(0.5).scatter_(2, index, 1.0)
        product = cdf.prod(2).mul_(weight[:, None])
        # Where a cdf underflows so does the product: the sum keeps the quotient finite and changes nothing else.
        hazard = t.square_().neg_().exp_().div_(cdf.add_(1e-30)).scatter_(2, index, 0.0)
        torch.bmm(product[:, None, :], hazard, out=out[:, None, :])
        out.mul_(-1 / math.sqrt(2 * math.pi))
        out.scatter_(1, own, -out.sum(1, keepdim=True))


VERSIONS = {"published": Published, "tuned": Tuned}


def epoch(model, logs, prior, batch):
    """One pass over the records in random order."""
    for rows in torch.randperm(len(logs.x)).split(batch):
        model.step(logs, rows, prior)


def exact(scores, step=0.05):
    """The probabilities of all actions for standardised scores, by a fine trapezoid rule in double precision."""
    scores = scores.double()
    out = []
    for s in scores.split(64):
        z = s.amax(1, keepdim=True) + torch.arange(-9, 9 + step, step, dtype=torch.float64)
        t = z[:, :, None] - s[:, None, :]
        log_cdf = torch.special.log_ndtr(t)
        log_density = -0.5 * t.square() - 0.5 * math.log(2 * math.pi)
        out.append(step * (log_density + log_cdf.sum(2, keepdim=True) - log_cdf).exp().sum(1))
    return torch.cat(out)


def products(scores, samples):
    """The paper's estimate for every action: the mean over samples of `prod_{b != a} Phi(e + s_a - s_b)`."""
    out = torch.empty_like(scores)
    for s, p in zip(scores, out):
        margin = (s[:, None] - s) * math.sqrt(0.5)
        total = torch.zeros_like(s)
        for noise in torch.randn(samples).mul_(math.sqrt(0.5)).split(64):
            cdf = (noise[:, None, None] + margin).erf_().add_(1).mul_(0.5)
            cdf.diagonal(dim1=1, dim2=2).fill_(1)
            total += cdf.prod(2).sum(0)
        p.copy_(total / samples)
    return out


def counting(scores, samples):
    """How often each action has the highest perturbed score."""
    rows = [torch.bincount((torch.randn(samples, len(s)) + s).argmax(1), minlength=len(s)) for s in scores]
    return torch.stack(rows) / samples


WAYS = {"products": products, "counting": counting}


def run(version, world, rounds, noise=0.2):
    """The whole loop: deploy, log, learn from all rounds, 10 epochs each. Propensities are logged exactly, which is quicker
    and better than the samples that the published code takes there."""
    prior = world["mean"]
    mean, log_sigma = prior, torch.zeros(())
    everything = []
    for part in torch.arange(len(world["x"])).tensor_split(rounds):
        x, label = world["x"][part], world["label"][part]
        norm = x.norm(dim=1)
        scores = x @ mean / (log_sigma.exp() * norm[:, None])
        action = (scores + torch.randn_like(scores)).argmax(1)
        propensity = exact(scores, 0.25).gather(1, action[:, None])[:, 0].float()
        reward = torch.rand(len(x)) < torch.where(action == label, 1 - noise, noise)
        everything.append(Logs(x, norm, action, weights(propensity, -reward.float())))
        logs = Logs(*map(torch.cat, zip(*everything)))
        model = version(mean, log_sigma)
        for _ in range(10):
            epoch(model, logs, prior, 128)
        mean, log_sigma = model.mean.detach(), model.log_sigma.detach()
    x = world["test_x"]
    p = exact(x @ mean / (log_sigma.exp() * x.norm(dim=1, keepdim=True)), 0.25)
    accuracy = p.gather(1, world["test_label"][:, None]).mean()
    return mean, log_sigma.exp(), accuracy
