"""What a user can set: stores on the command line, in a reput.toml, in a broker.conf."""

from __future__ import annotations

import pytest

from reput.formats.errors import UsageError
from reput.formats.rocketmq.broker import NEWEST, settings_of
from reput.streaming.settings.config import StoreConfig, read_broker_conf, store_config
from reput.streaming.settings.reput_toml import read_config


class TestStoreConfig:
    def test_a_store_and_an_output(self, tmp_path):
        config = store_config(tmp_path / "store", tmp_path / "out")

        assert config == StoreConfig(
            "store", tmp_path / "store", tmp_path / "out", settings_of(NEWEST)
        )

    def test_in_place_the_output_is_the_store(self, tmp_path):
        for output in (None, tmp_path):
            config = store_config(tmp_path, output, in_place=True)
            assert config.in_place
            assert config.output == tmp_path

    def test_what_does_not_go_together(self, tmp_path):
        with pytest.raises(UsageError, match="--output is missing"):
            store_config(tmp_path, None)
        with pytest.raises(UsageError, match="leave --output out"):
            store_config(tmp_path, tmp_path / "x", in_place=True)
        with pytest.raises(UsageError, match="the store itself"):
            store_config(tmp_path, tmp_path / "x" / "..")

    def test_settings_come_from_the_version_and_the_broker_conf(self, tmp_path):
        conf = tmp_path / "broker.conf"
        conf.write_text("# ours\nmaxIndexNum = 40\nbrokerName=caf\\u00e9\nmaxHashSlotNum:\\\n 10\n")
        config = store_config(
            tmp_path / "s", tmp_path / "o", broker_version="4.9.8", broker_conf=conf
        )

        assert config.settings == settings_of("4.9", {"maxIndexNum": "40", "maxHashSlotNum": "10"})
        assert config.properties["brokerName"] == "café"

    @pytest.mark.parametrize("raw", [None, b"a=\\u12"])
    def test_a_broker_conf_that_cannot_be_read(self, tmp_path, raw):
        if raw is not None:
            (tmp_path / "c").write_bytes(raw)
        with pytest.raises(UsageError, match="cannot be read"):
            read_broker_conf(tmp_path / "c")

    @pytest.mark.parametrize(
        "text",
        [
            "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\n",
            '[[store]]\nname = "a"\npath = "/data/store"\nbroker_version = "5.3"\n',
            "tls.test.mode.enable=false\ntls.server.certPath=/etc/server.pem\n",
            "A page of words.\n\nAnd one more line.\n",
        ],
    )
    def test_another_file_is_not_taken_for_a_broker_conf(self, tmp_path, text):
        """
        A broker without settings has those of a broker's defaults: a slip would go unnoticed.
        """
        (tmp_path / "c").write_text(text)
        with pytest.raises(UsageError, match=r"is not a broker\.conf"):
            read_broker_conf(tmp_path / "c")

    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            ("# 消息存储\nmaxIndexNum=7\n".encode("gbk"), {"maxIndexNum": "7"}),
            ("# 消息存储\nmaxIndexNum=7\n".encode(), {"maxIndexNum": "7"}),
            ("#\u2026\x85maxIndexNum=9\n".encode("utf-8"), {}),
            (b"brokerName=caf\xe9", {"brokerName": "café"}),
            ("brokerName=café".encode(), {"brokerName": "cafÃ©"}),
            (b"brokerName=\\u6d88\\ud83d\\ude00", {"brokerName": "消\U0001f600"}),
            (b"brokerName=\x1c\x85b", {"brokerName": "\x1c\x85b"}),
            (b"# nothing is set\n", {}),
            (b"\xef\xbb\xbfmaxIndexNum=9\n", {"\xef\xbb\xbfmaxIndexNum": "9"}),
            (b"debug=1\nbrokerIP1=10.0.0.7\n", {"debug": "1", "brokerIP1": "10.0.0.7"}),
        ],
    )
    def test_bytes_are_what_the_broker_takes_them_for(self, tmp_path, raw, expected):
        """
        Java's Properties#load(InputStream): ISO 8859-1 and \\uXXXX, so no comment can stop it, and a
        value in UTF-8 is another one.
        """
        (tmp_path / "c").write_bytes(raw)

        assert read_broker_conf(tmp_path / "c") == expected


class TestReadConfig:
    def read(self, tmp_path, text):
        path = tmp_path / "reput.toml"
        path.write_text(text)
        return read_config(path)

    def test_stores_in_their_order_with_paths_from_the_files_directory(self, tmp_path):
        (tmp_path / "b.conf").write_text("maxIndexNum=7")
        first, second = self.read(
            tmp_path,
            '[[store]]\nname="a"\npath="s/a"\noutput="/abs/a"\nbroker_version="5.3.3"\n'
            '[[store]]\npath="s/b"\nin_place=true\nbroker_conf="b.conf"\n',
        )

        assert (first.name, first.path, str(first.output)) == ("a", tmp_path / "s/a", "/abs/a")
        assert first.settings.version.family == "5.3"
        assert (second.name, second.in_place, second.settings.index_items) == ("b", True, 7)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[[store]\n", "cannot be read"),
            ("", r"no \[\[store\]\] table"),
            ("store = 1", r"no \[\[store\]\] table"),
            ("store = []", r"no \[\[store\]\] table"),
            ("[store]\npath='a'", r"no \[\[store\]\] table"),
            ("[other]\n[[store]]\npath='a'\noutput='b'", "unknown key 'other'"),
            ("[[store]]\noutput='b'", "number 1: path is missing"),
            (
                "[[store]]\npath='a'",
                "number 1: output is missing: say where to write, or give in_place = true",
            ),
            ("[[store]]\npath='a'\noutput='b'\ncolour='red'", "unknown key 'colour'; known are"),
            ("[[store]]\npath=1\noutput='b'", "path must be a text"),
            (
                "[[store]]\npath='a'\noutput='b'\nin_place=true",
                "in_place = true writes into the store itself: leave output out",
            ),
            ("[[store]]\npath='a'\noutput='a/b'\nname='n'", r"number 1 \(n\): the output .*inside"),
            ("[[store]]\npath='a'\nin_place='yes'", "in_place must be a truth value"),
            ("[[store]]\npath='a'\noutput='b'\nname='../x'", "may have letters"),
            ("[[store]]\npath='a'\noutput='b'\nbroker_version='3.2'", "number 1: broker version"),
            (
                "[[store]]\npath='a'\noutput='b'\nbroker_conf='none'",
                "broker_conf .*none cannot be read",
            ),
            (
                "[[store]]\nname='n'\npath='a'\noutput='b'\n[[store]]\nname='n'\npath='c'\noutput='d'",
                "two stores have the name n",
            ),
            (
                "[[store]]\npath='a'\noutput='b'\n[[store]]\npath='c'\noutput='b'",
                "two stores have the output",
            ),
        ],
    )
    def test_what_is_wrong_is_said_with_the_file(self, tmp_path, text, problem):
        with pytest.raises(UsageError, match=problem) as raised:
            self.read(tmp_path, text)
        assert "reput.toml" in str(raised.value)

    def test_an_empty_name_is_none(self, tmp_path):
        """
        The store's directory gives it then.
        """
        text = "[[store]]\npath='a'\noutput='b'\nname=''"

        assert self.read(tmp_path, text)[0].name == "a"

    def test_a_file_that_is_missing(self, tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_config(tmp_path / "none.toml")

    def test_a_list_that_holds_no_tables(self, tmp_path):
        with pytest.raises(UsageError):
            self.read(tmp_path, "store = [1]")

    def test_outputs_that_are_one_directory_by_two_names(self, tmp_path):
        """
        Two writers of one output would wait for each other at best.
        """
        with pytest.raises(UsageError, match="two stores have the output"):
            self.read(
                tmp_path,
                "[[store]]\npath='a'\noutput='b'\n[[store]]\npath='c'\noutput='x/../b'",
            )
