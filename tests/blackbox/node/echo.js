// Connects with mqtt.js, publishes what it is told and prints what comes back: one JSON object on standard output.
// Arguments: URL, protocol version, topic, number of messages, QoS.
'use strict'
const mqtt = require('mqtt')

const [url, version, topic, count, qos] = process.argv.slice(2)
const protocolId = version === '3' ? 'MQIsdp' : 'MQTT'
const options = { protocolId, protocolVersion: Number(version), reconnectPeriod: 0, connectTimeout: 8000, clean: true }
const client = mqtt.connect(url, options)
const received = []

function fail (reason) {
  console.error(String(reason))
  process.exit(1)
}

client.on('error', fail)
client.on('close', () => received.length < Number(count) && fail('closed by the broker'))
client.on('message', (on, payload, packet) => {
  received.push({ topic: on, payload: payload.toString(), qos: packet.qos })
  if (received.length < Number(count)) return
  console.log(JSON.stringify(received))
  client.off('error', fail).on('error', () => {}) // mqtt.js may write its last PUBCOMP after its own DISCONNECT.
  client.end()
})
client.on('connect', () => client.subscribe(topic, { qos: Number(qos) }, publishAll))

function publishAll (error) {
  if (error) fail(error)
  for (let number = 0; number < Number(count); number++) {
    client.publish(topic, String(number), { qos: Number(qos) }, (problem) => problem && fail(problem))
  }
}
setTimeout(() => fail(`only ${received.length} of ${count} messages within 20 s`), 20000).unref()
