// Command guest runs in containers of package world's tests, from a hostPath volume. It has commands that the sample
// program lacks:
//
//	guest mount PATH     create the directory PATH, mount a tmpfs there, and unmount it on SIGTERM
//	guest answer PORT    answer requests to PORT, by TCP and by UDP, with the host's name
//	guest parallel       compute on two processors until both have worked at the same time
//	guest huge           use huge pages of 2 MiB, eight at most, and print how many it gets
//
// Each prints a line when it is ready, or has done so.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "mount":
		return mount(ctx, args[1])
	case len(args) == 2 && args[0] == "answer":
		return answer(ctx, args[1])
	case len(args) == 1 && args[0] == "parallel":
		return parallel(ctx)
	case len(args) == 1 && args[0] == "huge":
		return huge(ctx)
	default:
		return fmt.Errorf("guest: unknown command %q", args)
	}
}

func mount(ctx context.Context, path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	fmt.Println("mounted")
	<-ctx.Done()
	return syscall.Unmount(path, 0)
}

func answer(ctx context.Context, port string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	connections, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return errors.Join(err, packets.Close())
	}
	ended := make(chan error, 2)
	go func() {
		buffer := make([]byte, 100)
		for {
			_, from, err := packets.ReadFrom(buffer)
			if err == nil {
				_, err = packets.WriteTo([]byte(name), from)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() {
		for {
			c, err := connections.Accept()
			if err != nil {
				ended <- err
				return
			}
			_, err = c.Write([]byte(name))
			if err := errors.Join(err, c.Close()); err != nil {
				fmt.Fprintln(os.Stderr, err) // the client closed the connection
			}
		}
	}()
	fmt.Println("listening")
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

func huge(ctx context.Context) error {
	const size, most = 2 << 20, 8
	pages := 0
	for ; pages < most; pages++ {
		page, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_HUGETLB)
		if errors.Is(err, syscall.ENOMEM) {
			break
		}
		if err != nil {
			return fmt.Errorf("map a huge page: %w", err)
		}
		page[0] = 1
	}
	fmt.Println("huge pages:", pages)
	<-ctx.Done()
	return nil
}

// parallel computes in two threads until the process has used more processor time in a short while than has passed,
// which takes two processors at the same time.
func parallel(ctx context.Context) error {
	runtime.GOMAXPROCS(3) // The third thread is the one that measures.
	var seen atomic.Bool
	for range 2 {
		go func() {
			for n := 0; !seen.Load(); n++ {
				runtime.KeepAlive(n)
			}
		}()
	}
	for {
		before, began := processorTime(), time.Now()
		select {
		case <-ctx.Done():
			return errors.New("the process has not run on two processors at the same time")
		case <-time.After(window):
		}
		if used, passed := processorTime()-before, time.Since(began); used > passed*5/4 {
			break
		}
	}
	seen.Store(true)
	fmt.Println("parallel")
	<-ctx.Done()
	return nil
}

// window is shorter than the period of CPU quotas, because a process beyond its quota waits for the next period.
const window = 50 * time.Millisecond

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
