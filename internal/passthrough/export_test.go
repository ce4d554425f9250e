package passthrough

import (
	"context"
	"net"
)

func ReadHello(conn net.Conn) (name string, read []byte, reason string) {
	return readHello(context.Background(), conn)
}

// AddressKey returns the key by which an address is counted.
func AddressKey(a net.Addr) string { return addressKey(a) }
