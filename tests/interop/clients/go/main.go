// A client of replog's contracts as anybody may write one: generated code, grpc-go, nothing of replog's own.
//
// client ADDRESS TOPIC: runs every check below against the broker, and prints what came of it as one JSON object.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "replog/v1"
)

const mib = 1 << 20

// Of values: around the sizes of frames and windows, and as large as a message can carry.
var sizes = []int{1, 1000, 16 << 10, 65535, 65536, mib, mib, mib, mib, mib, 3*mib + 1, 14*mib - 100}

type said map[string]any

type checker struct {
	ctx   context.Context
	conn  *grpc.ClientConn
	log   pb.LogClient
	topic string
}

func main() {
	address, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	c := &checker{ctx, conn, pb.NewLogClient(conn), topic}
	all := said{}
	for _, check := range []struct {
		name string
		run  func() (said, error)
	}{
		{"metadata", c.metadata},
		{"produced", c.produced},
		{"fetched", c.fetched},
		{"default_fetch", c.defaultFetch},
		{"largest_message", c.largestMessage},
		{"too_large", c.tooLarge},
		{"deadline", c.deadline},
		{"error", c.callError},
		{"partition_error", c.partitionError},
		{"cancelled", c.cancelled},
		{"health", c.health},
		{"unknown_method", c.unknownMethod},
		{"compressed", c.compressed},
	} {
		began := time.Now()
		result, err := check.run()
		if err != nil {
			result = said{"failed": err.Error()}
		}
		result["seconds"] = time.Since(began).Seconds()
		all[check.name] = result
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}

func value(number int) []byte {
	out := make([]byte, sizes[number])
	for at := range out {
		out[at] = byte(at*31 + at>>8 + number)
	}
	return out
}

func (c *checker) request(id int64, batches ...[]byte) *pb.ProduceRequest {
	request := &pb.ProduceRequest{CorrelationId: id, Acks: -1, TimeoutMs: 60_000}
	for _, batch := range batches {
		named := &pb.ProducePartition{Topic: c.topic, RecordsSize: int32(len(batch))}
		request.Partitions = append(request.Partitions, named)
		request.Records = append(request.Records, batch...)
	}
	return request
}

func (c *checker) fetchOf(offset int64) *pb.FetchRequest {
	place := &pb.FetchPartition{Topic: c.topic, FetchOffset: offset}
	return &pb.FetchRequest{MaxWaitMs: 30_000, MinBytes: 1, Partitions: []*pb.FetchPartition{place}}
}

func (c *checker) metadata() (said, error) {
	answer, err := c.log.GetMetadata(c.ctx, &pb.GetMetadataRequest{Topics: []string{c.topic}})
	if err != nil {
		return nil, err
	}
	topic := answer.Topics[0]
	return said{"brokers": len(answer.Brokers), "partitions": len(topic.Partitions), "leader": topic.Partitions[0].Leader}, nil
}

// One value of each size, on one stream.
func (c *checker) produced() (said, error) {
	stream, err := c.log.Produce(c.ctx)
	if err != nil {
		return nil, err
	}
	offsets := []int64{}
	for number := range sizes {
		if err := stream.Send(c.request(int64(number), encodeBatch(value(number)))); err != nil {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return said{"offsets": offsets}, nil
		}
		if err != nil {
			return nil, err
		}
		for _, one := range answer.Answers {
			if code := one.Partitions[0].ErrorCode; code != pb.ErrorCode_NONE || one.Partitions[0].LogAppendTimeMs != -1 {
				return nil, fmt.Errorf("request %d: %v", one.CorrelationId, one.Partitions[0])
			}
			offsets = append(offsets, one.Partitions[0].BaseOffset)
		}
	}
}

// All of them again, on one stream that is a session.
func (c *checker) fetched() (said, error) {
	stream, err := c.log.Fetch(c.ctx, grpc.MaxCallRecvMsgSize(64*mib))
	if err != nil {
		return nil, err
	}
	next, largest := int64(0), 0
	for next < int64(len(sizes)) {
		request := c.fetchOf(next)
		request.GoesOn, request.MaxBytes = next > 0, 16*mib
		if err := stream.Send(request); err != nil {
			return nil, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		largest = max(largest, len(answer.Records))
		for rest := answer.Records; len(rest) > 0; next++ {
			var got []byte
			var offset int64
			if got, offset, rest, err = decodeBatch(rest); err != nil {
				return nil, err
			}
			if got == nil {
				break // the last one of an answer may be cut short
			}
			if offset != next || !bytes.Equal(got, value(int(next))) {
				return nil, fmt.Errorf("offset %d, wanted %d: %d bytes are not those that were sent", offset, next, len(got))
			}
		}
	}
	return said{"values": next, "largest": largest}, nil
}

// Without a word on how much: whatever comes fits this client, which takes 4 MiB.
func (c *checker) defaultFetch() (said, error) {
	answer, err := c.log.FetchOnce(c.ctx, c.fetchOf(0))
	if err != nil {
		return nil, err
	}
	_, err = c.log.FetchOnce(c.ctx, c.fetchOf(int64(len(sizes)-1)))
	return said{"bytes": len(answer.Records), "larger": describe(err)}, nil
}

// Two batches in one request, which has nearly 16 MiB then.
func (c *checker) largestMessage() (said, error) {
	half := encodeBatch(make([]byte, 8*mib-200))
	answer, err := c.log.ProduceOnce(c.ctx, c.request(1, half, half))
	if err != nil {
		return nil, err
	}
	offsets := []int64{}
	for _, partition := range answer.Answers[0].Partitions {
		offsets = append(offsets, partition.BaseOffset)
	}
	return said{"bytes": 2 * len(half), "offsets": offsets}, nil
}

func (c *checker) tooLarge() (said, error) {
	_, err := c.log.ProduceOnce(c.ctx, c.request(1, make([]byte, 17*mib)))
	_, again := c.metadata()
	return said{"ended": describe(err), "then": describe(again)}, nil
}

// A fetch that waits for records that do not come.
func (c *checker) deadline() (said, error) {
	ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := c.log.FetchOnce(ctx, c.fetchOf(int64(len(sizes)+2)))
	return said{"ended": describe(err)}, nil
}

func (c *checker) callError() (said, error) {
	request := c.fetchOf(0)
	request.Partitions[0].PartitionMaxBytes = -1
	_, err := c.log.FetchOnce(c.ctx, request)
	return said{"ended": describe(err)}, nil
}

func (c *checker) partitionError() (said, error) {
	request := c.request(7, encodeBatch([]byte("x")))
	request.Partitions[0].Topic = "no-such-topic"
	answer, err := c.log.ProduceOnce(c.ctx, request)
	if err != nil {
		return nil, err
	}
	partition := answer.Answers[0].Partitions[0]
	return said{"code": partition.ErrorCode.String(), "offset": partition.BaseOffset}, nil
}

// A stream that waits is given up; the connection goes on.
func (c *checker) cancelled() (said, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	stream, err := c.log.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(c.fetchOf(int64(len(sizes) + 2))); err != nil {
		return nil, err
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = stream.Recv()
	_, again := c.metadata()
	return said{"ended": describe(err), "then": describe(again)}, nil
}

func (c *checker) health() (said, error) {
	client := health.NewHealthClient(c.conn)
	checked, err := client.Check(c.ctx, &health.HealthCheckRequest{Service: "replog.v1.Log"})
	if err != nil {
		return nil, err
	}
	_, err = client.Check(c.ctx, &health.HealthCheckRequest{Service: "no.such.Service"})
	return said{"checked": checked.Status.String(), "unknown": describe(err)}, nil
}

func (c *checker) unknownMethod() (said, error) {
	err := c.conn.Invoke(c.ctx, "/replog.v1.Log/NoSuchMethod", &pb.GetMetadataRequest{}, &pb.GetMetadataResponse{})
	return said{"ended": describe(err)}, nil
}

// A server that does not know gzip says so, and which encodings it knows.
func (c *checker) compressed() (said, error) {
	request := &pb.GetMetadataRequest{Topics: []string{c.topic}}
	_, err := c.log.GetMetadata(c.ctx, request, grpc.UseCompressor(gzip.Name))
	return said{"ended": describe(err)}, nil
}

// How a call ended: gRPC's code, and the ErrorInfo of replog's own errors.
func describe(err error) said {
	ended := status.Convert(err)
	described := said{"code": int(ended.Code()), "message": ended.Message()}
	for _, detail := range ended.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			described["domain"], described["reason"] = info.Domain, info.Reason
		}
	}
	return described
}
