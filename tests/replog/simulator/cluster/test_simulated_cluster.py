"""One replica at a time may lose what was not flushed, and the next when all is whole again."""

from dataclasses import replace

from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.simulator.cluster.simulated_cluster import DurabilityBudget
from replog.topic import TopicPartition

TP = TopicPartition("t0", 0)
WHOLE = PartitionState(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0)


def _image(*, isr: tuple[int, ...] = (1, 2, 3), epochs: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    image = MetadataImage()
    for broker_id, epoch in enumerate(epochs, 1):
        image.brokers[broker_id] = BrokerRegistration(
            broker_id, epoch, b"", f"broker-{broker_id}:9092", "", False, False
        )
    image.partitions[TP] = replace(WHOLE, isr=isr)
    return image


def test_a_second_replica_is_harmed_only_when_the_first_is_back_and_every_isr_is_full():
    budget = DurabilityBudget(fsync=False)
    assert budget.may_harm(2)
    budget.harm(2, _image())
    assert not budget.may_harm(1)
    assert budget.may_harm(2), "the same replica may lose more"
    budget.observe(_image())
    assert not budget.may_harm(1), "the controller has not noticed yet: the registration is the old one"
    budget.observe(_image(isr=(1, 3), epochs=(1, 9, 3)))
    assert not budget.may_harm(1), "it is back, and not in sync"
    budget.observe(_image(epochs=(1, 9, 3)))
    assert budget.may_harm(1)


def test_power_losses_are_free_where_everything_is_flushed_but_lost_disks_are_not():
    budget = DurabilityBudget(fsync=True)
    budget.harm(2, _image(), by_power_loss=True)
    assert budget.may_harm(1), "nothing was lost"
    budget.harm(2, _image())
    assert budget.may_harm(1, by_power_loss=True)
    assert not budget.may_harm(1)


def test_whoever_may_be_the_only_one_with_what_was_acknowledged_is_not_harmed():
    budget = DurabilityBudget(fsync=False, irreplaceable=lambda broker_id: broker_id == 2)
    assert not budget.may_harm(2)
    assert budget.may_harm(1)
    budget = DurabilityBudget(fsync=True, irreplaceable=lambda _: True)
    assert budget.may_harm(2, by_power_loss=True), "a loss of power takes nothing that was flushed"
    assert not budget.may_harm(2)
