"""Beside `test_sections.py`: the layout of the configs of the experimental class."""

from tests.golden import harness, replay_configs


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In 2.4-2.8 they had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(replay_configs.replay("experimental", "legacy", case))
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old
