package logind

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// maxMessage is the size of the largest message that is read from the bus. A bus passes on messages of 32 MiB, which take
// many times that in memory once they are decoded. The answers of logind have less than 1 KiB.
const maxMessage = 64 << 10

// stream is a connection to the bus. Its writes have a time limit, and it leaves out messages that are too large.
type stream struct {
	net.Conn
	limit time.Duration
	in    *bufio.Reader
	// framed is set once the stream consists of messages: after the authentication. left is what the reader hasn't read of
	// the current message.
	framed bool
	left   int
}

func newStream(conn net.Conn, limit time.Duration) *stream {
	return &stream{Conn: conn, limit: limit, in: bufio.NewReader(conn)}
}

// Write is part of net.Conn. The authentication ends with the client's BEGIN, and the bus sends nothing before the next
// message of the client.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
		return 0, err
	}
	if string(p) == "BEGIN\r\n" {
		s.framed = true
	}
	return s.Conn.Write(p)
}

// Read is part of net.Conn.
func (s *stream) Read(p []byte) (int, error) {
	if !s.framed {
		return s.in.Read(p)
	}
	for s.left == 0 {
		size, err := s.peekSize()
		if err != nil {
			return 0, err
		}
		if size <= maxMessage {
			s.left = size
		} else if _, err := s.in.Discard(size); err != nil {
			return 0, err
		}
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// peekSize returns the size of the next message: that of its fixed header, its header fields and its body.
func (s *stream) peekSize() (int, error) {
	const fixed = 16
	header, err := s.in.Peek(fixed)
	if err != nil {
		return 0, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch header[0] {
	case 'l':
	case 'B':
		order = binary.BigEndian
	default:
		return 0, fmt.Errorf("a message of the bus begins with %q", header[0])
	}
	body, fields := int64(order.Uint32(header[4:])), int64(order.Uint32(header[12:]))
	return int(fixed + (fields+7)/8*8 + body), nil
}
