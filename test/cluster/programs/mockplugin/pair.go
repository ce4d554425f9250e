package main

import (
	"io"
	"net"
	"sync"
)

// pair connects each client with the next connection of a driver, until one of both listeners fails. A driver's connections wait in the
// kernel until a client comes.
func pair(clients, drivers net.Listener) error {
	for {
		client, err := clients.Accept()
		if err != nil {
			return err
		}
		driver, err := drivers.Accept()
		if err != nil {
			_ = client.Close()
			return err
		}
		go join(client, driver)
	}
}

// join copies both ways until one side ends, and then closes both.
func join(a, b net.Conn) {
	var end sync.Once
	stop := func() { end.Do(func() { _, _ = a.Close(), b.Close() }) }
	var copies sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		copies.Go(func() {
			defer stop()
			_, _ = io.Copy(way[0], way[1]) // the end of one side is how a connection ends
		})
	}
	copies.Wait()
}
