"""The choice between publishes side by side and a batch follows what each has cost."""

from __future__ import annotations

from foldlog.log.jetstream.batching import BatchChooser


def test_one_record_is_never_a_batch() -> None:
    vehicle = BatchChooser(single=1.0, batch=0.001)
    assert not vehicle.prefers_batch(1)


def test_a_slow_fsync_makes_batches_win() -> None:
    vehicle = BatchChooser(single=0.0001, batch=0.01)
    assert not vehicle.prefers_batch(20)
    for _ in range(20):
        vehicle.learn(20, 20 * 0.005, as_batch=False)
    assert vehicle.prefers_batch(20)
    assert vehicle.prefers_batch(3)


def test_slow_batches_give_way() -> None:
    vehicle = BatchChooser(single=0.0001, batch=0.001)
    assert vehicle.prefers_batch(20)
    for _ in range(20):
        vehicle.learn(20, 0.02, as_batch=True)
    assert not vehicle.prefers_batch(20)


def test_a_batch_that_lost_is_tried_again_in_time() -> None:
    vehicle = BatchChooser(single=0.0001, batch=0.01)
    tries = [vehicle.prefers_batch(50) for _ in range(200)]
    assert not tries[0]
    assert any(tries)
