package bench

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// serverEnv has a serverConfig as JSON in the environment of a process that is to be a server.
const serverEnv = "PODSTREAM_BENCH_SERVER"

// The variants of the server.
const (
	// product is hub and service, wired as in podconfigd.
	product = "product"
	// bare sends prepared bytes: the minimum that gRPC can do.
	bare = "bare"
	// marshal sends one message to all streams in the ordinary way: gRPC encodes it for each stream.
	marshal = "marshal"
)

// serverConfig configures a server.
type serverConfig struct {
	Variant, Socket string
	// Pods is the initial number of pods, of Size bytes each.
	Pods, Size int
	// Nodes is the number of nodes: pod n is on node n modulo Nodes. Zero: all are on one. Only the product has it.
	Nodes int
	// Format is the format in which bare and marshal send pods. The product uses the requested format.
	Format podconfigv1.PodFormat
	// Revisions is as in mergesvc.Config. Store is the path of a store that doesn't wait for the disk; empty
	// means no store.
	Revisions int
	Store     string
	// Fresh makes the product create each version again, as a source does that reads a file, so that no two
	// versions share memory. Timed runs create each version once.
	Fresh bool
}

// publisher is a server that publishes on command.
type publisher interface {
	// publish changes one pod, in turn, to another version of the given size. When it returns, the change has
	// been handed to the streams.
	publish(size int)
}

// The commands of the control pipe. Each is a request with one answer.
const (
	// publishPods publishes this many changes, one after another.
	publishPods uint64 = iota
	// reportUsage requests what the server has used so far.
	reportUsage
	// reportMemory requests the memory in use after a garbage collection.
	reportMemory
)

// request and answer have a fixed size: a command must cost almost nothing compared with a single delivery.
type request struct{ Command, Count, Size uint64 }

type answer struct {
	// Published is the time of the last publication, in nanoseconds since 1970.
	Published uint64
	// CPU is user and system time in nanoseconds. Mallocs counts objects. Both only grow.
	CPU, Mallocs uint64
	// InUse is the heap and the stacks after a collection, in bytes. RSS and PeakRSS are the kernel's values.
	InUse, RSS, PeakRSS uint64
}

// serverMain is the main function of the process: it serves until its standard input ends.
func serverMain(config string, in io.Reader, out, stderr io.Writer) int {
	if err := serveCommands(config, in, out); err != nil {
		fmt.Fprintln(stderr, "bench server:", err)
		return 1
	}
	return 0
}

func serveCommands(config string, in io.Reader, out io.Writer) error {
	var cfg serverConfig
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	profiles, stop, err := startProfiling(cfg.Variant)
	if err != nil {
		return err
	}
	defer stop()
	server, err := newPublisher(cfg)
	if err != nil {
		return err
	}
	// The first answer reports that the server is up.
	var buf [64]byte
	for a := (answer{}); ; {
		if err := send(out, buf[:], a); err != nil {
			return err
		}
		var r request
		if err := receive(in, buf[:], &r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a = obey(server, r)
		if r.Command == reportMemory {
			if err := profiles.heap(); err != nil {
				return err
			}
		}
	}
}

func newPublisher(cfg serverConfig) (publisher, error) {
	if cfg.Variant == product {
		return newProduct(cfg)
	}
	return newBaseline(cfg)
}

func obey(server publisher, r request) (a answer) {
	switch r.Command {
	case publishPods:
		for range r.Count {
			a.Published = uint64(time.Now().UnixNano())
			server.publish(int(r.Size))
		}
	case reportUsage:
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		a.CPU, a.Mallocs = uint64(usage.Utime.Nano()+usage.Stime.Nano()), mem.Mallocs
	case reportMemory:
		// A pool is emptied by the second collection.
		runtime.GC()
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		a.InUse = mem.HeapInuse + mem.StackInuse
		a.RSS, a.PeakRSS = memoryOf("self", "VmRSS"), memoryOf("self", "VmHWM")
	}
	return a
}

func send[T request | answer](w io.Writer, buf []byte, v T) error {
	n, err := binary.Encode(buf, binary.LittleEndian, v)
	if err != nil {
		return err
	}
	_, err = w.Write(buf[:n])
	return err
}

func receive[T request | answer](r io.Reader, buf []byte, v *T) error {
	if _, err := io.ReadFull(r, buf[:binary.Size(*v)]); err != nil {
		return err
	}
	_, err := binary.Decode(buf, binary.LittleEndian, v)
	return err
}
