// An application with KafkaJS.
//
// client.js ADDRESSES: runs every check below, in turn, and prints what came of each as one JSON object: "" is good.
const assert = require('node:assert')
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: process.argv[2].split(','),
  logLevel: logLevel.NOTHING,
  connectionTimeout: 20000,
  requestTimeout: 60000,
  retry: { retries: 4 },
})
const admin = kafka.admin()
const topic = 'kafkajs'
const sent = 1700000000000
const records = 500

const messages = codec => Array.from({ length: records }, (_, number) => ({
  partition: codec,
  key: `${number}`,
  value: `${codec} ${number};`.repeat(20),
  headers: { codec: `${codec}` },
  timestamp: `${sent + number}`,
}))

async function produce(settings, compression, acks = -1) {
  const producer = kafka.producer({ allowAutoTopicCreation: true, ...settings })
  await producer.connect()
  try {
    const sent = await producer.send({ topic, acks, compression, messages: messages(compression) })
    if (acks) assert.deepStrictEqual(sent.map(each => each.errorCode), [0])
  } finally {
    await producer.disconnect()
  }
}

const refused = (call, type) => assert.rejects(call, error => {
  const reason = [error.errors?.[0], error.cause, error].find(each => each?.type) ?? error
  return reason.type === type || assert.fail(`${reason.type}: ${reason.message}`)
})

const checks = {
  async cluster() {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    assert.strictEqual(brokers.length, 3)
    assert.ok(clusterId && brokers.some(broker => broker.nodeId === controller), `controller ${controller}`)
  },
  async create() {
    const configEntries = [{ name: 'retention.ms', value: '-1' }, { name: 'compression.type', value: 'producer' }]
    const wanted = { topic, numPartitions: 3, replicationFactor: 3, configEntries }
    assert.ok(await admin.createTopics({ topics: [wanted], waitForLeaders: true }))
    assert.ok(!(await admin.createTopics({ topics: [wanted] })), 'made twice')
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.deepStrictEqual(topics[0].partitions.map(each => each.replicas.length), [3, 3, 3])
  },
  'produce none': () => produce({}, CompressionTypes.None),
  'produce gzip': () => produce({}, CompressionTypes.GZIP),
  'produce idempotently': () => produce({ idempotent: true, maxInFlightRequests: 1 }, CompressionTypes.None),
  'produce without an answer': () => produce({}, CompressionTypes.GZIP, 0),
  async 'make a topic by producing'() {
    const producer = kafka.producer({ allowAutoTopicCreation: true })
    await producer.connect()
    await producer.send({ topic: 'kafkajs-auto', messages: [{ value: 'first' }] })
    await producer.disconnect()
    assert.ok((await admin.listTopics()).includes('kafkajs-auto'))
  },
  async offsets() {
    const offsets = await admin.fetchTopicOffsets(topic)
    const newest = Object.fromEntries(offsets.map(each => [each.partition, each.high]))
    assert.strictEqual(newest[0], `${2 * records}`)
    const later = await admin.fetchTopicOffsetsByTimestamp(topic, sent + 7)
    assert.strictEqual(later.find(each => each.partition === 0).offset, '7')
  },
  async 'delete records'() {
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '100' }] })
    const [first] = (await admin.fetchTopicOffsets(topic)).filter(each => each.partition === 0)
    assert.strictEqual(first.low, '100')
  },
  async configs() {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] })
    for (let tries = 0; ; tries++) {
      const { resources } = await admin.describeConfigs({ resources: [resource] })
      const values = Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]))
      if (values['retention.ms'] === '3600000') return
      assert.ok(tries < 100, `retention.ms is ${values['retention.ms']}`)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  },
  async partitions() {
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.strictEqual(topics[0].partitions.length, 4)
  },
  async reassign() {
    const wanted = [{ partition: 3, replicas: [1, 2] }]
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: wanted }] })
    await admin.listPartitionReassignments({ topics: [{ topic, partitions: [3] }] })
  },
  async errors() {
    await refused(() => admin.createTopics({ topics: [{ topic: 'a/b' }] }), 'INVALID_TOPIC_EXCEPTION')
    const many = { topic: 'many', numPartitions: 1, replicationFactor: 9 }
    await refused(() => admin.createTopics({ topics: [many] }), 'INVALID_REPLICATION_FACTOR')
    await refused(() => admin.deleteTopics({ topics: ['never'] }), 'UNKNOWN_TOPIC_OR_PARTITION')
  },
  acls: () => refused(() => admin.describeAcls({
    resourceType: 1, resourcePatternType: 1, permissionType: 1, operation: 1,
  }), 'SECURITY_DISABLED'),
  async group() {
    const consumer = kafka.consumer({ groupId: 'kafkajs', retry: { retries: 1, initialRetryTime: 100 } })
    await consumer.connect()
    try {
      await consumer.subscribe({ topic, fromBeginning: true })
      await new Promise((resolve, reject) => {
        consumer.on('consumer.crash', event => reject(event.payload.error))
        consumer.run({ eachMessage: async () => resolve() }).catch(reject)
      })
    } finally {
      await consumer.disconnect()
    }
  },
  async transaction() {
    const retry = { retries: 1, initialRetryTime: 100 }
    const producer = kafka.producer({ transactionalId: 'kafkajs', maxInFlightRequests: 1, idempotent: true, retry })
    await producer.connect()
    try {
      await producer.transaction()
    } finally {
      await producer.disconnect()
    }
  },
}

async function main() {
  await admin.connect()
  const said = {}
  for (const [name, check] of Object.entries(checks)) {
    said[name] = ''
    try {
      await check()
    } catch (error) {
      said[name] = `${error.name}: ${error.message}` || 'failed'
    }
  }
  await admin.disconnect()
  process.stdout.write(JSON.stringify(said) + '\n', () => process.exit(0))
}

main()
