package service

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/write"
)

// TestWriteCodes: a client that may make a request again by itself, after UNAVAILABLE, doesn't do so after a failure of the disk.
func TestWriteCodes(t *testing.T) {
	for err, want := range map[error]codes.Code{
		write.ErrUnconfirmed: codes.Internal, write.ErrUnready: codes.Unavailable, write.ErrFull: codes.ResourceExhausted,
		write.ErrUnpublished: codes.DeadlineExceeded, write.ErrEmpty: codes.FailedPrecondition,
	} {
		if got := writeCode(fmt.Errorf("%w: planted", err)); got != want {
			t.Errorf("%v: %v; want %v", err, got, want)
		}
	}
}
