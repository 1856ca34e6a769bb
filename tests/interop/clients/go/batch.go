package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const batchHeader = 61

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A record batch of one value, as Kafka writes it (magic 2), without compression.
func encodeBatch(value []byte) []byte {
	record := []byte{0, 0, 0, 1} // attributes, timestamp delta, offset delta; a key of length -1
	record = binary.AppendVarint(record, int64(len(value)))
	record = append(append(record, value...), 0) // no headers
	records := append(binary.AppendVarint(nil, int64(len(record))), record...)

	batch := make([]byte, batchHeader, batchHeader+len(records))
	binary.BigEndian.PutUint32(batch[8:], uint32(batchHeader-12+len(records)))
	batch[16] = 2
	binary.BigEndian.PutUint64(batch[27:], 1_700_000_000_000) // first and last timestamp
	binary.BigEndian.PutUint64(batch[35:], 1_700_000_000_000)
	for at := 43; at < 57; at++ { // no producer: its id, epoch and sequence are -1
		batch[at] = 0xff
	}
	binary.BigEndian.PutUint32(batch[57:], 1)
	batch = append(batch, records...)
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	return batch
}

// The value of the batch at the start of `data`, its offset, and what comes behind it; nil if it is cut short.
func decodeBatch(data []byte) (value []byte, offset int64, rest []byte, err error) {
	if len(data) < batchHeader {
		return nil, 0, nil, nil
	}
	end := 12 + int(binary.BigEndian.Uint32(data[8:]))
	if end > len(data) {
		return nil, 0, nil, nil
	}
	if crc32.Checksum(data[21:end], castagnoli) != binary.BigEndian.Uint32(data[17:]) {
		return nil, 0, nil, fmt.Errorf("a batch of %d bytes does not fit its CRC", end)
	}
	record := data[batchHeader:end]
	_, skip := binary.Varint(record)
	record = record[skip+4:]
	size, skip := binary.Varint(record)
	return record[skip : skip+int(size)], int64(binary.BigEndian.Uint64(data)), data[end:], nil
}
