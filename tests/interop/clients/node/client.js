// A client of replog's contracts as anybody may write one: grpc-js and proto-loader, nothing of replog's own.
//
// client.js ADDRESS TOPIC: runs every check below against the broker, and prints what came of it as one JSON object.
// Beside it are `proto`, the contracts. What does not hang on its library, such as errors and health, ../go checks.
'use strict';

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { encodeBatch, decodeBatches } = require('./batch.js');

const [, , address, topic] = process.argv;
const MIB = 1 << 20;
const FORMAT = { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true };
const replog = grpc.loadPackageDefinition(loader.loadSync('replog/v1/log.proto', { ...FORMAT, includeDirs: [`${__dirname}/proto`] })).replog.v1;

// Of values: around the sizes of frames and windows, and as large as a message can carry.
const SIZES = [1, 1000, 16 << 10, 65535, 65536, MIB, MIB, MIB, MIB, MIB, 3 * MIB + 1, 14 * MIB - 100];

const credentials = grpc.credentials.createInsecure();
const log = new replog.Log(address, credentials);
const large = new replog.Log(address, credentials, { 'grpc.max_receive_message_length': 64 * MIB });
const deadline = () => Date.now() + 60000;

function call(client, method, request, until = deadline()) {
  return new Promise((resolve, reject) => {
    client[method](request, { deadline: until }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

/** How a call ended: gRPC's code. */
const ended = (promise) => promise.then(() => ({ code: grpc.status.OK }), ({ code, details }) => ({ code, message: details }));

function value(number) {
  const out = Buffer.alloc(SIZES[number]);
  for (let at = 0; at < out.length; at++) out[at] = at * 31 + (at >> 8) + number;
  return out;
}

function produceOf(id, ...batches) {
  const partitions = batches.map((batch) => ({ topic, records_size: batch.length }));
  return { correlation_id: id, acks: -1, timeout_ms: 60000, partitions, records: Buffer.concat(batches) };
}

function fetchOf(offset, fields = {}) {
  return { max_wait_ms: 30000, min_bytes: 1, partitions: [{ topic, fetch_offset: offset }], ...fields };
}

/** Messages of a stream, one after the other. */
const messages = (stream) => stream[Symbol.asyncIterator]();

async function metadata() {
  const answer = await call(log, 'GetMetadata', { topics: [topic] });
  const [{ partitions }] = answer.topics;
  return { brokers: answer.brokers.length, partitions: partitions.length, leader: partitions[0].leader };
}

const CHECKS = {
  metadata,

  /** One value of each size, on one stream. */
  async produced() {
    const stream = log.Produce({ deadline: deadline() });
    SIZES.forEach((_, number) => stream.write(produceOf(number, encodeBatch(value(number)))));
    stream.end();
    const offsets = [];
    for await (const { answers } of stream) {
      for (const { partitions: [result] } of answers) {
        if (result.error_code !== 'NONE' || result.log_append_time_ms !== -1) throw new Error(JSON.stringify(result));
        offsets.push(result.base_offset);
      }
    }
    return { offsets };
  },

  /** All of them again, on one stream that is a session. */
  async fetched() {
    const stream = large.Fetch({ deadline: deadline() });
    const answers = messages(stream);
    let next = 0;
    let largest = 0;
    while (next < SIZES.length) {
      stream.write(fetchOf(next, { goes_on: next > 0, max_bytes: 16 * MIB }));
      const { records } = (await answers.next()).value;
      largest = Math.max(largest, records.length);
      for (const got of decodeBatches(records)) {
        if (got.offset !== next || !got.value.equals(value(next))) throw new Error(`offset ${got.offset} is not what was sent`);
        next++;
      }
    }
    stream.end();
    return { values: next, largest };
  },

  /** Without a word on how much: whatever comes fits this client, which takes 4 MiB. */
  async default_fetch() {
    const { records } = await call(log, 'FetchOnce', fetchOf(0));
    return { bytes: records.length, larger: await ended(call(log, 'FetchOnce', fetchOf(SIZES.length - 1))) };
  },

  /** Two batches in one request, which has nearly 16 MiB then. */
  async largest_message() {
    const half = encodeBatch(Buffer.alloc(8 * MIB - 200));
    const { answers: [{ partitions }] } = await call(log, 'ProduceOnce', produceOf(1, half, half));
    return { bytes: 2 * half.length, offsets: partitions.map((partition) => partition.base_offset) };
  },

  async too_large() {
    const refused = await ended(call(log, 'ProduceOnce', produceOf(1, Buffer.alloc(17 * MIB))));
    return { ended: refused, then: await ended(metadata()) };
  },

  /** A fetch that waits for records that do not come. */
  async deadline() {
    return { ended: await ended(call(log, 'FetchOnce', fetchOf(SIZES.length + 2), Date.now() + 300)) };
  },

  async partition_error() {
    const request = produceOf(7, encodeBatch(Buffer.from('x')));
    request.partitions[0].topic = 'no-such-topic';
    const { answers: [{ partitions: [result] }] } = await call(log, 'ProduceOnce', request);
    return { code: result.error_code, offset: result.base_offset };
  },

  /** A stream that waits is given up; the connection goes on. */
  async cancelled() {
    const stream = log.Fetch({ deadline: deadline() });
    stream.write(fetchOf(SIZES.length + 2));
    setTimeout(() => stream.cancel(), 100);
    const how = await ended(messages(stream).next());
    return { ended: how, then: await ended(metadata()) };
  },

  async unknown_method() {
    const bytes = (message) => message;
    const none = Buffer.alloc(0);
    return {
      ended: await ended(
        new Promise((resolve, reject) => {
          log.makeUnaryRequest('/replog.v1.Log/NoSuchMethod', bytes, bytes, none, (error) => (error ? reject(error) : resolve()));
        }),
      ),
    };
  },

  /** A server that does not know gzip says so, and which encodings it knows. */
  async compressed() {
    const client = new replog.Log(address, credentials, { 'grpc.default_compression_algorithm': 2 });
    const how = await ended(call(client, 'GetMetadata', { topics: [topic] }));
    client.close();
    return { ended: how };
  },
};

async function main() {
  const all = {};
  for (const [name, check] of Object.entries(CHECKS)) {
    const began = Date.now();
    all[name] = await check().catch((error) => ({ failed: String(error.stack) }));
    all[name].seconds = (Date.now() - began) / 1000;
  }
  log.close();
  large.close();
  console.log(JSON.stringify(all));
}

main();
