"""The chart, rendered."""

import pytest

from tests.helm.helm_tools import CHART, find_tool, run


@pytest.fixture
def render():
    """Render the chart with values files and settings; returns the text."""

    def rendered(*settings, values=("minimal",), show=None, version=None, release="release"):
        command = [find_tool("helm"), "template", release, str(CHART), "--namespace", "rocketmq"]
        if version:
            command += ["--kube-version", version]
        for name in values:
            command += ["--values", str(CHART / "ci" / f"{name}-values.yaml")]
        for setting in settings:
            command += ["--set", setting]
        if show:
            command += ["--show-only", f"templates/{show}"]
        result = run(*command)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return rendered
