"""Clients that others wrote, as their users run them: mosquitto_pub and _sub, paho, rumqttc, mqtt.js over WebSocket."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from credentials import add, add_with_certificate
from raw import PATIENCE_S
from test_subscriptions import MATCHING

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSIONS = ["mqttv31", "mqttv311", "mqttv5"]


def mosquitto_pub(broker, *words: str) -> subprocess.CompletedProcess:
    """mosquitto_pub, run to its end."""
    command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(broker.port), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def node(url: str, version: int, topic: str, count: int, qos: int, trust: Path | None = None) -> list[dict]:
    """What mqtt.js receives of what it publishes."""
    modules = ROOT / "target/node/node_modules"
    command = ["node", str(HERE / "node/echo.js"), url, str(version), topic, str(count), str(qos)]
    environment = {"NODE_PATH": str(modules), "PATH": os.environ["PATH"]}
    environment |= {"NODE_EXTRA_CA_CERTS": str(trust)} if trust else {}
    return printed(command, env=environment)


def printed(command: list[str], **more: object) -> list[dict]:
    """The JSON that a client of many messages prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def mosquitto_sub(broker):
    """Starts mosquitto_sub and waits for its SUBACK, which `-d` prints: what it prints after that is left to read."""
    running = []

    def start_one(*words: str) -> subprocess.Popen:
        command = ["stdbuf", "-oL", "mosquitto_sub", "-d", "-h", "127.0.0.1", "-p", str(broker.port), *words]
        one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        running.append(one)
        for line in one.stdout:
            if line.startswith("Subscribed"):
                return one
        raise AssertionError("mosquitto_sub ended without a SUBACK")

    yield start_one
    for one in running:
        one.kill()
        one.wait(PATIENCE_S)


@pytest.mark.parametrize("qos", ["0", "1", "2"])
@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_pub_reaches_mosquitto_sub(broker, mosquitto_sub, name, version, qos):
    """Section 4.3, with the clients of every tutorial."""
    one = mosquitto_sub("-V", version, "-q", qos, "-t", name, "-C", "1", "-W", "10")
    sent = mosquitto_pub(broker, "-V", version, "-q", qos, "-t", name, "-m", "21.5")
    assert sent.returncode == 0, sent.stderr
    assert "21.5" in one.stdout.read().splitlines()
    assert one.wait(PATIENCE_S) == 0


def test_mosquitto_pub_streams_lines(broker, mosquitto_sub, name):
    """MQTT-4.6.0-6: five hundred lines from standard input, in their order."""
    one = mosquitto_sub("-q", "1", "-t", name, "-C", "500", "-W", "30")
    lines = "\n".join(f"reading {number}" for number in range(500))
    command = ["mosquitto_pub", "-p", str(broker.port), "-q", "1", "-t", name, "-l"]
    subprocess.run(command, input=lines, text=True, timeout=30, check=True)
    got = [line for line in one.stdout.read().splitlines() if line.startswith("reading")]
    assert got == lines.splitlines()


def test_mosquitto_sub_shows_the_properties_that_mosquitto_pub_sets(broker, mosquitto_sub, name):
    """Section 3.3.2.3."""
    one = mosquitto_sub("-V", "mqttv5", "-t", name, "-C", "1", "-W", "10", "-F", "=%P|%C|%R|%D|%E|%p")
    properties = ["user-property a 1", "user-property b 2", "content-type text/plain", "response-topic r/t",
                  "correlation-data abc", "message-expiry-interval 100"]  # fmt: skip
    words = [word for each in properties for word in ("-D", "publish", *each.split())]
    assert mosquitto_pub(broker, "-V", "mqttv5", "-q", "1", "-t", name, "-m", "x", *words).returncode == 0
    shown = next(line for line in one.stdout.read().splitlines() if line.startswith("="))
    assert shown in ("=a:1 b:2|text/plain|r/t|abc|100|x", "=a:1 b:2|text/plain|r/t|abc|99|x")


def test_mosquitto_sub_gets_what_is_retained_and_mosquitto_pub_clears_it(broker, name):
    """MQTT-3.3.1-5, MQTT-3.3.1-6."""
    assert mosquitto_pub(broker, "-q", "1", "-t", name, "-m", "kept", "-r").returncode == 0
    sub = ["mosquitto_sub", "-p", str(broker.port), "-t", name, "-C", "1", "-W", "2"]
    assert subprocess.run(sub, capture_output=True, text=True, timeout=20).stdout == "kept\n"
    assert mosquitto_pub(broker, "-q", "1", "-t", name, "-n", "-r").returncode == 0
    assert subprocess.run(sub, capture_output=True, text=True, timeout=20).stdout == ""


def test_mosquitto_sub_finds_its_session_again(broker, mosquitto_sub, name):
    """MQTT-3.1.2-5 of 3.1.1: a disabled clean session keeps messages between two runs."""
    words = ["-i", name, "-c", "-q", "1", "-t", name, "-C", "1", "-W", "10"]
    one = mosquitto_sub(*words)
    mosquitto_pub(broker, "-q", "1", "-t", name, "-m", "first")
    assert "first" in one.stdout.read().splitlines()
    one.wait(PATIENCE_S)
    mosquitto_pub(broker, "-q", "1", "-t", name, "-m", "while away")
    again = ["mosquitto_sub", "-p", str(broker.port), *words]
    done = subprocess.run(again, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False)
    assert done.stdout.splitlines() == ["while away"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_mqtt_js_over_websocket_hears_itself(broker, name, version, qos):
    """MQTT-6.0.0-1 to MQTT-6.0.0-4."""
    got = node(f"ws://127.0.0.1:{broker.websocket_port}/mqtt", version, name, 10, qos)
    assert got == [{"topic": name, "payload": str(number), "qos": qos} for number in range(10)]


def test_mqtt_js_over_tcp_hears_itself(broker, name):
    """Section 4.2."""
    got = node(f"mqtt://127.0.0.1:{broker.port}", 5, name, 20, 1)
    assert [each["payload"] for each in got] == [str(number) for number in range(20)]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("scheme", ["wss", "mqtts"])
def test_mqtt_js_over_tls_hears_itself(secure, authority, name, scheme, version):
    """Section 4.2, over secure WebSocket and plain TLS; the certificate is verified."""
    port = secure.secure_websocket_port if scheme == "wss" else secure.tls_port
    got = node(f"{scheme}://127.0.0.1:{port}/mqtt", version, name, 10, 1, authority.certificate)
    assert [each["payload"] for each in got] == [str(number) for number in range(10)]


@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_pub_over_tls_reaches_mosquitto_sub_over_tls(secure, authority, mosquitto_sub, name, version):
    """Section 4.2; the certificate is verified, with the name that is in it."""
    tls = ["-p", str(secure.tls_port), "--cafile", str(authority.certificate)]
    one = mosquitto_sub("-V", version, "-q", "2", "-t", name, "-C", "1", "-W", "10", *tls)
    sent = mosquitto_pub(secure, "-V", version, "-q", "2", "-t", name, "-m", "21.5", *tls)
    assert sent.returncode == 0, sent.stderr
    assert "21.5" in one.stdout.read().splitlines()


@pytest.mark.contract
def test_mosquitto_pub_comes_in_with_a_certificate_of_the_edge_and_is_who_it_says(start, client):
    """Contract of credentials: CN is the device, without a user name; the edge's authority is all it has to trust."""
    own = start(anonymous=False, tls={})
    certificate, key = add_with_certificate(own, "device", "pump-7")
    dash = client(to=own, **add(own, "app", "dash").login())
    dash.subscribe("devices/pump-7/telemetry", 1)
    tls = ["--cafile", str(own.data / "ca.pem"), "--cert", str(certificate), "--key", str(key)]
    words = ["-h", "localhost", "-p", str(own.tls_port), "-q", "1", *tls, "-m", "21.5"]
    sent = mosquitto_pub(own, *words, "-t", "devices/pump-7/telemetry")
    assert sent.returncode == 0, sent.stderr
    assert dash.receive().payload == b"21.5"
    refused = mosquitto_pub(own, *words, "-V", "mqttv5", "-t", "devices/pump-8/telemetry")
    assert "135" in refused.stderr or "uthori" in refused.stderr, refused.stderr
    dash.nothing_arrives()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
def test_rumqttc_hears_itself(broker, name, version, qos):
    """Section 4.3; few at QoS 2, where rumqttc 0.25 of 3.1.1 stalls against Mosquitto from about 20 on."""
    echo = os.environ.get("RUMQTTC", str(ROOT / "target/fast/rumqttc-echo"))
    count = 10 if qos == 2 else 500
    got = printed([echo, str(broker.port), str(version), name, str(count), str(qos)])
    assert got == [{"topic": name, "payload": str(number), "qos": qos} for number in range(count)]


@pytest.mark.parametrize("version", [4, 5])
def test_paho_over_websocket_speaks_with_paho_over_tcp(client, broker, name, version):
    """MQTT-6.0.0-1: frames and packets need not match; a payload over many frames comes whole."""
    web = client(version=version, port=broker.websocket_port, transport="websockets", ws_path="/mqtt")
    plain = client(version=version)
    for one in (web, plain):
        one.subscribe(name, 1)
    large = bytes(number % 256 for number in range(300_000))
    web.publish(name, large)
    plain.publish(name, b"back")
    assert [web.receive().payload, web.receive().payload] == [large, b"back"]
    assert [plain.receive().payload, plain.receive().payload] == [large, b"back"]


def test_paho_retains_wildcards_and_unsubscribes_over_3_1(client, name):
    """The oldest protocol with the newest client."""
    one = client(version=3)
    for topic_filter, topic in MATCHING[:6]:
        one.subscribe(f"{name}/{topic_filter}", 1)
        one.publish(f"{name}/{topic}", b"x")
        assert one.receive().topic == f"{name}/{topic}"
        one.unsubscribe(f"{name}/{topic_filter}")
