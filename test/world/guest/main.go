// Command guest runs in containers of package world's tests, from a hostPath volume. It has commands that the sample
// program lacks:
//
//	guest mount PATH     create the directory PATH, mount a tmpfs there, and unmount it on SIGTERM
//	guest answer PORT    answer requests to PORT, by TCP and by UDP, with the host's name
//
// Both print a line when they are ready.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
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
