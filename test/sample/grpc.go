package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// grpc-health implements the one gRPC method of a health check without the gRPC library, which would make this program
// much larger.

// The status codes and serving states of gRPC that are used.
const (
	grpcOK              = "0"
	grpcInvalidArgument = "3"
	grpcNotFound        = "5"
	grpcUnimplemented   = "12"

	healthServing    = 1
	healthNotServing = 2
)

// maxHealthRequest is the size limit of a request in bytes. A request contains only a service's name.
const maxHealthRequest = 4 << 10

func (p *program) grpcHealth(ctx context.Context, args []string) int {
	address, file, service := args[0], args[1], ""
	if len(args) == 3 {
		service = args[2]
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: healthOf(file, service), Protocols: protocols}
	return p.listen(ctx, address, server, fmt.Sprintf("serving health of %q", service))
}

// healthOf answers health checks of the service.
func healthOf(file, service string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		asked, err := readHealthRequest(r.Body)
		code := grpcOK
		switch {
		case r.URL.Path != "/grpc.health.v1.Health/Check":
			code = grpcUnimplemented
		case err != nil:
			code = grpcInvalidArgument
		case asked != service:
			code = grpcNotFound
		}
		if code == grpcOK {
			state := byte(healthNotServing)
			if _, err := os.Stat(file); err == nil {
				state = healthServing
			}
			// A frame, uncompressed and of two bytes: the tag of field 1, a number, and the number. A failed write has
			// no consequence.
			_, _ = w.Write([]byte{0, 0, 0, 0, 2, 1 << 3, state})
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
	})
}

// readHealthRequest returns the service in a request: a frame with a message that has only field 1, a string.
func readHealthRequest(body io.Reader) (service string, err error) {
	var head [5]byte // the flag for compression, and the length
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return "", err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || length > maxHealthRequest {
		return "", errors.New("the request is compressed or too long")
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(body, message); err != nil {
		return "", err
	}
	if length == 0 {
		return "", nil
	}
	size, n := binary.Uvarint(message[1:])
	if message[0] != 1<<3|2 || n <= 0 || size != uint64(len(message)-1-n) {
		return "", errors.New("not a health request")
	}
	return string(message[1+n:]), nil
}
