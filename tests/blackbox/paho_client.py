"""paho-mqtt, made to wait for answers: the client that we did not write, as tests talk to it."""

from __future__ import annotations

import json
import queue
import socket
from concurrent.futures import Future

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from raw import PATIENCE_S

VERSIONS = {3: paho.MQTTv31, 4: paho.MQTTv311, 5: paho.MQTTv5}


def properties(kind: int, values: dict[str, object]) -> Properties | None:
    """paho's property object from keyword arguments such as `MessageExpiryInterval=3`."""
    if not values:
        return None
    made = Properties(kind)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class Refused(AssertionError):
    """CONNACK said no."""

    def __init__(self, reason: object):
        super().__init__(f"refused: {reason}")
        self.reason = reason


class Client:
    """A paho client whose calls return when the broker has answered."""

    def __init__(self, port: int, client_id: str = "", version: int = 5, **options: object):
        self.version = version
        self.messages: queue.Queue = queue.Queue()
        self.connected: Future = Future()
        self.ended: Future = Future()
        self.answers: dict[int, Future] = {}
        self.fences = 0
        clean = options.pop("clean", True)
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=clean if version < 5 else None,
            protocol=VERSIONS[version],
            transport=options.pop("transport", "tcp"),
            reconnect_on_failure=False,
        )
        self._prepare(options)
        host = options.pop("host", "127.0.0.1")
        keep_alive = options.pop("keep_alive", 60)
        if version == 5:
            extra = properties(PacketTypes.CONNECT, options)
            self.paho.connect(host, port, keep_alive, clean_start=clean, properties=extra)
        else:
            assert not options, f"not of MQTT 3: {options}"
            self.paho.connect(host, port, keep_alive)
        self.paho.loop_start()

    def _prepare(self, options: dict) -> None:
        if "user" in options:
            self.paho.username_pw_set(options.pop("user"), options.pop("password", None))
        if "will" in options:
            will = options.pop("will")
            extra = {key: will.pop(key) for key in list(will) if key[0].isupper()}
            self.paho.will_set(**will, properties=properties(PacketTypes.WILLMESSAGE, extra))
        if "tls" in options:
            self.paho.tls_set_context(options.pop("tls"))
        if "ws_path" in options:
            self.paho.ws_set_options(path=options.pop("ws_path"))
        if options.pop("manual_ack", False):
            self.paho.manual_ack_set(True)
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = self._on_disconnect
        self.paho.on_message = lambda _c, _u, message: self.messages.put(message)
        self.paho.on_subscribe = lambda _c, _u, mid, reasons, _p: self._answer(mid, reasons)
        self.paho.on_unsubscribe = lambda _c, _u, mid, reasons, _p: self._answer(mid, reasons)
        self.paho.on_publish = lambda _c, _u, mid, reason, _p: self._answer(mid, reason)

    @staticmethod
    def _settle(future: Future, value: object) -> None:
        if not future.done():
            future.set_result(value)

    def _on_connect(self, _client: object, _data: object, flags: object, reason: object, extra: object) -> None:
        self._settle(self.connected, (flags, reason, extra))

    def _on_disconnect(self, _client: object, _data: object, _flags: object, reason: object, extra: object) -> None:
        if not self.connected.done():  # Of TLS 1.3 a client hears only now that its certificate was refused.
            self.connected.set_exception(ConnectionError(f"closed before CONNACK: {reason}"))
        self._settle(self.ended, (reason, extra))

    def _answer(self, mid: int, value: object) -> None:
        self._settle(self.answers.setdefault(mid, Future()), value)

    def _wait(self, mid: int) -> object:
        try:
            return self.answers.setdefault(mid, Future()).result(PATIENCE_S)
        finally:
            self.answers.pop(mid, None)

    def opened(self) -> Client:
        """Waits for the CONNACK that accepts us; `session_present` and `connack` say what it said."""
        flags, reason, extra = self.connected.result(PATIENCE_S)
        if reason.is_failure:
            raise Refused(reason)
        self.session_present = flags.session_present
        self.connack = extra
        return self

    def subscribe(self, topic_filter: str, qos: int = 2, identifier: int | None = None, **options: object) -> object:
        """SUBSCRIBE; the reason code of its SUBACK. Options are paho's: noLocal, retainAsPublished, retainHandling."""
        if self.version == 5:
            extra = properties(PacketTypes.SUBSCRIBE, {"SubscriptionIdentifier": identifier} if identifier else {})
            _, mid = self.paho.subscribe(topic_filter, options=SubscribeOptions(qos, **options), properties=extra)
        else:
            _, mid = self.paho.subscribe(topic_filter, qos)
        return self._wait(mid)[0]

    def unsubscribe(self, topic_filter: str) -> object:
        """UNSUBSCRIBE; the reason codes of its UNSUBACK."""
        return self._wait(self.paho.unsubscribe(topic_filter)[1])

    def publish(self, topic: str, payload: object = b"", qos: int = 1, retain: bool = False, **extra: object) -> object:
        """PUBLISH; the reason code of its PUBACK or PUBCOMP, once it is there (at QoS 0: once it is sent)."""
        block = properties(PacketTypes.PUBLISH, extra)
        sent = self.paho.publish(topic, payload, qos, retain, properties=block)
        assert sent.rc == paho.MQTT_ERR_SUCCESS, f"paho did not send it: {paho.error_string(sent.rc)}"
        return self._wait(sent.mid)

    def receive(self, timeout_s: float = PATIENCE_S) -> paho.MQTTMessage:
        """The next message."""
        try:
            return self.messages.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no message within {timeout_s} s") from None

    def answer_call(self, **options: object) -> None:
        """Answers the next call of a method with what it was called with."""
        call = self.receive()
        result = {"status": 200, "payload": json.loads(call.payload)}
        self.publish(f"{call.topic}/result", json.dumps(result), **options)

    def payloads(self, count: int) -> list[bytes]:
        """The payloads of the next messages, in order."""
        return [self.receive().payload for _ in range(count)]

    def everything(self) -> list[paho.MQTTMessage]:
        """All that has come, up to a message to ourselves: what the broker had for us comes before it."""
        self.fences += 1
        fence = f"fence/{id(self)}/{self.fences}"
        self.subscribe(fence, 0)
        self.publish(fence, b"fence", qos=0)
        return list(iter(lambda: self._unless(fence), None))

    def _unless(self, fence: str) -> paho.MQTTMessage | None:
        got = self.receive()
        return None if got.topic == fence else got

    def nothing_arrives(self) -> None:
        """The broker has nothing for us."""
        came = [(message.topic, message.payload[:80]) for message in self.everything()]
        assert not came, f"unexpected: {came}"

    def disconnect(self, reason: object = None, **extra: object) -> None:
        """DISCONNECT, and waits until the connection has ended."""
        if self.version == 5:
            self.paho.disconnect(reason, properties(PacketTypes.DISCONNECT, extra))
        else:
            self.paho.disconnect()
        self.end()

    def cut(self) -> None:
        """Ends the connection without DISCONNECT, as a pulled cable or a crash does."""
        self.paho.socket().shutdown(socket.SHUT_RDWR)
        self.end()

    def end(self) -> tuple[object, object]:
        """Waits until the connection has ended: the reason and the properties of the server's DISCONNECT."""
        outcome = self.ended.result(PATIENCE_S)
        self.paho.loop_stop()
        return outcome

    def close(self) -> None:
        """For the end of a test, whatever state it is in."""
        self.paho.disconnect()
        self.paho.loop_stop()
