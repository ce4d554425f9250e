package client

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The errors of a revision that no podconfigd sends, or none that this consumer can follow.
var (
	// errContent: the content of a pod or an object can't be decoded, or is that of another one.
	errContent = errors.New("invalid content")
	// errTooMuch: the pods or objects that the consumer would hold exceed MaxBytes.
	errTooMuch = errors.New("it exceeds the limit")
)

const (
	// patience is how long a revision may stay incomplete. podconfigd sends all of it at once.
	patience = time.Minute
	// misledTime is how long the pauses go on to double after a podconfigd sent what the consumer must not apply, though
	// streams begin well.
	misledTime = time.Minute
)

// misled reports whether a stream ended because of what podconfigd sent. Another attempt at the same podconfigd is of
// little use.
func misled(err error) bool {
	return slices.ContainsFunc(lies, func(lie error) bool { return errors.Is(err, lie) })
}

var lies = []error{stream.ErrBehind, stream.ErrTooLarge, stream.ErrUnfinished, position.ErrInvalid, errContent, errTooMuch}

// unreadable reports whether a stream that has begun ended with one of gRPC's codes for a message that is too large,
// or isn't one. Before the first message they are podconfigd's own.
func unreadable(err error) bool {
	code := status.Code(err)
	return code == codes.ResourceExhausted || code == codes.Internal
}

// broke gives up the podconfigd of a stream that ended with err, if what it sent is the reason. begun is set if a
// message had arrived.
func (w *watcher) broke(err error, begun bool) {
	// Every podconfigd can send a SET.
	noSet := errors.Is(err, stream.ErrUnknownOp) && w.request.GetMode() == podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	if noSet || misled(err) || begun && unreadable(err) {
		w.misledAt = time.Now()
		w.client.conn.Fail(err)
	}
}
