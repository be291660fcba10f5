"""Folding events into a task (S68-S70, S100, S103; LC05)."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.pb import (
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from gateway.runtime.head import (
    ARTIFACT_TAG,
    MESSAGE_TAG,
    STATUS_TAG,
    TASK_TAG,
    Head,
    pack,
    stamp,
    to_us,
)
from tests.doubles.scripted import chunk, status


def _task() -> Task:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    task.history.append(Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text="hi")]))
    return task


def test_a_status_message_moves_into_the_history_when_the_next_status_comes() -> None:
    head = Head(_task())
    head.apply_status(status(TaskState.TASK_STATE_WORKING, "on it"))
    assert head.task.status.message.parts[0].text == "on it"
    assert len(head.task.history) == 1
    head.apply_status(status(TaskState.TASK_STATE_COMPLETED))
    assert [m.parts[0].text for m in head.task.history] == ["hi", "on it"]
    assert head.is_terminal
    assert head.is_settled


def test_chunks_extend_their_artifact_and_others_stay() -> None:
    """S69, S103."""
    head = Head(_task())
    head.apply_artifact(chunk("a", append=False))
    head.apply_artifact(chunk("x", append=False, artifact_id="other"))
    head.apply_artifact(chunk("b"))
    assert [p.text for p in head.task.artifacts[0].parts] == ["a", "b"]
    assert [p.text for p in head.task.artifacts[1].parts] == ["x"]


def test_a_chunk_for_an_unknown_artifact_starts_it() -> None:
    head = Head(_task())
    head.apply_artifact(chunk("lost?", append=True))
    assert head.task.artifacts[0].parts[0].text == "lost?"


def test_an_artifact_sent_again_replaces_the_first() -> None:
    head = Head(_task())
    head.apply_artifact(chunk("old", append=False))
    head.apply_artifact(chunk("new", append=False))
    assert [p.text for p in head.task.artifacts[0].parts] == ["new"]


def test_a_fresh_task_keeps_what_was_there() -> None:
    """LC05: a second Task with only id, context and status loses no history and no artifact."""
    head = Head(_task())
    head.apply_artifact(chunk("a", append=False))
    again = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    assert head.apply_task(again)
    assert head.task.history[0].message_id == "m1"
    assert head.task.artifacts[0].parts[0].text == "a"
    assert head.is_terminal


def test_the_task_handed_back_as_it_was_sets_no_status() -> None:
    head = Head(_task())
    head.apply_status(status(TaskState.TASK_STATE_INPUT_REQUIRED, "?"))
    head.add_user_message(Message(message_id="m2"))
    copy = Task()
    copy.CopyFrom(head.task)
    assert not head.apply_task(copy)
    assert [m.message_id for m in head.task.history][-1] == "m2"


def test_a_follow_up_stands_behind_the_question() -> None:
    head = Head(_task())
    head.apply_status(status(TaskState.TASK_STATE_INPUT_REQUIRED, "Which?"))
    head.add_user_message(Message(message_id="m2", parts=[Part(text="this")]))
    assert [m.parts[0].text for m in head.task.history] == ["hi", "Which?", "this"]
    assert not head.task.status.HasField("message")


def test_stamp_keeps_a_time_and_gives_whole_milliseconds() -> None:
    given_status = TaskStatus()
    given_status.timestamp.seconds = 5
    stamp(given_status)
    assert given_status.timestamp.seconds == 5
    fresh = TaskStatus()
    stamp(fresh)
    assert fresh.timestamp.nanos % 1_000_000 == 0
    assert to_us(fresh.timestamp) > 0


@given(size=st.sampled_from([0, 1, 100, 127, 128, 16_383, 16_384, 100_000]))
def test_pack_equals_the_library(size: int) -> None:
    text = "x" * size
    update = TaskStatusUpdateEvent(task_id=text)
    artifact = TaskArtifactUpdateEvent(artifact=Artifact(name=text))
    task, message = Task(id=text), Message(message_id=text)
    for tag, member, whole in (
        (STATUS_TAG, update, StreamResponse(status_update=update)),
        (ARTIFACT_TAG, artifact, StreamResponse(artifact_update=artifact)),
        (TASK_TAG, task, StreamResponse(task=task)),
        (MESSAGE_TAG, message, StreamResponse(message=message)),
    ):
        assert StreamResponse.FromString(pack(tag, member.SerializeToString())) == whole


@given(
    st.lists(
        st.one_of(
            st.builds(
                chunk,
                st.text(max_size=5),
                append=st.booleans(),
                artifact_id=st.sampled_from(["a", "b"]),
            ),
            st.builds(status, st.sampled_from([2, 6]), st.sampled_from(["", "one", "two"])),
        ),
        max_size=20,
    )
)
def test_replaying_the_log_gives_the_same_task(events: list[object]) -> None:
    """What recovery rebuilds equals what was in memory."""
    live, replayed = Head(_task()), Head(_task())
    for event in events:
        if isinstance(event, TaskStatusUpdateEvent):
            live.apply_status(event)
            replayed.replay(StreamResponse(status_update=event))
        elif isinstance(event, TaskArtifactUpdateEvent):
            live.apply_artifact(event)
            replayed.replay(StreamResponse(artifact_update=event))
    assert live.task == replayed.task
    assert live.state == replayed.state
