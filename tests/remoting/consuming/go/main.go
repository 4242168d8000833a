// A stock Go consumer that writes what it gets of each message, in a fixed number of bytes, before it
// says that it has consumed it: NAMESRV WAY TOPIC GROUP EXPRESSION FILE INSTANCE RATE TIME ENDS. It
// says "started" and, at the end of standard input, closes in order. The directory above describes
// the ways and reads the file.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type taker struct {
	names, way, topic, group, wanted, instance string
	file                                       *os.File
	rate                                       float64
	ends                                       []int64
	lock                                       sync.Mutex
	due                                        time.Time
	phase                                      int16
}

type row struct {
	Time, Place, Offset int64
	Queue               int32
	Body, Facts         uint32
	Times, Phase        int16
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes messages, and waits as long as the rate asks for.
func (t *taker) write(messages []*primitive.MessageExt) {
	t.lock.Lock()
	defer t.lock.Unlock()
	var rows bytes.Buffer
	now := time.Now()
	for _, each := range messages {
		facts := fmt.Sprintf("%s\n%s\n%s\n%s\n%d\n%d\n%s", each.GetTags(), each.GetKeys(), each.MsgId,
			each.GetProperty("a"), each.BornTimestamp, each.StoreTimestamp, each.OffsetMsgId)
		must(binary.Write(&rows, binary.BigEndian, row{
			now.UnixMilli(), each.CommitLogOffset, each.QueueOffset, int32(each.Queue.QueueId),
			crc32.ChecksumIEEE(each.Body), crc32.ChecksumIEEE([]byte(facts)),
			int16(each.ReconsumeTimes), t.phase,
		}))
	}
	_, err := t.file.Write(rows.Bytes())
	must(err)
	if t.rate > 0 {
		if earliest := now.Add(-100 * time.Millisecond); t.due.Before(earliest) {
			t.due = earliest
		}
		t.due = t.due.Add(time.Duration(float64(len(messages)) * 1e9 / t.rate))
		if wait := t.due.Sub(now); wait > 2*time.Millisecond {
			time.Sleep(wait)
		}
	}
}

func (t *taker) options() []consumer.Option {
	return []consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{t.names}),
		consumer.WithGroupName(t.group),
		consumer.WithInstance(t.instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
}

func (t *taker) selector() consumer.MessageSelector {
	if t.way == "sql92" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: t.wanted}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: t.wanted}
}

func (t *taker) push() func() error {
	// With one goroutine messages of a queue are consumed in the order in which they come.
	options := append(t.options(), consumer.WithConsumeGoroutineNums(1))
	options = append(options, consumer.WithConsumerOrder(t.way == "orderly"))
	if t.way == "broadcasting" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(made.Subscribe(t.topic, t.selector(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			t.write(messages)
			return consumer.ConsumeSuccess, nil
		}))
	must(made.Start())
	fmt.Println("started")
	return made.Shutdown
}

func (t *taker) puller() rocketmq.PullConsumer {
	options := append(t.options(), consumer.WithPullBatchSize(32))
	made, err := rocketmq.NewPullConsumer(options...)
	must(err)
	must(made.Subscribe(t.topic, t.selector()))
	must(made.Start())
	fmt.Println("started")
	return made
}

func (t *taker) poll() func() error {
	made := t.puller()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
			}
			// An error says that nothing has come.
			request, err := made.Poll(context.Background(), 200*time.Millisecond)
			if err == nil {
				t.write(request.GetMsgList())
				made.ACK(context.Background(), request, consumer.ConsumeSuccess)
			}
		}
	}()
	return func() error {
		close(over)
		<-done
		return made.Shutdown()
	}
}

// pull takes all queues in whole, then each from its middle on. This client has no way to ask for
// an offset by time.
func (t *taker) pull() func() error {
	made := t.puller()
	for t.phase = 0; t.phase <= 1; t.phase++ {
		for number, end := range t.ends {
			queue := &primitive.MessageQueue{Topic: t.topic, BrokerName: "reput", QueueId: number}
			for at := end / 2 * int64(t.phase); at < end; {
				result, err := made.PullFrom(context.Background(), queue, at, 32)
				must(err)
				if result.Status == primitive.PullFound {
					t.write(result.GetMessageExts())
				}
				at = result.NextBeginOffset
			}
		}
	}
	return made.Shutdown
}

func main() {
	said := os.Args[1:]
	rlog.SetLogLevel("fatal")
	file, err := os.OpenFile(said[5], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	rate, err := strconv.ParseFloat(said[7], 64)
	must(err)
	t := &taker{names: said[0], way: said[1], topic: said[2], group: said[3], wanted: said[4],
		file: file, instance: said[6], rate: rate}
	for _, each := range strings.Split(said[9], ",") {
		end, err := strconv.ParseInt(each, 10, 64)
		must(err)
		t.ends = append(t.ends, end)
	}
	begin := map[string]func() func() error{"lite-subscribe": t.poll, "pull": t.pull}[t.way]
	if begin == nil {
		begin = t.push
	}
	end := begin()
	_, err = io.Copy(io.Discard, os.Stdin)
	must(err)
	must(end())
}
