package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// maxPiece is the size of a piece of data. podexecd accepts 64 KiB.
	maxPiece = 32 << 10
	// farewell is how long a connection that the pod has ended may still send. Closing it with unread data would lose
	// the last data of the pod.
	farewell = 5 * time.Second
	// acceptPause is the delay after a failure to accept, which is most often a lack of file descriptors.
	acceptPause = 100 * time.Millisecond
)

// carry carries a local connection to the pod's port until both directions have ended, and closes it. It returns
// podexecd's error.
func (f *Forwarder) carry(ctx context.Context, conn net.Conn, remote int32) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	// A blocked read or write ends only with its connection.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	stream, err := f.cfg.Client.PortForward(ctx)
	if err == nil {
		_, err = begin(stream, &podexecv1.PortForwardStart{Ref: f.cfg.Pod, Port: &podexecv1.PortForwardStart_Number{Number: remote}})
	}
	if err != nil {
		reset(conn)
		return err
	}
	read := make(chan struct{})
	reading.Go(func() {
		defer close(read)
		if err := sendAll(conn, stream.Send); err != nil {
			cancel() // The client has reset the connection: that is no end of its data.
		}
	})
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return farewellTo(conn, read)
		case err != nil && ctx.Err() != nil:
			return nil // The client has gone, or podctl ends.
		case err != nil:
			reset(conn)
			return err
		}
		if m.GetDataClosed() {
			err = closeWrite(conn)
		} else if data := m.GetData(); len(data) > 0 {
			_, err = conn.Write(data)
		}
		if err != nil {
			return nil // The client has gone.
		}
	}
}

// sendAll sends what a connection has to its end. It returns the connection's error; that of the stream is received.
func sendAll(conn net.Conn, send func(*podexecv1.PortForwardRequest) error) error {
	open := true
	for {
		data := make([]byte, maxPiece) // A message that was sent must not be changed.
		n, err := conn.Read(data)
		if n > 0 && open {
			// Without the stream the rest is read and dropped.
			open = send(&podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_Data{Data: data[:n]}}) == nil
		}
		switch {
		case errors.Is(err, io.EOF):
			if open {
				_ = send(&podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_DataClosed{DataClosed: true}})
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// farewellTo ends podctl's direction of a connection that the pod has ended, and waits for the end of the other one, a
// while.
func farewellTo(conn net.Conn, read <-chan struct{}) error {
	if closeWrite(conn) != nil {
		return nil //nolint:nilerr // The client has gone.
	}
	_ = conn.SetReadDeadline(time.Now().Add(farewell))
	<-read
	return nil
}

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// reset makes the client see that the connection broke, and not that the pod has ended it.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// pause waits a moment, and reports whether ctx goes on.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(acceptPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
