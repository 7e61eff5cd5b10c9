import inspect

from pruner import errors


def test_the_tree_in_the_docstring_names_every_error() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)]
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)
    assert len(classes) == 6


def test_only_grading_errors_carry_a_reason() -> None:
    assert errors.BackendError(errors.Reason.TIMEOUT).reason == "timeout"
    assert not issubclass(errors.RequestError, errors.GradingError)
    assert not issubclass(errors.ConfigError, errors.GradingError)
