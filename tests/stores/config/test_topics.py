"""The types of topics, by config/topics.json."""

from __future__ import annotations

import json

import pytest

from reput.formats.errors import StoreError
from reput.stores.config.topics import batch_topics
from tests.builders.stores import name_batch_topics

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

        assert batch_topics(tmp_path) == {"a"}

    def test_a_store_without_configuration_has_none(self, tmp_path):
        assert batch_topics(tmp_path) == frozenset()

    @pytest.mark.parametrize("text", ["", '{"topicConfigTable":{"a":{"attri', "\n"])
    def test_a_file_that_is_being_written_is_read_from_its_backup(self, tmp_path, config, text):
        """
        A broker writes in place, with the text before beside it.
        """
        (config / "topics.json").write_text(text)
        (config / "topics.json.bak").write_text(json.dumps({"topicConfigTable": TOPICS}))

        assert batch_topics(tmp_path) == {"a"}

    def test_a_file_that_is_none_is_named(self, tmp_path, config):
        (config / "topics.json").write_text("{topics: none}")

        with pytest.raises(StoreError, match=r"topics.json: not readable as JSON"):
            batch_topics(tmp_path)

    def test_the_helper_of_these_tests_writes_what_is_read(self, tmp_path):
        name_batch_topics(tmp_path, "x", "y")

        assert batch_topics(tmp_path) == {"x", "y"}
