package runtime

import (
	"errors"
	"net/http"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// errNoResult is the error of a command or an attachment whose connection has ended without its result. Output may be
// missing then.
var errNoResult = errors.New("the container runtime has closed the connection before it has sent the result; output may be missing")

// resultStream is the stream on which the runtime sends the result of a command or an attachment. client-go takes the end of a stream
// without a result for success. So a connection that breaks would look like a command that succeeded, with a part of its output.
type resultStream struct {
	httpstream.Stream

	received *atomic.Bool
}

// Read implements io.Reader.
func (s resultStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if n > 0 {
		s.received.Store(true)
	}
	return n, err
}

// withResult returns the stream such that received is set once it has data, if its headers are those of results.
func withResult(stream httpstream.Stream, headers http.Header, received *atomic.Bool) httpstream.Stream {
	if stream == nil || headers.Get(v1.StreamType) != v1.StreamTypeError {
		return stream
	}
	return resultStream{stream, received}
}
