"""What counts as a credential, in every form in which it is written, and what does not."""

import json
import re
import time
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_pipelines as dp
from delta_pipelines.dagster.specs.description import describe
from delta_pipelines.model.declarations import Declaration, Query
from delta_pipelines.security.redaction import REDACTED, RedactedCause, Redaction, is_credential
from delta_pipelines.user_code.definition_hash import definition_hash

SECRET = "kanari-5e7"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://ann:{}@db:5432/x",
        "jdbc:postgresql://db/x?user=ann&password={}&ssl=true",
        "jdbc:sqlserver://db;user=ann;password={};encrypt=true",
        "jdbc:oracle:thin:scott/{}@//h:1521/x",
        "s3a://AKIA:{}@bucket/x",
        "s3a://AKIA:a/b+{}@bucket/x",
        "https://a.blob.example/c?sv=1&sig={}&se=2",
        "fs.s3a.secret.key={}",
        "fs.azure.account.key.acme.example = {}",
        "{{'password': '{}', 'user': 'ann'}}",
        '{{"api_key": "{}"}}',
        '.option("password", "{}")',
        "OPTIONS (password '{}')".replace(" '", " = '"),
        "password => '{}'",
        "Authorization: Bearer {}0123456789",
        "connect(token={}) failed",
        r"{{'password': 'x\'{}', 'user': 'ann'}}",
        r"{{\"password\": \"{}\", \"user\": \"ann\"}}",
        "password => 'x''{}'",
        'password="""a\n{}"""',
        ".option('password', '''{}''')",
        'private_key="' + "MIIE" * 500 + '{}"',
        "password = '{} was cut o",
        "OPTIONS (url 'x', password '{}')",
        "password: {}",
        "{{x-api-key: {}, accept: all}}",
        "user: ann\n  db.password:{}\n",
        "jdbc:sqlserver://db;password={{ab;{}}}ef}};user=ann",
        "Driver={{ODBC 18}};Pwd={{a}}}};{}}}",
        "pwd={{ab; {} was cut o",
        "passwords: [abc, {}]",
        "passwords: [abc, {} was cut o",
        '{{"passwords": ["a]b", "{}"], "n": 1}}',
        "{{'tokens': ['a', b'b]c', ['d', '{}']], 'n': 2}}",
        "tokens=('a', '{}')",
        "secrets = ['a',\n  '{}",
        "credentials={}",
        "credentials: {}",
        "passcode={}",
        "PGPASS={}",
    ],
)
def test_a_credential_behind_its_name_or_in_an_address_is_taken_out(text):
    redacted = Redaction().text(text.format(SECRET))
    assert SECRET not in redacted
    assert REDACTED in redacted


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.example/x",
        "http://host:8080/x@y",
        "column + password_hash string, ~ token int: int -> bigint",
        "keys names 'password', 'token' more than once.",
        "Invalid expression / Unexpected token. Line 1, Col: 8.",
        "def f(token: str, password: str | None = None) -> DataFrame:",
        "file:/data/warehouse/a.db/t",
        " |-- token: string (nullable = true)",
        "struct<token:string,n:int>, tokenizer: bpe, tokens: 512, token: 3",
        "WHERE password = '' AND n = 1",
        'password="", user="ann"',
        "SELECT token, count(*) FROM t GROUP BY token",
        "tokens: [1, 2, 37], tokens: []",
        "fs.s3a.aws.credentials.provider=org.acme.Provider, PGPASSFILE=/etc/pgpass.conf",
        "no credential 'x': ask for one.",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "the PRIVATE KEY is missing",
    ],
)
def test_text_that_is_not_a_credential_stays(text):
    assert Redaction().code(text) == text
    if "= None" not in text:
        assert Redaction().text(text) == text


@given(st.text(min_size=6).filter(lambda s: s.strip() == s), st.text(max_size=5))
def test_the_value_of_a_secret_setting_is_taken_out_wherever_it_stands(secret, around):
    known = Redaction.of({"spark.hadoop.fs.s3a.secret.key": secret})
    if known.secrets:
        assert secret not in known.text(f"{around} {secret} {around}").replace(REDACTED, "\0")


def test_switches_durations_and_classes_are_not_credentials():
    values = {"a.token.ttl": "86400s", "a.token.on": "true", "a.token.store": "org.acme.Store"}
    values |= {"b.token.store": "org.acme.s3a.OAuth2Store$Inner", "b.token.maxBytes": "134217728"}
    values |= {"b.password": "123456"}
    assert Redaction.of(values).secrets == frozenset()


@pytest.mark.parametrize(
    "secret",
    [
        "hvs.CAESIJkq0",
        "SG.x9Kd.Y2ab",
        "ya29.a0AfB.Xyz12",
        "eyJhbGci.eyJzdWIi.SflKxwRJ",
        "my.password1",
        "My.Pass.Word",
        "acme.Secret",
        "ab.cd.E1f2g3h4",
        "20240131",
    ],
)
def test_a_dotted_token_and_a_long_number_are_known_and_refused(secret):
    known = Redaction.of({"acme.token": secret})
    assert known.text(f"it is {secret}.") == "it is ***."
    assert is_credential("acme.token", secret)


def test_the_working_directory_is_not_a_password():
    assert Redaction.of({"PWD": "/data/pipelines", "OLDPWD": "/data/old"}).secrets == frozenset()


def test_the_sessions_own_redaction_pattern_counts():
    known = Redaction.of({"spark.redaction.regex": "(?i)geheim", "acme.Geheim": SECRET})
    assert known.text(f"it is {SECRET}") == "it is ***"
    assert Redaction.of({"spark.redaction.regex": "(?<bad"}).text("x") == "x"


KEY = "RSA PRIVATE KEY"
BEGIN = f"-----BEGIN {KEY}-----"
NEWLINES = st.sampled_from(["\n", "\r\n", "\\n"])


LINES = st.lists(st.from_regex(r"[A-Za-z0-9+/]{16}", fullmatch=True), min_size=3, max_size=5)


@settings(max_examples=40)
@given(LINES, NEWLINES, st.data())
def test_no_line_of_a_private_key_survives_wherever_it_is_cut(lines, newline, data) -> None:
    headers = data.draw(
        st.sampled_from([[], ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256,0A", ""]])
    )
    whole = newline.join([BEGIN, *headers, *lines, f"-----END {KEY}-----", ""])
    begin, end = whole.index(lines[0]), whole.index("-----END")
    cut = data.draw(st.integers(begin, end))
    around = data.draw(st.sampled_from(["", "it is: ", "x\n"]))
    for text in (f"{around}{whole}behind", f"{around}{whole[:cut]}", whole[cut:], whole + whole):
        redacted = Redaction().text(text)
        assert not any(line in redacted for line in lines)
        assert Redaction().text(redacted) == redacted
    assert Redaction().text(f"{around}{whole}behind").endswith("behind")


PLAIN = st.from_regex(r"[a-z]{3}[0-9;}{&,()\[\]]{0,6}[a-z0-9]{3}", fullmatch=True)


@settings(max_examples=40)
@given(st.lists(PLAIN, min_size=1, max_size=4), st.sampled_from(["passwords", "tokens", "secret"]))
def test_no_item_of_a_list_survives(items, name) -> None:
    texts = [json.dumps({name: items}), repr({name: items}), repr({name: [items, ("x", *items)]})]
    texts += [f"{name}={items!r}", json.dumps({name: items}, indent=2)]
    for text in texts:
        for redacted in (Redaction().text(text), Redaction().code(text)):
            assert not any(item in redacted for item in items)
        assert Redaction().text(redacted) == redacted


@settings(max_examples=40)
@given(PLAIN, st.sampled_from([";", "&", " ", ""]))
def test_no_braced_value_survives(value, behind) -> None:
    text = f"jdbc:sqlserver://db;password={{{value.replace('}', '}}')}}}{behind}"
    redacted = Redaction().text(text)
    assert value not in redacted
    assert value.replace("}", "}}") not in redacted
    assert not any(part in redacted for part in re.findall(r"[a-z0-9]{3,}", value))
    assert Redaction().text(redacted) == redacted


def test_long_texts_take_no_long_time():
    texts = ["x" * 200_000, "password" * 25_000, "a:" * 100_000, "a://b:" * 10_000]
    texts += ["password='" * 20_000, 'password="""' * 15_000, r"password='\\" * 20_000]
    texts += [
        "(" * 200_000,
        "(password " * 20_000,
        "password:" * 20_000,
        "password=" + "'" * 200_000,
    ]
    end = f"-----END {KEY}-----"
    texts += ["passwords: [" * 3_000, "passwords: ['" * 3_000, "passwords: " + "[" * 30_000]
    texts += ["password={" * 5_000, "password={" + "}}" * 20_000, "password={" + "}a" * 20_000]
    texts += [BEGIN * 1_000, end * 1_000, "A\n" * 30_000 + end, f"{BEGIN}A: " * 1_000]
    for text in texts:
        started = time.process_time()
        Redaction().text(text)
        assert time.process_time() - started < 2, text[:40]


def test_an_error_and_its_causes_are_redacted():
    known = Redaction.of({"a.password": SECRET})
    cause = ValueError(f"cannot log in with {SECRET}")
    error = dp.DatasetError(f"it failed: {cause}", dataset="t")
    error.__cause__ = cause
    text = "".join(traceback.format_exception(known.error(error)))
    assert SECRET not in text
    assert isinstance(error.__cause__, RedactedCause)
    assert "ValueError: cannot log in with ***" in text


def test_a_cause_without_credentials_stays_the_cause():
    cause = ValueError("a plain reason")
    error = dp.DatasetError("it failed", dataset="t")
    error.__cause__ = cause
    assert Redaction().error(error).__cause__ is cause


class FixedText(Exception):
    """Like a JVM's error: its text comes from elsewhere."""

    def __init__(self):
        self.parts = [SECRET]

    def __str__(self):
        return f"cannot log in with {SECRET}"


def raised(error, cause=None):
    with pytest.raises(type(error)) as info:
        raise error from cause
    return info.value


@pytest.mark.parametrize("error", [ValueError(f"no {SECRET}"), KeyError(SECRET), FixedText()])
def test_any_exception_is_redacted(error):
    known = Redaction.of({"a.password": SECRET})
    redacted = known.anybodys(raised(error, RuntimeError(f"because of {SECRET}")))
    assert type(redacted) is (RedactedCause if isinstance(error, FixedText) else type(error))
    shown = "".join(traceback.format_exception(redacted))
    assert SECRET not in shown
    assert f"{type(error).__name__}: " in shown
    assert "RuntimeError: because of ***" in shown


def test_a_trace_that_shows_a_credential_gives_way_and_one_that_does_not_stays():
    def connect(password):
        raise ValueError("the server said no")

    with pytest.raises(ValueError, match="the server said no") as info:
        connect(password="literal-5e7-of-a-user")
    redacted = Redaction().anybodys(info.value)
    assert type(redacted) is ValueError
    assert str(redacted) == "the server said no"
    assert "literal-5e7" not in "".join(traceback.format_exception(redacted))

    plain = raised(ValueError("a plain reason"), cause := RuntimeError("why"))
    trace = plain.__traceback__
    assert Redaction().anybodys(plain) is plain
    assert (plain.__traceback__, plain.__cause__) == (trace, cause)


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("jdbc.password", SECRET, True),
        ("aws.secretKey", SECRET, True),
        ("acme.api_token", SECRET, True),
        ("origin", f"jdbc:postgresql://u:{SECRET}@h/x", True),
        ("jdbc.password", "123456", True),
        ("acme.token", "3600s", False),
        ("acme.token", "org.acme.Store", False),
        ("tokenizer", "bpe", False),
        ("password.policy", "strict", False),
        ("contains.secret", "false", False),
    ],
)
def test_a_credential_among_table_properties_is_refused_and_not_shown(key, value, refused):
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.materialized_view("t", "SELECT 1 AS n", table_properties={key: value})
    assert is_credential(key, value) == refused
    if not refused:
        pipeline.graph()
        return
    with pytest.raises(dp.DeclarationError, match="looks like a credential") as caught:
        pipeline.graph()
    assert SECRET not in str(caught.value)


def test_a_comment_with_a_password_in_an_address_is_refused_and_not_shown():
    pipeline = dp.Pipeline("p", schema="s")
    pipeline.view("v", "SELECT 1 AS n", comment=f"From ftp://u:{SECRET}@h")
    with pytest.raises(dp.DeclarationError, match="comment contains an address") as caught:
        pipeline.graph()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("conf", [{"a.password": 5}, [("a.password", SECRET)], SECRET])
def test_a_wrongly_typed_setting_is_refused_without_telling_its_value(conf):
    with pytest.raises(dp.DeclarationError) as caught:
        dp.Pipeline("p", schema="s").materialized_view("t", "SELECT 1 AS n", spark_conf=conf)
    assert SECRET not in str(caught.value)
    assert ": 5" not in str(caught.value)


def test_a_description_hides_literals_and_keeps_the_code():
    sql = f"SELECT * FROM read_files('s3a://k:{SECRET}@b/x', password => '{SECRET}') WHERE a = 1"
    description = describe(Declaration("t", "materialized_view", Query(sql=sql)))
    assert description is not None
    assert SECRET not in description
    assert "s3a://***@b/x', password => '***') WHERE a = 1" in description


def test_a_rotated_password_is_not_a_new_definition():
    def hashed(value):
        conf = {"acme.password": value, "spark.sql.ansi.enabled": "true"}
        return definition_hash(
            Declaration("t", "materialized_view", Query(sql="SELECT 1"), spark_conf=conf)
        )

    assert hashed("one") == hashed("another")


def test_an_errors_subject_and_its_expectations_are_redacted_too() -> None:
    address = "s3a://AKIAKEY:hunter2hunter2@bucket/t"
    found = dp.ExpectationResult("safe", f"source <> '{address}'", "fail", rows=1, broken=1)
    error = dp.ExpectationError("broken.", dataset=address, results=(found,))
    Redaction().error(error)
    assert "hunter2hunter2" not in str(error)
    assert "hunter2hunter2" not in repr(error.results)
