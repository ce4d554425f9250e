package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// benchDaemon is a shipped podconfigd that serves the pods of all nodes.
type benchDaemon struct {
	name, endpoint string
	process        *devnode.Process
}

// startBenchDaemon starts one, and returns when it has all pods.
func startBenchDaemon(b *testing.B, node *devnode.Node, name string, args ...string) *benchDaemon {
	b.Helper()
	d := &benchDaemon{name: name, endpoint: "unix://" + node.Socket(name)}
	var err error
	d.process, err = node.StartDaemonAs(name, "podconfigd", append([]string{
		"--root-dir", node.Path(name), "--listen", d.endpoint, "--hostname-override", name, "--pod-manifest-path=", "--nodes=*",
	}, args...)...)
	if err != nil {
		b.Fatal(err)
	}
	_, stop := consumeAll(b, d.endpoint, relayPods)
	stop()
	return d
}

// cpu returns the CPU time of the process so far.
func (d *benchDaemon) cpu(b *testing.B) time.Duration {
	b.Helper()
	// This is the kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), as in clock_getcpuclockid(3).
	clock := int32(^d.process.Pid()<<3 | 2)
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// peak returns the peak memory of the process, in bytes.
func (d *benchDaemon) peak() uint64 { return memoryOf(strconv.Itoa(d.process.Pid()), "VmHWM") }

// nodeCrowd has one consumer for each node, with package client.
type nodeCrowd struct {
	stop func()
	// bytes is the size of the received messages.
	bytes atomic.Int64
	// arrivals has the latency of each received change, and failed the reason why a consumer ended.
	arrivals chan time.Duration
	failed   chan error
}

// followNodes subscribes all consumers, and returns when each has its pods.
func followNodes(b *testing.B, d *benchDaemon) *nodeCrowd {
	b.Helper()
	// The channel is large, so that no consumer waits for the goroutine that counts.
	c := &nodeCrowd{arrivals: make(chan time.Duration, 100_000), failed: make(chan error, relayNodes)}
	ctx, cancel := context.WithCancel(context.Background())
	var running, joining sync.WaitGroup
	c.stop = func() {
		cancel()
		running.Wait()
	}
	for i := range relayNodes {
		joining.Add(1)
		running.Go(func() { c.failed <- c.follow(ctx, d.endpoint, nodeOf(i), joining.Done) })
	}
	synced := make(chan struct{})
	go func() {
		joining.Wait()
		close(synced)
	}()
	select {
	case <-synced:
	case err := <-c.failed:
		b.Fatalf("%s: a consumer has ended: %v", d.name, err)
	case <-time.After(patience):
		b.Fatalf("%s: not all consumers are synced after %v", d.name, patience)
	}
	return c
}

// follow follows the pods of one node until ctx ends.
func (c *nodeCrowd) follow(ctx context.Context, endpoint, node string, synced func()) error {
	cl, err := client.New(client.Config{
		Endpoint: endpoint, Consumer: "bench-" + node, DialOptions: []grpc.DialOption{grpc.WithStatsHandler(c)},
	})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }()
	pods, counted := 0, false
	return cl.Watch(ctx, client.WatchOptions{Filter: &podconfigv1.PodFilter{Nodes: []string{node}}},
		func(_ context.Context, e client.Event) error {
			now := time.Now()
			for _, op := range e.Ops {
				for _, p := range op.Pods {
					pods++
					if counted && p.Object != nil {
						at, err := strconv.ParseInt(p.Object.Annotations[changedAt], 10, 64)
						if err != nil {
							return fmt.Errorf("an op on %s, which was not changed: %w", p.Name, err)
						}
						c.arrivals <- now.Sub(time.Unix(0, at))
					}
				}
			}
			if e.Synced && !counted {
				if counted = true; pods != relayPods/relayNodes {
					return fmt.Errorf("the consumer of %s is synced with %d pods", node, pods)
				}
				synced()
			}
			return nil
		})
}

// await waits until this many changes have been received, and returns their latencies.
func (c *nodeCrowd) await(b *testing.B, changes int) []time.Duration {
	b.Helper()
	late := time.After(patience)
	var out []time.Duration
	for len(out) < changes {
		select {
		case took := <-c.arrivals:
			out = append(out, took)
		case err := <-c.failed:
			b.Fatalf("a consumer has ended: %v", err)
		case <-late:
			b.Fatalf("%d of %d changes were received after %v", len(out), changes, patience)
		}
	}
	return out
}

// TagRPC is part of stats.Handler.
func (c *nodeCrowd) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is part of stats.Handler.
func (c *nodeCrowd) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		c.bytes.Add(int64(in.WireLength))
	}
}

// TagConn is part of stats.Handler.
func (c *nodeCrowd) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is part of stats.Handler.
func (c *nodeCrowd) HandleConn(context.Context, stats.ConnStats) {}
