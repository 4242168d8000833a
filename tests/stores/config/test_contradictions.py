"""Settings that a store's own files contradict."""

from __future__ import annotations

import pytest

from reput.formats.rocketmq import broker
from reput.stores.config.contradictions import contradictions
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import SMALL, Log, config_of, fill, name_batch_topics


class TestContradictions:
    @pytest.fixture
    def store(self, tmp_path):
        """A store whose own output was written with the small sizes, extensions included."""
        path = fill(Log(), 1, 30, batches=True).write(tmp_path / "store")
        name_batch_topics(path, "batches")
        dispatcher = StoreDispatcher(
            config_of(path, tmp_path / "out", enableConsumeQueueExt="true")
        )
        dispatcher.dispatch(dispatcher.log.end_of_files - 4096)
        dispatcher.close()
        for kind in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index"):
            (tmp_path / "out" / kind).rename(path / kind)
        return path

    def found(self, store, **conf) -> str:
        settings = broker.settings_of("5.5", {**SMALL, "enableConsumeQueueExt": "true", **conf})
        return "\n".join(contradictions(store, settings))

    def test_none_where_the_settings_fit(self, store):
        assert self.found(store) == ""

    @pytest.mark.parametrize(
        "setting",
        [
            "mappedFileSizeConsumeQueue",
            "mappedFileSizeConsumeQueueExt",
            "mapperFileSizeBatchConsumeQueue",
            "maxHashSlotNum",
            "maxIndexNum",
        ],
    )
    def test_another_size_is_told_with_its_setting(self, store, setting):
        assert setting in self.found(store, **{setting: "9200"})

    def test_extensions_that_are_not_configured(self, store):
        assert "enableConsumeQueueExt" in self.found(store, enableConsumeQueueExt="false")

    def test_bit_maps_without_extensions(self, tmp_path):
        conf = {"enableConsumeQueueExt": "false", "enableCalcFilterBitMap": "true"}

        assert "does nothing" in self.found(tmp_path, **conf)
