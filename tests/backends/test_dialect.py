from typing import Any

import pytest

from pruner import BackendError, Reason
from pruner.backends.dialect import Asked, Dialect, Learner
from pruner.schema import GradingRequest

FIRST = Dialect(
    ("schema", "json_object", "plain"),
    ("cap", "temperature"),
    {"cap": "other_cap"},
    {"schema": r"\bresponse_format\b", "json_object": r"\bresponse_format\b"},
)
REFUSED = BackendError(Reason.BAD_REQUEST, "HTTP 400")


def body_of(request: GradingRequest, dialect: Dialect) -> dict[str, Any]:
    sent = filter(None, map(dialect.name_of, dialect.optional))
    return {"form": dialect.form if request.schema else None, **dict.fromkeys(sent)}


class Model:
    """A learner, and what its model takes at the moment: the forms, and how it refuses the others."""

    def __init__(self, *takes: str, refusal: str = "no", status: int = 400) -> None:
        self.learner = Learner(FIRST, body_of)
        self.takes, self.refusal, self.status = takes, refusal, status

    def answer(self, asked: Asked) -> BackendError | None:
        if asked.dialect.form in self.takes:
            self.learner.took(asked)
            return None
        reason = Reason.BAD_REQUEST if self.status < 500 else Reason.PROVIDER_ERROR
        fault = BackendError(reason, retryable=self.status >= 500)
        return self.learner.learn(asked, self.status, fault, self.refusal)

    def call(self, request: GradingRequest | None = None, *, attempts: int = 9) -> list[str]:
        """Ask until that is answered, or cannot be; return the form of each attempt."""
        request = request or one()
        forms = []
        for _ in range(attempts):
            asked = self.learner.asking(request)
            forms.append(asked.dialect.form)
            error = self.answer(asked)
            if error is None or not error.retryable:
                break
        return forms


def one(user: str = "u") -> GradingRequest:
    return GradingRequest("s", user, 2, schema={"type": "object"})


def refuse(learner: Learner, request: GradingRequest, refusal: str, status: int = 400) -> BackendError:
    return learner.learn(learner.asking(request), status, REFUSED, refusal)


def test_an_unexplained_refusal_steps_down_a_form() -> None:
    learner, request = Learner(FIRST, body_of), one()
    error = refuse(learner, request, "no")
    assert (learner.asking(request).dialect.form, error.retryable, error.retry_after) == ("json_object", True, 0)


def test_a_refusal_that_names_a_parameter_drops_it_and_keeps_the_form() -> None:
    learner, request = Learner(FIRST, body_of), one()
    refuse(learner, request, "'temperature' is not supported with this model")
    for known in (learner.asking(request).dialect, learner.asking(one()).dialect):
        assert known.form == "schema"
        assert known.name_of("temperature") is None


def test_a_parameter_with_another_name_is_renamed_before_it_is_dropped() -> None:
    learner, request = Learner(FIRST, body_of), one()
    refuse(learner, request, "Unsupported parameter: 'cap'; use 'other_cap' instead")
    assert learner.dialect.name_of("cap") == "other_cap"
    refuse(learner, request, "Unknown name other_cap")
    assert learner.dialect.name_of("cap") is None
    assert learner.dialect.form == "schema"


def test_a_name_inside_a_longer_one_is_not_meant() -> None:
    learner, request = Learner(FIRST, body_of), one()
    refuse(learner, request, "top_temperature is odd")
    assert learner.asking(request).dialect.name_of("temperature") == "temperature"


def test_a_form_that_is_refused_by_name_is_not_asked_for_again() -> None:
    model = Model("plain", refusal="response_format: Extra inputs are not permitted")
    assert model.call() == ["schema", "json_object", "plain"]
    assert [model.call() for _ in range(9)] == [["plain"]] * 9


def test_the_last_attempt_is_without_anything_that_may_be_refused() -> None:
    learner, request = Learner(FIRST, body_of), one()
    for _ in range(3):
        assert refuse(learner, request, "no").retryable
    assert body_of(*learner.asking(request)) == {"form": "plain"}
    assert not refuse(learner, request, "no").retryable


def test_what_changes_nothing_is_not_tried() -> None:
    learner, request = Learner(Dialect(FIRST.forms), body_of), GradingRequest("s", "u", 2)
    assert refuse(learner, request, "no") is REFUSED


def test_a_request_refused_in_every_form_is_an_error_and_teaches_nothing() -> None:
    model = Model()
    assert model.call() == ["schema", "json_object", "plain", "plain"]
    assert model.learner.asking(one()).dialect is FIRST


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_call_that_ended_before_it_was_answered_teaches_nothing(attempts: int) -> None:
    model = Model()
    for _ in range(5):
        model.call(attempts=attempts)
    assert model.learner.asking(one()).dialect is FIRST


def test_after_a_stray_refusal_the_next_call_asks_in_full_again() -> None:
    model = Model("json_object", "plain")
    assert model.call() == ["schema", "json_object"]
    model.takes = ("schema",)
    assert [model.call() for _ in range(9)] == [["schema"]] * 9


def test_stray_refusals_of_many_calls_at_once_are_forgotten_soon() -> None:
    model = Model("json_object")
    requests = [one() for _ in range(40)]
    for _ in range(2):
        for asked in [model.learner.asking(request) for request in requests]:
            model.answer(asked)
    model.takes = ("schema", "json_object")
    assert [model.call() for _ in range(3)] == [["schema"]] * 3


def test_what_was_guessed_is_doubted_ever_more_rarely() -> None:
    model = Model("plain")
    calls = [model.call() for _ in range(100)]
    doubts = [number for number, forms in enumerate(calls) if len(forms) > 1]
    assert doubts == [0, 1, 3, 6, 11, 20, 37, 70]
    assert {tuple(calls[number]) for number in doubts[1:]} == {("schema", "plain")}


def test_a_model_that_takes_more_again_gets_more_at_the_next_doubt() -> None:
    model = Model("plain")
    for _ in range(20):
        model.call()
    model.takes = ("schema", "plain")
    assert [model.call() for _ in range(20)][-1] == ["schema"]


def test_a_name_that_the_texts_hold_too_is_only_guessed() -> None:
    learner, request = Learner(FIRST, body_of), one("set the temperature")
    assert refuse(learner, request, "unreadable: set the temperature").retryable
    assert learner.asking(request).dialect.name_of("temperature") is None
    assert learner.asking(one()).dialect is FIRST


@pytest.mark.parametrize("callers", [2, 40])
def test_callers_refused_at_once_in_every_form_ask_once_in_each(callers: int) -> None:
    learner = Learner(FIRST, body_of)
    asking, requests = [one() for _ in range(callers)], 0
    while asking:
        asked = [learner.asking(request) for request in asking]
        requests += len(asked)
        asking = [each.request for each in asked if learner.learn(each, 400, REFUSED, "no").retryable]
    assert requests == 4 * callers


def test_a_call_on_its_way_down_goes_on_whatever_others_learn() -> None:
    learner, request = Learner(FIRST, body_of), one()
    refuse(learner, request, "no")
    refuse(learner, one(), "temperature")
    model_of_others = learner.asking(one())
    learner.took(model_of_others)
    assert learner.asking(request).dialect.form == "json_object"
    refuse(learner, request, "no")
    assert learner.asking(request).dialect.form == "plain"


def test_questions_of_one_call_that_are_refused_at_once_step_down_once() -> None:
    learner, request = Learner(FIRST, body_of), one()
    asked = [learner.asking(request) for _ in range(2)]
    errors = [learner.learn(each, 422, REFUSED, "no") for each in asked]
    assert learner.asking(request).dialect.form == "json_object"
    assert all(error.retryable for error in errors)


def test_a_forbidden_parameter_is_given_up_where_it_is_named() -> None:
    learner, request = Learner(FIRST, body_of), one()
    forbidden = BackendError(Reason.AUTH, "HTTP 403")
    error = learner.learn(learner.asking(request), 403, forbidden, "You are not allowed to request temperature")
    assert (error.retryable, error.retry_after) == (True, 0)
    assert learner.asking(one()).dialect.name_of("temperature") is None
    assert learner.learn(learner.asking(request), 403, forbidden, "no such key") is forbidden


@pytest.mark.parametrize(
    ("status", "forms"),
    [
        (500, ["schema", "schema", "json_object", "plain"]),
        (501, ["schema", "json_object", "plain"]),
        (503, ["schema"] * 9),
    ],
)
def test_a_server_that_breaks_down_over_a_form_is_asked_in_another(status: int, forms: list[str]) -> None:
    model = Model("plain", status=status)
    assert model.call() == forms
    model.takes = FIRST.forms
    assert [model.call() for _ in range(3)] == [["schema"]] * 3


@pytest.mark.parametrize("reason", [r for r in Reason if r is not Reason.BAD_REQUEST])
def test_other_faults_teach_nothing(reason: Reason) -> None:
    learner, request = Learner(FIRST, body_of), one()
    error = BackendError(reason)
    assert learner.learn(learner.asking(request), 400, error, "temperature") is error
    assert learner.asking(request).dialect is FIRST


def test_a_status_that_is_no_refusal_teaches_nothing() -> None:
    learner, request = Learner(FIRST, body_of), one()
    assert refuse(learner, request, "temperature", 404) is REFUSED
    assert learner.asking(request).dialect is FIRST
