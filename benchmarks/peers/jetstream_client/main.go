// A client of JetStream that a benchmark orders about: it prints "ready", takes one order a line on stdin, a name and
// its arguments as JSON, and answers each with a line of JSON (benchmarks/beside.py).
//
// A topic of n partitions is n streams, each with three replicas in files, since a stream is what has one leader and
// one order. Records go to them in turn.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	replicas = 3
	inFlight = 500
	deadline = 280 * time.Second // below the benchmark's own
)

type order struct {
	Topic       string
	Partitions  int
	RecordBytes int `json:"record_bytes"`
	Records     int
	PerSecond   float64 `json:"per_second"`
	WarmUp      int     `json:"warm_up"` // of the records: sent, and not timed
}

type client struct {
	js     jetstream.JetStream
	failed chan error // of a record, if there is one
}

func name(topic string, partition int) string { return fmt.Sprintf("%s-%d", topic, partition) }

// create waits until a majority of the servers, which may have just started, has elected leaders.
func (c *client) create(ctx context.Context, o order) (any, error) {
	for partition := range o.Partitions {
		stream := name(o.Topic, partition)
		config := jetstream.StreamConfig{
			Name: stream, Subjects: []string{stream}, Storage: jetstream.FileStorage, Replicas: replicas,
		}
		for {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := c.js.CreateOrUpdateStream(attempt, config)
			cancel()
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("stream %s: %w", stream, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return map[string]any{}, nil
}

func (c *client) delete(ctx context.Context, o order) (any, error) {
	for partition := range o.Partitions {
		if err := c.js.DeleteStream(ctx, name(o.Topic, partition)); err != nil {
			return nil, err
		}
	}
	return map[string]any{}, nil
}

func (c *client) publish(o order, number int, record []byte) (jetstream.PubAckFuture, error) {
	return c.js.PublishAsync(name(o.Topic, number%o.Partitions), record, jetstream.WithStallWait(deadline))
}

// acknowledged returns once every record is, or one has failed.
func (c *client) acknowledged(ctx context.Context) error {
	select {
	case <-c.js.PublishAsyncComplete():
	case <-ctx.Done():
		return fmt.Errorf("%d records are not acknowledged: %w", c.js.PublishAsyncPending(), ctx.Err())
	}
	select {
	case err := <-c.failed:
		return err
	default:
		return nil
	}
}

// produce sends as fast as records are acknowledged.
func (c *client) produce(ctx context.Context, o order) (any, error) {
	record := random(o.RecordBytes)
	started := time.Now()
	for number := range o.Records {
		if _, err := c.publish(o, number, record); err != nil {
			return nil, err
		}
	}
	err := c.acknowledged(ctx)
	return map[string]any{"seconds": time.Since(started).Seconds()}, err
}

// pace sends each record when it is due, or late, and times it from when it was due.
func (c *client) pace(ctx context.Context, o order) (any, error) {
	type sent struct {
		due    time.Time
		future jetstream.PubAckFuture
	}
	record := random(o.RecordBytes)
	waits := make([][]int64, o.Partitions)
	inOrder := make([]chan sent, o.Partitions)
	done := make(chan struct{})
	for partition := range o.Partitions {
		inOrder[partition] = make(chan sent, o.Records/o.Partitions+1)
		go func() {
			defer func() { done <- struct{}{} }()
			for record := range inOrder[partition] {
				select {
				case <-record.future.Ok():
					waits[partition] = append(waits[partition], time.Since(record.due).Microseconds())
				case <-ctx.Done():
				}
			}
		}()
	}
	first := time.Now()
	var failed error
	for number := 0; number < o.Records && failed == nil; number++ {
		due := first.Add(time.Duration(float64(number) / o.PerSecond * 1e9))
		time.Sleep(time.Until(due))
		var future jetstream.PubAckFuture
		if future, failed = c.publish(o, number, record); failed == nil {
			inOrder[number%o.Partitions] <- sent{due, future}
		}
	}
	if failed == nil {
		failed = c.acknowledged(ctx)
	}
	if failed != nil {
		return nil, failed
	}
	timed := []int64{}
	for partition := range o.Partitions {
		close(inOrder[partition])
	}
	for range o.Partitions {
		<-done
	}
	for partition := range o.Partitions {
		timed = append(timed, waits[partition][o.WarmUp/o.Partitions:]...)
	}
	return map[string]any{"waits_us": timed}, nil
}

// consume reads all partitions at once, from their beginnings.
func (c *client) consume(ctx context.Context, o order) (any, error) {
	arrived := make(chan int, 1024)
	started := time.Now()
	for partition := range o.Partitions {
		consumer, err := c.js.OrderedConsumer(ctx, name(o.Topic, partition), jetstream.OrderedConsumerConfig{})
		if err != nil {
			return nil, err
		}
		reading, err := consumer.Consume(func(message jetstream.Msg) { arrived <- len(message.Data()) })
		if err != nil {
			return nil, err
		}
		defer reading.Stop()
	}
	for number := range o.Records {
		select {
		case size := <-arrived:
			if size != o.RecordBytes {
				return nil, fmt.Errorf("a record of %d bytes, not %d", size, o.RecordBytes)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d records arrived: %w", number, o.Records, ctx.Err())
		}
	}
	return map[string]any{"seconds": time.Since(started).Seconds()}, nil
}

func random(size int) []byte {
	bytes := make([]byte, size)
	rand.Read(bytes)
	return bytes
}

func run(servers string) error {
	connection, err := nats.Connect(servers, nats.RetryOnFailedConnect(true), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer connection.Close()
	c := &client{failed: make(chan error, 1)}
	note := func(_ jetstream.JetStream, _ *nats.Msg, err error) {
		select {
		case c.failed <- err:
		default:
		}
	}
	c.js, err = jetstream.New(
		connection, jetstream.WithPublishAsyncMaxPending(inFlight), jetstream.WithPublishAsyncErrHandler(note),
	)
	if err != nil {
		return err
	}
	orders := map[string]func(context.Context, order) (any, error){
		"create": c.create, "delete": c.delete, "produce": c.produce, "pace": c.pace, "consume": c.consume,
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		name, arguments, _ := strings.Cut(lines.Text(), " ")
		carryOut, known := orders[name]
		if !known {
			return fmt.Errorf("there is no order %q", name)
		}
		var o order
		if err := json.Unmarshal([]byte(arguments), &o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		answer, err := carryOut(ctx, o)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "jetstream-client:", err)
		os.Exit(1)
	}
}
