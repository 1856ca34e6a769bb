'use strict';

const HEADER = 61;
const CASTAGNOLI = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0x82f63b78 : byte >>> 1;
  return byte;
});

function crc32c(bytes) {
  let crc = -1;
  for (let at = 0; at < bytes.length; at++) crc = (crc >>> 8) ^ CASTAGNOLI[(crc ^ bytes[at]) & 255];
  return ~crc >>> 0;
}

function varint(number) {
  const bytes = [];
  for (number *= 2; number > 127; number = Math.floor(number / 128)) bytes.push((number & 127) | 128);
  return Buffer.from([...bytes, number]);
}

/** Its number, and where it ends. */
function readVarint(bytes, at) {
  let number = 0;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++];
    number += (byte & 127) * factor;
    if (byte < 128) return [number / 2, at];
  }
}

/** A record batch of one value, as Kafka writes it (magic 2), without compression. */
function encodeBatch(value) {
  const key = Buffer.from([0, 0, 0, 1]); // attributes, timestamp delta, offset delta; a key of length -1
  const size = varint(value.length);
  const record = [key, size, value, Buffer.from([0])]; // no headers
  const header = Buffer.alloc(HEADER);
  const batch = Buffer.concat([header, varint(key.length + size.length + value.length + 1), ...record]);
  batch.writeUInt32BE(batch.length - 12, 8);
  batch[16] = 2;
  batch.writeBigInt64BE(1700000000000n, 27); // first and last timestamp
  batch.writeBigInt64BE(1700000000000n, 35);
  batch.fill(255, 43, 57); // no producer: its id, epoch and sequence are -1
  batch.writeUInt32BE(1, 57);
  batch.writeUInt32BE(crc32c(batch.subarray(21)), 17);
  return batch;
}

/** Value and offset of each batch in `bytes`; the last one may be cut short, and is left out then. */
function* decodeBatches(bytes) {
  while (bytes.length >= HEADER) {
    const end = 12 + bytes.readUInt32BE(8);
    if (end > bytes.length) return;
    const batch = bytes.subarray(0, end);
    if (crc32c(batch.subarray(21)) !== batch.readUInt32BE(17)) throw new Error(`a batch of ${end} bytes does not fit its CRC`);
    const [, record] = readVarint(batch, HEADER);
    const [size, start] = readVarint(batch, record + 4);
    yield { value: batch.subarray(start, start + size), offset: Number(batch.readBigInt64BE(0)) };
    bytes = bytes.subarray(end);
  }
}

module.exports = { encodeBatch, decodeBatches };
