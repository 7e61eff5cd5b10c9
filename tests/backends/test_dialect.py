import pytest

from pruner import BackendError, Reason
from pruner.backends.dialect import Dialect, Learner

FIRST = Dialect(("schema", "json_object", "plain"), ("cap", "temperature"), {"cap": "other_cap"})
REFUSED = BackendError(Reason.BAD_REQUEST, "HTTP 400")


def refuse(learner: Learner, refusal: str) -> BackendError:
    return learner.learn(learner.dialect, 400, REFUSED, refusal)


def test_an_unexplained_refusal_steps_down_a_form() -> None:
    learner = Learner(FIRST)
    error = refuse(learner, "no")
    assert (learner.dialect.form, error.retryable, error.retry_after) == ("json_object", True, 0)


def test_a_refusal_that_names_a_parameter_drops_it_and_keeps_the_form() -> None:
    learner = Learner(FIRST)
    refuse(learner, "'temperature' is not supported with this model")
    assert learner.dialect.form == "schema"
    assert learner.dialect.name_of("temperature") is None


def test_a_parameter_with_another_name_is_renamed_before_it_is_dropped() -> None:
    learner = Learner(FIRST)
    refuse(learner, "Unsupported parameter: 'cap'; use 'other_cap' instead")
    assert learner.dialect.name_of("cap") == "other_cap"
    refuse(learner, "Unknown name other_cap")
    assert learner.dialect.name_of("cap") is None
    assert learner.dialect.form == "schema"


def test_a_name_inside_a_longer_one_is_not_meant() -> None:
    learner = Learner(FIRST)
    refuse(learner, "top_temperature is odd")
    assert learner.dialect.name_of("temperature") == "temperature"


def test_a_request_refused_in_every_form_is_an_error_and_teaches_nothing() -> None:
    learner = Learner(FIRST)
    errors = [refuse(learner, "no") for _ in range(3)]
    assert [error.retryable for error in errors] == [True, True, False]
    assert learner.dialect is FIRST


def test_two_calls_refused_at_once_step_down_once() -> None:
    learner = Learner(FIRST)
    asked = learner.dialect
    errors = [learner.learn(asked, 422, REFUSED, "no") for _ in range(2)]
    assert learner.dialect.form == "json_object"
    assert all(error.retryable for error in errors)


@pytest.mark.parametrize("callers", [2, 40])
def test_callers_refused_at_once_in_every_form_ask_once_in_each(callers: int) -> None:
    learner = Learner(FIRST)
    asking, requests = callers, 0
    while asking:
        asked, requests = [learner.dialect] * asking, requests + asking
        asking = sum(learner.learn(dialect, 400, REFUSED, "no").retryable for dialect in asked)
    assert requests == 3 * callers


@pytest.mark.parametrize("reason", [r for r in Reason if r is not Reason.BAD_REQUEST])
def test_other_faults_teach_nothing(reason: Reason) -> None:
    learner = Learner(FIRST)
    error = BackendError(reason)
    assert learner.learn(learner.dialect, 400, error, "temperature") is error
    assert learner.dialect is FIRST


def test_a_status_that_is_no_refusal_teaches_nothing() -> None:
    learner = Learner(FIRST)
    assert learner.learn(learner.dialect, 404, REFUSED, "temperature") is REFUSED
