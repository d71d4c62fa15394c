"""Two processes under torchrun, accumulating, train what one process with all rows trains."""

import pytest
import torch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(small, left_by_ranks):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    folder = left_by_ranks(small.__file__, *torchrun)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def test_ranks_train_as_one_process(small, found):
    for name, (loss, kind, unknown) in (small.RUNS | small.ONCE).items():
        weights, values = small.trained(kind, 12, 1, loss=loss, unknown=unknown)
        for rank in found:
            torch.testing.assert_close(rank[name][0], weights, rtol=1e-4, atol=1e-6, msg=name)
            assert rank[name][1] == pytest.approx(values, rel=1e-4), name


def test_ranks_evaluate_as_one_process(small, found):
    want = small.evaluated(per_device_eval_batch_size=6)
    for rank in found:
        assert rank["evaluated"] == pytest.approx(want, rel=1e-5)
