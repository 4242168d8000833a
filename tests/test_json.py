"""What commands print with --json fits the schemas of docs/json, in every field."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reput.formats.rocketmq import names
from reput.formats.rocketmq.batchconsumequeue import Unit
from reput.streaming.cli.main import COMMANDS, main
from reput.streaming.cli.query.group import COMMANDS as QUERIES
from tests import json_schema
from tests.json_schema import SCHEMAS, fits, gaps, load, problems

NAMES = sorted(path.stem for path in SCHEMAS.glob("*.json"))


def conf_of(source, directory):
    path = directory / "broker.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in source.conf.items()))
    return path


@pytest.fixture
def asked(golden, tmp_path, monkeypatch, capsys):
    """Ask a golden store of 5.5.0; return exit code and the documents that are printed."""

    def ask(scenario, command, *more, store=None):
        source = golden("5.5.0", scenario)
        words = [*command.split(), "--store", store or source.path, *more]
        words += ["--broker-conf", conf_of(source, tmp_path), "--json"]
        monkeypatch.setattr(sys, "argv", ["reput", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr().out
        return ended.value.code, [json.loads(line) for line in shown.splitlines()]

    return ask


def all_fit(documents, name):
    """Tell whether there are documents, and each fits a schema; says what does not."""
    assert documents
    return all(fits(document, name) for document in documents)


@pytest.mark.parametrize("command", ["query", "root"])
def test_each_command_with_json_has_a_schema(command):
    """
    So a new command comes with one.
    """
    names = COMMANDS if command == "root" else QUERIES
    prefix = "query-" if command == "query" else ""
    names = {prefix + name for name in names} - {"prepare", "serve", "query", "inspect"}

    assert {"run" if name == "rebuild" else name for name in names} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_whole(name):
    """
    Each asks only for what is checked, and is in the list of the page; no name has a space.
    """

    def walk(schema):
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            file, _, part = schema["$ref"].partition("#/$defs/")
            walk(load(file.removesuffix(".json"))["$defs"][part])
        unknown = set(schema) - json_schema._CHECKS.keys() - json_schema._SAYS_NOTHING
        assert not unknown
        assert not any(" " in each for each in schema.get("properties", {}))
        for each in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
            walk(each)
        walk(schema.get("items"))
        walk(schema.get("additionalProperties"))
        for each in schema.get("$defs", {}).values():
            walk(each)

    walk(load(name))
    assert name == "common" or f"]({name}.json)" in (SCHEMAS / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_closed(name):
    """
    None takes a field that it does not name, unless it gives the reason; a number names its unit.
    """
    assert gaps(load(name)) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object", "properties": {}, "required": []}, "$: open"),
        ({"type": ["object", "null"], "additionalProperties": True}, "$: open"),
        ({"type": "object", "additionalProperties": {}}, "$[]: no type"),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            "$: nothing is required",
        ),
        (
            {"type": "object", "required": ["a"], "additionalProperties": False},
            "$: a is required and not there",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": [],
                "additionalProperties": False,
            },
            "$: nothing says when a is there",
        ),
        ({"type": "array"}, "$: items of any kind"),
        ({"type": "array", "items": {"type": "integer"}}, "$[]: a number of what"),
        ({"type": "integer", "description": "the producer's"}, "$: a number of what"),
        ({"type": ["null", "number"], "description": "how many"}, "$: a number of what"),
        ({"type": "integer", "description": "where the bytecode begins"}, "$: a number of what"),
        ({"anyOf": [{"type": "null"}, {"description": "d"}]}, "$|1: no type"),
        ({"$defs": {"a": {"type": "object"}}}, "$.a: open"),
        ({"type": "object", "additionalProperties": {"type": "object"}}, "$[]: open"),
        ({"type": "object", "$comment": "for now"}, "$: open"),
    ],
)
def test_a_schema_that_is_open_is_found(schema, said):
    """
    Wherever it is in it, and unless there is a reason.
    """
    assert gaps(schema) == [said]
    assert gaps({**schema, "$comment": "open: its sender chooses"}) == []


@pytest.mark.parametrize("said", ["bytes of it", "until then, s", "messages/s", "id of a queue"])
def test_a_number_with_a_unit_is_no_gap(said):
    assert gaps({"type": "integer", "description": said}) == []


@pytest.mark.parametrize(
    ("scenario", "command", "name", "code"),
    [
        ("trans", "query key tx4 --topic pay-1", "query-key", 0),
        ("trans", "query key tx4 none --topic pay-1 --body json", "query-key", 1),
        ("trans", "query key none --topic pay-7", "query-key", 1),
        ("trans", "query id 7F00000100002A9F0000000000000972", "query-id", 0),
        ("trans", "query id 7F00000100002A9F0000000000000973", "query-id", 1),
        ("trans", "query id 7F000001BEEFF4DC50E70000000A0000 --topic pay-1", "query-id", 0),
        ("trans", "query id none --topic none", "query-id", 1),
        ("trans", "query offset 3 --topic pay-1 --queue 0 --limit 3", "query-offset", 0),
        ("trans", "query offset 999 --topic pay-1 --queue 0", "query-offset", 1),
        ("trans", "query offset 0 --topic pay-1 --queue 9", "query-offset", 1),
        ("trans", "query offset 2418 --physical --body none", "query-offset", 0),
        ("trans", "query time 1795229563440 --topic pay-1", "query-time", 0),
        ("trans", "query time 0 --topic nobody", "query-time", 1),
        ("trans", "query time 1795229563440 --limit 2 --body-bytes 3", "query-time", 0),
        ("trans", "query time 99999999999999", "query-time", 1),
        ("trans", "query transactions --all", "query-transactions", 0),
        ("trans", "query transactions --all --state pending", "query-transactions", None),
        ("delay", "query delayed", "query-delayed", 0),
        ("delay", "query delayed --level 3", "query-delayed", 0),
        ("delay", "query delayed --level 30", "query-delayed", 1),
        ("basic", "query delayed", "query-delayed", 1),
        ("trans", "topics", "topics", 0),
        ("trans", "topics --topic pay-1", "topics", 0),
        ("trans", "topics --topic pay-7", "topics", 1),
        ("batch", "topics", "topics", 0),
        ("trans", "tail --topic pay-1 --from-start --limit 3", "tail", 0),
        ("basic", "verify", "verify", 0),
        ("unclean", "verify", "verify", None),
        ("trans", "query key tx4 --topic pay-1 --begin 5 --end 1", "error", 2),
        ("trans", "query nothing", "error", 2),
    ],
)
def test_a_document_fits_its_schema(asked, scenario, command, name, code):
    found, documents = asked(scenario, command)

    assert code is None or found == code
    assert all_fit(documents, name)


def test_timers_and_consumers(asked, golden, tmp_path):
    """
    A store that has some: made from a golden one, whose topics are not on a wheel.
    """
    source = golden("5.5.0", "trans")
    source.copy_input(tmp_path / "store")
    for kind in ("consumequeue", "index"):
        (tmp_path / "store" / kind).symlink_to(source.path / kind)
    table = {"offsetTable": {"pay-1@billing": {"0": 3, "1": 999}}}
    config = tmp_path / "store" / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text(json.dumps(table))

    for command, code in (
        ("query consumers", 0),
        ("query consumers --group biling", 1),
    ):
        found, documents = asked("trans", command, store=tmp_path / "store")
        assert found == code
        assert all_fit(documents, "query-consumers")
    assert documents[0]["missing"] == "no such group 'biling'; there are billing"
    assert all_fit(asked("trans", "query timer")[1], "query-timer")


def test_a_list_that_is_not_whole_says_so_and_can_be_had_whole(asked):
    _, (cut,) = asked("trans", "query transactions --all")
    _, (whole,) = asked("trans", "query transactions --all --limit 0")
    _, (one,) = asked("delay", "query delayed --level 3 --limit 1")
    _, (every,) = asked("delay", "query delayed --level 3 --limit 0")

    assert (len(cut["transactions"]), cut["truncated"]) == (20, True)
    assert (whole["truncated"], len(whole["transactions"])) == (False, cut["total"])
    for each in (*whole["transactions"], *cut["transactions"]):
        # It continues between two commands.
        assert each.pop("age_s") > 0
    assert whole["transactions"][:20] == cut["transactions"]
    assert (len(one["messages"]), one["total"]) == (1, len(every["messages"]))
    assert one["truncated"]


@pytest.mark.parametrize(
    ("scenario", "what", "more"),
    [
        ("trans", "commitlog", ["--limit", "3"]),
        ("trans", "consumequeue", ["--limit", "3"]),
        ("trans", "index", ["--limit", "3"]),
        ("trans", "index", ["--limit", "3", "--slots"]),
        ("trans", "checkpoint", None),
        (None, "batch", ["--limit", "1"]),
        ("sqlext", "ext", ["--limit", "1"]),
    ],
)
def test_inspect(golden, tmp_path, monkeypatch, capsys, scenario, what, more):
    if scenario is None:
        # No golden store has batch queues.
        path = tmp_path / names.offset_file(0)
        path.write_bytes(b"".join(Unit(i, 100, 7, 1795229563435, i, 1).pack() for i in range(3)))
    else:
        source = golden("5.5.0", scenario)
        path = source.path / {"ext": "consumequeue_ext"}.get(what, what)
        while path.is_dir():
            path = max(path.iterdir(), key=lambda each: (each.is_dir(), each.name))
    words = ["reput", "inspect", what, path, *(more or [])]
    if what in {"commitlog", "index"}:
        words += ["--broker-conf", conf_of(source, tmp_path)]
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--json"])
    with pytest.raises(SystemExit):
        main()
    document = json.loads(capsys.readouterr().out)

    assert fits(document, "inspect")
    assert document["truncated"] == (more is not None)
    assert more is None or len(document["rows"]) == int(more[1])
    if what == "commitlog":
        row = document["rows"][0]
        assert row["stored"].startswith("2026-11-2")
        assert row["stored_ms"] // 10**9 == 1795
        assert type(row["queue"]) is int
    if what == "checkpoint":
        times = [row["time"] is None for row in document["rows"]]
        assert times == [False, False, False, True, True, True]


def test_names_and_types_are_the_same_in_all_schemas():
    """
    A field of one name has one type, whichever command prints it.
    """
    kinds = {}

    def walk(schema):
        if not isinstance(schema, dict):
            return
        for name, each in schema.get("properties", {}).items():
            kind = each.get("type", each.get("$ref"))
            kinds.setdefault(name, set()).add(
                tuple(sorted({*([kind] if isinstance(kind, str) else kind)} - {"null"}))
                if kind
                else ()
            )
            walk(each)
        for each in (*schema.get("anyOf", ()), *schema.get("$defs", {}).values()):
            walk(each)
        walk(schema.get("items"))

    for name in NAMES:
        walk(load(name))
    # Whole documents that are about one thing, and lists of them, share a name.
    for name in ("queue", "physical_offset", "stored_ms", "stored", "topic", "truncated", "total"):
        assert len(kinds[name]) == 1, name
    assert kinds["queue"] == {("integer",)}
    assert all(f"{name.removesuffix('_ms')}" in kinds for name in kinds if name.endswith("_ms"))


def test_the_check_finds_what_is_wrong():
    """
    Each keyword: else a document of nothing would fit.
    """
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": ["string", "null"], "pattern": "^a"},
            "l": {"type": "array", "items": {"enum": [1, 2]}},
            "r": {"$ref": "common.json#/$defs/note"},
            "a": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    note = {"kind": "k", "file": "f", "byte": 1, "detail": "d"}

    assert problems({"n": 1, "s": None, "l": [1], "r": note, "a": True}, schema) == []
    for wrong in (
        [],
        {},
        {"n": True},
        {"n": 1.5},
        {"n": 1, "s": "b"},
        {"n": 1, "l": [3]},
        {"n": 1, "r": {**note, "byte": "1"}},
        {"n": 1, "a": 1},
        {"n": 1, "more": 1},
    ):
        assert problems(wrong, schema), wrong
    with pytest.raises(ValueError, match="minimum"):
        problems(1, {"minimum": 3})


@pytest.mark.spark
def test_what_writes(golden, tmp_path):
    """
    rebuild, handover, repair and export: the output of the commands themselves.
    """
    source = golden("5.5.0", "basic")
    source.copy_input(tmp_path / "store")
    common = ["--store", tmp_path / "store", "--broker-conf", conf_of(source, tmp_path), "--json"]
    output = ["--output", tmp_path / "out"]
    for command, name in (
        (["rebuild", *output], "run"),
        (["handover", *output], "handover"),
        (["verify", *output], "verify"),
        (["rebuild", "--repair", *output], "repair"),
        (["export", "--to", tmp_path / "copy", *output], "export"),
    ):
        words = [sys.executable, "-m", "reput", *map(str, (*command, *common))]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent
        )
        assert done.returncode in {0, 1}, done.stderr
        assert fits(json.loads(done.stdout), name)
