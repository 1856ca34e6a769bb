"""docs/settings.md has every setting, as the code has it, and says what each means."""

from docsite.settings import DOCUMENT, meanings, updated
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.topic import TopicConfig


def test_names_defaults_and_values_are_those_of_the_code():
    text = DOCUMENT.read_text()
    remedy = "a setting has changed: run `python -m docsite.settings`, and say in docs/settings.md what is new"
    assert updated(text) == text, remedy


def test_every_setting_says_what_it_means():
    known = meanings(DOCUMENT.read_text())
    silent = [name for name, meaning in known if not meaning.strip()]
    assert not silent, f"docs/settings.md does not say what these mean: {silent}"


def test_no_setting_of_a_file_or_a_topic_is_left_out():
    names = {name for name, _ in meanings(DOCUMENT.read_text())}
    for model in (TopicConfig, BrokerConfig, ControllerConfig):
        assert {field.alias for field in model.model_fields.values()} <= names


def test_a_default_that_has_changed_is_mended_and_the_meaning_stays():
    text = DOCUMENT.read_text()
    row = "| `segment.bytes` | 1073741824 (1 GiB); from 1024 |"
    assert row in text
    assert updated(text.replace(row, "| `segment.bytes` | 17; 18 |")) == text
