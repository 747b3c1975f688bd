"""torchvision is imported whatever its compiled operators, and touched only if it must be."""

from types import ModuleType, SimpleNamespace

import pytest

from surefind.encoders import backbone as guard


def failing_with(monkeypatch, errors: list[Exception]) -> ModuleType:
    """An import that raises these errors, one per attempt, and then succeeds."""
    found = ModuleType("torchvision")
    attempts = iter(errors)

    def attempt(name: str) -> ModuleType:
        for error in attempts:
            raise error
        return found

    modules = {"torchvision.ops": found, "torchvisionary": found}
    monkeypatch.setattr(guard, "import_module", attempt)
    monkeypatch.setattr(guard, "sys", SimpleNamespace(modules=modules))
    return found


def missing(name: str) -> RuntimeError:
    return RuntimeError(f"operator torchvision::{name} does not exist")


def test_missing_operators_are_declared_one_after_the_other(monkeypatch, caplog):
    found = failing_with(monkeypatch, [missing("guard_first"), missing("guard_second")])
    with caplog.at_level("INFO", logger="surefind"):
        assert guard.import_torchvision() is found
    assert [record.args[0] for record in caplog.records] == ["guard_first", "guard_second"]
    assert set(guard.sys.modules) == {"torchvisionary"}


def test_a_torchvision_that_works_is_left_alone(monkeypatch, caplog):
    found = failing_with(monkeypatch, [])
    before = len(guard._declared)
    assert guard.import_torchvision() is found
    assert len(guard._declared) == before and not caplog.records


@pytest.mark.parametrize("error", [RuntimeError("broken"), ImportError("not installed")])
def test_any_other_failure_is_passed_on(monkeypatch, error):
    failing_with(monkeypatch, [error])
    with pytest.raises(type(error), match=str(error)):
        guard.import_torchvision()


def test_attempts_are_bounded(monkeypatch):
    failing_with(monkeypatch, [missing(f"bounded_{number}") for number in range(40)])
    with pytest.raises(RuntimeError, match="bounded_32"):
        guard.import_torchvision()
