// An application with sarama, IBM's client of Kafka.
//
// client ADDRESSES: runs every check below, in turn, and prints what came of each as one JSON object: "" is good.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic      = "sarama"
	partitions = 3
	replicas   = 3
	records    = 1000
	patience   = 60 * time.Second
)

var sent = time.UnixMilli(1_700_000_000_000)

type checker struct {
	seeds []string
	admin sarama.ClusterAdmin
}

type check struct {
	name string
	run  func(*checker) error
}

var checks = []check{
	{"cluster", (*checker).cluster},
	{"create", (*checker).create},
	{"produce none", produces(sarama.CompressionNone)},
	{"produce gzip", produces(sarama.CompressionGZIP)},
	{"produce snappy", produces(sarama.CompressionSnappy)},
	{"produce lz4", produces(sarama.CompressionLZ4)},
	{"produce zstd", produces(sarama.CompressionZSTD)},
	{"produce asynchronously", (*checker).asynchronously},
	{"consume", (*checker).consume},
	{"offsets", (*checker).offsets},
	{"delete records", (*checker).deleteRecords},
	{"configs", (*checker).configs},
	{"partitions", (*checker).morePartitions},
	{"log dirs", (*checker).logDirs},
	{"elect leaders", (*checker).elect},
	{"reassign", (*checker).reassign},
	{"quotas", (*checker).quotas},
	{"acls", (*checker).acls},
	{"old version", (*checker).oldVersion},
	{"errors", (*checker).errors},
	{"delete", (*checker).delete},
	{"group", (*checker).group},
	{"transaction", (*checker).transaction},
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Return.Errors = true
	return config
}

func (c *checker) cluster() error {
	brokers, controller, err := c.admin.DescribeCluster()
	if err != nil || len(brokers) != replicas || controller <= 0 {
		return fmt.Errorf("%d brokers, controller %d: %w", len(brokers), controller, orNil(err))
	}
	return nil
}

func (c *checker) create() error {
	retention := "86400000"
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: replicas,
		ConfigEntries: map[string]*string{"retention.ms": &retention}}
	if err := c.admin.CreateTopic(topic, detail, true); err != nil {
		return fmt.Errorf("only validated: %w", err)
	}
	if err := c.admin.CreateTopic(topic, detail, false); err != nil {
		return err
	}
	topics, err := c.admin.ListTopics()
	if err != nil {
		return err
	}
	made, ok := topics[topic]
	if !ok || made.NumPartitions != partitions || made.ReplicationFactor != replicas {
		return fmt.Errorf("it became %+v", made)
	}
	if kept := made.ConfigEntries["retention.ms"]; kept == nil || *kept != retention {
		return fmt.Errorf("retention.ms became %v", kept)
	}
	return nil
}

func value(codec sarama.CompressionCodec, number int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%s %d;", codec, number), 20)
}

func message(codec sarama.CompressionCodec, number int) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{
		Topic: topic, Partition: int32(codec) % partitions, Timestamp: sent.Add(time.Duration(number) * time.Millisecond),
		Key: sarama.StringEncoder(fmt.Sprint(number)), Value: sarama.ByteEncoder(value(codec, number)),
		Headers: []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(codec.String())}},
	}
}

// Idempotent, with acks of all replicas.
func produces(codec sarama.CompressionCodec) func(*checker) error {
	return func(c *checker) error {
		config := config()
		config.Producer.Compression = codec
		config.Producer.Partitioner = sarama.NewManualPartitioner
		producer, err := sarama.NewSyncProducer(c.seeds, config)
		if err != nil {
			return err
		}
		defer producer.Close()
		var messages []*sarama.ProducerMessage
		for number := range records {
			messages = append(messages, message(codec, number))
		}
		return producer.SendMessages(messages)
	}
}

func (c *checker) asynchronously() error {
	config := config()
	config.Producer.Idempotent = false
	config.Net.MaxOpenRequests = 5
	config.Producer.RequiredAcks = sarama.WaitForLocal
	producer, err := sarama.NewAsyncProducer(c.seeds, config)
	if err != nil {
		return err
	}
	go func() {
		for number := range records {
			producer.Input() <- &sarama.ProducerMessage{Topic: "sarama-auto", Value: sarama.ByteEncoder(value(0, number))}
		}
		producer.AsyncClose()
	}()
	good := 0
	for range producer.Successes() {
		good++
	}
	if good != records {
		return fmt.Errorf("%d of %d acknowledged: %w", good, records, <-producer.Errors())
	}
	return nil
}

// All that `produces` sent, by partition and in order.
func (c *checker) consume() error {
	consumer, err := sarama.NewConsumer(c.seeds, config())
	if err != nil {
		return err
	}
	defer consumer.Close()
	for codec := range sarama.CompressionZSTD + 1 {
		if err := c.consumeCodec(consumer, codec); err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
	}
	return nil
}

func (c *checker) consumeCodec(consumer sarama.Consumer, codec sarama.CompressionCodec) error {
	first := int64(codec) / partitions * records // codecs share partitions
	reader, err := consumer.ConsumePartition(topic, int32(codec)%partitions, first)
	if err != nil {
		return err
	}
	defer reader.Close()
	deadline := time.After(patience)
	for number := range records {
		select {
		case got := <-reader.Messages():
			if !bytes.Equal(got.Value, value(codec, number)) || string(got.Key) != fmt.Sprint(number) ||
				got.Offset != first+int64(number) ||
				!got.Timestamp.Equal(sent.Add(time.Duration(number)*time.Millisecond)) ||
				len(got.Headers) != 1 || string(got.Headers[0].Value) != codec.String() {
				return fmt.Errorf("record %d came as %+v", number, got)
			}
		case err := <-reader.Errors():
			return err
		case <-deadline:
			return fmt.Errorf("%d of %d records after %s", number, records, patience)
		}
	}
	return nil
}

func (c *checker) offsets() error {
	client, err := sarama.NewClient(c.seeds, config())
	if err != nil {
		return err
	}
	defer client.Close()
	asked := map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: 2 * records, sent.UnixMilli() + 10: 10}
	for at, want := range asked {
		if got, err := client.GetOffset(topic, 0, at); err != nil || got != want {
			return fmt.Errorf("of %d: %d, not %d: %w", at, got, want, orNil(err))
		}
	}
	listed, err := c.admin.ListOffsets(map[string]map[int32]int64{topic: {2: sarama.OffsetNewest}}, nil)
	if err != nil {
		return err
	}
	if got := listed[topic][2]; got == nil || got.Err != nil && got.Err != sarama.ErrNoError || got.Offset != records {
		return fmt.Errorf("by the admin: %+v", got)
	}
	return nil
}

func (c *checker) deleteRecords() error {
	if err := c.admin.DeleteRecords(topic, map[int32]int64{0: 100}); err != nil {
		return err
	}
	client, err := sarama.NewClient(c.seeds, config())
	if err != nil {
		return err
	}
	defer client.Close()
	if oldest, err := client.GetOffset(topic, 0, sarama.OffsetOldest); err != nil || oldest != 100 {
		return fmt.Errorf("the oldest is %d: %w", oldest, orNil(err))
	}
	return nil
}

func (c *checker) configs() error {
	wanted := "3600000"
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &wanted}
	changed := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}
	if err := c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changed, false); err != nil {
		return err
	}
	if err := c.until("retention.ms", wanted); err != nil {
		return err
	}
	wanted = "7200000"
	if err := c.admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &wanted}, false); err != nil {
		return err
	}
	if err := c.until("retention.ms", wanted); err != nil {
		return err
	}
	entries, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1"})
	if err != nil || len(entries) == 0 {
		return fmt.Errorf("broker 1 has %d settings: %w", len(entries), orNil(err))
	}
	return nil
}

// Waits until a setting of the topic has a value.
func (c *checker) until(name, value string) error {
	var now string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}
		entries, err := c.admin.DescribeConfig(resource)
		if err != nil {
			return err
		}
		if len(entries) == 1 && entries[0].Value == value {
			return nil
		}
		now = fmt.Sprint(entries)
	}
	return fmt.Errorf("%s is not %s but %s", name, value, now)
}

func (c *checker) morePartitions() error {
	if err := c.admin.CreatePartitions(topic, partitions+1, nil, false); err != nil {
		return err
	}
	described, err := c.admin.DescribeTopics([]string{topic})
	if err != nil || len(described) != 1 || len(described[0].Partitions) != partitions+1 {
		return fmt.Errorf("it became %+v: %w", described, orNil(err))
	}
	return nil
}

func (c *checker) logDirs() error {
	dirs, err := c.admin.DescribeLogDirs([]int32{1, 2, 3})
	if err != nil {
		return err
	}
	for broker, all := range dirs {
		if len(all) != 1 || all[0].ErrorCode != sarama.ErrNoError || len(all[0].Topics) == 0 {
			return fmt.Errorf("broker %d has %+v", broker, all)
		}
	}
	return nil
}

func (c *checker) elect() error {
	results, err := c.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
	if err != nil {
		return err
	}
	for _, result := range results[topic] {
		if result.ErrorCode != sarama.ErrNoError && result.ErrorCode != sarama.ErrElectionNotNeeded {
			return result.ErrorCode
		}
	}
	return nil
}

func (c *checker) reassign() error {
	if err := c.admin.AlterPartitionReassignments("sarama-auto", [][]int32{{2, 3}}); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		moving, err := c.admin.ListPartitionReassignments("sarama-auto", []int32{0})
		if err != nil {
			return err
		}
		described, err := c.admin.DescribeTopics([]string{"sarama-auto"})
		if err != nil {
			return err
		}
		if len(moving) == 0 && fmt.Sprint(described[0].Partitions[0].Replicas) == "[2 3]" {
			return nil
		}
	}
	return errors.New("it does not end")
}

func (c *checker) quotas() error {
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "sarama"}}
	if err := c.admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}, false); err != nil {
		return err
	}
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "sarama"}}
	entries, err := c.admin.DescribeClientQuotas(filter, true)
	if err != nil || len(entries) != 1 || entries[0].Values["producer_byte_rate"] != 1e6 {
		return fmt.Errorf("they became %+v: %w", entries, orNil(err))
	}
	return nil
}

// The cluster has no authorizer.
func (c *checker) acls() error {
	_, err := c.admin.ListAcls(sarama.AclFilter{ResourceType: sarama.AclResourceTopic,
		ResourcePatternTypeFilter: sarama.AclPatternAny, PermissionType: sarama.AclPermissionAny, Operation: sarama.AclOperationAny})
	if err != nil && !errors.Is(err, sarama.ErrSecurityDisabled) {
		return err
	}
	return nil
}

// As of Kafka 2.1: versions of 2018.
func (c *checker) oldVersion() error {
	config := config()
	config.Version = sarama.V2_1_0_0
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer(c.seeds, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	_, offset, err := producer.SendMessage(message(sarama.CompressionZSTD, 0))
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer(c.seeds, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, int32(sarama.CompressionZSTD)%partitions, offset)
	if err != nil {
		return err
	}
	defer reader.Close()
	select {
	case got := <-reader.Messages():
		if got.Offset != offset {
			return fmt.Errorf("offset %d, not %d", got.Offset, offset)
		}
	case <-time.After(patience):
		return errors.New("nothing came")
	}
	return nil
}

func (c *checker) errors() error {
	err := c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	if !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return fmt.Errorf("made twice: %w", orNil(err))
	}
	err = c.admin.CreateTopic("a/b", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	if !errors.Is(err, sarama.ErrInvalidTopic) {
		return fmt.Errorf("a name: %w", orNil(err))
	}
	err = c.admin.CreateTopic("many", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 9}, false)
	if !errors.Is(err, sarama.ErrInvalidReplicationFactor) {
		return fmt.Errorf("nine replicas: %w", orNil(err))
	}
	consumer, err := sarama.NewConsumer(c.seeds, config())
	if err != nil {
		return err
	}
	defer consumer.Close()
	if _, err = consumer.ConsumePartition(topic, 0, 1<<40); !errors.Is(err, sarama.ErrOffsetOutOfRange) {
		return fmt.Errorf("beyond the end: %w", orNil(err))
	}
	return nil
}

func (c *checker) delete() error {
	if err := c.admin.DeleteTopic(topic); err != nil {
		return err
	}
	topics, err := c.admin.ListTopics()
	if _, there := topics[topic]; err != nil || there {
		return fmt.Errorf("it is still there: %w", orNil(err))
	}
	return nil
}

func (c *checker) group() error {
	config := config()
	config.Metadata.Retry.Max = 1
	_, err := sarama.NewConsumerGroup(c.seeds, "sarama", config)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient(c.seeds, config)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Coordinator("sarama")
	return err
}

func (c *checker) transaction() error {
	config := config()
	config.Producer.Transaction.ID = "sarama"
	config.Producer.Transaction.Retry.Max = 1
	config.Metadata.Retry.Max = 1
	producer, err := sarama.NewSyncProducer(c.seeds, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.BeginTxn()
}

func orNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func main() {
	seeds := strings.Split(os.Args[1], ",")
	admin, err := sarama.NewClusterAdmin(seeds, config())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer admin.Close()
	said := map[string]string{}
	for _, check := range checks {
		said[check.name] = ""
		if err := check.run(&checker{seeds, admin}); err != nil {
			said[check.name] = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(said)
}
