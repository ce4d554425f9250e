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

// serverEnv holds a serverConfig as JSON in the environment of a process that is to be a server.
const serverEnv = "PODSTREAM_BENCH_SERVER"

// The variants of the server.
const (
	// product is hub and service, wired as in podconfigd.
	product = "product"
	// bare sends bytes that are ready: the least that gRPC can do.
	bare = "bare"
	// marshal sends one message to all in the ordinary way: gRPC encodes it for each stream.
	marshal = "marshal"
)

// serverConfig says what a server serves.
type serverConfig struct {
	Variant, Socket string
	// Pods is how many there are at first, of Size bytes each.
	Pods, Size int
	// Format is how bare and marshal send pods; the product does as it is asked.
	Format podconfigv1.PodFormat
	// Revisions is as in mergesvc.Config, and Store the path of a store that doesn't wait for the disk; without one
	// there is none.
	Revisions int
	Store     string
	// Fresh has the product make each version again, as a source does that reads a file, so that no two share memory.
	// For what is timed they are made once.
	Fresh bool
}

// publisher is a server that publishes on command.
type publisher interface {
	// publish changes one pod, in turn, to another version of the given size. On return it has been handed to those
	// who send.
	publish(size int)
}

// The commands of the control pipe. Each is a request, and has one answer.
const (
	// publishPods publishes so many changes, one after another.
	publishPods uint64 = iota
	// reportUsage asks what the server has used so far.
	reportUsage
	// reportMemory asks for the memory in use, once all garbage is gone.
	reportMemory
)

// request and answer have a fixed size: a command must cost next to nothing beside the one delivery that it may cause.
type request struct{ Command, Count, Size uint64 }

type answer struct {
	// Published is when the last publication began, in nanoseconds since 1970.
	Published uint64
	// CPU is in nanoseconds, of user and system; Mallocs counts objects. They go up.
	CPU, Mallocs uint64
	// InUse is the heap and the stacks, after a collection, in bytes; RSS and PeakRSS are the kernel's account.
	InUse, RSS, PeakRSS uint64
}

// serverMain is the process: it serves until its standard input ends.
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
	// The first answer says that it is up.
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
		// Twice: what was in a pool goes with the second collection.
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
