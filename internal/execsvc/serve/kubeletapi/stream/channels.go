package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
)

// maxSize is the longest message that can be a terminal's size.
const maxSize = 1 << 10

// speaksChannels reports whether the request is for the WebSocket protocol that can end a single stream, which no
// runtime supports.
func speaksChannels(r *http.Request) bool {
	return websocket.IsWebSocketUpgrade(r) && slices.Contains(websocket.Subprotocols(r), remotecommand.StreamProtocolV5Name)
}

// channels is a WebSocket that carries several streams: a message begins with the number of its stream.
type channels struct {
	conn *websocket.Conn
	idle time.Duration
	// quiet ends the request when neither the caller nor the command has sent anything for the idle time, so that a
	// caller that doesn't read can't block forever.
	quiet *time.Timer
	// writing serializes messages.
	writing sync.Mutex
}

// channels runs something with the caller's streams, and sends the result at the end.
func (h *Handler) channels(
	w http.ResponseWriter, r *http.Request, streams runtime.StreamInput,
	run func(ctx context.Context, in runtime.ExecInput) (int, error),
) error {
	conn, err := upgrader(remotecommand.StreamProtocolV5Name).Upgrade(w, r, nil)
	if err != nil {
		h.log.DebugContext(r.Context(), "a WebSocket doesn't open", "error", err)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	c := &channels{conn: conn, idle: h.cfg.IdleTimeout, quiet: time.AfterFunc(h.cfg.IdleTimeout, cancel)}
	defer c.quiet.Stop()
	stdin, typed := io.Pipe()
	in := runtime.ExecInput{
		ContainerID: streams.ContainerID, Command: streams.Command, TTY: streams.TTY, Stdout: io.Discard, Stderr: io.Discard,
	}
	sizes := make(chan runtime.TerminalSize, 1)
	if streams.Stdin {
		in.Stdin = stdin
	}
	if streams.Stdout {
		in.Stdout = c.writer(remotecommand.StreamStdOut)
	}
	if streams.Stderr {
		in.Stderr = c.writer(remotecommand.StreamStdErr)
	}
	if streams.TTY {
		in.Resize = sizes
	}
	// If the caller is gone, or silent for too long, nothing needs to run any more. A read or write ends only with
	// its connection.
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		err := c.read(typed, streams.Stdin, sizes)
		_ = typed.CloseWithError(err)
	})
	defer reading.Wait()
	defer cancel()
	if err := c.opened(streams); err == nil {
		c.finish(run(ctx, in))
	}
	// Data that the caller still sends is read and dropped: closing a connection with unread data loses the data
	// that was sent last.
	_ = stdin.Close()
	patience := time.AfterFunc(linger, cancel)
	defer patience.Stop()
	<-ctx.Done()
	return nil
}

// upgrader makes a request a WebSocket of one protocol. It doesn't check the origin: callers have authenticated by
// means that no page in a browser can send, and the API server passes on requests of pages of its own.
func upgrader(protocol string) *websocket.Upgrader {
	return &websocket.Upgrader{
		Subprotocols: []string{protocol}, ReadBufferSize: 4 << 10, WriteBufferSize: spliceBuffer, HandshakeTimeout: 10 * time.Second,
		CheckOrigin: func(*http.Request) bool { return true },
	}
}

// opened sends an empty message on the first stream that the caller reads, which reports that the streams are open.
func (c *channels) opened(streams runtime.StreamInput) error {
	first := byte(remotecommand.StreamErr)
	switch {
	case streams.Stdout:
		first = remotecommand.StreamStdOut
	case streams.Stderr:
		first = remotecommand.StreamStdErr
	}
	_, err := c.writer(first)(nil)
	return err
}

// writer returns a writer to one of the streams.
func (c *channels) writer(stream byte) writerFunc {
	return func(p []byte) (int, error) {
		c.writing.Lock()
		defer c.writing.Unlock()
		c.alive()
		message, err := c.conn.NextWriter(websocket.BinaryMessage)
		if err != nil {
			return 0, err
		}
		if _, err := message.Write([]byte{stream}); err != nil {
			return 0, err
		}
		n, err := message.Write(p)
		return n, errors.Join(err, message.Close())
	}
}

// alive resets the idle time.
func (c *channels) alive() { c.quiet.Reset(c.idle) }

// read handles the caller's messages until the connection ends. It blocks while the command doesn't read its
// standard input.
func (c *channels) read(stdin *io.PipeWriter, hasStdin bool, sizes chan runtime.TerminalSize) error {
	for {
		c.alive()
		_, message, err := c.conn.NextReader()
		if err != nil {
			return fmt.Errorf("read from the WebSocket: %w", err)
		}
		var stream [1]byte
		if _, err := io.ReadFull(message, stream[:]); err != nil {
			continue // An empty message says nothing.
		}
		switch stream[0] {
		case remotecommand.StreamStdIn:
			if hasStdin {
				// That the command doesn't read any more is no reason to end.
				_, _ = io.Copy(writerFunc(func(p []byte) (int, error) {
					c.alive()
					return stdin.Write(p)
				}), message)
			}
		case remotecommand.StreamResize:
			var size struct{ Width, Height uint16 }
			if err := json.NewDecoder(io.LimitReader(message, maxSize)).Decode(&size); err == nil {
				newest(sizes, runtime.TerminalSize{Width: size.Width, Height: size.Height})
			}
		case remotecommand.StreamClose:
			// Only the end of standard input matters.
			if _, err := io.ReadFull(message, stream[:]); err == nil && stream[0] == remotecommand.StreamStdIn {
				_ = stdin.Close()
			}
		}
	}
}

// newest stores a size, in place of one that hasn't been taken yet. It has one caller at a time.
func newest(sizes chan runtime.TerminalSize, size runtime.TerminalSize) {
	select {
	case <-sizes:
	default:
	}
	sizes <- size
}

// finish sends the result, and closes the WebSocket.
func (c *channels) finish(code int, err error) {
	text, _ := json.Marshal(statusFor(code, err))
	_, _ = c.writer(remotecommand.StreamErr)(text)
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(linger))
}

// statusFor returns the status of a command, from which clients read its exit code.
func statusFor(code int, err error) *metav1.Status {
	switch {
	case err != nil:
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: err.Error()}}},
			Message: "Internal error occurred: " + err.Error(),
		}
	case code != 0:
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}},
			},
			Message: fmt.Sprintf("command terminated with exit code %d", code),
		}
	default:
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
}
