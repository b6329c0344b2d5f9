"""The torch module: the same scores, gradients that are right, programs that load without this package."""

import subprocess
import sys

import numpy as np
import pytest
from export_oracles import KERNELS, extreme, truth, worst, worst_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from kernelsieve import ElasticNetKernelPCA, ElasticNetPCA, SparseKernelPCA

torch = pytest.importorskip("torch", reason="torch is not installed")
from kernelsieve.export import ExportError, to_torch  # noqa: E402
from kernelsieve.export.torch_module import save_torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors gain nothing from more, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.standard_normal((90, 5)).astype(np.float32).astype(np.float64) * 1.5 + 0.25


def _model(kernel, rows, n_components=3):
    return SparseKernelPCA(n_components, n_support=12, kernel=kernel, random_state=0, **KERNELS[kernel]).fit(rows)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_forward_is_transform_and_error_is_reconstruction_error(kernel, rows):
    model = _model(kernel, rows)
    for dtype, limit in ((torch.float32, 3e-5 if kernel == "sigmoid" else 5e-6), (torch.float64, 1e-13)):
        x = extreme(rows, kernel, str(dtype)[6:])
        scores, errors, lengths = truth(model, x, kernel, KERNELS[kernel])
        module = to_torch(model, dtype=dtype)
        found, error = module(torch.tensor(x)).numpy(), module.error(torch.tensor(x)).numpy()
        usual = len(rows) if kernel == "sigmoid" else len(x)
        assert worst(found[:usual], scores[:usual], len(rows)) <= limit
        assert worst_error(error[: len(rows)], errors[: len(rows)], lengths[: len(rows)]) <= 3 * limit
        assert not list(module.parameters())


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_gradients_agree_with_finite_differences_in_rows_points_and_coefficients(kernel, rows):
    module = to_torch(_model(kernel, rows), trainable=True, dtype=torch.float64)
    names = [name for name, _ in module.named_parameters()]
    assert names == (["coef", "offset"] if kernel == "linear" else ["points", "coef", "offset"])
    x = torch.tensor(rows[:3], requires_grad=True)
    parameters = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]

    def scores(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(scores, (x, *parameters), eps=1e-6, atol=1e-5)


def test_a_loss_of_ones_own_moves_points_and_lowers(rows):
    labels = torch.tensor((rows[:, 0] * rows[:, 1] > 0).astype(np.int64))
    module = to_torch(_model("rbf", rows), trainable=True)
    before = module.points.detach().clone()
    network = torch.nn.Sequential(module, torch.nn.Linear(3, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    losses = []
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(network(torch.tensor(rows, dtype=torch.float32)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    assert not torch.equal(module.points, before)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_a_saved_program_takes_any_number_of_rows_without_this_package(kernel, rows, tmp_path):
    pipeline = make_pipeline(StandardScaler(), MinMaxScaler((-1, 1), clip=True), _unfitted(kernel)).fit(rows)
    save_torch(pipeline, tmp_path / "model.pt")
    module = torch.export.load(tmp_path / "model.pt").module()
    for n in (1, 2, 7, 90):
        found = module(torch.tensor(rows[:n], dtype=torch.float32)).numpy()
        np.testing.assert_allclose(found, pipeline.transform(rows[:n]), rtol=0, atol=2e-5)


def _unfitted(kernel):
    return SparseKernelPCA(2, n_support=12, kernel=kernel, random_state=0, **KERNELS[kernel])


def test_a_saved_program_runs_where_kernelsieve_is_not_imported(rows, tmp_path):
    save_torch(_model("rbf", rows), tmp_path / "model.pt")
    code = (
        "import sys, torch; module = torch.export.load(sys.argv[1]).module(); "
        "print(tuple(module(torch.zeros(3, 5)).shape)); "
        "assert not any(name.startswith('kernelsieve') for name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.pt"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "(3, 3)"


def test_components_that_are_not_orthogonal_and_sparse_pca_too(rows):
    for model in (ElasticNetKernelPCA(2, alpha=0.1, refit=False, random_state=0), ElasticNetPCA(2, n_nonzero=2)):
        module = to_torch(model.fit(rows), dtype=torch.float64)
        np.testing.assert_allclose(module(torch.tensor(rows)).numpy(), model.transform(rows), rtol=0, atol=1e-12)
        errors = model.reconstruction_error(rows)
        np.testing.assert_allclose(module.error(torch.tensor(rows)).numpy(), errors, rtol=0, atol=1e-11)


def test_wrong_types_and_decisions_that_are_none_are_refused(rows):
    model = _model("rbf", rows)
    with pytest.raises(ValueError, match=r"neither torch\.float32 nor torch\.float64"):
        to_torch(model, dtype=torch.float16)
    with pytest.raises(ExportError, match="decides nothing"):
        to_torch(model).decision(torch.zeros(1, 5))
