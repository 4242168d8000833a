"""What a store directory says of itself: topics' types, and settings that its files contradict."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import StoreError
from reput.formats.rocketmq import broker
from reput.stores.config import layout
from reput.streaming.dispatch.dispatcher import StoreDispatcher
from tests.builders.stores import SMALL, Log, config_of, fill, name_batch_topics

# As fastjson writes it, `+` or not.
TOPICS = {
    "a": {"attributes": {"queue.type": "BatchCQ"}, "perm": 6},
    # A change request's name for it, which no broker reads from the file.
    "b": {"attributes": {"+queue.type": "BatchCQ"}},
    "c": {"attributes": {"queue.type": "SimpleCQ"}},
    "d": {"attributes": None},
    "e": {},
}


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


class TestBatchTopics:
    def test_those_that_topics_json_names(self, tmp_path, config):
        (config / "topics.json").write_text(json.dumps({"topicConfigTable": TOPICS}))

        assert layout.batch_topics(tmp_path) == {"a"}

    def test_a_store_without_configuration_has_none(self, tmp_path):
        assert layout.batch_topics(tmp_path) == frozenset()

    @pytest.mark.parametrize("text", ["", '{"topicConfigTable":{"a":{"attri', "\n"])
    def test_a_file_that_is_being_written_is_read_from_its_backup(self, tmp_path, config, text):
        """
        A broker writes in place, with the text before beside it.
        """
        (config / "topics.json").write_text(text)
        (config / "topics.json.bak").write_text(json.dumps({"topicConfigTable": TOPICS}))

        assert layout.batch_topics(tmp_path) == {"a"}

    def test_a_file_that_is_none_is_named(self, tmp_path, config):
        (config / "topics.json").write_text("{topics: none}")

        with pytest.raises(StoreError, match=r"topics.json: not readable as JSON"):
            layout.batch_topics(tmp_path)

    def test_the_helper_of_these_tests_writes_what_is_read(self, tmp_path):
        name_batch_topics(tmp_path, "x", "y")

        assert layout.batch_topics(tmp_path) == {"x", "y"}


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
        return "\n".join(layout.contradictions(store, settings))

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
