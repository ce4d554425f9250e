//go:build failpoints

package service

import (
	"sync"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/failpoint"
)

// oneAtATime is a lock that a stream wrongly holds while it sends.
var oneAtATime sync.Mutex

func sendFaulty(stream grpc.ServerStream, m any) error {
	if failpoint.Active(failpoint.SendUnderLock) {
		oneAtATime.Lock()
		defer oneAtATime.Unlock()
	}
	return stream.SendMsg(m)
}
